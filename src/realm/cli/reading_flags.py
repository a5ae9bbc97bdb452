"""The flags that say how a table of annotations is read, shared by every command that reads one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from realm.data.read_options import ReadOptions

if TYPE_CHECKING:
    from realm.data import Annotations

OF_ANNOTATIONS = (
    *("annotator", "label", "labels", "wide", "ignore", "exclude", "map_annotators", "repeats", "weight", "group"),
    *("created_at", "lead_time", "multi", "missing", "unanswered", "order_suffix"),
)
"""Fields that mean nothing where annotations are not read: commands that ask a run have none of them."""
OF_GOLD = ("gold", "label_form", "threshold", "map_labels", "exact_labels")


@dataclass(frozen=True)
class ReadingFlags(ReadOptions):
    """The fields of `ReadOptions` as flags. Lists are typed with commas, and taken apart where they are read."""

    LISTED: ClassVar[tuple[str, ...]] = ("text", "annotator", "label", "gold")
    IN_CONFIG: ClassVar[tuple[str, ...]] = (
        *("weight", "created_at", "lead_time", "map_annotators", "exact_labels", "ignore", "repeats", "threshold"),
        *("order_suffix", "rejected", "label_form", "max_unpacked_gb"),
    )

    def files(self) -> list[Path]:
        """The files that are read besides the table."""
        names = [*(self.exclude or ()), self.map_labels, self.map_annotators]  # type: ignore[misc]
        return [Path(str(name)) for name in names if name is not None and os.path.isfile(str(name))]

    def read(self, path: Path | Sequence[Path], **arguments: Any) -> Annotations:
        """Read the table of annotations, from one file or from several."""
        from realm.data.readers import read

        return read(path, self, **arguments)

    def read_test(self, path: Path, trained_on: Annotations | None = None, **arguments: Any) -> Annotations:
        """Read a table of items with gold; of the tasks of the table `trained_on`, where that is given."""
        from realm.data.readers import read_test

        if trained_on is not None:
            arguments |= {"tasks": trained_on.tasks, "optional": optional_in_test(trained_on)}
        return read_test(path, self, **arguments)

    def arguments(self) -> dict[str, Any]:
        """What was given, as arguments of the library."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {each.name: given[each.name] for each in fields(self) if given[each.name] != each.default}


def optional_in_test(annotations: Annotations) -> tuple[str, ...]:
    """Roles whose column a test table need not have, though a flag names that of the training table."""
    return ("item", "task") if len(annotations.tasks) == 1 else ("item",)
