"""The flags that say how a table of annotations is read, shared by every command that reads one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm.training.settings import setting

if TYPE_CHECKING:
    from realm.data import Annotations, Items, Task
    from realm.data.roles import TrainedColumns

_flag = partial(setting, None, panel="Reading the table")
OF_ANNOTATIONS = (
    "exclude",
    "annotator",
    "label",
    "weight",
    "group",
    "created_at",
    "lead_time",
    "labels",
    "wide",
    "ignore",
    "multi",
    "missing",
    "unanswered",
    "order_suffix",
    "rejected",
)
"""Flags that mean nothing where annotations are not read: commands that ask a run have none of them."""
OF_GOLD = ("gold", "label_form", "threshold", "map_labels")


def optional_in_test(annotations: Annotations) -> tuple[str, ...]:
    """Roles whose column a test table need not have, though a flag names that of the training table.

    Text identifies an item without an id, and the only task is that of every item.
    """
    return ("item", "task") if len(annotations.tasks) == 1 else ("item",)


@dataclass
class ReadingFlags:
    """Columns and format of the input. What is not named is recognised by its canonical name or the file's format."""

    text: str | None = _flag("Column with the text or question.")
    annotator: str | None = _flag("Column with the annotator.")
    label: str | None = _flag("Column with the label given.")
    created_at: str | None = _flag("Column with the time of the annotation.")
    lead_time: str | None = _flag("Column with the seconds that the annotation took.")
    weight: str | None = _flag("Column with how much the annotation counts; without it, 1 for all.")
    group: str | None = _flag(
        "Column with the group of the annotator, such as people and models: annotators with few labels are drawn to "
        "the mean of their group."
    )
    task: str | None = _flag("Column with the task, where there are several.")
    gold: str | None = _flag("Column with the true label, where it is known.")
    item: str | None = _flag(
        "Column with the item's id; without it, task and text identify an item. A --test table need not have it."
    )
    options: str | None = _flag("Column with the item's own options (a list), or several columns, comma separated.")
    context: str | None = _flag("Column with a passage that the text refers to.")
    labels: str | None = _flag(
        "The label set in order, comma separated. Default: the labels of the annotations, sorted."
    )
    exclude: list[str] | None = _flag(  # noqa: RUF009 (the default is None)
        "Annotator to leave out, or a file of names (one on each line, or a table with a column annotator); may be "
        "repeated."
    )
    map_labels: Path | None = _flag(  # noqa: RUF009 (the default is None)
        "Labels to rename, such as spelling variants: a CSV with the columns from and to, or YAML `spelling: label`."
    )
    format: str | None = _flag("Format of the file; without it, recognised by its signature.")
    wide: str | None = _flag(
        "Columns of annotators, comma separated, for one row per item; `rest`: every column without a role."
    )
    ignore: str | None = _flag("Columns that are no annotator's, comma separated, with --wide rest.")
    multi: str | None = _flag(
        "Several answers in one annotation: `first` keeps the first of them, `drop` leaves the annotation out."
    )
    missing: str | None = _flag("Rows without a label: `drop` leaves them out (default: an error).")
    unanswered: str | None = _flag(
        "Labels that are no answer, such as `tie,refused`, comma separated: counted, and left out."
    )
    threshold: float | None = _flag(
        "Labels are scores: two options of them, below this and from it on. --labels names the two."
    )
    order_suffix: str | None = _flag(
        "Annotators NAME and NAME with this behind it are one judge, asked in two orders of the options."
    )
    rejected: str | None = _flag(
        "Rejected assignments (MTurk, Toloka, CrowdFlower's tainted ones): `keep` reads them too."
    )
    label_form: str | None = _flag("How labels point at an item's own options: `index` from 0, `letter` or `text`.")
    encoding: str | None = _flag("Encoding of the text, such as cp1252. Default: UTF-8, or UTF-16 with its mark.")
    max_unpacked_gb: float | None = _flag(
        "Gigabytes that a compressed file may unpack to. Default: 2, and 200 times its size."
    )

    def files(self) -> list[Path]:
        """The files that are read besides the table."""
        names = [Path(name) for name in self.exclude or () if os.path.isfile(name)]
        return names if self.map_labels is None else [*names, self.map_labels]

    def read(self, path: Path | Sequence[Path], **arguments: Any) -> Annotations:
        """Read the table of annotations, from one file or from several."""
        from realm.data.readers import read

        return read(path, **self.arguments(), **arguments)

    def read_test(
        self,
        path: Path,
        *,
        tasks: Sequence[Task] | None = None,
        trained: TrainedColumns | None = None,
        optional: Sequence[str] = (),
    ) -> Annotations:
        """Read a table of items with gold; `tasks`, `trained` are those of the run, or of the training table."""
        from realm.data.readers import read_test

        return read_test(path, tasks=tasks, trained=trained, optional=optional, **self.arguments())

    def read_items(self, path: Path, optional: Sequence[str] = ()) -> Items:
        """Read the items of a table."""
        from realm.data.readers import read_items

        return read_items(path, optional=optional, **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """What was given, as arguments of the library."""
        from realm.data.label_sets import split_list

        arguments = {name: value for name, value in vars(self).items() if value is not None}
        for name in ("labels", "wide", "ignore", "unanswered"):
            if name in arguments:
                arguments[name] = split_list(arguments[name])
        return arguments
