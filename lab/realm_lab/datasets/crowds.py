"""Sets with annotators: WikiAttack, WikiToxicity, SentPolarity, GoEmotions, and two that the paper does not have.

| set | annotators | gold |
|---|---|---|
| WikiAttack, WikiToxicity | about ten crowd workers per comment (Wulczyn et al. 2017) | the label that most \
annotators of a comment gave; a tie leaves it open |
| SentPolarity | 203 crowd workers (Rodrigues et al. 2013) | the polarity; the test sentences are those of Pang and \
Lee that nobody labelled |
| GoEmotions | 82 raters; the six emotions of Ekman plus neutral | emotions that two raters or more agree on, where \
they are of one class |
| CEBaB | 175 crowd workers on four aspects of restaurant reviews: a real annotator x task matrix | what the editor of \
a review meant it to say of one aspect |
| CivilComments | 24 LLM judges, a column each | the set's own |

Each may also have the plain form: `annotations.csv` (item, [task,] text, annotator, label, gold) and `test.csv`.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from realm import RealmError
from realm_lab.datasets.base import (
    Benchmark,
    Files,
    Halves,
    build_pair,
    hub_rows,
    read_records,
    read_table,
)

Dropped = Mapping[str, Iterable[int]]


@dataclass(frozen=True)
class CrowdSet:
    """One set.

    | field | meaning |
    |---|---|
    | published | the set's own files; the first tells them from the plain form |
    | read | makes both halves of the files: columns item, [task,] text, gold, and annotator, label in the first |
    | labels | the label set; None for the labels that occur |
    | contrast | m of the paper's contrast-m pool |
    | from_hub | makes both halves of the hub's rows, where the hub has the annotators |
    | finish | what is done with either half, whatever it was made of |
    """

    published: tuple[str, ...]
    read: Callable[[Files], tuple[Halves, Dropped]]
    labels: tuple[str, ...] | None = None
    instruction: str | None = None
    contrast: int = 0
    folders: tuple[str, ...] = ()
    from_hub: Callable[[], tuple[Halves, Dropped]] | None = None
    finish: Callable[[pd.DataFrame], pd.DataFrame] = field(default=lambda half: half)


def load_crowd(name: str, folder: Path | None) -> Benchmark:
    """Load one of `SETS`."""
    of = SETS[name]
    if folder is None and of.from_hub is not None:
        halves, dropped = of.from_hub()
    else:
        files = Files.of(name, folder, of.folders, ", ".join(of.published))
        if files.find(*of.published[:1]) is None and files.find("annotations.csv"):
            halves, dropped = (read_table(files.get("annotations.csv")), read_table(files.get("test.csv"))), {}
        else:
            halves, dropped = of.read(files)
    train, test = map(of.finish, halves)
    if not len(train) or not len(test):
        raise RealmError(f"{name}: its files have {len(train)} annotations for training and {len(test)} test items.")
    return Benchmark(
        name, *build_pair((train, test), of.labels, dropped=dropped), contrast=of.contrast, instruction=of.instruction
    )


# -------------------------------------------------------------------- Wikipedia talk pages


def _read_wikipedia(prefix: str, column: str, labels: tuple[str, ...], files: Files) -> tuple[Halves, Dropped]:
    """The annotations of the split `train`, and the comments of the split `test` that have gold."""
    file = files.get(f"{prefix}_annotations.tsv")
    given = read_table(file, ["rev_id", "worker_id", column], "\t").set_axis(["item", "annotator", "label"], axis=1)
    texts = read_table(files.get(f"{prefix}_annotated_comments.tsv"), ["rev_id", "comment", "split"], "\t")
    texts = texts.set_axis(["item", "text", "split"], axis=1)
    for frame, name in ((given, "item"), (given, "annotator"), (texts, "item")):
        frame[name] = frame[name].str.removesuffix(".0")  # some of the published files write 2232.0 for 2232
    for token, character in (("NEWLINE_TOKEN", "\n"), ("TAB_TOKEN", "\t")):
        texts["text"] = texts["text"].str.replace(token, character)
    texts["text"] = texts["text"].str.strip()
    number = pd.to_numeric(given["label"], errors="coerce")
    if number.isna().any():
        raise RealmError(f"{file}, row {int(number.isna().argmax()) + 1}: '{column}' is not a number.")
    # attack is 1 or 0; a toxicity score below 0 is toxic, above it healthy
    given["label"] = (1 - number if len(labels) == 2 else np.sign(number) + 1).astype(int).map(dict(enumerate(labels)))
    blank = texts["text"] == ""
    texts = texts[~blank].merge(most_common(given), on="item")
    train = given.merge(texts[texts["split"] == "train"].drop(columns="split"), on="item")
    test = texts[(texts["split"] == "test") & texts["gold"].notna()].drop(columns="split")
    return (train, test), {"comment without a text": np.flatnonzero(blank) + 1}


def most_common(given: pd.DataFrame) -> pd.DataFrame:
    """The most frequent label of each item, with the columns item and gold; no gold where several are."""
    counts = given.groupby(["item", "label"], sort=False).size().rename("n").reset_index()
    top = counts[counts["n"] == counts.groupby("item")["n"].transform("max")]
    gold = top["label"].where(~top["item"].duplicated(keep=False), None)
    return pd.DataFrame({"item": top["item"], "gold": gold}).drop_duplicates("item")


def _wikipedia(prefix: str, column: str, labels: tuple[str, ...], instruction: str) -> CrowdSet:
    return CrowdSet(
        (f"{prefix}_annotations.tsv", f"{prefix}_annotated_comments.tsv"),
        lambda files: _read_wikipedia(prefix, column, labels, files),
        labels, instruction, contrast=150, folders=(prefix,),
    )  # fmt: skip


# -------------------------------------------------------------------- SentPolarity

POLARITY = {"neg": "negative", "pos": "positive"}
"""The label that each word of the files means."""


def _read_polarity(files: Files) -> tuple[Halves, Dropped]:
    file = files.get("mturk_answers.csv")
    columns = ["Input.id", "Input.original_sentence", "WorkerId", "Answer.sent", "Input.true_sent"]
    train = read_table(file, columns).set_axis(["item", "text", "annotator", "label", "gold"], axis=1)
    train["text"] = train["text"].str.strip()
    for column in ("label", "gold"):
        train[column] = train[column].map(POLARITY)
        if (unknown := train[column].isna()).any():
            raise RealmError(f"{file}, row {int(unknown.argmax()) + 1}: the {column} is neither pos nor neg.")
    rows = []
    for word, label in POLARITY.items():
        sentences = files.get(f"rt-polarity.{word}", f"rt-polaritydata/rt-polarity.{word}")
        # published in Windows-1252, before everybody agreed on UTF-8
        lines = sentences.read_text(encoding="cp1252", errors="replace").splitlines()
        rows += [(f"{word}-{number}", line.strip(), label) for number, line in enumerate(lines, 1) if line.strip()]
    test = pd.DataFrame(rows, columns=["item", "text", "gold"]).drop_duplicates("text")
    return (train, test[~test["text"].isin(set(train["text"]))]), {}


# -------------------------------------------------------------------- GoEmotions

EKMAN = {
    "anger": ("anger", "annoyance", "disapproval"),
    "disgust": ("disgust",),
    "fear": ("fear", "nervousness"),
    "joy": (
        "joy", "amusement", "approval", "excitement", "gratitude", "love", "optimism", "relief", "pride", "admiration",
        "desire", "caring",
    ),
    "sadness": ("sadness", "disappointment", "embarrassment", "grief", "remorse"),
    "surprise": ("surprise", "realization", "confusion", "curiosity"),
    "neutral": ("neutral",),
}  # fmt: skip
"""The mapping that the authors of the set publish with it."""
CLASS_OF = {emotion: label for label, emotions in EKMAN.items() for emotion in emotions}
EMOTIONS = (*sorted(set(CLASS_OF) - {"neutral"}), "neutral")
"""In the order of their numbers in the published splits."""
RATING = ["id", "rater_id", "example_very_unclear", *EMOTIONS]
UNCLEAR, SEVERAL, NONE = (
    "marked as very unclear",
    "rating with emotions of several classes",
    "rating without an emotion",
)


def _read_emotions(files: Files) -> tuple[Halves, Dropped]:
    first = files.get("goemotions_1.csv", "full_dataset/goemotions_1.csv")
    parts = sorted(first.parent.glob("goemotions_[0-9].csv"))
    ratings = pd.concat([read_table(part, RATING) for part in parts], ignore_index=True)
    train, test = (_read_split(files.get(f"{split}.tsv", f"../{split}.tsv")) for split in ("train", "test"))
    return _emotions(ratings, train, test)


def _emotions_of_hub() -> tuple[Halves, Dropped]:
    name = "google-research-datasets/go_emotions"
    ratings = pd.DataFrame(hub_rows(name, "train", "raw"))
    splits = (hub_rows(name, split, "simplified") for split in ("train", "test"))
    return _emotions(ratings, *([(row["id"], row["text"], class_of(row["labels"])) for row in rows] for rows in splits))


def _emotions(ratings: pd.DataFrame, train: list[Any], test: list[Any]) -> tuple[Halves, Dropped]:
    """The ratings of training comments whose emotions are all of one class; the rows of the others by reason."""
    classes = np.stack(
        [(ratings[list(emotions)].astype(str) == "1").to_numpy().any(axis=1) for emotions in EKMAN.values()], axis=1
    )  # (ratings, classes)
    unclear = ratings["example_very_unclear"].astype(str).str.lower().isin(["true", "1"]).to_numpy()
    count = classes.sum(axis=1)
    usable = ~unclear & (count == 1)
    given = pd.DataFrame(
        {
            "item": ratings["id"][usable],
            "annotator": ratings["rater_id"][usable].astype(str),
            "label": np.array(list(EKMAN), dtype=object)[classes.argmax(axis=1)[usable]],
        }
    )
    items, tested = (pd.DataFrame(rows, columns=["item", "text", "gold"]) for rows in (train, test))
    reasons = {UNCLEAR: unclear, NONE: ~unclear & (count == 0), SEVERAL: ~unclear & (count > 1)}
    dropped = {reason: np.flatnonzero(rows) + 1 for reason, rows in reasons.items()}
    return (given.merge(items, on="item"), tested[tested["gold"].notna()]), dropped


def _read_split(file: Path) -> list[tuple[str, str, str | None]]:
    """The published split: a text, numbers and an id on each line, without quoting or a header."""
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t")
        if len(fields) != 3 or not all(one.isdecimal() and int(one) < len(EMOTIONS) for one in fields[1].split(",")):
            raise RealmError(f"{file}, line {number}: not a text, the numbers of its emotions and an id.")
        rows.append((fields[2], fields[0], class_of(map(int, fields[1].split(",")))))
    return rows


def class_of(emotions: Iterable[int]) -> str | None:
    """The class of emotions given by number, where they are all of one."""
    classes = {CLASS_OF[EMOTIONS[number]] for number in emotions}
    return classes.pop() if len(classes) == 1 else None


# -------------------------------------------------------------------- CEBaB

ASPECTS = ("food", "service", "ambiance", "noise")
REVIEWS = ("train_exclusive", "dev", "test")


def _read_reviews(files: Files) -> tuple[Halves, Dropped]:
    return _reviews(*(read_records(files.get(f"{split}.json")) for split in REVIEWS)), {}


def _reviews_of_hub() -> tuple[Halves, Dropped]:
    splits = ("validation" if split == "dev" else split for split in REVIEWS)
    return _reviews(*(hub_rows("CEBaB/CEBaB", split) for split in splits)), {}


def _reviews(train: list[dict[str, Any]], dev: list[dict[str, Any]], test: list[dict[str, Any]]) -> Halves:
    halves = (pd.DataFrame([row for review in reviews for row in _answers(review)]) for reviews in (train + dev, test))
    train_rows, test_rows = halves
    test_rows = test_rows[test_rows["gold"].notna()].drop(columns=["annotator", "label"]).drop_duplicates("item")
    return train_rows, test_rows


def _answers(review: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each answer about each aspect of a review. The files hold them as an object, the hub as its text."""
    rows = []
    for aspect in ASPECTS:
        edited = str(review["is_original"]).lower() != "true" and review["edit_type"] == aspect
        gold = review["edit_goal"].lower() if edited and review["edit_goal"] else None
        item = {"item": f"{review['id']}/{aspect}", "task": aspect, "text": review["description"], "gold": gold}
        answers = review[f"{aspect}_aspect_validation_workers"] or {}
        try:
            answers = literal_eval(answers) if isinstance(answers, str) else answers
            rows += [{**item, "annotator": name, "label": said.lower()} for name, said in answers.items() if said]
        except (ValueError, SyntaxError, AttributeError):
            raise RealmError(f"CEBaB, review {review['id']}: the workers of {aspect} are not an object.") from None
    return rows


