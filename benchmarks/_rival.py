"""The rival: a plain `transformers.Trainer` with a subclassed loss and one row per annotation.

`tuned` groups rows by length and computes the vocabulary's logits at the answer alone; without it the sampling, the
logits and the micro-batch are those a person gets who changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from realm.data import Annotations
from realm.scorers.language import LanguageScorer


class Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """One row per annotation, with the tokens that REALM gives the item."""

    def __init__(self, table: Annotations, scorer: LanguageScorer) -> None:
        encoded = scorer.encode(table.items)
        self.rows = [
            {"input_ids": encoded.rows[int(item)].tolist(), "annotator": int(who), "label": int(label)}
            for item, who, label in zip(table.item, table.annotator, table.label, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


class Annotated(nn.Module):
    """The model and one weight for every annotator."""

    def __init__(self, backbone: Any, annotators: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.omega = nn.Parameter(torch.zeros(annotators))


class RowTrainer(Trainer):
    """The mixture's loss on one row per annotation."""

    def __init__(self, table: Annotations, scorer: LanguageScorer, args: TrainingArguments, tuned: bool) -> None:
        self.tuned, self.scorer = tuned, scorer
        self.answers = torch.tensor(scorer.answers[0].tokens)
        self.items = table.item
        self.counts: list[int] = []
        super().__init__(
            model=Annotated(scorer.backbone, table.n_annotators),
            args=args,
            train_dataset=Rows(table, scorer),
            data_collator=self.collate,
        )

    def collate(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        """Padded on the left for a decoder, so that the answer comes last; on the right for an encoder."""
        width = max(len(row["input_ids"]) for row in rows)
        ids = torch.full((len(rows), width), self.scorer.tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(rows):
            size = len(row["input_ids"])
            place = slice(width - size, None) if self.scorer.kind == "causal" else slice(size)
            ids[index, place], mask[index, place] = torch.tensor(row["input_ids"]), 1
        batch = {"input_ids": ids, "attention_mask": mask}
        for name in ("annotator", "label"):
            batch[name] = torch.tensor([row[name] for row in rows])
        return batch

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:  # type: ignore[override]
        batch = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        backbone: Any = model.backbone
        if self.scorer.kind == "seq2seq":
            batch["decoder_input_ids"] = torch.full((len(inputs["label"]), 1), self.scorer.start_token)
            logits = backbone(**batch).logits[:, -1]
        elif self.tuned:
            logits = backbone(**batch, logits_to_keep=1).logits[:, -1]
        else:
            logits = backbone(**batch).logits[:, -1]
        log_probs = torch.log_softmax(logits[:, self.answers], dim=1)
        log_probs = log_probs.gather(1, inputs["label"][:, None])[:, 0]
        omega = model.omega[inputs["annotator"]]
        guess = -torch.tensor(float(len(self.answers))).log()
        self.counts.append(len(log_probs))
        return -torch.logaddexp(logsigmoid(omega) + log_probs, logsigmoid(-omega) + guess).mean()


def trainer(
    table: Annotations, scorer: LanguageScorer, folder: Path, effective: int, tuned: bool, micro: int, **settings: Any
) -> RowTrainer:
    """The rival with so many annotations in an optimiser step, forwarded `micro` at a time."""
    assert effective % micro == 0
    args = TrainingArguments(
        str(folder),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=effective // micro,
        train_sampling_strategy="group_by_length" if tuned else "random",
        remove_unused_columns=False,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=10**6,
        **settings,
    )
    row_trainer = RowTrainer(table, scorer, args, tuned)
    row_trainer.remove_callback(PrinterCallback)
    return row_trainer


# ------------------------------------------------------------------------------------------------ the same gradient


def save_gradient(row_trainer: RowTrainer, items: int, path: Path) -> None:
    """Write the gradient of the mean loss over the annotations of the first items, dropout off."""
    model: Any = row_trainer.model.eval()
    table = [row for row, item in enumerate(row_trainer.items) if item < items]
    row_trainer.compute_loss(model, row_trainer.collate([row_trainer.train_dataset[row] for row in table])).backward()
    row_trainer.counts.clear()
    _save_gradients(model.backbone, model.omega, path)
    model.zero_grad()


def save_realm_gradient(trainer: Any, items: int, path: Path) -> None:
    """The same of a `RealmTrainer`, through its own collator and, where layers are frozen, its cache.

    Under the paper's loss, which is the rival's, whatever the trainer trains by.
    """
    from realm.channels import UniformChannel
    from realm.objectives import OBJECTIVES
    from realm.training.batches import Collator, ItemGroup
    from realm.training.model import RealmModel

    table = trainer.training_annotations
    channel = UniformChannel.from_annotations(table)
    model = RealmModel(trainer.scorer, channel, OBJECTIVES["paper"]).eval()
    collate = Collator(trainer.scorer, trainer.encoded, table, trainer._cache("train"))
    batch = collate([ItemGroup(item, np.flatnonzero(table.item == item)) for item in range(items)])
    (-model(**batch).sum() / len(batch["annotation_labels"])).backward()
    _save_gradients(trainer.scorer.backbone, channel.omega, path)
    model.zero_grad()


def _save_gradients(backbone: nn.Module, omega: nn.Parameter, path: Path) -> None:
    gradients = {name: p.grad.clone() for name, p in backbone.named_parameters() if p.grad is not None}
    assert omega.grad is not None
    save_file({**gradients, "omega": omega.grad.flatten().clone()}, path)


def gradients_apart(reference: Path, *others: Path) -> float:
    """How far the others' gradients lie from ours, relative to its size; at most 1e-4.

    The worse of two: the model's and the annotators', which would be lost beside the model's.
    """
    expected = load_file(reference)
    worst = 0.0
    for other in others:
        gradients = load_file(other)
        assert gradients.keys() == expected.keys(), gradients.keys() ^ expected.keys()
        for part in (expected.keys() - {"omega"}, {"omega"}):
            size = sum(float(expected[name].square().sum()) for name in part)
            apart = sum(float((expected[name] - gradients[name]).square().sum()) for name in part)
            worst = max(worst, (apart / size) ** 0.5)
    assert worst < 1e-4, f"gradients lie {worst} apart"
    return worst
