"""WikiAttack and WikiToxicity: talk-page comments judged by about ten crowd workers each (Wulczyn et al. 2017).

Published as `NAME_annotations.tsv`, a row per judgement, and `NAME_annotated_comments.tsv`, a row per comment with its
split. The sets have no gold but their own judgements, so gold is the label that most of a comment's workers gave; a tie
leaves it unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from realm.data import Ledger
from realm.data.readers.files import open_file
from realm.errors import RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, find, missing, places, read_plain, table_pair

BLANK = "comment without a text"


@dataclass(frozen=True)
class Judged:
    """One of the two sets: its files' prefix, the column judged by, and the label of each of its values."""

    title: str
    prefix: str
    column: str
    labels: tuple[str, ...]
    instruction: str
    contrast: int = 150


SETS = {
    "wikiattack": Judged(
        "WikiAttack", "attack", "attack", ("personal attack", "not a personal attack"),
        "Is this comment from a Wikipedia talk page a personal attack?",
    ),
    "wikitoxicity": Judged(
        "WikiToxicity", "toxicity", "toxicity_score", ("toxic", "neutral", "healthy"),
        "Is this comment from a Wikipedia talk page toxic, neutral or healthy?",
    ),
}  # fmt: skip


def load_detox(name: str, folder: Path | None, offline: bool) -> Benchmark:
    """Load one of `SETS` from a folder: the hub holds no copy with the workers' judgements."""
    of = SETS[name]
    judged_file, comments_file = f"{of.prefix}_annotations.tsv", f"{of.prefix}_annotated_comments.tsv"
    if folder is None:
        raise RealmError(
            f"{of.title} is not on the hub with its annotators. Give a folder with {judged_file} and {comments_file} "
            "by --data FOLDER; the page on benchmarks says where they are published."
        )
    where = places(folder, name, of.prefix)
    judgements, comments = find(where, judged_file), find(where, comments_file)
    if judgements is None and comments is None:
        train, test, _ = read_plain(where, f"{of.title}: no {judged_file}, and", labels=of.labels)
    elif judgements is None or comments is None:
        raise missing(where, of.title, [judged_file if judgements is None else comments_file])
    else:
        halves, ledger = _read(of, judgements, comments)
        train, test = table_pair(*halves, source=str(judgements), labels=of.labels, ledger=ledger)
    return Benchmark(
        name, of.title, train, test, simulated=False, contrast=of.contrast, min_annotations=MIN_ANNOTATIONS,
        instruction=of.instruction,
    )  # fmt: skip


def _read(of: Judged, judgements: Path, comments: Path) -> tuple[tuple[pd.DataFrame, pd.DataFrame], Ledger]:
    """The judgements of the split `train`, and the comments of the split `test` whose gold is known."""
    said = _columns(judgements, "rev_id", "worker_id", of.column).set_axis(["item", "annotator", "label"], axis=1)
    shown = _columns(comments, "rev_id", "comment", "split").set_axis(["item", "text", "split"], axis=1)
    for frame, column in ((said, "item"), (said, "annotator"), (shown, "item")):
        # Some of the published files write 2232.0 for 2232.
        frame[column] = frame[column].str.removesuffix(".0")
    for token, mark in (("NEWLINE_TOKEN", "\n"), ("TAB_TOKEN", "\t")):
        shown["text"] = shown["text"].fillna("").str.replace(token, mark)
    shown["text"] = shown["text"].str.strip()
    said["label"] = _labels(of, said["label"], judgements)
    ledger = Ledger()
    ledger.add(BLANK, (np.flatnonzero(shown["text"] == "") + 1).tolist())
    shown = shown[shown["text"] != ""].merge(most_common(said), on="item")
    train = said.merge(shown[shown["split"] == "train"].drop(columns="split"), on="item")
    test = shown[(shown["split"] == "test") & shown["gold"].notna()].drop(columns="split")
    if not len(train) or not len(test):
        raise RealmError(f"{comments}: its column 'split' names {len(train)} training and {len(test)} test comments.")
    return (train, test), ledger


def most_common(said: pd.DataFrame) -> pd.DataFrame:
    """The label that most gave to each item, with the columns item and gold; none where the most are several."""
    counts = said.groupby(["item", "label"], sort=False).size().rename("n").reset_index()
    top = counts[counts["n"] == counts.groupby("item")["n"].transform("max")]
    gold = top["label"].where(~top["item"].duplicated(keep=False), None)
    return pd.DataFrame({"item": top["item"], "gold": gold}).drop_duplicates("item")


def _labels(of: Judged, values: pd.Series[str], file: Path) -> pd.Series[str]:
    """Attack is 1 or 0; a toxicity score below 0 is toxic, above it healthy."""
    number = pd.to_numeric(values, errors="coerce")
    if number.isna().any():
        raise RealmError(f"{file}, row {int(number.isna().argmax()) + 1}: '{of.column}' is not a number.")
    place = 1 - number if of.column == "attack" else np.sign(number) + 1
    return place.astype(int).map(dict(enumerate(of.labels)))


def _columns(file: Path, *names: str) -> pd.DataFrame:
    frame: pd.DataFrame = open_file(file).table().to_pandas()
    if absent := [name for name in names if name not in frame.columns]:
        raise RealmError(f"{file}: no column {', '.join(absent)}. There are: {', '.join(frame.columns)}.")
    chosen: pd.DataFrame = frame[list(names)]
    return chosen
