"""`AnnotatorLoss`: the likelihood of annotations as a plain PyTorch module, for anybody's training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed, nn

from realm.crowd.earlier import EarlierEstimates
from realm.crowd.engine import Bools, Floats
from realm.crowd.estimate import Estimate, checked_log_probs
from realm.crowd.model import AnnotatorModel
from realm.data import Annotations
from realm.data.arguments import require_annotations
from realm.errors import RealmError

if TYPE_CHECKING:
    import pandas as pd


class AnnotatorLoss(nn.Module):
    """The mean over items of `-log sum_k P(k) exp(offset_k + tau sum_a w_a E[a, k])`, in place of a cross-entropy.

    P is the softmax of the logits, E[a, k] = log P(label of a | k is true) by the model of annotators
    (`realm.crowd.model.AnnotatorModel`). The gradient in the logits is P minus the posterior of the true label.
    `annotations` is the whole table that is trained on (`from_arrays` takes arrays), `prior` an earlier table of
    annotators; other arguments are those of `AnnotatorModel`: gold, experts, kind.

    | input | shape | meaning |
    |---|---|---|
    | logits | (batch, K) | the model's scores of each item's options |
    | labels | (batch,) or (batch, m) | label numbers, negative where there is none; None: all labels of `items` |
    | annotators | as labels | rows of `annotations.annotators` |
    | items | (batch,) | rows of `annotations.items`; rows of one item count jointly, once. None: each row is an item |

    With `items`, P is recorded before the step (not under `no_grad`), and `update()` fits the annotators to it in
    closed form: call it once an epoch, or more often. Nothing in here is trained by gradient.

    Example:
        >>> table = Annotations.from_arrays(items=[0, 0, 1, 1], annotators=[0, 1, 0, 1], labels=[0, 0, 1, 0], options=2)
        >>> loss, model = AnnotatorLoss(table), nn.Linear(3, 2)
        >>> logits, items = model(torch.eye(3)[:2]), torch.tensor([0, 1])
        >>> value = loss(logits, torch.tensor([[0, 0], [1, 0]]), torch.tensor([[0, 1], [0, 1]]), items)
        >>> torch.isclose(value, loss(logits, items=items)).item()  # these are all labels of the two
        True
        >>> value.backward(); loss.update()
    """

    def __init__(self, annotations: Annotations, prior: pd.DataFrame | None = None, **settings: Any) -> None:
        super().__init__()
        require_annotations(annotations, "annotations")
        earlier = None if prior is None else EarlierEstimates.from_table(annotations, prior)
        self.annotations, self.model = annotations, AnnotatorModel(annotations, earlier=earlier, **settings).fit()
        self.log_probs = np.full((annotations.n_items, self.model.width), np.nan)  # as recorded last
        self._fresh = np.zeros(annotations.n_items, dtype=bool)
        self._constants: tuple[Floats, Floats, Bools] | None = None  # offset and evidence of each item; has it any

    @classmethod
    def from_arrays(cls, items: Any, annotators: Any, labels: Any, n_options: int, **settings: Any) -> AnnotatorLoss:
        """From whole numbers from 0, one entry per annotation: (annotations,) each."""
        return cls(Annotations.from_arrays(items, annotators, labels, n_options), **settings)

    def forward(
        self,
        logits: Tensor,
        labels: Tensor | None = None,
        annotators: Tensor | None = None,
        items: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The loss, a scalar in float32 or float64: the sum by `num_items_in_batch` where that is given."""
        model, table = self.model, self.annotations
        rows, place = np.zeros(len(logits), np.int64), np.arange(len(logits))  # without items, each row is one
        if items is not None:
            rows, place = np.unique(torch.as_tensor(items).cpu().numpy(), return_inverse=True)
        elif labels is None or len(table.tasks) > 1 or (table.option_counts < model.width).any():
            raise RealmError("`items` are needed without labels, with several tasks, and where items' options differ.")
        if len(place) != len(logits) or rows.min(initial=0) < 0 or rows.max(initial=0) >= table.n_items:
            raise RealmError(f"`items` must hold {len(logits)} rows of the table's {table.n_items:,} items.")
        if not table.option_counts[rows].max(initial=0) <= logits.shape[1] <= model.width:
            raise RealmError(f"`logits` has {logits.shape[1]} columns, and items have up to {model.width} options.")
        if self._constants is None:
            self._constants = model.item_offset(), model.item_evidence(), table.annotations_per_item > 0
        offset, evidence, labelled = (each[rows] for each in self._constants)
        if items is None:
            offset = model.tasks[0].fitted.offset
        if labels is not None:
            if annotators is None or annotators.shape != labels.shape or len(labels) != len(logits):
                raise RealmError("`labels` and `annotators` must have the same shape: (batch,) or (batch, m).")
            label, annotator = (each.cpu().numpy().reshape(len(place), -1) for each in (labels, annotators))
            of = np.broadcast_to(place[:, None], label.shape)[given := label >= 0]  # the item of each label
            evidence, labelled = np.zeros_like(evidence), np.bincount(of, minlength=len(rows)) > 0
            np.add.at(evidence, of, model.counted_evidence(rows[of], annotator[given], label[given], items is not None))
        with torch.autocast(logits.device.type, enabled=False):
            logits = logits if logits.dtype == torch.float64 else logits.float()
            index, options = torch.from_numpy(place).to(logits.device), logits.shape[1]
            sums = logits.new_zeros(len(rows), options).index_add(0, index, logits) / index.bincount()[:, None]
            beyond = torch.from_numpy(np.arange(options) >= table.option_counts[rows, None]).to(logits.device)
            log_probs = sums.masked_fill(beyond, -torch.inf).log_softmax(dim=1)
            if items is not None and log_probs.requires_grad:
                self.log_probs[rows], self._fresh[rows] = -np.inf, True
                self.log_probs[rows, :options] = log_probs.detach().cpu().double().numpy()
            scores = log_probs + torch.from_numpy((offset + evidence)[:, :options]).to(log_probs)
            total = -scores.logsumexp(dim=1)[torch.from_numpy(labelled).to(logits.device)].sum()
            return total / (max(int(labelled.sum()), 1) if num_items_in_batch is None else num_items_in_batch)

    def for_trainer(self, outputs: Any, labels: Tensor, **counts: Any) -> Tensor:
        """For `Trainer(compute_loss_func=loss.for_trainer)`: the column `labels` holds rows of `annotations.items`."""
        return self.forward(outputs["logits"], items=labels, **counts)

    def update(self, steps: int = 3) -> None:
        """Fit the annotators to the recorded P by a few EM steps; processes share what they have recorded."""
        if distributed.is_available() and distributed.is_initialized():
            records: list[Any] = [None] * distributed.get_world_size()
            distributed.all_gather_object(records, (np.flatnonzero(self._fresh), self.log_probs[self._fresh]))
            for rows, values in records:
                self.log_probs[rows] = values
        if np.isnan(self.log_probs).all():
            raise RealmError("nothing is recorded yet: call the loss with `items`, then `update`.")
        self.model.update(self.log_probs, steps)
        self._fresh[:], self._constants = False, None

    def estimate(self, pred_probs: npt.ArrayLike | None = None) -> Estimate:
        """Annotators and labels, with P (items, Kmax) of a model not trained on the items; None: as recorded."""
        log_probs = self.log_probs if pred_probs is None else checked_log_probs(self.annotations, pred_probs)
        return self.model.estimate_at(log_probs, in_sample=True)

    def expertise(self) -> pd.DataFrame:
        """How reliable each annotator is: annotator, task, expertise, accuracy, low, high, annotations and more."""
        from realm.crowd.tables import expertise_table

        return expertise_table(self.annotations, self.estimate(), self.model.summary())

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        arrays = {**self.model.state(), "log_probs": self.log_probs}
        destination.update({prefix + name: torch.from_numpy(array.copy()) for name, array in arrays.items()})

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        own = {name.removeprefix(prefix): value for name, value in state_dict.items() if name.startswith(prefix)}
        try:
            self.log_probs[:] = own["log_probs"].cpu().numpy()
            self.model.load_state({name: value.cpu().numpy() for name, value in own.items()})
        except (RealmError, KeyError, ValueError) as error:
            rest[-1].append(f"AnnotatorLoss: {error}")
        self._constants = None
