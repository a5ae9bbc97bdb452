"""Distinct messages with their true labels, written by the grammar in `grammar.yaml`: frames, the sentences of each
matter (`trouble` and `fine`), asides that say nothing of it, and lists of words."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
import yaml

from realm import Annotations, RealmError

SLOT = re.compile(r"\{(\w+)\}")
ATTEMPTS = 50
"""Draws of one message until it differs from all before it: the grammar writes many more than a demo needs."""


@lru_cache
def load_grammar() -> dict[str, Any]:
    """The grammar that comes with the package."""
    text = resources.files("realm.demo").joinpath("grammar.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def messages(n: int, seed: int = 0) -> Annotations:
    """n distinct messages with gold, the labels in equal shares and random order; a table without annotations."""
    grammar, generator = load_grammar(), np.random.default_rng(seed)
    labels = list(grammar["matters"])
    gold: dict[str, str] = {}
    for label in generator.permutation(np.arange(n) % len(labels)):
        texts = (_message(grammar, labels[label], generator) for _ in range(ATTEMPTS))
        text = next((text for text in texts if text not in gold), None)
        if text is None:
            raise RealmError(f"the grammar cannot write {n:,} distinct messages.")
        gold[text] = labels[label]
    frame = pd.DataFrame({"text": list(gold), "gold": list(gold.values())})
    return Annotations.test_from_pandas(frame, labels=labels, source="the demo's messages")


def _message(grammar: dict[str, Any], label: str, generator: np.random.Generator) -> str:
    """One message about this matter; most mention another."""

    def pick(texts: list[str]) -> str:
        return texts[int(generator.integers(len(texts)))]

    other = pick([name for name in grammar["matters"] if name != label])
    sentences = {
        "trouble": pick(grammar["matters"][label]["trouble"]),
        "fine": pick(grammar["matters"][other]["fine"]),
        "aside": pick(grammar["asides"]),
    }
    slots = {n: SLOT.sub(lambda slot: pick(grammar["words"][slot[1]]), text) for n, text in sentences.items()}
    slots |= {name.capitalize(): text[:1].upper() + text[1:] for name, text in slots.items()}
    return pick(grammar["frames"]).format(**slots)
