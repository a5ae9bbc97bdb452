"""Distinct messages with their true labels, written by the grammar in `grammar.yaml`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
import yaml

from realm import Annotations, RealmError

SLOT = re.compile(r"\{(\w+)\}")
ATTEMPTS = 50
"""Draws of one message until it differs from all before it: the grammar writes many more than a demo needs."""


@dataclass(frozen=True)
class Grammar:
    """Frames, the sentences of each matter (`trouble` and `fine`), asides that say nothing of it, and lists of words.

    Examples:
        >>> grammar = Grammar.load()
        >>> grammar.labels
        ('delivery', 'payment', 'password', 'damage')
    """

    frames: tuple[str, ...]
    matters: dict[str, dict[str, tuple[str, ...]]]
    asides: tuple[str, ...]
    words: dict[str, tuple[str, ...]]

    @classmethod
    def load(cls) -> Grammar:
        """The grammar that comes with the package."""
        text = resources.files("realm.demo").joinpath("grammar.yaml").read_text(encoding="utf-8")
        lists: dict[str, Any] = yaml.safe_load(text)
        return cls(
            frames=tuple(lists["frames"]),
            matters={name: {kind: tuple(s) for kind, s in parts.items()} for name, parts in lists["matters"].items()},
            asides=tuple(lists["asides"]),
            words={name: tuple(words) for name, words in lists["words"].items()},
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.matters)

    def message(self, label: str, generator: np.random.Generator) -> str:
        """One message about this matter; most mention another."""
        other = _pick([name for name in self.labels if name != label], generator)
        sentences = {
            "trouble": _pick(self.matters[label]["trouble"], generator),
            "fine": _pick(self.matters[other]["fine"], generator),
            "aside": _pick(self.asides, generator),
        }
        slots = {name: self._fill(sentence, generator) for name, sentence in sentences.items()}
        slots |= {name.capitalize(): text[:1].upper() + text[1:] for name, text in slots.items()}
        return _pick(self.frames, generator).format(**slots)

    def _fill(self, sentence: str, generator: np.random.Generator) -> str:
        return SLOT.sub(lambda slot: _pick(self.words[slot[1]], generator), sentence)


def messages(n: int, seed: int = 0) -> Annotations:
    """n distinct messages with gold, the labels in equal shares and random order; a table without annotations."""
    grammar = Grammar.load()
    generator = np.random.default_rng(seed)
    truth = generator.permutation(np.arange(n) % len(grammar.labels))
    gold: dict[str, str] = {}
    for label in truth:
        texts = (grammar.message(grammar.labels[label], generator) for _ in range(ATTEMPTS))
        text = next((text for text in texts if text not in gold), None)
        if text is None:
            raise RealmError(f"the grammar cannot write {n:,} distinct messages.")
        gold[text] = grammar.labels[label]
    frame = pd.DataFrame({"text": list(gold), "gold": list(gold.values())})
    return Annotations.test_from_pandas(frame, labels=grammar.labels, source="the demo's messages")


def _pick(texts: Sequence[str], generator: np.random.Generator) -> str:
    return texts[int(generator.integers(len(texts)))]