def _with_questions(half: pd.DataFrame) -> pd.DataFrame:
    """The review as the context of a question about its aspect: four tasks on one text need telling apart."""
    return half.assign(context=half["text"], text="What does the review say about the " + half["task"] + "?")


# -------------------------------------------------------------------- CivilComments


def _read_panel(files: Files) -> tuple[Halves, Dropped]:
    columns = ["item", "text", "gold"]
    file = files.get("panel.csv")
    read_table(file, columns)
    verdicts = read_table(file).melt(id_vars=columns, var_name="annotator", value_name="label")
    return (verdicts[verdicts["label"] != ""], read_table(files.get("test.csv"), columns)), {}


SETS = {
    "wikiattack": _wikipedia(
        "attack", "attack", ("personal attack", "not a personal attack"),
        "Is this comment from a Wikipedia talk page a personal attack?",
    ),
    "wikitoxicity": _wikipedia(
        "toxicity", "toxicity_score", ("toxic", "neutral", "healthy"),
        "Is this comment from a Wikipedia talk page toxic, neutral or healthy?",
    ),
    "sentpolarity": CrowdSet(
        ("mturk_answers.csv", "rt-polarity.pos", "rt-polarity.neg"), _read_polarity, tuple(POLARITY.values()),
        "Is this sentence of a movie review negative or positive?", contrast=20, folders=("sentiment_polarity",),
    ),
    "goemotions": CrowdSet(
        ("*goemotions_1.csv", "train.tsv", "test.tsv"), _read_emotions, tuple(EKMAN),
        "Which emotion does this comment express?", contrast=10, folders=("data", "full_dataset"),
        from_hub=_emotions_of_hub,
    ),
    "cebab": CrowdSet(
        ("train_exclusive.json", "dev.json", "test.json"), _read_reviews, ("negative", "positive", "unknown"),
        folders=("cebab_aspects", "CEBaB-v1.1"), from_hub=_reviews_of_hub, finish=_with_questions,
    ),
    "civilcomments": CrowdSet(("panel.csv", "test.csv"), _read_panel, folders=("civilcomments_judges",)),
}  # fmt: skip
