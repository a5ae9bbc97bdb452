"""From the written grammar to distinct sentences with their true labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from realm.annotations.build import build
from realm.annotations.table import Annotations
from realm.errors import RealmError

SLOT = re.compile(r"\{(\w+)\}")
ATTEMPTS = 50


@dataclass(frozen=True)
class Grammar:
    """Frames with slots for a trouble and for something fine, the sentences of each matter, and lists of words.

    Example:
        >>> grammar = Grammar.load()
        >>> grammar.labels
        ('delivery', 'payment', 'account', 'product')
    """

    frames: tuple[str, ...]
    matters: dict[str, dict[str, tuple[str, ...]]]
    words: dict[str, tuple[str, ...]]

    @classmethod
    def load(cls) -> Grammar:
        """The grammar that comes with the package."""
        text = resources.files("realm.lab.demo").joinpath("grammar.yaml").read_text(encoding="utf-8")
        said: dict[str, Any] = yaml.safe_load(text)
        return cls(
            frames=tuple(said["frames"]),
            matters={name: {kind: tuple(s) for kind, s in parts.items()} for name, parts in said["matters"].items()},
            words={name: tuple(words) for name, words in said["words"].items()},
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.matters)

    def count(self) -> int:
        """How many distinct messages the grammar can write, at most."""
        phrases = {
            kind: {name: sum(map(self._fillings, parts[kind])) for name, parts in self.matters.items()}
            for kind in ("trouble", "fine")
        }
        pairs = sum(
            phrases["trouble"][one] * phrases["fine"][other]
            for one in self.matters
            for other in self.matters
            if one != other
        )
        return pairs * sum(map(self._fillings, self.frames))

    def _fillings(self, text: str) -> int:
        size = 1
        for slot in SLOT.findall(text):
            size *= len(self.words.get(slot, ("",)))
        return size

    def message(self, label: str, generator: np.random.Generator) -> str:
        """One message about this matter, which mentions another."""
        other = _pick([name for name in self.labels if name != label], generator)
        trouble = self._fill(_pick(self.matters[label]["trouble"], generator), generator)
        fine = self._fill(_pick(self.matters[other]["fine"], generator), generator)
        frame = self._fill(_pick(self.frames, generator), generator, keep=("trouble", "fine", "Trouble", "Fine"))
        return frame.format(trouble=trouble, fine=fine, Trouble=_capital(trouble), Fine=_capital(fine))

    def _fill(self, text: str, generator: np.random.Generator, keep: tuple[str, ...] = ()) -> str:
        return SLOT.sub(
            lambda slot: slot[0] if slot[1] in keep else _pick(self.words[slot[1]], generator),
            text,
        )


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
    return build(table, need="gold", labels=grammar.labels, source="the demo's messages")


def _pick(choices: tuple[str, ...] | list[str], generator: np.random.Generator) -> str:
    return choices[int(generator.integers(len(choices)))]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
