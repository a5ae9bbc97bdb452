"""WikiAttack and WikiToxicity: talk-page comments judged by about ten crowd workers each (Wulczyn et al. 2017).

Published as `NAME_annotations.tsv`, a row per annotation, and `NAME_annotated_comments.tsv`, a row per comment with its
split. The sets have no gold but their own annotations, so gold is the label that most of a comment's annotators gave; a
tie leaves it unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from realm import Annotations, RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, SetFolder, build_pair, not_on_hub, read_table

BLANK = "comment without a text"


@dataclass(frozen=True)
class CommentSet:
    """One of the two sets: the prefix of its files, the column of the label, and the labels that its values mean."""

    prefix: str
    column: str
    labels: tuple[str, ...]
    instruction: str
    contrast: int = 150
    """m of the paper's contrast-m pool for both sets."""


SETS = {
    "wikiattack": CommentSet(
        "attack", "attack", ("personal attack", "not a personal attack"),
        "Is this comment from a Wikipedia talk page a personal attack?",
    ),
    "wikitoxicity": CommentSet(
        "toxicity", "toxicity_score", ("toxic", "neutral", "healthy"),
        "Is this comment from a Wikipedia talk page toxic, neutral or healthy?",
    ),
}  # fmt: skip


def load_detox(name: str, folder: Path | None, offline: bool) -> Benchmark:
    """Load one of `SETS` from a folder: the hub holds no copy with the annotators."""
    of = SETS[name]
    annotations, comments = f"{of.prefix}_annotations.tsv", f"{of.prefix}_annotated_comments.tsv"
    if folder is None:
        raise not_on_hub(name, f"{annotations} and {comments}")
    files = SetFolder.of(name, folder, of.prefix)
    if files.find(annotations, comments) is None:
        train, test = files.read_plain(of.labels, annotations)
    else:
        train, test = _read(of, files.get(annotations), files.get(comments))
    return Benchmark(
        name, train, test, simulated=False, contrast=of.contrast, min_annotations=MIN_ANNOTATIONS,
        instruction=of.instruction,
    )  # fmt: skip


def _read(of: CommentSet, annotations: Path, comments: Path) -> tuple[Annotations, Annotations]:
    """The annotations of the split `train`, and the comments of the split `test` that have gold."""
    labels = read_table(annotations, ["rev_id", "worker_id", of.column], "\t")
    labels = labels.set_axis(["item", "annotator", "label"], axis=1)
    texts = read_table(comments, ["rev_id", "comment", "split"], "\t").set_axis(["item", "text", "split"], axis=1)
    for frame, column in ((labels, "item"), (labels, "annotator"), (texts, "item")):
        # Some of the published files write 2232.0 for 2232.
        frame[column] = frame[column].str.removesuffix(".0")
    for token, character in (("NEWLINE_TOKEN", "\n"), ("TAB_TOKEN", "\t")):
        texts["text"] = texts["text"].str.replace(token, character)
    texts["text"] = texts["text"].str.strip()
    labels["label"] = _label_names(of, labels["label"], annotations)
    blank = texts["text"] == ""
    texts = texts[~blank].merge(most_common(labels), on="item")
    train = labels.merge(texts[texts["split"] == "train"].drop(columns="split"), on="item")
    test = texts[(texts["split"] == "test") & texts["gold"].notna()].drop(columns="split")
    if not len(train) or not len(test):
        raise RealmError(f"{comments}: its column 'split' names {len(train)} training and {len(test)} test comments.")
    dropped = {BLANK: np.flatnonzero(blank) + 1}
    return build_pair(train, test, source=str(annotations), labels=of.labels, dropped=dropped)


def most_common(labels: pd.DataFrame) -> pd.DataFrame:
    """The most frequent label of each item, with the columns item and gold; no gold where several are."""
    counts = labels.groupby(["item", "label"], sort=False).size().rename("n").reset_index()
    top = counts[counts["n"] == counts.groupby("item")["n"].transform("max")]
    gold = top["label"].where(~top["item"].duplicated(keep=False), None)
    return pd.DataFrame({"item": top["item"], "gold": gold}).drop_duplicates("item")


def _label_names(of: CommentSet, values: pd.Series[str], file: Path) -> pd.Series[str]:
    """Attack is 1 or 0; a toxicity score below 0 is toxic, above it healthy."""
    number = pd.to_numeric(values, errors="coerce")
    if number.isna().any():
        raise RealmError(f"{file}, row {int(number.isna().argmax()) + 1}: '{of.column}' is not a number.")
    index = 1 - number if of.column == "attack" else np.sign(number) + 1
    return index.astype(int).map(dict(enumerate(of.labels)))
