"""Groups of annotators, such as people and models: whoever is in one is drawn to its pool, and to no other.

A group is told by a column with one value for each annotator. Annotators who are in the table no more, and whose group
nobody has said, are in the group without a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from realm.data.columns import Codes
from realm.data.rows import SourceRows
from realm.errors import RealmError

NO_GROUP = ""
"""The group of annotators whose group is not known."""


def read_groups(rows: SourceRows, annotated: Codes, annotator: Codes, names: Sequence[str]) -> tuple[str, ...] | None:
    """The group of each annotator, from the annotated rows (rows,) and their annotators (rows,). (annotators,)

    None where there is no column of groups. A row without a group, and an annotator with two, are errors.
    """
    if "group" not in rows.columns:
        return None
    column, name = rows.columns["group"], rows.names["group"]
    if (missing := annotated[column.missing()[annotated]]).size:
        raise rows.error(missing, f"no group in column '{name}'. Every annotation needs the group of its annotator.")
    first = np.zeros(len(names), dtype=np.int64)
    first[annotator[::-1]] = annotated[::-1]
    if (differing := annotated[column.codes[annotated] != column.codes[first[annotator]]]).size:
        row = int(differing[0])
        before = int(first[annotator[np.searchsorted(annotated, row)]])
        who = rows.columns["annotator"].at(row)
        raise RealmError(
            f"{rows.source.both(rows.numbers[before], rows.numbers[row])}: the annotator '{who}' is in the "
            f"group '{column.at(before)}' and in '{column.at(row)}'. An annotator is in one group; if these are two, "
            "give them two names."
        )
    return tuple(column.text(first).to_pylist())


def merged_groups(
    names: Sequence[str], earlier: Mapping[str, str] | None, later: Mapping[str, str] | None, source: str
) -> tuple[str, ...] | None:
    """The group of each of these annotators: the later table's, else the earlier one's. (names,)

    `source` is what the earlier table is called: if it had groups, a later one without any is an error.
    """
    if later is None:
        if earlier is None:
            return None
        there = ", ".join(dict.fromkeys(earlier.values()))
        raise RealmError(
            f"{source} had groups of annotators ({there}), and the table has none. Name their column with `group`."
        )
    known = {**(earlier or {}), **later}
    return tuple(known.get(name, NO_GROUP) for name in names)


def joined_groups(own: Sequence[str], groups: Sequence[str] | None, argument: str) -> tuple[str, ...] | None:
    """The groups of annotators that become one where they have one name in `own`, in order of appearance."""
    if groups is None:
        return None
    group_of: dict[str, str] = {}
    for name, group in zip(own, groups, strict=True):
        if group_of.setdefault(name, group) != group:
            raise RealmError(f"{argument}: '{name}' is in two groups, '{group_of[name]}' and '{group}'.")
    return tuple(group_of.values())
