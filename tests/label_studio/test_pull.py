"""Pulling from a server of the test's own, which answers like Label Studio and fails when told to."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from realm.data import Annotations
from realm.data.build import CONTRADICTED
from realm.data.long_table import NO_ANNOTATIONS
from realm.data.readers.label_studio import CANCELLED, GROUND_TRUTH
from realm.data.write import to_arrow, write_table
from realm.errors import RealmError
from realm.integrations.label_studio import DRAFT, WITHOUT_USER, Project, Server, pull
from tests.label_studio.fake_server import LEGACY_TOKEN, REFRESH_TOKEN, FakeLabelStudio, annotation, serving


def triples(table: Annotations) -> set[tuple[str, str, str]]:
    frame = table.to_pandas()
    return set(zip(frame["item"], frame["annotator"], frame["label"], strict=True))


def expected(fake: FakeLabelStudio) -> set[tuple[str, str, str]]:
    return {
        (str(number), fake.users[each["completed_by"]], each["result"][0]["value"]["choices"][0])
        for number, task in fake.tasks.items()
        for each in task["annotations"]
    }


def test_every_annotation_comes_with_who_gave_it_and_when(fake, project, tmp_path) -> None:
    pulled = pull(project)
    assert triples(pulled) == expected(fake) and pulled.n_annotations == 80
    write_table(pulled, tmp_path / "labels.parquet")
    table = pq.read_table(tmp_path / "labels.parquet").to_pandas()
    assert table.columns.tolist() == ["item", "task", "text", "annotator", "label", "created_at", "lead_time"]
    given = {
        (str(n), fake.users[each["completed_by"]]): each for n, t in fake.tasks.items() for each in t["annotations"]
    }
    for row in table.to_dict("records"):
        each = given.pop((row["item"], row["annotator"]))
        assert (row["created_at"], row["lead_time"]) == (each["created_at"], each["lead_time"])
    assert not given
    assert triples(Annotations.read(tmp_path / "labels.parquet")) == expected(fake)


def test_a_pulled_project_is_what_its_export_is(fake, project, tmp_path) -> None:
    """Read by the same reader: cancelled, ground truth, repeated and missing ones are counted alike."""
    odd(fake)
    tasks = [
        {**task, "annotations": [{**a, "completed_by": {"email": fake.users[a["completed_by"]]}} for a in given]}
        for task in fake.tasks.values()
        for given in [[each for each in task["annotations"] if each["completed_by"] is not None]]
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    exported, pulled = Annotations.read(tmp_path / "export.json"), pull(project)
    assert triples(pulled) == triples(exported)
    ours = {reason: n for reason, n in pulled.ledger.counts.items() if reason not in (DRAFT, WITHOUT_USER)}
    assert ours == exported.ledger.counts and set(ours) == {CANCELLED, GROUND_TRUTH, NO_ANNOTATIONS, CONTRADICTED}


def odd(fake: FakeLabelStudio) -> None:
    """Add annotations that do not count as they are, one or two of each kind."""
    fake.add_task(1001, "skipped", {})
    fake.tasks[1001]["annotations"] = [annotation(1, 1, "positive", was_cancelled=True)]
    fake.add_task(1002, "gold", {1: "negative"})
    fake.tasks[1002]["annotations"].append(annotation(2, 2, "positive", ground_truth=True))
    fake.add_task(1003, "nobody came", {})
    fake.add_task(1004, "changed her mind", {})
    late = {"created_at": "2026-11-03T10:00:00.5Z", "updated_at": "2026-11-03T10:05:00.5Z"}
    fake.tasks[1004]["annotations"] = [
        annotation(4, 1, "positive", **late, lead_time=9.5),
        annotation(3, 1, "negative"),
    ]
    fake.add_task(1005, "left", {2: "positive"})
    fake.tasks[1005]["annotations"].append(annotation(5, 1, "positive", completed_by=None))
    fake.tasks[1005]["drafts"] = [{"result": []}, {"result": []}]


def test_what_does_not_count_is_counted(fake, project) -> None:
    odd(fake)
    pulled = pull(project)
    counts = pulled.ledger.counts
    assert counts == {
        CANCELLED: 1, GROUND_TRUTH: 1, NO_ANNOTATIONS: 1, DRAFT: 2, WITHOUT_USER: 1, CONTRADICTED: 1
    }  # fmt: skip
    frame = to_arrow(pulled).to_pandas()
    [row] = frame[frame["item"] == "1004"].to_dict("records")
    assert (row["label"], row["created_at"], row["lead_time"]) == ("positive", "2026-11-03T10:00:00.500000Z", 9.5)
    gold = frame[frame["item"] == "1002"]
    assert gold["gold"].tolist() == ["positive"] and gold["annotator"].tolist() == ["ann@example.org"]


def test_imported_annotations_are_marked_as_ground_truth_and_may_be_read_as_annotations(fake, project) -> None:
    for task in fake.tasks.values():
        for each in task["annotations"]:
            each["ground_truth"] = True
    with pytest.raises(RealmError, match=r'marked as ground truth.*Give `ground_truth="annotations"`'):
        pull(project)
    assert triples(pull(project, ground_truth="annotations")) == expected(fake)
    fake.tasks[10]["annotations"][0]["ground_truth"] = False
    assert pull(project).n_annotations == 1


def test_predictions_are_left_out_unless_asked_for_and_ours_always(fake, project) -> None:
    for number, task in fake.tasks.items():
        for version in ("judge-1", "realm:sentiment:monday@12345678"):
            own = annotation(number, 0, "positive", completed_by=None, model_version=version, score=0.5)
            task["predictions"].append(own)
    assert triples(pull(project)) == expected(fake)
    with_predictions = triples(pull(project, predictions=True))
    assert with_predictions - expected(fake) == {(str(number), "judge-1", "positive") for number in fake.tasks}


def test_labels_that_nobody_has_given_are_known(fake, project) -> None:
    for task in fake.tasks.values():
        for each in task["annotations"]:
            each["result"][0]["value"]["choices"] = ["positive"]
    assert pull(project).tasks[0].labels == ("negative", "positive")
    fake.tasks[10]["annotations"][0]["result"][0]["value"]["choices"] = ["old name"]
    assert pull(project).tasks[0].labels == ("old name", "positive")


# -------------------------------------------------------------------- pages, cuts and refusals


@pytest.mark.parametrize("most_page", [1, 7, 40, 1000])
def test_pages_of_any_length_leave_no_gap(fake, project, most_page) -> None:
    fake.most_page = most_page
    assert triples(pull(project)) == expected(fake)


def test_tasks_that_come_and_go_meanwhile_shift_nothing(fake, project) -> None:
    """Tasks that were read are deleted between pages, and one is added: pages by offset would skip and repeat."""
    fake.most_page = 10

    def change(method: str, path: str) -> None:
        if path == "/api/tasks" and len(fake.tasks) == 40 and fake.counts["GET"] > 4:
            for number in (10, 20, 30):
                del fake.tasks[number]
            fake.add_task(5000, "new", {1: "negative"})

    before = expected(fake)
    fake.on_request = change
    found = triples(pull(project))
    assert len(fake.tasks) == 38 and found == before | {("5000", "ann@example.org", "negative")}


FAULTS = ["cut", "cut after", "short", (500, {}), (503, {}), (429, {"retry-after": "45"}), (429, {})]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_anywhere_loses_and_doubles_nothing(fake, url, waits, fault: Any) -> None:
    fake.most_page = 9
    places = [("POST", 0), *(("GET", number) for number in range(8))]
    for place in places:  # the access token, the project, its annotators, five pages and an empty one
        fake.faults = {place: fault}
        fake.counts.clear()
        project = Project.open(Server(url, REFRESH_TOKEN, wait=waits.append), 3)
        assert triples(pull(project)) == expected(fake)
        assert not fake.faults, place
    assert waits == [45.0 if fault == (429, {"retry-after": "45"}) else 0.5] * 9


def test_waits_double_and_end(fake, url, waits) -> None:
    server = Server(url, LEGACY_TOKEN, wait=waits.append, patience=100)
    assert server.get("/api/projects/3/")["title"] == "Reviews"
    fake.faults = {("GET", number): "cut" for number in range(1, 99)}
    with pytest.raises(RealmError, match=r"does not answer .*tried for 100 seconds.*`url` right.*same command again"):
        server.get("/api/projects/3/")
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 8.5]


def test_an_error_of_the_servers_own_is_not_waited_for_long(fake, project, waits) -> None:
    fake.faults = {("GET", number): (500, {}) for number in range(1, 99)}
    with pytest.raises(RealmError, match=r"/api/tasks: 500"):
        pull(project)
    assert len(waits) == 5


def test_a_server_that_never_answered_is_given_up_soon(waits) -> None:
    with serving(FakeLabelStudio()) as address:
        pass
    with pytest.raises(RealmError, match=r"does not answer \(Connection refused\), tried for 10 seconds"):
        Server(address, LEGACY_TOKEN, wait=waits.append).get("/api/projects/3/")


def test_a_server_that_is_started_again_is_waited_for(fake) -> None:
    """The server goes away in the middle of a pull; when it is back on its port the pull goes on where it was."""
    fake.most_page = 5
    waits: list[float] = []
    with ExitStack() as second:

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                second.enter_context(serving(fake, port))

        with serving(fake) as url:
            port = int(url.rsplit(":", 1)[1])
            tasks = Project.open(Server(url, REFRESH_TOKEN, wait=wait), 3).tasks()
            first = [next(tasks) for _ in range(5)]
        rest = list(tasks)
    assert len(waits) == 3 and [task["id"] for task in [*first, *rest]] == sorted(fake.tasks)


# -------------------------------------------------------------------- keys


def test_access_tokens_are_renewed_when_they_expire(fake, project) -> None:
    fake.most_page, fake.expire_after = 5, 3
    assert triples(pull(project)) == expected(fake)
    assert sum(path == "/api/token/refresh/" for _, path in fake.requests) >= 3


def test_legacy_tokens_work_where_they_are_allowed(fake, url) -> None:
    assert triples(pull(Project.open(Server(url, LEGACY_TOKEN), 3))) == expected(fake)
    assert all("refresh" not in path for _, path in fake.requests)
    fake.accepts_legacy = False
    with pytest.raises(RealmError, match=r"refuses the key .*personal access token"):
        Project.open(Server(url, LEGACY_TOKEN), 3)


@pytest.mark.parametrize("key", ["eyJhbGciOiJIUzI1NiJ9.wrong-7f3a.signature", "wrong-planted-7f3a"])
def test_a_wrong_key_is_refused_without_being_shown(url, key) -> None:
    with pytest.raises(RealmError, match="refuses the key") as refused:
        Project.open(Server(url, key), 3)
    assert "7f3a" not in str(refused.value)


def test_a_key_that_is_revoked_meanwhile_is_refused(fake, project) -> None:
    fake.expire_after = 0
    with pytest.raises(RealmError, match="refuses the key") as refused:
        pull(project)
    assert "7f3a" not in str(refused.value)


@pytest.mark.parametrize("key", ["", "  ", "two words", "line\nbreak", "schlüssel"])
def test_what_is_no_key_is_refused_before_it_is_sent(fake, url, key) -> None:
    with pytest.raises(RealmError, match="`key`"):
        Server(url, key)
    assert not fake.requests


def test_a_redirect_is_not_followed_with_the_key(fake, url) -> None:
    other = FakeLabelStudio()
    with serving(other) as elsewhere:
        fake.faults = {("GET", 0): (302, {"location": f"{elsewhere}/api/projects/3/?next=1"})}
        with pytest.raises(RealmError, match=r"sends us on to 127.0.0.1.*`url`"):
            Project.open(Server(url, LEGACY_TOKEN), 3)
    assert not other.requests


# -------------------------------------------------------------------- what people get wrong


@pytest.mark.parametrize("url", ["labels.example.org", "ftp://x", "http://", "http://x:y", "https://x/?a=1", ""])
def test_what_is_no_address_is_refused(url) -> None:
    with pytest.raises(RealmError, match="`url"):
        Server(url, LEGACY_TOKEN)


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(RealmError, match="`url`") as refused:
        Server("https://ann:planted-7f3a@labels.example.org", LEGACY_TOKEN)
    assert "7f3a" not in str(refused.value)


def test_plain_http_to_another_machine_is_warned_of(caplog) -> None:
    Server("http://labels.example.org", LEGACY_TOKEN)
    assert "Use https" in caplog.text
    caplog.clear()
    Server("http://localhost:8080", LEGACY_TOKEN)
    Server("https://labels.example.org", LEGACY_TOKEN)
    assert not caplog.text


def test_nothing_is_asked_offline(monkeypatch) -> None:
    monkeypatch.setenv("REALM_OFFLINE", "1")
    with pytest.raises(RealmError, match="forbidden"):
        Server("http://localhost:8080", LEGACY_TOKEN)


def test_a_wrong_project_is_named(url) -> None:
    with pytest.raises(RealmError, match="`project=9`: there is no such project"):
        Project.open(Server(url, REFRESH_TOKEN), 9)


def test_a_wrong_or_missing_control_tag_is_named_with_those_there_are(fake, project, url) -> None:
    with pytest.raises(RealmError, match=r"which tag is the label.*Choices and Rating tags: sentiment"):
        pull(project, control="mood")
    tag = fake.settings["parsed_label_config"]["sentiment"]
    boxes = {"type": "RectangleLabels", "to_name": ["image"], "inputs": [], "labels": []}
    fake.settings["parsed_label_config"] = {"sentiment": tag, "mood": tag, "boxes": boxes}
    two = Project.open(Server(url, REFRESH_TOKEN), 3)
    with pytest.raises(RealmError, match=r"which tag is the label.*: sentiment, mood"):
        pull(two)
    with pytest.raises(RealmError, match=r"which tag is the label.*: sentiment, mood"):
        pull(two, control="boxes")
    assert triples(pull(two, control="sentiment")) == expected(fake)
    fake.settings["parsed_label_config"] = {"boxes": boxes}
    with pytest.raises(RealmError, match="Choices and Rating tags: none"):
        pull(Project.open(Server(url, REFRESH_TOKEN), 3))


def test_a_text_field_that_is_not_there_is_named_with_those_there_are(fake, project) -> None:
    with pytest.raises(RealmError, match='`text="review"`: there is no such field'):
        pull(project, text="review")


def test_a_project_without_tasks_or_annotations_is_told(fake, project) -> None:
    for task in fake.tasks.values():
        task["annotations"] = []
    with pytest.raises(RealmError, match="nobody has labelled anything with the tag sentiment yet"):
        pull(project)
    fake.tasks.clear()
    with pytest.raises(RealmError, match="nobody has labelled anything"):
        pull(project)


# -------------------------------------------------------------------- the command


def test_the_command_writes_the_table_and_says_what_was_left_out(fake, url, realm_cli, monkeypatch, tmp_path) -> None:
    odd(fake)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", REFRESH_TOKEN)
    output = tmp_path / "labels.parquet"
    code, out, error = realm_cli("label-studio", "pull", "--url", url, "--project", 3, "--output", output)
    said = " ".join(error.split())
    assert code == 0 and out == "", error
    assert f"1 x {CANCELLED}" in said and "83 annotations of 43 items" in said
    assert Annotations.read(output).n_annotations == 83
    code, _, error = realm_cli("label-studio", "pull", "--url", url, "--project", 3, "--output", output)
    assert code == 2 and "--overwrite" in error


def test_without_a_key_the_variable_is_named(url, realm_cli, monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    words = ("label-studio", "pull", "--url", url, "--project", 3, "--output", tmp_path / "labels.csv")
    code, _, error = realm_cli(*words)
    assert code == 2 and "LABEL_STUDIO_API_KEY" in error


def kept(folder: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("fault", [None, (403, {}), (400, {}), (302, {"Location": "/x"})], ids=str)
def test_the_key_is_in_nothing_that_is_written_or_said(fake, url, realm_cli, monkeypatch, tmp_path, fault) -> None:
    """The server repeats the key in its answers."""
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", REFRESH_TOKEN)
    monkeypatch.chdir(tmp_path)
    if fault is not None:
        fake.faults = {("GET", 2): fault}
    code, out, error = realm_cli("label-studio", "pull", "--url", url, "--project", 3, "--output", "labels.parquet")
    assert code == (0 if fault is None else 2), error
    assert "7f3a" not in out + error + kept(tmp_path)
    assert len(list(tmp_path.iterdir())) == (fault is None)
