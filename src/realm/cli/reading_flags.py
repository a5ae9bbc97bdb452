"""The flags that say how a table of annotations is read, shared by every command that reads one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from realm.data.read_options import ReadOptions

if TYPE_CHECKING:
    from realm.data import Annotations, Items, Task
    from realm.data.roles import TrainedColumns

OF_ANNOTATIONS = (
    "exclude",
    "map_annotators",
    "repeats",
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
)
"""Flags that mean nothing where annotations are not read: commands that ask a run have none of them."""
OF_GOLD = ("gold", "label_form", "threshold", "map_labels", "exact_labels")


def optional_in_test(annotations: Annotations) -> tuple[str, ...]:
    """Roles whose column a test table need not have, though a flag names that of the training table.

    Text identifies an item without an id, and the only task is that of every item.
    """
    return ("item", "task") if len(annotations.tasks) == 1 else ("item",)


@dataclass(frozen=True)
class ReadingFlags(ReadOptions):
    """The fields of `ReadOptions` as flags. Lists are typed with commas, and taken apart where they are read."""

    def files(self) -> list[Path]:
        """The files that are read besides the table."""
        names = [*(self.exclude or ()), self.map_labels, self.map_annotators]  # type: ignore[misc]
        return [Path(str(name)) for name in names if name is not None and os.path.isfile(str(name))]

    def read(self, path: Path | Sequence[Path], **arguments: Any) -> Annotations:
        """Read the table of annotations, from one file or from several."""
        from realm.data.readers import read

        return read(path, self, **arguments)

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

        return read_test(path, self, tasks=tasks, trained=trained, optional=optional)

    def read_items(self, path: Path, optional: Sequence[str] = ()) -> Items:
        """Read the items of a table."""
        from realm.data.readers import read_items

        return read_items(path, self, optional=optional)

    def arguments(self) -> dict[str, Any]:
        """What was given, as arguments of the library."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {each.name: given[each.name] for each in fields(self) if given[each.name] != each.default}
