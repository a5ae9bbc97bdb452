"""What a trainer may be asked about: other items, as texts, a table, `Items` or `Annotations`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from realm.data import Annotations, Items
from realm.data.build import build_rows
from realm.data.roles import TrainedColumns
from realm.errors import RealmError
from realm.runs.predictions import asked_table, refuse_file_name

if TYPE_CHECKING:
    from realm.training.trainer import RealmTrainer


def asked_items(trainer: RealmTrainer, asked: Any) -> Items:
    """The items, if they have the tasks of the training table, and a context where all that was trained on has one."""
    items = _items(trainer, asked)
    trained = trainer.annotations.items
    if items.tasks != trained.tasks:
        raise RealmError("predict: the items have other tasks or labels. Build them with `tasks=annotations.tasks`.")
    if trained.contexts is not None and trained.contexts.null_count == 0 and items.contexts is None:
        raise RealmError("predict: the items have no context, and the texts that were trained on have one.")
    return items


def _items(trainer: RealmTrainer, asked: Any) -> Items:
    if isinstance(asked, Items):
        return asked
    if isinstance(asked, Annotations):
        return asked.items
    tasks = trainer.annotations.tasks
    if (table := asked_table(asked)) is not None:
        trained = TrainedColumns(str(trainer.run), trainer.annotations.columns)
        return build_rows(table, tasks=tasks, trained=trained if trained.columns else None)
    if isinstance(asked, str):
        refuse_file_name(asked, "test_dataset")
        asked = [asked]
    if isinstance(asked, Iterable) and not isinstance(asked, dict | bytes):
        return Items.from_texts(list(asked), tasks)
    raise RealmError(
        f"predict: takes texts, a DataFrame, `Items` or `Annotations`, not {type(asked).__name__}. "
        "`Run.open(folder).predict` answers files too."
    )
