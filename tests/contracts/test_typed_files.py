"""Machine files are typed; CSV files are for people, written and never read back by us."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from realm.data.write import write_table
from tests.contracts.modules import modules
from tests.tiny import crowd

READS_CSV = re.compile(r"read_csv|csv\.(reader|DictReader)|DictReader|read_table\(.*csv")
USERS_FILES = {
    "data/readers/": "annotations and items",
    "data/label_sets.py": "labels to rename",
    "cli/relabel.py": "costs of annotators",
}
"""Who reads CSV files, and whose: never ours."""


def test_only_users_files_are_read_as_csv() -> None:
    readers = {path for path, source in modules().items() if READS_CSV.search(source)}
    ours = {path for path in readers if not path.startswith(tuple(USERS_FILES))}
    assert not ours
    assert all(any(path.startswith(place) for path in readers) for place in USERS_FILES), "an entry nobody needs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_model, realm_cli) -> Path:
    """A run and a comparison whose CSV files somebody has spoiled."""
    folder = tmp_path_factory.mktemp("typed")
    write_table(crowd(30, (0.9, 0.8, 0.6)), folder / "labels.csv")
    crowd(20, seed=5).to_pandas()[["item", "text", "gold"]].drop_duplicates().to_csv(folder / "test.csv", index=False)
    model = ("--model", tiny_model("bert"), "--steps", 2)
    for words in (
        ("train", folder / "labels.csv", *model, "--output", folder / "run"),
        ("compare", folder / "labels.csv", "--test", folder / "test.csv", *model, "--methods", "realm,noisy",
         "--seeds", 1, "--output", folder / "compared"),
    ):  # fmt: skip
        code, _, error = realm_cli(*words)
        assert code == 0, error
    written = [*(folder / "run").rglob("*.csv"), *(folder / "compared").rglob("*.csv")]
    assert {"expertise.csv", "labels.csv"} <= {path.name for path in written}
    for path in written:
        path.write_text("spoiled\n")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("report", "run"),
        ("report", "compared"),
        ("relabel", "run", "--output", "queue.csv"),
        ("evaluate", "run", "test.csv"),
        ("predict", "run", "test.csv", "--output", "answers.csv"),
    ],
    ids=" ".join,
)
def test_no_command_notices_spoiled_csv_files(words, folder, realm_cli, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    code, out, error = realm_cli(*words)
    assert code == 0 and "spoiled" not in out + error, error
