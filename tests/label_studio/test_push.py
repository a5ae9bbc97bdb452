"""Pushing to a server of the test's own: exactly once, whatever is cut, and nothing of anybody else's."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import pytest

from realm.data.write import to_arrow
from realm.errors import RealmError
from realm.integrations.label_studio import Project, Server, pull, push
from tests.label_studio.fake_server import REFRESH_TOKEN, FakeLabelStudio

QUEUED = 7
push_module = sys.modules["realm.integrations.label_studio"]  # the package calls the function by this name


def queue_of(fake: FakeLabelStudio) -> list[tuple[int, str, int]]:
    """(priority, whom to ask, task), the most urgent first."""
    data = [(task["data"], number) for number, task in fake.tasks.items() if "realm_priority" in task["data"]]
    return sorted((each["realm_priority"], each["realm_ask"], number) for each, number in data)


def desired(run: Any, version: str) -> list[tuple[int, str, str]]:
    labels = run.labels
    return sorted((int(item), version, label) for item, label in zip(labels["item"], labels["label"], strict=True))


def check(fake: FakeLabelStudio, run: Any, version: str) -> None:
    """Every item has its prediction once, the queue is that of the run, and nothing else was touched."""
    assert fake.predictions() == desired(run, version)
    queue = run.relabel(QUEUED)
    expected = [
        (place, ask, int(item)) for place, (item, ask) in enumerate(zip(queue["item"], queue["ask"], strict=True), 1)
    ]
    assert queue_of(fake) == expected and len(expected) == QUEUED
    assert all(task["data"]["text"] == f"review {number // 10}" for number, task in fake.tasks.items())


def test_labels_become_predictions_and_the_queue_becomes_fields(fake, project, run) -> None:
    annotations = copy.deepcopy({number: task["annotations"] for number, task in fake.tasks.items()})
    plan = push(project, run, run.relabel(QUEUED))
    assert plan.model_version.startswith("realm:sentiment:monday@") and len(plan.create) == 40
    check(fake, run, plan.model_version)
    scores = {number: task["predictions"][0]["score"] for number, task in fake.tasks.items()}
    confidences = dict(zip(run.labels["item"].astype(int), run.labels["confidence"], strict=True))
    assert scores == pytest.approx(confidences, abs=1e-6)
    assert {number: task["annotations"] for number, task in fake.tasks.items()} == annotations


def test_a_second_push_writes_nothing(fake, project, run) -> None:
    push(project, run, run.relabel(QUEUED))
    fake.requests.clear()
    again = push(project, run, run.relabel(QUEUED))
    assert again.is_empty and again.unchanged == 40
    assert {method for method, path in fake.requests if path != "/api/token/refresh/"} == {"GET"}


def test_a_dry_run_writes_nothing_and_says_all(fake, project, run) -> None:
    before = copy.deepcopy(fake.tasks)
    plan = push(project, run, run.relabel(QUEUED), dry_run=True)
    assert fake.tasks == before and (len(plan.create), len(plan.queue_fields), plan.queue) == (40, QUEUED, QUEUED)


def test_a_new_run_takes_the_place_of_the_old_one_and_of_nothing_else(fake, project, run, tuesday) -> None:
    foreign = {"id": 1, "model_version": "judge-1", "score": 0.5, "result": [{"from_name": "sentiment"}]}
    other_tag = {**foreign, "id": 2, "model_version": "realm:mood:monday@00000000"}
    for task in fake.tasks.values():
        task["predictions"] = [dict(foreign), dict(other_tag)]
    fake.tasks[10]["data"]["realm"] = "a field of their own"
    old = push(project, run, run.relabel(QUEUED)).model_version
    assert fake.settings["model_version"] == old, "a project that shows none shows them, as after an import"
    plan = push(project, tuesday, tuesday.relabel(QUEUED))
    assert plan.replaced == {old: 40} and plan.model_version != old
    for task in fake.tasks.values():
        others = [each for each in task["predictions"] if each["model_version"] != plan.model_version]
        assert others == [foreign, other_tag]
        task["predictions"] = [each for each in task["predictions"] if each not in others]
    check(fake, tuesday, plan.model_version)
    assert fake.tasks[10]["data"]["realm"] == "a field of their own"
    assert fake.settings["model_version"] == plan.model_version, "what the project shows goes on with the new run"


def test_what_people_edit_while_a_push_writes_stays(fake, project, run) -> None:
    """At the first PATCH somebody edits every task whose turn comes later, and deletes one of them."""
    first, *later, last = sorted(int(item) for item in run.relabel(QUEUED)["item"])

    def edit(method: str, path: str) -> None:
        if method == "PATCH" and fake.counts["PATCH"] == 1 and last in fake.tasks:
            for number in later:
                fake.tasks[number]["data"] |= {"url": f"https://example.org/{number}", "n": 1}
            del fake.tasks[last]

    fake.on_request = edit
    assert len(push(project, run, run.relabel(QUEUED)).queue_fields) == QUEUED
    assert {number for _, _, number in queue_of(fake)} == {first, *later}
    for number in later:
        assert fake.tasks[number]["data"]["url"] == f"https://example.org/{number}", "not undone"


def test_what_the_project_shows_is_left_alone_unless_it_is_ours(fake, project, run, tuesday) -> None:
    push(project, run)
    fake.settings["model_version"] = "judge-1"
    project = Project.open(project.server, 3)
    push(project, tuesday)
    assert fake.settings["model_version"] == "judge-1"


def test_what_was_lost_or_doubled_is_mended(fake, project, run) -> None:
    version = push(project, run, run.relabel(QUEUED)).model_version
    fake.tasks[10]["predictions"].clear()
    fake.tasks[20]["predictions"] *= 2
    fake.tasks[20]["predictions"][1] = {**fake.tasks[20]["predictions"][0], "id": 5}
    fake.tasks[30]["predictions"][0]["result"][0]["value"] = {"choices": ["other"]}
    fake.tasks[40]["predictions"][0]["score"] = 0.1
    fake.tasks[50]["predictions"][0]["result"] = []
    plan = push(project, run, run.relabel(QUEUED))
    assert (len(plan.create), len(plan.remove), plan.unchanged) == (4, 4, 36)
    check(fake, run, version)


def test_tasks_that_the_run_does_not_know_and_items_that_are_gone(fake, project, run) -> None:
    fake.add_task(999, "new", {1: "positive"})
    ours = {"id": 7, "model_version": "", "score": 1.0, "result": []}
    version = push(project, run, dry_run=True).model_version
    fake.tasks[999]["predictions"] = [{**ours, "model_version": version}]
    del fake.tasks[10], fake.tasks[20]
    plan = push(project, run)
    assert plan.gone == ["10", "20"] and plan.remove == [7]
    assert fake.predictions() == [each for each in desired(run, version) if each[0] not in (10, 20)]


@pytest.mark.parametrize("fault", ["cut", "cut after", "short", (500, {}), (429, {}), (503, {})], ids=str)
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_a_cut_anywhere_loses_and_doubles_nothing(fake, project, run, tuesday, monkeypatch, method, fault) -> None:
    """An old run is there; requests 1, 2 and 5 of a kind fail, before or after the server has done what they ask."""
    monkeypatch.setattr(push_module, "BATCH", 9)
    push(project, run, run.relabel(3))
    fake.tasks[30]["predictions"] *= 2
    own = push(project, tuesday, dry_run=True).model_version
    fake.tasks[40]["predictions"].append(
        {**fake.tasks[40]["predictions"][0], "id": 4, "model_version": own, "score": 9}
    )
    fake.counts.clear()
    places = (0, 1, 4) if method != "DELETE" else (0, 1)
    fake.faults = {(method, place): fault for place in places}
    push(project, tuesday, tuesday.relabel(QUEUED))
    assert not fake.faults, "every fault happened"
    check(fake, tuesday, own)


def test_a_push_that_was_killed_is_finished_by_the_same_command(fake, project, run, tuesday, monkeypatch) -> None:
    """Killed before the n-th request that writes, for every n."""
    monkeypatch.setattr(push_module, "BATCH", 15)
    push(project, run, run.relabel(3))
    start = copy.deepcopy(fake.tasks)

    class Killed(Exception):
        pass

    for killed_at in range(40):
        fake.tasks, writes = copy.deepcopy(start), [0]
        real = project.server.send

        def send(
            method: str, path: str, body: Any, repeatable: bool = True, *, n=killed_at, done=writes, real=real, **more
        ) -> Any:
            if method == "GET" or more:
                return real(method, path, body, repeatable=repeatable, **more)
            if done[0] == n:
                raise Killed
            done[0] += 1
            return real(method, path, body, repeatable=repeatable)

        monkeypatch.setattr(project.server, "send", send)
        try:
            push(project, tuesday, tuesday.relabel(QUEUED))
            assert killed_at > 8
            return
        except Killed:
            versions = {
                number: [each["model_version"] for each in t["predictions"]] for number, t in fake.tasks.items()
            }
            assert all(versions.values()), "at no moment has an item no prediction"
        finally:
            monkeypatch.setattr(project.server, "send", real)
        version = push(project, tuesday, tuesday.relabel(QUEUED)).model_version
        check(fake, tuesday, version)
    raise AssertionError("the push never ended")


def test_a_project_that_keeps_changing_ends_with_a_message(fake, project, run) -> None:
    fake.on_request = lambda method, path: [task["predictions"].clear() for task in fake.tasks.values()] and None
    with pytest.raises(RealmError, match="was not there afterwards, 10 times"):
        push(project, run)


def test_predictions_that_the_server_does_not_take_are_told(fake, project, run, monkeypatch) -> None:
    """Label Studio leaves out predictions that do not fit its tags, and says only how many it took."""
    real = fake.answer

    def answer(method: str, path: str, *rest: Any) -> tuple[int, Any]:
        return (201, {"created": 0}) if path.endswith("import/predictions") else real(method, path, *rest)

    monkeypatch.setattr(fake, "answer", answer)
    with pytest.raises(RealmError, match=r"took .*0.* of 40 predictions"):
        push(project, run)


def test_a_pull_after_a_push_is_the_pull_before_it(project, run) -> None:
    """Also where the text has another name, so that two of our fields hold text beside it."""
    before = pull(project)
    push(project, run, run.relabel(QUEUED))
    after = pull(project)
    assert to_arrow(after).equals(to_arrow(before)) and after.ledger.counts == {}


# -------------------------------------------------------------------- what people get wrong


def test_a_run_of_another_project_is_refused(fake, project, run) -> None:
    fake.tasks[20]["data"]["text"] = "another text"
    with pytest.raises(RealmError, match=r"task 20: its text is not that of the item 20 of .*monday"):
        push(project, run)
    assert fake.predictions() == [], "nothing was written"
    fake.tasks[20]["data"]["text"] = " review  2\n"
    assert len(push(project, run, dry_run=True).create) == 40, "spaces are no difference"
    fake.tasks = {number + 1: task for number, task in fake.tasks.items()}
    for number, task in fake.tasks.items():
        task["id"] = number
    with pytest.raises(RealmError, match=r"none of its tasks is an item of .*monday"):
        push(project, run)


def test_labels_that_the_tag_lacks_are_refused(fake, url, run) -> None:
    config = {**fake.settings["parsed_label_config"]["sentiment"], "labels": ["bad", "good"]}
    fake.settings["parsed_label_config"] = {"sentiment": config}
    with pytest.raises(RealmError, match=r"has no label 'negative'.*It has: bad, good.*`control`"):
        push(Project.open(Server(url, REFRESH_TOKEN), 3), run)
    fake.settings["parsed_label_config"] = {"sentiment": {**config, "type": "Rating"}}
    with pytest.raises(RealmError, match=r"has no label 'negative'.*It has: numbers"):
        push(Project.open(Server(url, REFRESH_TOKEN), 3), run)


# -------------------------------------------------------------------- the command


@pytest.fixture
def command(url, realm_cli, run, monkeypatch):
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", REFRESH_TOKEN)

    def call(*words: object) -> tuple[int, str, str]:
        code, out, error = realm_cli("label-studio", "push", run.folder, "--url", url, "--project", 3, *words)
        return code, out, " ".join(error.split())

    return call


def test_the_command_writes_once(fake, run, command) -> None:
    code, out, error = command("--budget", QUEUED, "--dry-run")
    assert code == 0 and "40 predictions would be written" in error and fake.predictions() == []
    assert "realm_priority" in out and "score" in out
    code, out, error = command("--budget", QUEUED)
    assert code == 0 and "40 predictions were written as realm:sentiment:monday@" in error
    check(fake, run, fake.predictions()[0][1])
    code, out, _ = command("--budget", QUEUED, "--json")
    figures = json.loads(out)
    assert (figures["written"], figures["unchanged"], figures["tasks_changed"], figures["queued"]) == (0, 40, 0, QUEUED)
    code, _, error = command("--budget", 0)
    assert code == 0 and queue_of(fake) == [] and "0 tasks are queued" in error


def test_costs_and_shares_decide_the_queue(fake, command, tmp_path) -> None:
    (tmp_path / "costs.csv").write_text("annotator,cost\ncy@example.org,1\nann@example.org,2\nbob@example.org,2\n")
    code, _, error = command("--budget", 6, "--costs", tmp_path / "costs.csv", "--most-each", 2)
    asked = [ask for _, ask, _ in queue_of(fake)]
    assert code == 0 and asked and max(asked.count(name) for name in asked) <= 2, error


def test_a_folder_that_is_no_run_is_refused_before_the_server_is_asked(fake, url, realm_cli, tmp_path) -> None:
    code, _, error = realm_cli("label-studio", "push", tmp_path, "--url", url, "--project", 3)
    assert code == 2 and "not a run folder" in error and not fake.requests


def test_the_key_is_in_nothing_that_is_written_or_said(fake, command, run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    fake.faults = {("POST", 1): (400, {}), ("PATCH", 0): (403, {})}
    said = [command("--budget", QUEUED) for _ in range(3)]
    assert [code for code, _, _ in said] == [2, 2, 0]
    written = b"".join(
        path.read_bytes() for place in (tmp_path, run.folder) for path in place.rglob("*") if path.is_file()
    )
    assert "7f3a" not in "".join(out + error for _, out, error in said) and b"7f3a" not in written
