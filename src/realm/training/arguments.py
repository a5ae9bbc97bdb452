"""What `RealmTrainer` takes: arguments of the right type."""

from __future__ import annotations

import os
from typing import Any

from realm.channels import Channel
from realm.data.arguments import require_annotations, require_test
from realm.errors import RealmError
from realm.scorers import Scorer
from realm.training.config import RealmConfig


def check_arguments(model: Any, annotations: Any, config: Any, test: Any, channel: Any) -> None:
    """Refuse what is of another type than the argument, saying what to give."""
    require_annotations(annotations, "annotations")
    if not annotations.has_texts:
        raise RealmError(
            f"the table of annotations has no texts: the column '{annotations.columns.get('item')}' tells its items "
            "apart, and a model learns from texts. Name their column with `text`."
        )
    for name, value, types, what in (
        ("model", model, str | os.PathLike | Scorer, "a name, a folder or a `Scorer`"),
        ("config", config, RealmConfig, "a `RealmConfig(folder, ...)`"),
        ("channel", channel, Channel | None, "a `Channel`; by name it is a setting, `RealmConfig(channel=...)`"),
    ):
        if not isinstance(value, types):
            raise RealmError(f"`{name}` is a {type(value).__name__}, {value!r:.80}: it must be {what}.")
    if config.n_gpu > 1:  # `nn.DataParallel` would split ragged batches silently
        raise RealmError(
            f"{config.n_gpu} GPUs are visible but no launcher started this process. Use `torchrun "
            "--nproc-per-node=N -m realm train ...`, or show one GPU: CUDA_VISIBLE_DEVICES=0."
        )
    if test is not None:
        require_test(test, "test")
    elif config.eval_strategy != "no":
        raise RealmError(f"`eval_strategy={config.eval_strategy.value}`: give the table to evaluate on as `test`.")
