"""What a trained model says of its items and annotators, and what the labels and reliability of a run rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from realm.crowd.calibration import temperature, tempered
from realm.data import Annotations
from realm.errors import RealmError
from realm.progress import Progress
from realm.scorers import Scorer
from realm.scorers.encoding import EncodedItems
from realm.scorers.frozen_cache import FrozenLayersCache
from realm.scorers.scoring import Scores, score
from realm.training import sharding
from realm.training.basis import Basis, even_log_probs, find_basis
from realm.training.cross_fit import cross_fit
from realm.training.saving import SavingTrainer

if TYPE_CHECKING:
    import pandas as pd

    from realm.crowd.estimate import Estimate


class JudgingTrainer(SavingTrainer):
    """`Trainer` that judges what it was trained on: scores in-sample or out of fold, their basis, and the estimate."""

    annotations: Annotations
    scorer: Scorer
    encoded: EncodedItems
    encoded_test: EncodedItems | None
    prior: pd.DataFrame | None
    folds: int
    supported_temperature: float
    """What agreement says of probabilities out of fold; below 1 where models are right more often than they claim."""
    fold_of_item: npt.NDArray[np.int32] | None
    out_of_fold: Scores | None
    """What the models of the folds said, each of the items it was not trained on, before any calibration."""
    _progress: Progress
    _caches: dict[str, FrozenLayersCache | None]
    _scores: Scores | None
    _basis: Basis | None
    _agreement: Estimate | None

    def _cache(self, table: str) -> FrozenLayersCache | None:
        """The frozen layers' states for the `train` or `test` items, computed when first asked for."""
        if table not in self._caches:
            encoded = self.encoded if table == "train" else self.encoded_test
            self._caches[table] = None
            if encoded is not None and self.args.train_layers and self.args.cache_gb:
                self._caches[table] = FrozenLayersCache(
                    self.scorer,
                    encoded,
                    self.args.cache_gb,
                    dtype=self.args.cache_dtype,
                    beside=self._caches.get("train"),
                    progress=self._progress,
                )
        return self._caches[table]

    def _fill_caches(self) -> None:
        """Compute what the frozen layers give once per machine, before the processes that share it read it."""
        with self.args.main_process_first(desc="computing the frozen layers"):
            self._cache("train")
            self._cache("test")

    @property
    def probabilities(self) -> str:
        """What labels and reliability rest on: the model out of fold or in-sample, or agreement alone."""
        return self.basis().probabilities

    @property
    def findings(self) -> list[str]:
        """What speaks against the model, and what follows; empty where it may be believed."""
        return self.basis().findings

    def trajectory(self) -> list[tuple[int, dict[str, npt.NDArray[np.float64]]]]:
        """(step, what the channel's `summary` said) at every logging step."""
        return list(self._trajectory)

    def scores(self) -> Scores:
        """What the model says of the training items: in-sample, unless `cross_fit` has made it out of fold."""
        if self._scores is None:
            self._scores = self.score_training_items()
        return self._scores

    def score_training_items(self, what: str = "scoring") -> Scores:
        """What the model says of the training items as it is now."""
        return score(self.scorer, self.encoded, cache=self._cache("train"), progress=self._progress, what=what)

    def cross_fit(self, folds: int) -> Scores:
        """Train again without each fold of items and let each speak of the items it has not seen.

        The probabilities are brought to the temperature that the annotations bear out (`realm.crowd.calibration`).
        """
        self.fold_of_item, self.out_of_fold = cross_fit(self, folds)
        self._scores = self.calibrated(self.out_of_fold.log_probs)
        self._basis, self.folds = None, folds
        return self._scores

    def calibrated(self, log_probs: npt.NDArray[np.float64]) -> Scores:
        """What a model said of items that it was not trained on, at the temperature that agreement supports."""
        self.supported_temperature = temperature(self.annotations, log_probs)
        return Scores(tempered(log_probs, self.temperature))

    @property
    def temperature(self) -> float:
        """What probabilities out of fold are divided by: what agreement supports, and 1 at least.

        A model that has learned the common mistakes of a crowd predicts the crowd better than the truth, and would be
        made surer still.
        """
        return max(self.supported_temperature, 1.0)

    def test_scores(self, answer_mass: bool = False) -> Scores:
        """What the model says of the test items."""
        if self.encoded_test is None:
            raise RealmError("there is no test table to evaluate on: pass `test`.")
        with sharding.gathered(self.model):
            return score(self.scorer, self.encoded_test, answer_mass=answer_mass, cache=self._cache("test"))

    def basis(self) -> Basis:
        """What the estimate rests on, item by item: the model's P, or even where the model has no say."""
        if self._basis is None:
            self._basis = find_basis(self)
        return self._basis

    def agreement(self) -> Estimate | None:
        """The estimate without the model, each item's options being even; None where no item has two annotations."""
        if self._agreement is None and (self.annotations.annotations_per_item > 1).any():
            counts = self.annotations.option_counts
            self._agreement = self.estimate_from(even_log_probs(counts, int(counts.max())))
        return self._agreement

    def estimate(self) -> Estimate:
        """Expertise and posterior labels re-estimated on the joint likelihood, with `basis` as prior."""
        basis = self.basis()
        if basis.agreement is not None and not basis.model_heard.any():
            return basis.agreement
        return self.estimate_from(basis.log_probs)

    def estimate_from(self, log_probs: npt.NDArray[np.float64]) -> Estimate:
        """The estimate with this log P (items, Kmax) as prior; experts, gold and an earlier estimate as configured."""
        from realm.crowd.estimate import estimate

        gold = self.annotations.gold if self.args.use_gold else None
        return estimate(self.annotations, log_probs, prior=self.prior, experts=self.args.experts, gold=gold)

    def expertise(self) -> pd.DataFrame:
        """How reliable each annotator is: annotator, task, expertise, accuracy, low, high, annotations and more."""
        from realm.crowd.tables import expertise_table

        trained = {} if self.channel is None else self.channel.summary()
        return expertise_table(self.annotations, self.estimate(), trained, self.probabilities)
