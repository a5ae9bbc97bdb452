"""An export of an annotation tool that is being read: which field has which role."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from realm.data.columns import as_array
from realm.data.long_table import LongTableBuilder
from realm.data.read_options import ReadOptions
from realm.data.readers.files import SourceFile
from realm.data.roles import listed
from realm.errors import RealmError


class Export:
    """A file, how it is read, and the builder of the long table that it becomes."""

    def __init__(self, file: SourceFile, options: ReadOptions) -> None:
        self.file, self.options, self.source = file, options, file.source
        self.builder = LongTableBuilder(options, file.source)

    def pick(self, role: str, candidates: Iterable[str], prefix: str = "", usual: Sequence[str] = ()) -> str:
        """The field for a role: the one named (with or without its prefix), the only one, or one of the usual names."""
        fields, named = list(candidates), getattr(self.options, role)
        usual = [named, prefix + named] if named else fields if len(fields) == 1 else [prefix + name for name in usual]
        for name in usual:
            if name in fields:
                return name
        if named:
            raise self.no_field(role, named, fields)
        raise self.source.error(f"which field is the {role}? Name one with `{role}`: {listed(fields)}.")

    def pick_text(
        self,
        records: Iterable[Mapping[str, Any]],
        exclude: Collection[str] = (),
        usual: Sequence[str] = ("text",),
        is_text: Callable[[Any], bool] = lambda value: isinstance(value, str),
    ) -> str:
        """The field of the text, among those that hold text in some record and are not excluded."""
        fields = dict.fromkeys(name for record in records for name, value in record.items() if is_text(value))
        return self.pick("text", [name for name in fields if name not in exclude], usual=usual)

    def columns(self, names: Mapping[str, str]) -> dict[str, pa.Array]:
        """The column of each role in an export that is a table."""
        table = self.file.table()
        for role, name in names.items():
            if name not in table.column_names:
                raise self.no_field(role, name, table.column_names)
        return {role: as_array(table.column(name)) for role, name in names.items()}

    def no_field(self, role: str, field: str, names: Sequence[str]) -> RealmError:
        """What to say of a field that is named for a role and is not there."""
        return self.source.error(f'`{role}="{field}"`: there is no such field. There are: {listed(names)}.')
