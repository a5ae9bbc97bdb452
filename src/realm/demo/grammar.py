"""From the written grammar to distinct sentences with their true labels."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from realm.data.annotations import Annotations
from realm.data.build import build_test
from realm.errors import RealmError

SLOT = re.compile(r"\{(\w+)\}")
ATTEMPTS = 50


@dataclass(frozen=True)
class Grammar:
    """Frames, the sentences of each matter (`trouble` and `fine`), asides that say nothing of it, and lists of words.

    Example:
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
        said: dict[str, Any] = yaml.safe_load(text)
        return cls(
            frames=tuple(said["frames"]),
            matters={name: {kind: tuple(s) for kind, s in parts.items()} for name, parts in said["matters"].items()},
            asides=tuple(said["asides"]),
            words={name: tuple(words) for name, words in said["words"].items()},
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.matters)

    def count(self) -> int:
        """How many messages the grammar can write."""
        said = {
            kind: {name: sum(map(self._fillings, parts[kind])) for name, parts in self.matters.items()}
            for kind in ("trouble", "fine")
        }
        with_fine = sum(
            said["trouble"][one] * said["fine"][other] for one in self.matters for other in self.matters if one != other
        )
        with_aside = sum(said["trouble"].values()) * sum(map(self._fillings, self.asides))
        return sum(with_fine if "fine" in frame.lower() else with_aside for frame in self.frames)

    def _fillings(self, text: str) -> int:
        return math.prod(len(self.words[slot]) for slot in SLOT.findall(text))

    def message(self, label: str, generator: np.random.Generator) -> str:
        """One message about this matter; most mention another."""
        other = _pick([name for name in self.labels if name != label], generator)
        sentences = {
            "trouble": _pick(self.matters[label]["trouble"], generator),
            "fine": _pick(self.matters[other]["fine"], generator),
            "aside": _pick(self.asides, generator),
        }
        said = {name: self._fill(sentence, generator) for name, sentence in sentences.items()}
        return _pick(self.frames, generator).format(**said, **{n.capitalize(): _capital(s) for n, s in said.items()})

    def _fill(self, sentence: str, generator: np.random.Generator) -> str:
        return SLOT.sub(lambda slot: _pick(self.words[slot[1]], generator), sentence)


def messages(n: int, seed: int = 0) -> Annotations:
    """n distinct messages with gold, the labels in equal shares and random order; a table without annotations."""
    grammar = Grammar.load()
    generator = np.random.default_rng(seed)
    truth = generator.permutation(np.arange(n) % len(grammar.labels))
    seen: dict[str, str] = {}
    for label in truth:
        for _ in range(ATTEMPTS):
            text = grammar.message(grammar.labels[label], generator)
            if text not in seen:
                seen[text] = grammar.labels[label]
                break
        else:
            raise RealmError(f"the grammar cannot write {n:,} distinct messages.")
    table = pa.table({"text": list(seen), "gold": list(seen.values())})
    return build_test(table, labels=grammar.labels, source="the demo's messages")


def _pick(choices: tuple[str, ...] | list[str], generator: np.random.Generator) -> str:
    return choices[int(generator.integers(len(choices)))]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
