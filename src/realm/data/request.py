"""What is to be read of a table or an export: which columns, and whether annotations and gold are among it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

ROLES = ("item", "text", "annotator", "label", "weight", "task", "gold", "options", "context")
"""What a column can be to us; a column with such a name is read as that role unless another is named."""
ANNOTATION_ROLES = ("annotator", "label", "weight")
Multi = Literal["first", "drop"]


@dataclass(frozen=True)
class ReadRequest:
    """What a reader is asked for.

    | field | meaning |
    |---|---|
    | item, text, ..., context | the column of each role; None: the one with the role's own name, if there is one |
    | multi | several answers in one annotation: keep the first or drop them; None: an error |
    | rejected | whether assignments that the requester rejected are dropped |
    | wants_annotations | annotators and labels are read, and must be there |
    | wants_gold | gold is read; it must be there where annotations are not read |
    """

    item: str | None = None
    text: str | None = None
    annotator: str | None = None
    label: str | None = None
    weight: str | None = None
    task: str | None = None
    gold: str | None = None
    options: str | None = None
    context: str | None = None
    multi: Multi | None = None
    rejected: Literal["drop", "keep"] = "drop"
    wants_annotations: bool = True
    wants_gold: bool = True

    @property
    def required(self) -> tuple[str, ...]:
        """The roles that must have a column."""
        if self.wants_annotations:
            return ("text", "annotator", "label")
        return ("text", "gold") if self.wants_gold else ("text",)

    def reads(self, role: str) -> bool:
        """Whether the column of this role is looked at; one that is not need not be there."""
        if role in ANNOTATION_ROLES:
            return self.wants_annotations
        return self.wants_gold or role != "gold"

    def columns(self, roles: Collection[str] = ROLES) -> dict[str, str]:
        """The columns that were named for these roles, as far as they are read."""
        named = {role: getattr(self, role) for role in roles if self.reads(role)}
        return {role: name for role, name in named.items() if name is not None}

    def without_columns(self) -> ReadRequest:
        """The same request for a table whose columns have the roles' own names."""
        return ReadRequest(
            multi=self.multi,
            rejected=self.rejected,
            wants_annotations=self.wants_annotations,
            wants_gold=self.wants_gold,
        )


ANNOTATIONS = ReadRequest()
TEST = ReadRequest(wants_annotations=False)
"""Items with gold: what a model is evaluated on."""
ITEMS = ReadRequest(wants_annotations=False, wants_gold=False)
