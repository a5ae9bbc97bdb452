"""A pull that is cut goes on from what has arrived: nothing is asked for twice, lost or doubled, and nothing stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from realm.errors import RealmError
from realm.label_studio import Project, Server, pull
from realm.label_studio import arrived as module
from realm.label_studio.arrived import arrived_path, kept_tasks
from tests.label_studio.fake_server import LEGACY_TOKEN, REFRESH_TOKEN
from tests.label_studio.test_pull import expected, triples


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return arrived_path(tmp_path / "labels.parquet")


def cut(project: Project, path: Path, after: int) -> None:
    """A pull that ends in the middle."""
    tasks = kept_tasks(project, path)
    for _ in range(after):
        next(tasks)
    tasks.close()


def pages(fake) -> int:
    return sum(request.startswith("/api/tasks?") for _, request in fake.requests)


def test_a_cut_pull_goes_on_from_what_has_arrived(fake, project, path, caplog) -> None:
    fake.most_page = 5
    cut(project, path, 12)
    assert path.is_file() and pages(fake) == 3
    fake.requests.clear()
    counts: list[tuple[int, int]] = []
    pulled = pull(project, arrived=path, progress=lambda what, done, total: counts.append((done, total)))
    assert triples(pulled) == expected(fake) and not path.exists()
    assert pages(fake) == 7  # 28 tasks more, and an empty page
    assert counts[0] == (17, 40) and counts[-1] == (40, 40)
    assert "going on with 12 tasks" in caplog.text


def test_a_pull_that_is_not_cut_leaves_nothing(fake, project, path, caplog) -> None:
    assert triples(pull(project, arrived=path)) == expected(fake)
    assert list(path.parent.iterdir()) == [] and "going on" not in caplog.text


def test_a_line_that_was_cut_is_asked_for_again(fake, project, path) -> None:
    fake.most_page = 5
    cut(project, path, 9)
    whole = path.read_bytes()
    for length in (len(whole) - 1, len(whole) - 40, len(whole.splitlines(keepends=True)[0]), 10, 0):
        path.write_bytes(whole[:length])
        assert triples(pull(project, arrived=path)) == expected(fake) and not path.exists(), length


@pytest.mark.parametrize("line", [b"[]\n", b'{"id": 10}\n', b'{"id": "x"}\n', b"\xff\xff\n", b"{" * 9 + b"\n"])
def test_lines_that_no_pull_wrote_end_what_is_believed(fake, project, path, line) -> None:
    cut(project, path, 9)
    path.write_bytes(path.read_bytes() + line + b'{"id": 4000, "data": {}}\n')
    assert triples(pull(project, arrived=path)) == expected(fake)


def test_what_is_too_old_or_of_another_project_is_not_gone_on_from(fake, project, path, monkeypatch) -> None:
    for other in ({"project": 4}, {"url": "http://elsewhere"}, {"format": 0}, {"began": None}, {"began": 1.0}):
        cut(project, path, 9)
        header, *rest = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(json.dumps({**json.loads(header), **other}).encode() + b"\n" + b"".join(rest))
        for task in fake.tasks.values():
            task["annotations"][0]["lead_time"] = 77.0
        pulled = pull(project, arrived=path)
        assert (pulled.lead_time == 77.0).sum() == 40, other  # nothing of the old file is in it
    cut(project, path, 9)
    monkeypatch.setattr(module, "MOST_AGE", 0.0)
    fake.requests.clear()
    assert triples(pull(project, arrived=path)) == expected(fake) and pages(fake) == 2


def test_a_pull_that_fails_for_good_keeps_what_has_arrived(fake, url, path, waits) -> None:
    fake.most_page = 5
    project = Project.open(Server(url, LEGACY_TOKEN, wait=waits.append), 3)
    fake.faults = {("GET", number): "cut" for number in range(5, 99)}
    with pytest.raises(RealmError, match="same command again"):
        pull(project, arrived=path)
    assert len(path.read_bytes().splitlines()) == 1 + 15
    fake.faults.clear()
    assert triples(pull(project, arrived=path)) == expected(fake) and not path.exists()


def test_a_pull_from_which_nothing_came_leaves_nothing(fake, url, path, waits) -> None:
    project = Project.open(Server(url, LEGACY_TOKEN, wait=waits.append), 3)
    fake.faults = {("GET", 1): (403, {})}
    with pytest.raises(RealmError, match="no right"):
        pull(project, arrived=path)
    assert not path.exists()


def test_two_pulls_at_once_are_refused(project, path) -> None:
    tasks = kept_tasks(project, path)
    next(tasks)
    with pytest.raises(RealmError, match="another pull to the same `output` is under way"):
        next(kept_tasks(project, path))
    tasks.close()
    next(kept_tasks(project, path))


def test_a_place_that_cannot_be_written_is_named(project, tmp_path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RealmError, match="link: cannot be written"):
        next(kept_tasks(project, tmp_path / "link"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_killed_command_goes_on(fake, url, path, tmp_path, realm_cli, monkeypatch) -> None:
    fake.most_page = 5
    output = tmp_path / "labels.parquet"
    words = ["pull", "label-studio", "--url", url, "--project", "3", "--output", str(output)]
    command: list[subprocess.Popen[bytes]] = []

    def kill(method: str, place: str) -> None:
        if place == "/api/tasks" and pages(fake) == 4:
            os.kill(command[0].pid, signal.SIGKILL)

    fake.on_request = kill
    environment = {**os.environ, "LABEL_STUDIO_API_KEY": REFRESH_TOKEN}
    with fake.lock:  # nothing is answered before we know whom to kill
        command.append(subprocess.Popen([sys.executable, "-m", "realm", *words], env=environment))
    assert command[0].wait() == -signal.SIGKILL
    assert not output.exists() and len(path.read_bytes().splitlines()) == 1 + 15
    assert "7f3a" not in path.read_text()
    fake.on_request = lambda method, place: None
    fake.requests.clear()
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", REFRESH_TOKEN)
    code, _, error = realm_cli(*words)
    assert code == 0 and "going on with 15 tasks" in " ".join(error.split()) and pages(fake) == 6
    assert [each.name for each in tmp_path.iterdir()] == ["labels.parquet"]
