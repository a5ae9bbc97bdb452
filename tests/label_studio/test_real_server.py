"""The whole round with a real Label Studio server, which is killed in the middle of a pull and of a push.

`make test-label-studio` sets the server up in an environment of its own; without it these tests are skipped.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from realm.data.readers.label_studio import CANCELLED
from realm.data.write import to_arrow
from realm.errors import RealmError
from realm.integrations.label_studio import Project, Server, pull, push
from realm.runs import Run
from tests.label_studio.real_server import PROGRAM, Person, RealServer
from tests.tiny import COLOURS, save_tiny, sentences

pytestmark = pytest.mark.slow

ITEMS, QUEUED = 240, 25
PEOPLE = {"ann@example.org": 0.95, "bob@example.org": 0.8, "cy@example.org": 0.9, "dee@example.org": 0.4}
CONFIG = (
    '<View><Text name="sentence" value="$text"/><Choices name="colour" toName="sentence">'
    + "".join(f'<Choice value="{colour}"/>' for colour in COLOURS)
    + "</Choices></View>"
)
push_module = sys.modules["realm.integrations.label_studio"]


class Round:
    """A project with people and their labels, and the key of whoever runs it."""

    def __init__(self, server: RealServer) -> None:
        self.server, self.boss = server, Person(server).log_in("boss@example.org")
        self.key = self.boss.api("POST", "/api/token/", {})["token"]
        invitation = self.boss.api("GET", "/api/invite")["invite_url"]
        self.people = {email: Person(server).sign_up(email, invitation) for email in PEOPLE}
        self.number = self.boss.api("POST", "/api/projects/", {"title": "Colours", "label_config": CONFIG})["id"]
        numbers = {user["email"]: user["id"] for user in self.boss.api("GET", "/api/users/")}
        texts, truth = sentences(ITEMS)
        rng = np.random.default_rng(1)
        self.given: dict[tuple[str, str], str] = {}
        tasks, answers = [], []
        for text, label in zip(texts, truth, strict=True):
            people = rng.choice(list(PEOPLE), 2, replace=False)
            said = {who: label if rng.random() < PEOPLE[who] else rng.integers(4) for who in people}
            answers.append({who: COLOURS[int(answer)] for who, answer in said.items()})
            given = [
                {"completed_by": numbers[who], "result": [result(answer)], "lead_time": 4.5, "ground_truth": False}
                for who, answer in answers[-1].items()
            ]
            tasks.append({"data": {"text": text}, "annotations": given, "predictions": [foreign(COLOURS[0])]})
        self.import_tasks(tasks)
        self.tasks = {task["data"]["text"]: task for task in self.all_tasks()}
        for text, said in zip(texts, answers, strict=True):
            self.given.update({(str(self.tasks[text]["id"]), who): answer for who, answer in said.items()})

    def import_tasks(self, tasks: list[dict[str, Any]]) -> None:
        self.boss.api("POST", f"/api/projects/{self.number}/import", tasks)

    def all_tasks(self) -> list[dict[str, Any]]:
        """Every task with its predictions, asked for in another way than REALM does."""
        tasks = self.boss.api("GET", f"/api/projects/{self.number}/export?exportType=JSON&download_all_tasks=true")
        predictions: dict[int, list[dict[str, Any]]] = {}
        for prediction in self.boss.api("GET", f"/api/predictions/?project={self.number}"):
            del prediction["created_ago"]
            predictions.setdefault(prediction["task"], []).append(prediction)
        return [{**task, "predictions": predictions.get(task["id"], [])} for task in tasks]

    def open(self, **how: Any) -> Project:
        return Project.open(Server(self.server.url, self.key, **how), self.number)

    def filtered(self, field: str, operator: str, value: Any, kind: str) -> set[int]:
        """The tasks that the Data Manager shows under a filter."""
        item = {"filter": f"filter:tasks:data.{field}", "operator": operator, "value": value, "type": kind}
        view = {"project": self.number, "data": {"filters": {"conjunction": "and", "items": [item]}}}
        number = self.boss.api("POST", "/api/dm/views/", view)["id"]
        return {task["id"] for task in self.boss.api("GET", f"/api/tasks?view={number}&page_size=1000")["tasks"]}


def result(label: str) -> dict[str, Any]:
    return {"from_name": "colour", "to_name": "sentence", "type": "choices", "value": {"choices": [label]}}


def foreign(label: str) -> dict[str, Any]:
    """What another model has predicted."""
    return {"model_version": "judge-1", "score": 0.5, "result": [result(label)]}


@pytest.fixture(scope="module")
def round(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Round]:
    if not PROGRAM.is_file():
        pytest.skip(f"no Label Studio at {PROGRAM}; `make test-label-studio` sets one up")
    server = RealServer(tmp_path_factory.mktemp("label-studio"))
    server.start()
    try:
        yield Round(server)
    finally:
        server.kill()


@pytest.fixture(scope="module")
def runs(round: Round, tmp_path_factory: pytest.TempPathFactory, realm_cli) -> dict[str, Run]:
    """Two tiny models, trained on the table that the command pulled."""
    folder = tmp_path_factory.mktemp("runs")
    model = save_tiny(folder / "model", "bert", layers=1, width=16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABEL_STUDIO_API_KEY", round.key)
        labels = folder / "labels.parquet"
        words = ("label-studio", "pull", "--url", round.server.url, "--project", round.number, "--output", labels)
        code, _, error = realm_cli(*words)
        assert code == 0, error
    for name, seed in (("monday", 0), ("tuesday", 1)):
        flags = ("--model", model, "--steps", 4, "--batch-size", 16, "--seed", seed, "--output", folder / name)
        code, _, error = realm_cli("train", labels, *flags)
        assert code == 0, error
    return {name: Run.open(folder / name) for name in ("monday", "tuesday")}


def triples(table: Any) -> dict[tuple[str, str], str]:
    frame = to_arrow(table).to_pandas()
    pairs = list(zip(frame["item"], frame["annotator"], strict=True))
    assert len(set(pairs)) == len(pairs), "nothing is there twice"
    return dict(zip(pairs, frame["label"], strict=True))


def kill_and_restart(server: RealServer) -> threading.Thread:
    """Kill the server now and start it again beside us."""
    server.kill()
    restart = threading.Thread(target=server.start)
    restart.start()
    return restart


def test_everything_is_pulled_once_though_the_server_is_killed(round: Round) -> None:
    restarts = []

    def progress(what: str, done: int, total: int) -> None:
        assert what == "tasks" and total == ITEMS
        if not restarts:
            assert done < total, "in the middle"
            restarts.append(kill_and_restart(round.server))

    pulled = pull(round.open(), progress=progress)
    restarts[0].join()
    assert triples(pulled) == round.given and len(round.given) == 2 * ITEMS
    frame = to_arrow(pulled).to_pandas()
    assert frame["lead_time"].eq(4.5).all()
    assert pd.to_datetime(frame["created_at"]).notna().all()
    assert pulled.ledger.counts == {}


def exactly_once(round: Round, run: Run, version: str) -> None:
    """Every item has the run's prediction once and the other model's once; the queue is that of the run."""
    labels = dict(zip(run.labels["item"], zip(run.labels["label"], run.labels["confidence"], strict=True), strict=True))
    queue = run.relabel(QUEUED)
    fields = {item: (place, ask) for place, (item, ask) in enumerate(zip(queue["item"], queue["ask"], strict=True), 1)}
    tasks = round.all_tasks()
    assert len(tasks) == ITEMS
    for task in tasks:
        label, score = labels[str(task["id"])]
        said = sorted((p["model_version"], p["result"][0]["value"]["choices"], p["score"]) for p in task["predictions"])
        assert said == [("judge-1", [COLOURS[0]], 0.5), (version, [label], pytest.approx(score, abs=1e-5))]
        place, ask = fields.get(str(task["id"]), (None, None))
        assert (task["data"].get("realm_priority"), task["data"].get("realm_ask")) == (place, ask)
        assert task["data"]["text"] in round.tasks
    versions = round.boss.api("GET", f"/api/projects/{round.number}/model-versions/")
    assert versions == {"judge-1": ITEMS, version: ITEMS}


def test_everything_is_pushed_once_though_the_server_is_killed(round: Round, runs, monkeypatch) -> None:
    """The server is killed while it works on the second of five requests with predictions."""
    monkeypatch.setattr(push_module, "BATCH", 50)
    before = pull(round.open())
    project, run = round.open(), runs["monday"]
    restarts: list[threading.Thread] = []
    real, posts = project.server.send, []

    def send(method: str, path: str, body: Any, *, repeatable: bool = True) -> Any:
        posts.append(path)
        if len(posts) == 2 or (method == "PATCH" and len(restarts) == 1):
            restarts.append(threading.Timer(0.03, lambda: restarts.append(kill_and_restart(round.server))))
            restarts[-1].start()
        return real(method, path, body, repeatable=repeatable)

    monkeypatch.setattr(project.server, "send", send)
    plan = push(project, run, run.relabel(QUEUED))
    for thread in restarts:
        thread.join()
    assert len(restarts) >= 2 and posts[1].endswith("import/predictions")
    exactly_once(round, run, plan.model_version)
    after = pull(round.open())
    assert to_arrow(after).equals(to_arrow(before)) and after.ledger.counts == before.ledger.counts


def test_a_second_push_changes_nothing_and_a_new_run_takes_its_place(
    round: Round, runs, realm_cli, monkeypatch
) -> None:
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", round.key)
    flags = ("--url", round.server.url, "--project", round.number, "--budget", QUEUED)
    state = round.all_tasks()
    code, _, error = realm_cli("label-studio", "push", runs["monday"].folder, *flags)
    assert code == 0 and "0 predictions were written" in " ".join(error.split()), error
    assert round.all_tasks() == state
    code, out, _ = realm_cli("label-studio", "push", runs["tuesday"].folder, *flags, "--dry-run")
    assert code == 0 and "Predictions that would be written" in out and round.all_tasks() == state
    code, _, error = realm_cli("label-studio", "push", runs["tuesday"].folder, *flags)
    assert code == 0 and f"{ITEMS} of earlier runs were removed" in " ".join(error.split()), error
    [version] = {p["model_version"] for task in round.all_tasks() for p in task["predictions"]} - {"judge-1"}
    assert version.startswith("realm:colour:tuesday@")
    exactly_once(round, runs["tuesday"], version)


def test_the_queue_can_be_filtered_in_the_data_manager(round: Round, runs) -> None:
    queue = runs["tuesday"].relabel(QUEUED)
    items = queue["item"].astype(int)
    assert round.filtered("realm_priority", "less_or_equal", 5, "Number") == set(items[:5])
    asked = queue["ask"].iloc[0]
    assert round.filtered("realm_ask", "equal", asked, "String") == set(items[queue["ask"] == asked])
    columns = round.boss.api("GET", f"/api/dm/columns?project={round.number}")["columns"]
    assert {"realm_priority", "realm_ask"} <= {column["id"] for column in columns}


def test_new_labels_come_with_the_next_pull(round: Round, runs) -> None:
    """The person asked labels the first item of the queue, another changes her mind, a third skips a task."""
    queue = runs["tuesday"].relabel(QUEUED)
    item, ask = queue["item"].iloc[0], queue["ask"].iloc[0]
    address = f"/api/tasks/{item}/annotations/"
    round.people[ask].api("POST", address, {"result": [result("red")], "lead_time": 7.25})
    round.given[item, ask] = "red"
    (other, who), _ = next((pair, label) for pair, label in round.given.items() if label != "blue" and pair[0] != item)
    given = round.boss.api("GET", f"/api/tasks/{other}/")["annotations"]
    [annotation] = [each["id"] for each in given if each["completed_by"]["email"] == who]
    round.people[who].api("PATCH", f"/api/annotations/{annotation}/", {"result": [result("blue")]})
    round.given[other, who] = "blue"
    third = queue["item"].iloc[1]
    skipper = next(email for email in PEOPLE if (third, email) not in round.given)
    round.people[skipper].api("POST", f"/api/tasks/{third}/annotations/", {"result": [], "was_cancelled": True})
    pulled = pull(round.open())
    assert triples(pulled) == round.given and len(round.given) == 2 * ITEMS + 1
    assert pulled.ledger.counts == {CANCELLED: 1}
    frame = to_arrow(pulled).to_pandas()
    assert frame.loc[(frame["item"] == item) & (frame["annotator"] == ask), "lead_time"].tolist() == [7.25]
    judged = pull(round.open(), predictions=True)
    assert set(judged.annotators) == {*PEOPLE, "judge-1"}, "the run's own predictions are not read"


def test_what_people_get_wrong_is_told_by_the_real_server_too(round: Round) -> None:
    url = round.server.url
    with pytest.raises(RealmError, match=r"there is no such project .*There are: \d+ \(Colours\)"):
        Project.open(Server(url, round.key), 9999)
    with pytest.raises(RealmError, match=r"`control=mood`: there is no such tag.*colour"):
        pull(round.open(), control="mood")
    head, _, signature = round.key.partition(".")
    for key in (f"{head}.{signature[:-4]}AAAA", "0123456789abcdef0123456789abcdef01234567"):
        with pytest.raises(RealmError, match="refuses the key") as refused:
            Project.open(Server(url, key), round.number)
        assert key not in str(refused.value)


def test_legacy_tokens_work_where_the_organisation_allows_them(round: Round) -> None:
    token = round.boss.api("GET", "/api/current-user/token")["token"]
    with pytest.raises(RealmError, match="refuses the key"):
        Project.open(Server(round.server.url, token), round.number)
    allowed = {"api_tokens_enabled": True, "legacy_api_tokens_enabled": True, "api_token_ttl_days": 30}
    round.boss.api("POST", "/api/jwt/settings", allowed)
    project = Project.open(Server(round.server.url, token), round.number)
    assert triples(pull(project)) == round.given


def test_nothing_of_the_key_is_in_the_runs(round: Round, runs) -> None:
    for run in runs.values():
        assert not [
            path for path in Path(run.folder).rglob("*") if path.is_file() and round.key.encode() in path.read_bytes()
        ]
