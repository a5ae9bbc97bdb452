"""What `RealmTrainer` takes: arguments of the right type."""

from __future__ import annotations

from typing import Any

from realm.channels import Channel
from realm.data.arguments import require_annotations, require_test
from realm.errors import RealmError
from realm.scorers import Scorer
from realm.training.config import RealmConfig


def check_arguments(model: Any, annotations: Any, config: Any, test: Any, channel: Any) -> None:
    """Refuse what is of another type than the argument, saying how to make it."""
    if not isinstance(model, str | Scorer):
        own = getattr(getattr(model, "config", None), "_name_or_path", None)
        how = f" Give where it comes from, {own!r}." if own else ""
        raise RealmError(f"`model` is a {type(model).__name__}: it must be a name, a folder or a `Scorer`.{how}")
    require_annotations(annotations, "annotations")
    if not annotations.has_texts:
        raise RealmError(
            f"the table of annotations has no texts: the column '{annotations.columns.get('item')}' tells its items "
            "apart, and a model learns from texts. Name their column with `text`."
        )
    if not isinstance(config, RealmConfig):
        raise RealmError(f"`config` is {config!r:.80}, not a `RealmConfig`. Give `RealmConfig(folder, ...)`.")
    if config.n_gpu > 1:  # `nn.DataParallel` would split ragged batches silently
        raise RealmError(
            f"{config.n_gpu} GPUs are visible but no launcher started this process. Use `torchrun "
            "--nproc-per-node=N -m realm train ...`, or show one GPU: CUDA_VISIBLE_DEVICES=0."
        )
    if test is not None:
        require_test(test, "test")
    elif config.eval_strategy != "no":
        raise RealmError(f"`eval_strategy={config.eval_strategy.value}`: give the table to evaluate on as `test`.")
    if channel is not None and not isinstance(channel, Channel):
        raise RealmError(f"`channel` is {channel!r:.80}, not a `Channel`. By name it is a setting of `RealmConfig`.")
