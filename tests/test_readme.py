"""Every command and Python block of the README and the docs is run.

A block marked `console` holds `realm` commands, one marked `python` is executed; blocks of a page share a folder and a
namespace, in order. The folder holds what the pages speak of: `labels.csv` (its halves are `monday.csv` and
`tuesday.csv`), `test.csv`, `new.csv`, `export.json` (put back before each block; one that a command writes makes room)
and a finished run in `runs/sentiment` (unless the page makes it). Tiny models stand in for those that the pages name.

A comment before a block says otherwise, and must give its reason:

    <!-- slow: REASON -->       run with the real models, by `make test-all`
    <!-- not run: REASON -->    not run at all
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from realm.models import store
from tests.tiny import COLOURS, save_tiny, sentences

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SHOWN = {"text", "csv", "json", "yaml"}
STAND_INS = {"google/flan-t5-base": "seq2seq", "smollm2-135m": "causal", "minilm-l6": "bert"}
BLOCK = re.compile(r"^(?:<!-- (?P<mark>.*?) -->\n+)?```(?P<language>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    body: str
    place: str
    mark: str
    reason: str

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command; a backslash at the end of a line continues it."""
        lines = self.body.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        mark, _, reason = (found["mark"] or "").partition(":")
        yield Block(found["language"].strip(), found["body"], f"{page.name}:{line}", mark.strip(), reason.strip())


def pages_with(mark: str) -> list[Any]:
    """The pages that have a block to run with this mark."""
    return [
        pytest.param(page, id=page.name)
        for page in PAGES
        if any(block.mark == mark and block.language not in SHOWN for block in blocks(page))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks(page):
        assert block.language in {"console", "python", *SHOWN}, f"{block.place}: a block of {block.language or 'what'}?"
        assert block.mark in ("", "slow", "not run"), f"{block.place}: <!-- {block.mark}: ... --> is no mark"
        assert not block.mark or block.reason, f"{block.place}: the mark gives no reason"
        if block.language == "console" and block.mark != "not run":
            strange = [words[0] for words in block.commands if words[0] != "realm"]
            assert not strange, f"{block.place}: only realm commands can be run here, not {strange}; mark the block"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not re.match(r"\w+:", link):
            assert (page.parent / link).exists(), f"{page.name}: {link} is not there"


@pytest.mark.parametrize("page", pages_with(""))
def test_blocks_run(page: Path, scene: Path, tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "resolve", lambda name, *_: tiny_models.get(name, name))
    monkeypatch.setattr(store, "fetch", lambda name, *_: Path(tiny_models[name]))
    play(page, scene, "", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("slow"))
def test_slow_blocks_run_with_the_real_models(page: Path, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(page, scene, "slow", monkeypatch)


def play(page: Path, scene: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the page's blocks with this mark, in a copy of the scene."""
    monkeypatch.chdir(scene)
    files = {path: path.read_bytes() for path in scene.iterdir() if path.is_file()}
    text = page.read_text(encoding="utf-8")
    if "--output runs/sentiment" in text or 'RealmConfig("runs/sentiment"' in text:
        shutil.rmtree(scene / "runs")
    frame = pd.read_csv("labels.csv")
    namespace: dict[str, Any] = {"__name__": "__main__", "frame": frame, "dataset": _dataset(frame)}
    namespace["records"] = frame.to_dict("records")
    for block in blocks(page):
        if block.mark != mark or block.language in SHOWN:
            continue
        for name in ("HF_HUB_OFFLINE", "REALM_OFFLINE"):
            monkeypatch.setenv(name, os.environ.get(name, "0"))
        for path, content in files.items():
            path.write_bytes(content)
        if block.language == "python":
            exec(compile(block.body, block.place, "exec"), namespace)
        else:
            for words in block.commands:
                if "--output" in words and (written := Path(words[words.index("--output") + 1])).is_file():
                    written.unlink()
                code = typed(words, monkeypatch)
                assert code == 0, f"{block.place}: `{shlex.join(words)}` ended with {code}"


def typed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command line, run in this process."""
    from realm.cli.entry import main

    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


# -------------------------------------------------------------------- the scene


@pytest.fixture(scope="module")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A tiny model in place of each that the pages name."""
    folder = tmp_path_factory.mktemp("models")
    return {name: save_tiny(folder / kind, kind) for name, kind in STAND_INS.items()}


@pytest.fixture(scope="module")
def made_scene(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, str]) -> Path:
    """The folder the pages speak of: 30 items, three labels each by Ada, Bob (who slips) and Cyd (who guesses)."""
    from realm import Annotations, RealmConfig, RealmTrainer

    folder = tmp_path_factory.mktemp("scene")
    texts, truth = sentences(50, seed=1, labels=3)
    rows = []
    for index in range(30):
        for person, name in enumerate(("ada", "bob", "cyd")):
            slips = person == 2 or (person == 1 and index % 5 == 0)
            said = COLOURS[(index * 7 // 4) % 3 if slips else truth[index]]
            row = {"item": f"i{index}", "text": texts[index], "annotator": name, "label": said}
            row |= {"gold": COLOURS[truth[index]], "review": texts[index], "worker": name, "sentiment": said}
            rows.append(row)
    pd.DataFrame(rows).to_csv(folder / "labels.csv", index=False)
    pd.DataFrame(rows[:45]).to_csv(folder / "monday.csv", index=False)
    pd.DataFrame(rows[45:]).to_csv(folder / "tuesday.csv", index=False)
    gold = pd.DataFrame({"text": texts[30:], "gold": [COLOURS[label] for label in truth[30:]]})
    gold.to_csv(folder / "test.csv", index=False)
    gold[["text"]].to_csv(folder / "new.csv", index=False)
    (folder / "export.json").write_text(json.dumps(_label_studio(rows)))
    config = RealmConfig(str(folder / "runs" / "sentiment"), max_steps=2, save_strategy="no", disable_tqdm=True)
    RealmTrainer(tiny_models["minilm-l6"], Annotations.read(folder / "labels.csv"), config).train()
    return folder


@pytest.fixture
def scene(made_scene: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made_scene, tmp_path / "scene"))


def _label_studio(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tasks: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        task = tasks.setdefault(row["item"], {"id": len(tasks) + 1, "data": {"text": row["text"]}, "annotations": []})
        result = {"from_name": "sentiment", "to_name": "text", "type": "choices", "value": {"choices": [row["label"]]}}
        task["annotations"].append(
            {
                "id": number + 1,
                "completed_by": {"id": 1, "email": f"{row['annotator']}@example.org"},
                "was_cancelled": False,
                "result": [result],
            }
        )
    return list(tasks.values())


def _dataset(frame: pd.DataFrame) -> Any:
    from datasets import Dataset

    return Dataset.from_pandas(frame, preserve_index=False)
