"""Methods side by side: every method, seed after seed, on the same annotations, scored on the same test items.

Cells that are finished are kept: the same call goes on where it was stopped. Settings can be chosen by trials on the
first seed, scored by the likelihood of held-out annotations (never by gold), the same number for every method.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from safetensors.numpy import load_file

from realm.annotations import Annotations
from realm.errors import RealmError
from realm.inference.evaluate import evaluate, gold_items
from realm.inference.predict import Scores, score
from realm.training import METHODS, RealmConfig, RealmTrainer
from realm.training.files import read_json, write_json
from realm.training.methods import training_labels
from realm.training.run_folder import check_output, fingerprint, write_tensors

AGGREGATED = ("majority", "dawid-skene")
HELD_OUT = 0.1

MakeConfig = Callable[..., RealmConfig]


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
    methods: Sequence[str] = METHODS
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
        gold_items(self.test)

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
        trainer = self._train(table, config)
        scores = trainer.test_scores()
        figures: dict[str, Any] = {k: v for k, v in evaluate(self.test, scores).items() if isinstance(v, int | float)}
        if trainer.channel is not None and self.annotations.gold is not None:
            figures["expertise_spearman"] = _spearman(table, trainer.estimate().beta)
            figures["expertise_trained_spearman"] = _spearman(table, trainer.channel.expertise().numpy())
        write_tensors(path.with_suffix(".safetensors"), log_probs=scores.log_probs.astype(np.float32))
        write_json(path, {"key": key, "figures": figures})
        self.say(f"{method}, seed {seed}: accuracy {figures['accuracy']:.4f}")
        return figures

    def _config(self, method: str, seed: int, settings: dict[str, float]) -> RealmConfig:
        fixed = {"save_strategy": "no", "write_run": False, "disable_tqdm": True, "method": method, "seed": seed}
        return self.make_config(self.output / "training", **{**fixed, **settings})

    def _train(self, table: Annotations, config: RealmConfig) -> RealmTrainer:
        from transformers.trainer_callback import PrinterCallback

        trainer = RealmTrainer(self.model, table, config, test=self.test)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return trainer

    def _key(self, table: Annotations, config: RealmConfig) -> str:
        said = json.dumps([self.model, config.settings(), fingerprint(table), fingerprint(self.test)], default=str)
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
        kept, held_out = table.split(HELD_OUT, seed=0)
        trainer = self._train(kept, config)
        labels = training_labels(table, method).annotations
        likelihood = held_out_likelihood(trainer, held_out, _labels_of(labels, held_out, table))
        write_json(path, {"key": key, "likelihood": likelihood})
        return likelihood


def held_out_likelihood(trainer: RealmTrainer, held_out: Annotations, labels: Annotations) -> float:
    """Mean log-likelihood of the annotations of items that were not trained on, under model and channel."""
    import torch

    scores = score(trainer.scorer, trainer.scorer.encode(held_out))
    with torch.no_grad():
        channel = trainer.labels.channel.eval()
        likelihood = channel(
            torch.from_numpy(scores.log_probs).float(),
            torch.from_numpy(held_out.option_counts.astype(np.int64)),
            torch.from_numpy(labels.item.astype(np.int64)),
            torch.from_numpy(labels.annotator.astype(np.int64)),
            torch.from_numpy(held_out.item_tasks[labels.item].astype(np.int64)),
            torch.from_numpy(labels.label.astype(np.int64)),
        )
    return float(likelihood.mean())


def _labels_of(labels: Annotations, held_out: Annotations, table: Annotations) -> Annotations:
    """What a method takes for labels, restricted to the held-out items (aggregated over the whole table)."""
    place = {item: index for index, item in enumerate(zip(table.item_ids.to_pylist(), table.item_tasks, strict=True))}
    wanted = [place[item] for item in zip(held_out.item_ids.to_pylist(), held_out.item_tasks, strict=True)]
    return labels.take_items(np.array(wanted, dtype=np.int64))


def _spearman(table: Annotations, beta: npt.NDArray[np.floating[Any]], least: int = 10) -> float | None:
    """Rank correlation of learned expertise with agreement with gold, over annotators with enough annotations."""
    from scipy.stats import spearmanr

    assert table.gold is not None
    known = table.gold[table.item] != -1
    who, right = table.annotator[known], table.label[known] == table.gold[table.item[known]]
    counts = np.bincount(who, minlength=table.n_annotators)
    ranked = counts >= least
    if ranked.sum() < 3:
        return None
    agreement = np.bincount(who, right, minlength=table.n_annotators)[ranked] / counts[ranked]
    mean_beta = np.nanmean(beta, axis=1)[ranked]
    return (
        None if np.ptp(mean_beta) == 0 or np.ptp(agreement) == 0 else float(spearmanr(mean_beta, agreement).statistic)
    )


def check_comparison_output(folder: Path, overwrite: bool) -> None:
    """A comparison goes on in its own folder, and only there."""
    if overwrite or not folder.exists() or (folder / "cells").is_dir() or (folder / "trials").is_dir():
        return
    check_output(folder)
