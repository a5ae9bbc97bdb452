"""No command writes over what it reads, over a run's own files, or, unless asked to, over any file that is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from realm.cli.emit import check_outputs
from realm.errors import RealmError
from tests.tiny import crowd
from tests.trainers import trainer


@pytest.fixture(scope="module")
def scene(tiny_model, tmp_path_factory) -> Path:
    """A table, a table with gold, and a finished run, in one folder."""
    folder = tmp_path_factory.mktemp("outputs")
    table = crowd(12, per_item=2)
    table.to_pandas().to_csv(folder / "labels.csv", index=False)
    table.to_pandas().drop(columns=["annotator", "label"]).drop_duplicates("item").to_csv(folder / "q.csv", index=False)
    trainer(tiny_model("bert"), table, folder / "run", write_run=True, max_steps=1).train()
    return folder


COMMANDS = {
    "aggregate": (("labels.csv",), "labels.csv"),
    "simulate": (("q.csv",), "q.csv"),
    "predict": (("run", "q.csv"), "q.csv"),
    "relabel": (("run",), None),
    "report": (("run",), None),
}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_rule_of_every_command(command, scene, tmp_path, realm_cli, monkeypatch) -> None:
    folder = tmp_path / "scene"
    shutil.copytree(scene, folder)
    monkeypatch.chdir(folder)
    words, table = COMMANDS[command]
    (folder / "there.csv").write_text("mine\n")
    (folder / "link.csv").symlink_to(folder / "run" / "labels.csv")
    before = contents(folder)
    for flags in ((), ("--overwrite",)):
        if table is not None:
            code, _, error = realm_cli(command, *words, "--output", table, *flags)
            assert code == 2 and "the command reads this file" in " ".join(error.split()), error
        for own in ("run/labels.csv", "run/model/config.json", "link.csv"):
            code, _, error = realm_cli(command, *words, "--output", own, *flags)
            assert code == 2 and "a file of the run itself" in " ".join(error.split()), error
    code, _, error = realm_cli(command, *words, "--output", "there.csv")
    assert code == 2 and "there.csv: exists already. Give --overwrite" in " ".join(error.split())
    assert contents(folder) == before
    code, _, error = realm_cli(command, *words, "--output", "there.csv", "--overwrite")
    assert code == 0, error
    assert (folder / "there.csv").read_text() != "mine\n"
    assert realm_cli(command, *words, "--output", "new.csv")[0] == 0


def test_a_report_replaces_itself_and_asks_before_another(scene, realm_cli, tmp_path, monkeypatch) -> None:
    run = tmp_path / "run"
    shutil.copytree(scene / "run", run)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert realm_cli("report", run)[0] == 0
        assert realm_cli("report", run, "--output", run / "report.html")[0] == 0
    other = run.parent / "page.html"
    assert realm_cli("report", run, "--output", other)[0] == 0
    code, _, error = realm_cli("report", run, "--output", other)
    assert code == 2 and "page.html: exists already" in error
    assert realm_cli("report", run, "--output", other, "--overwrite")[0] == 0


def test_files_beside_the_output_count_too(scene, realm_cli, tmp_path) -> None:
    (tmp_path / "clean.annotators.csv").write_text("mine\n")
    code, _, error = realm_cli("aggregate", scene / "labels.csv", "--output", tmp_path / "clean.csv")
    assert code == 2 and "clean.annotators.csv: exists already" in error
    assert not (tmp_path / "clean.csv").exists()


def test_a_file_of_a_folder_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "export" / "deep").mkdir(parents=True)
    there = tmp_path / "export" / "deep" / "ada.jsonl"
    there.write_text("{}")
    with pytest.raises(RealmError, match="the command reads this file"):
        check_outputs(there, reads=[tmp_path / "export"], overwrite=True)


def test_no_output_and_a_new_one_are_fine(tmp_path: Path) -> None:
    check_outputs(None, tmp_path / "new.csv", reads=[None, tmp_path / "absent.csv"])
    with pytest.raises(RealmError, match="is a folder; name a file"):
        check_outputs(tmp_path)
