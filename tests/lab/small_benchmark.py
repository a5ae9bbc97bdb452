"""A small benchmark in the plain form and specs over it, for grids that run in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.tiny import COLOURS, sentences

SMALL = Path(__file__).parent / "specs"
"""A folder of specs with few cells."""


def write_questions(folder: Path, name: str = "obqa", train: int = 60, test: int = 40, labels: int = 4) -> Path:
    """`FOLDER/NAME/train.jsonl` and `test.jsonl`: sentences that ask for the colour they name."""
    place = folder / name
    place.mkdir(parents=True)
    for seed, (split, size) in enumerate((("train", train), ("test", test))):
        texts, truth = sentences(size, seed=len(name) + seed, labels=labels)
        rows = [
            {"id": f"{name}-{split}-{i}", "question": text, "choices": COLOURS[:labels], "answer": int(label)}
            for i, (text, label) in enumerate(zip(texts, truth, strict=True))
        ]
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_spec(path: Path, model: str, grid: dict[str, Any] | list[Any] | None = None, **said: Any) -> Path:
    """A spec of a few steps; `grid` adds to or replaces the keys of its one grid, `said` those of the spec."""
    usual = {
        "model": model,
        "benchmark": "obqa",
        "noise": "uniform",
        "pool": "D1",
        "regime": "sparse",
        "method": "noisy",
        "seeds": 1,
        "steps": 3,
    }
    grids = grid if isinstance(grid, list) else {**usual, **(grid or {})}
    settings = {"learning_rate": 1e-3, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
    path.write_text(yaml.safe_dump({"settings": settings, "grid": grids, **said}))
    return path
