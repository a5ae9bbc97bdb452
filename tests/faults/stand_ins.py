"""What stands in for the package index and the demo's size in a command that meets a fault: tiny, and here already."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from tests.tiny import save_tiny

HOME = "REALM_HOME"
"""Before the folder that is the store, among the words of a command."""


def _place() -> Path:
    return Path(os.environ["REALM_HOME"]) / "stand-ins"


def prepare() -> None:
    """A model, and the wheel that holds it."""
    from tests.models.test_store import pack

    shutil.rmtree(_place(), ignore_errors=True)
    _place().mkdir(parents=True)
    model = Path(save_tiny(_place() / "encoder", "bert", layers=1, width=16))
    (model / "vocab.txt").touch()  # which a wheel of the store has
    pack(model, _place())


def install(words: list[str]) -> list[str]:
    """Have this process know them, if the command needs them; the words that it is then given."""
    if words[0] == "demo":
        from realm.demo import experiments

        model = str(_place() / "encoder")
        experiments.QUICK = replace(
            experiments.QUICK,
            model=model,
            items=24,
            test_items=12,
            steps=2,
            second_items=12,
            second_steps=2,
            batch=8,
            train_layers=0,
        )
    if HOME in words:
        from realm.models import store
        from tests.models.test_store import WHEEL, named, serve

        wheel = _place() / WHEEL
        store._MODELS, store.download = (named(wheel),), serve(wheel)
        place = words.index(HOME)
        os.environ["REALM_HOME"] = words[place + 1]
        words = words[:place] + words[place + 2 :]
    return words
