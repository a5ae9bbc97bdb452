"""Methods side by side: every method, seed after seed, on the same annotations, scored on the same test items.

Cells that are finished are kept: the same call goes on where it was stopped. Settings can be chosen by trials on the
first seed, scored by the likelihood of held-out annotations (never by gold), the same number for every method.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from safetensors.numpy import load_file

from realm.compare.fitting import AGGREGATED, held_out_split, quiet_trainer, spearman_with_gold, trial_score
from realm.data import Annotations
from realm.errors import RealmError
from realm.files import read_json, write_json, write_tensors
from realm.methods import METHODS
from realm.metrics import check_test, evaluate, gold_items
from realm.models.fingerprint import model_fingerprint
from realm.runs.folder import check_output, fingerprint
from realm.scorers.scoring import Scores
from realm.training import RealmConfig

_FOLDERS = ("cells", "trials")
"""What a comparison keeps of what it has trained."""

MakeConfig = Callable[..., RealmConfig]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class Comparison:
    """What is compared. `make_config(folder, **settings)` gives the settings every method shares.

    `trials` maps a setting of `RealmConfig` to the values to try for a method; all methods get the same number.
    """

    annotations: Annotations
    test: Annotations
    model: str
    make_config: MakeConfig
    output: Path
    methods: Sequence[str] = tuple(METHODS)
    seeds: int = 3
    regime: str = "shared"
    trials: dict[str, dict[str, Sequence[float]]] = field(default_factory=dict)
    say: Callable[[str], None] = lambda message: None

    def __post_init__(self) -> None:
        if unknown := [method for method in self.methods if method not in METHODS]:
            raise RealmError(f"--methods: no such method: {', '.join(unknown)}. There are: {', '.join(METHODS)}.")
        if self.regime not in ("sparse", "shared"):
            raise RealmError(f"--regime {self.regime}: must be sparse or shared.")
        if self.seeds < 1:
            raise RealmError("--seeds must be 1 or more.")
        sizes = {len(values) for settings in self.trials.values() for values in settings.values()}
        if len(sizes) > 1:
            raise RealmError("every method must get the same number of trials: give lists of equal length.")
        check_test(self.annotations, self.test)
        if self.uses_gold and (leaked := self._gold_in_test()):
            raise RealmError(
                f"--use-gold: {leaked} of the items whose gold would be trained on are in the test table too. Hold "
                "them out of it, or leave --use-gold out."
            )

    @cached_property
    def uses_gold(self) -> bool:
        """Whether the methods may train on gold where it is known."""
        return bool(self.make_config(self.output / "training").use_gold)

    def _gold_in_test(self) -> int:
        """How many items with gold have the text of a test item, but for case and space."""
        if self.annotations.gold is None:
            return 0
        tested = {_plain(text) for text in self.test.texts.to_pylist()}
        known = np.flatnonzero(self.annotations.gold >= 0)
        return sum(_plain(text) in tested for text in self.annotations.texts.take(known).to_pylist())

    # ---------------------------------------------------------------- cells

    def applies(self, method: str) -> bool:
        """Aggregation needs an item with two annotations."""
        sparse = self.regime == "sparse" or int(self.annotations.annotations_per_item.max(initial=0)) < 2
        return not (method in AGGREGATED and sparse)

    def table(self, seed: int) -> Annotations:
        """The annotations of a seed, the same for every method."""
        return self.annotations.sparse(seed) if self.regime == "sparse" else self.annotations

    def run(self) -> pd.DataFrame:
        """Run what is missing; one row per method and seed."""
        self.output.mkdir(parents=True, exist_ok=True)
        rows = []
        chosen = {method: self._choose(method) for method in self.methods if self.applies(method)}
        for method in self.methods:
            if method not in chosen:
                self.say(f"{method}: does not apply, every item has one annotation")
                continue
            for seed in range(self.seeds):
                cell = self._cell(method, seed, chosen[method])
                rows.append({"method": method, "seed": seed, **chosen[method], **cell})
        return pd.DataFrame(rows)

    def _cell(self, method: str, seed: int, settings: dict[str, float]) -> dict[str, Any]:
        path = self.output / "cells" / f"{method}-{seed}.json"
        table = self.table(seed)
        config = self._config(method, seed, settings)
        key = self._key(table, config)
        if path.exists():
            stored = read_json(path)
            if stored["key"] != key:
                raise RealmError(f"{path} was made with other data or settings. Use --overwrite or another --output.")
            return dict(stored["figures"])
        trainer = quiet_trainer(self.model, table, config, self.test)
        trainer.train()
        scores = trainer.test_scores()
        figures: dict[str, Any] = {k: v for k, v in evaluate(self.test, scores).items() if isinstance(v, int | float)}
        # Expertise that was estimated on gold agrees with it, which says nothing.
        if trainer.channel is not None and self.annotations.gold is not None and not self.uses_gold:
            figures["expertise_spearman"] = spearman_with_gold(table, trainer.estimate().expertise)[0]
            figures["expertise_trained_spearman"] = spearman_with_gold(
                table, trainer.channel.summary()["expertise_trained"]
            )[0]
        write_tensors(path.with_suffix(".safetensors"), log_probs=scores.log_probs.astype(np.float32))
        write_json(path, {"key": key, "figures": figures})
        self.say(f"{method}, seed {seed}: accuracy {figures['accuracy']:.4f}")
        return figures

    def _config(self, method: str, seed: int, settings: dict[str, float]) -> RealmConfig:
        fixed = {"save_strategy": "no", "write_run": False, "disable_tqdm": True, "method": method, "seed": seed}
        return self.make_config(self.output / "training", **{**fixed, **settings})

    def _key(self, table: Annotations, config: RealmConfig) -> str:
        tables = [fingerprint(table, config.reads_gold), fingerprint(self.test, gold=True)]
        said = json.dumps([model_fingerprint(self.model), config.settings(), *tables], default=str)
        return hashlib.blake2b(said.encode(), digest_size=12).hexdigest()

    def right(self, method: str) -> npt.NDArray[np.bool_]:
        """Whether each answer of a finished method was right, (seeds, items with gold)."""
        assert self.test.gold is not None
        known = gold_items(self.test)
        rows = []
        for seed in range(self.seeds):
            stored = load_file(self.output / "cells" / f"{method}-{seed}.safetensors")["log_probs"]
            rows.append(Scores(stored).labels[known] == self.test.gold[known])
        return np.stack(rows)

    # ---------------------------------------------------------------- trials

    def _choose(self, method: str) -> dict[str, float]:
        """The settings of a method: those whose trial explains held-out annotations best."""
        chosen = {}
        for name, values in self.trials.get(method, {}).items():
            tried = {value: self._trial(method, name, value) for value in values}
            chosen[name] = max(tried, key=lambda value: tried[value])
            shown = ", ".join(f"{value:g}: {likelihood:.4f}" for value, likelihood in tried.items())
            self.say(f"{method}: {name} {chosen[name]:g} (held-out log-likelihood per annotation: {shown})")
        return chosen

    def _trial(self, method: str, name: str, value: float) -> float:
        path = self.output / "trials" / f"{method}-{name}-{value:g}.json"
        config = self._config(method, 0, {name: value})
        table = self.table(0)
        key = self._key(table, config)
        if path.exists() and (stored := read_json(path))["key"] == key:
            return float(stored["likelihood"])
        kept, held_out = held_out_split(table)
        trainer = quiet_trainer(self.model, kept, config)
        trainer.train()
        likelihood = trial_score(trainer, table, held_out)
        write_json(path, {"key": key, "likelihood": likelihood})
        return likelihood


def check_comparison_output(folder: Path, overwrite: bool) -> None:
    """A comparison goes on in its own folder, and only there; `overwrite` takes away what it holds."""
    if not any((folder / name).is_dir() for name in _FOLDERS):
        check_output(folder)
    elif overwrite:
        for name in (*_FOLDERS, "training"):
            shutil.rmtree(folder / name, ignore_errors=True)
