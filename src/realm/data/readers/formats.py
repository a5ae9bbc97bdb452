"""Which tool wrote a file: each format has a signature of its own; two that fit are an error, none is a plain table."""

from __future__ import annotations

from collections.abc import Callable

from realm.data.readers import (
    argilla,
    detox,
    doccano,
    go_emotions,
    hugging_face,
    label_studio,
    lewidi,
    mturk,
    prodigy,
    toloka,
)
from realm.data.readers.files import Container, SourceFile
from realm.data.readers.long_table import LongTable
from realm.data.request import ReadRequest
from realm.errors import RealmError

CONTAINERS: dict[str, Container] = {
    "csv": "csv",
    "tsv": "tsv",
    "json": "json",
    "jsonl": "jsonl",
    "parquet": "parquet",
}
EXPORTS: dict[str, tuple[Callable[[SourceFile], bool], Callable[[SourceFile, ReadRequest], LongTable]]] = {
    "label-studio": (label_studio.matches, label_studio.read),
    "label-studio-min": (label_studio.matches_min, label_studio.read_min),
    "argilla": (argilla.matches, argilla.read),
    "prodigy": (prodigy.matches, prodigy.read),
    "doccano": (doccano.matches, doccano.read),
    "mturk": (mturk.matches, mturk.read),
    "toloka": (toloka.matches, toloka.read),
    "hugging-face": (hugging_face.matches, hugging_face.read),
    "go-emotions": (go_emotions.matches, go_emotions.read),
    "lewidi": (lewidi.matches, lewidi.read),
    "detox": (detox.matches, detox.read),
}
FORMATS = ("table", *CONTAINERS, *EXPORTS)


def detect_format(file: SourceFile, annotator: str | None = None) -> str | None:
    """The format whose signature the file bears; None is a plain table.

    Where a column is named for the annotator it is not doccano's, whose annotator is the file's name.
    """
    candidates = [name for name, (matches, _) in EXPORTS.items() if matches(file)]
    if annotator is not None:
        candidates = [name for name in candidates if name != "doccano"]
    if len(candidates) > 1:
        raise RealmError(
            f"{file.source}: the file looks like the export of more than one tool: {', '.join(candidates)}. "
            "Say which with `format`."
        )
    return candidates[0] if candidates else None
