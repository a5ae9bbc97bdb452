"""What `RealmTrainer` takes: arguments of the right type, and other items to answer in any form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from realm.channels import Channel
from realm.data import Annotations, Items
from realm.data.arguments import require_annotations, require_test
from realm.data.build import items_of_rows
from realm.data.roles import TrainedColumns
from realm.errors import RealmError
from realm.runs import Run
from realm.runs.predictions import asked_table, refuse_file_name
from realm.scorers import Scorer
from realm.training.config import RealmConfig


def check_arguments(model: Any, annotations: Any, config: Any, test: Any, channel: Any) -> None:
    """Refuse what is of another type than the argument, saying how to make it."""
    if not isinstance(model, str | Scorer | Run):
        own = getattr(getattr(model, "config", None), "_name_or_path", None)
        how = f" Give where it comes from, {own!r}." if own else ""
        kind = type(model).__name__
        raise RealmError(f"`model` is a {kind}: it must be a name, a folder, a `Scorer` or a `Run`.{how}")
    require_annotations(annotations, "annotations")
    if not annotations.has_texts:
        raise RealmError(
            f"the table of annotations has no texts: the column '{annotations.columns.get('item')}' tells its items "
            "apart, and a model learns from texts. Name their column with `text`."
        )
    if not isinstance(config, RealmConfig):
        how = f"RealmConfig({config!r})" if isinstance(config, str) else "RealmConfig(folder, ...)"
        raise RealmError(f"`config` is a {type(config).__name__}, not a `RealmConfig`. Give `{how}`.")
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
        how = f"; a channel by its name is a setting: RealmConfig(..., channel={channel!r})"
        raise RealmError(f"`channel` is {channel!r}, not a `Channel`{how if isinstance(channel, str) else ''}.")


def prediction_items(asked: Any, annotations: Annotations, run: str) -> Items:
    """Items to answer: `Items`, `Annotations`, a table with the columns that were trained on, a text or several.

    They must have the tasks of the training table, and a context where all that was trained on has one.
    """
    trained = annotations.items
    if isinstance(asked, Items | Annotations):
        items = asked if isinstance(asked, Items) else asked.items
    elif (table := asked_table(asked)) is not None:
        columns = TrainedColumns(run, annotations.columns)
        items = items_of_rows(table, tasks=annotations.tasks, trained=columns if columns.columns else None)
    elif isinstance(asked, Iterable) and not isinstance(asked, dict | bytes):
        if isinstance(asked, str):
            refuse_file_name(asked, "test_dataset")
        items = Items.from_texts([asked] if isinstance(asked, str) else list(asked), annotations.tasks)
    else:
        raise RealmError(
            f"predict: takes texts, a DataFrame, `Items` or `Annotations`, not {type(asked).__name__}. "
            "`Run.open(folder).predict` answers files too."
        )
    if items.tasks != trained.tasks:
        raise RealmError("predict: the items have other tasks or labels. Build them with `tasks=annotations.tasks`.")
    if trained.contexts is not None and trained.contexts.null_count == 0 and items.contexts is None:
        raise RealmError("predict: the items have no context, and the texts that were trained on have one.")
    return items
