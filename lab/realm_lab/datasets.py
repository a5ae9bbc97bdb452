"""The paper's data sets and two more, from the Hugging Face hub, from their published files or from the plain form.

The plain form, in FOLDER/NAME: `train.jsonl` and `test.jsonl` (id, question, choices, answer as an index, optionally
context) of questions; `annotations.csv` (item, [task,] text, annotator, label, gold) and `test.csv` of annotated items.
A name that is none of these sets is a folder of one's own in the plain form. docs/benchmarks.md says what each set is.
"""

from __future__ import annotations

import hashlib
import json
from ast import literal_eval
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from realm import Annotations, RealmError

SETS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("datasets.yaml").read_text("utf-8"))
TITLES = {name: str(of["title"]) for name, of in SETS.items()}
"""What the paper calls the data sets."""
Halves = tuple[pd.DataFrame, pd.DataFrame]


@dataclass(frozen=True)
class Benchmark:
    """A data set: training items, annotated or bare, test items with gold, and a sentence in front of every prompt."""

    name: str
    train: Annotations
    test: Annotations
    instruction: str | None = None


def load_benchmark(name: str, data: str | Path | None = None) -> Benchmark:
    """Load a data set from a folder that holds it, directly or in a sub-folder with its name, or else from the hub."""
    of = SETS.get(name, {})
    if data is None:
        if name not in HUB:
            raise RealmError(f"{name} is not on the hub with its annotators: name a folder (docs/benchmarks.md).")
        halves = HUB[name]()
    else:
        places = [Path(data) / sub for sub in (name, of.get("folder", name), ".")]
        folder = next((place for place in places if place.is_dir() and list(place.glob("test*"))), Path(data) / name)
        published = PUBLISHED.get(name, partial(_plain, name))
        halves = _plain(name, folder) if (folder / "annotations.csv").is_file() else published(folder)
    if name == "cebab":  # four tasks on one text need telling apart: the review is the context of a question
        ask = "What does the review say about the {}?".format
        first, second = (half.assign(context=half["text"], text=half["task"].map(ask)) for half in halves)
        halves = first, second
    read = Annotations.from_pandas if "annotator" in halves[0] else Annotations.test_from_pandas
    form: Any = "index" if "options" in halves[0] else "auto"
    train = read(halves[0], labels=of.get("labels"), label_form=form)
    test = Annotations.test_from_pandas(halves[1], tasks=train.tasks, label_form=form)
    if len(train.tasks) == 1:  # takes the name of the set, so that several sets can be trained jointly
        tasks = (replace(train.tasks[0], name=name),)
        train, test = (replace(table, items=replace(table.items, tasks=tasks)) for table in (train, test))
    return Benchmark(name, train, test, of.get("instruction"))


def _plain(name: str, folder: Path) -> Halves:
    if (folder / "train.jsonl").is_file():
        return _questions(name, *(_read_records(folder / f"{half}.jsonl") for half in ("train", "test")))
    return _read_table(folder / "annotations.csv"), _read_table(folder / "test.csv")


def _read_table(file: Path, columns: list[str] | None = None, separator: str = ",") -> pd.DataFrame:
    """Columns of a published table (all of them by default), every value as text."""
    try:
        frame = pd.read_csv(file, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        return frame if columns is None else frame[columns]
    except (OSError, ValueError, KeyError) as error:
        raise RealmError(f"{file}: no such table ({error}). docs/benchmarks.md lists the files of each set.") from None


def _read_records(file: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise RealmError(f"{file}: no file of JSON lines ({error}). docs/benchmarks.md lists the files.") from None


def _hub_rows(name: str, split: str, config: str | None = None, revision: str | None = None) -> list[dict[str, Any]]:
    """One split of a set on the hub. Nothing that comes from the hub is run; HF_HUB_OFFLINE=1 asks its cache alone."""
    from datasets import load_dataset

    try:
        return list(load_dataset(name, config, split=split, revision=revision))
    except Exception as error:  # the hub's client raises whatever its network library does
        reason = str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
        raise RealmError(f"{name}, split {split}: cannot be had ({reason}). Name a folder with its files.") from None


# -------------------------------------------------------------------- questions


def _hub_questions(name: str) -> Halves:
    hub, config, revision, test = SETS[name]["hub"]
    return _questions(name, *(_hub_rows(hub, split, config, revision) for split in ("train", test)))


def _hub_pubmedqa() -> Halves:
    """Its 1,000 questions labelled by experts, split by the test ids that the authors publish elsewhere."""
    test_ids = set(Path(__file__).with_name("pubmedqa_test.txt").read_text("utf-8").split())
    records: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for row in _hub_rows("qiaojin/PubMedQA", "train", "pqa_labeled"):
        labels, context = SETS["pubmedqa"]["labels"], " ".join(row["context"]["contexts"])
        record = {"id": str(row["pubid"]), "question": row["question"], "context": context, "choices": labels}
        records[record["id"] in test_ids].append({**record, "answer": labels.index(row["final_decision"])})
    return _questions("pubmedqa", records[False], records[True])


def _questions(name: str, train: list[dict[str, Any]], test: list[dict[str, Any]]) -> Halves:
    """Questions with as many options as the set has; those of a set with a label set have it in place of options."""
    of, halves = SETS[name], []
    for half, records, size in zip(("train", "test"), (train, test), of.get("sizes", (None, None)), strict=True):
        rows = []
        for number, record in enumerate(records, 1):
            text, options, answer = _question_of(record)
            if len(options) != of["options"] or not all(map(str.strip, (text, *options))) or answer is None:
                continue
            item = str(record.get("id") or f"{half}-{number}").removeprefix("pubmedqa-")
            row = {"item": item, "task": name, "text": text}
            row |= {"context": record["context"]} if record.get("context") else {}
            labelled = {"gold": options[answer]} if "labels" in of else {"options": options, "gold": answer}
            rows.append({**row, **labelled})
        frame = pd.DataFrame(rows)
        # in an order that depends on nothing but the ids, since the paper does not say which it took
        order = sorted(frame["item"], key=lambda item: hashlib.sha256(f"{name}:{item}".encode()).digest())
        halves.append(frame[frame["item"].isin(order[:size])])
    return halves[0], halves[1]


def _question_of(record: dict[str, Any]) -> tuple[str, list[str], int | None]:
    """The text, the options and the index of the answer: of the plain form, of PIQA, and of the hub's other sets."""
    if "goal" in record:
        label = int(record.get("label", -1))
        return record["goal"], [record["sol1"], record["sol2"]], label if label >= 0 else None
    text, choices = record.get("question_stem", record.get("question")), record["choices"]
    if isinstance(choices, list):
        return str(text), choices, int(record["answer"])
    answer = record.get("answerKey")
    return str(text), choices["text"], choices["label"].index(answer) if answer else None


# -------------------------------------------------------------------- crowds


def _wikipedia(prefix: str, column: str, folder: Path) -> Halves:
    """The annotations of the split `train`, and the comments of the split `test` that have gold."""
    given = _read_table(folder / f"{prefix}_annotations.tsv", ["rev_id", "worker_id", column], "\t")
    given = given.set_axis(["item", "annotator", "label"], axis=1)
    texts = _read_table(folder / f"{prefix}_annotated_comments.tsv", ["rev_id", "comment", "split"], "\t")
    texts = texts.set_axis(["item", "text", "split"], axis=1)
    for frame, name in ((given, "item"), (given, "annotator"), (texts, "item")):
        frame[name] = frame[name].str.removesuffix(".0")  # some of the published files write 2232.0 for 2232
    for token, character in (("NEWLINE_TOKEN", "\n"), ("TAB_TOKEN", "\t")):
        texts["text"] = texts["text"].str.replace(token, character)
    texts["text"] = texts["text"].str.strip()
    number, labels = given["label"].astype(float), SETS[f"wiki{prefix}"]["labels"]
    # attack is 1 or 0; a toxicity score below 0 is toxic, above it healthy
    place = 1 - number if len(labels) == 2 else (number > 0).astype(int) - (number < 0) + 1
    given["label"] = place.astype(int).map(dict(enumerate(labels)))
    texts = texts[texts["text"] != ""].merge(_most_common(given), on="item")
    train = given.merge(texts[texts["split"] == "train"].drop(columns="split"), on="item")
    return train, texts[(texts["split"] == "test") & texts["gold"].notna()].drop(columns="split")


def _most_common(given: pd.DataFrame) -> pd.DataFrame:
    """The most frequent label of each item, with the columns item and gold; no gold where several are."""
    counts = given.groupby(["item", "label"], sort=False).size().rename("n").reset_index()
    top = counts[counts["n"] == counts.groupby("item")["n"].transform("max")]
    gold = top["label"].where(~top["item"].duplicated(keep=False), None)
    return pd.DataFrame({"item": top["item"], "gold": gold}).drop_duplicates("item")


def _polarity(folder: Path) -> Halves:
    words = {"neg": "negative", "pos": "positive"}
    columns = ["Input.id", "Input.original_sentence", "WorkerId", "Answer.sent", "Input.true_sent"]
    train = _read_table(folder / "mturk_answers.csv", columns)
    train = train.set_axis(["item", "text", "annotator", "label", "gold"], axis=1)
    train = train.assign(text=train["text"].str.strip(), label=train["label"].map(words), gold=train["gold"].map(words))
    rows = []
    for word, label in words.items():
        # published in Windows-1252, before everybody agreed on UTF-8
        lines = (folder / f"rt-polarity.{word}").read_text(encoding="cp1252", errors="replace").splitlines()
        rows += [(f"{word}-{number}", line.strip(), label) for number, line in enumerate(lines, 1) if line.strip()]
    test = pd.DataFrame(rows, columns=["item", "text", "gold"]).drop_duplicates("text")
    return train, test[~test["text"].isin(set(train["text"]))]


EKMAN: dict[str, list[str]] = SETS["goemotions"]["ekman"]
CLASS_OF = {emotion: label for label, emotions in EKMAN.items() for emotion in emotions}
EMOTIONS = (*sorted(set(CLASS_OF) - {"neutral"}), "neutral")
"""In the order of their numbers in the published splits."""


def _emotions() -> Halves:
    """The ratings of training comments whose emotions are all of one class, and the test comments of one class."""
    name = "google-research-datasets/go_emotions"
    ratings = pd.DataFrame(_hub_rows(name, "train", "raw"))
    classes = np.stack(
        [(ratings[list(emotions)].astype(str) == "1").to_numpy().any(axis=1) for emotions in EKMAN.values()], axis=1
    )  # (ratings, classes)
    unclear = ratings["example_very_unclear"].astype(str).str.lower().isin(["true", "1"]).to_numpy()
    usable = ~unclear & (classes.sum(axis=1) == 1)
    label = np.array(list(EKMAN), dtype=object)[classes.argmax(axis=1)[usable]]
    given = pd.DataFrame({"item": ratings["id"], "annotator": ratings["rater_id"].astype(str)})[usable]
    items, tested = (
        pd.DataFrame([(r["id"], r["text"], _class_of(r["labels"])) for r in rows], columns=["item", "text", "gold"])
        for rows in (_hub_rows(name, split, "simplified") for split in ("train", "test"))
    )
    return given.assign(label=label).merge(items, on="item"), tested[tested["gold"].notna()]


def _class_of(emotions: Iterable[int]) -> str | None:
    """The class of emotions given by number, where they are all of one."""
    classes = {CLASS_OF[EMOTIONS[number]] for number in emotions}
    return classes.pop() if len(classes) == 1 else None


ASPECTS = ("food", "service", "ambiance", "noise")


def _reviews() -> Halves:
    """A row for each answer about each aspect of a review."""
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for split in ("train_exclusive", "validation", "test"):
        for review in _hub_rows("CEBaB/CEBaB", split):
            for aspect in ASPECTS:
                edited = str(review["is_original"]).lower() != "true" and review["edit_type"] == aspect
                gold = review["edit_goal"].lower() if edited and review["edit_goal"] else None
                item = {"item": f"{review['id']}/{aspect}", "task": aspect, "text": review["description"], "gold": gold}
                answers = literal_eval(review[f"{aspect}_aspect_validation_workers"] or "{}")
                given = [{**item, "annotator": name, "label": text.lower()} for name, text in answers.items() if text]
                rows[split == "test"] += given
    train, test = (pd.DataFrame(rows[is_test]) for is_test in (False, True))
    return train, test[test["gold"].notna()].drop(columns=["annotator", "label"]).drop_duplicates("item")


def _panel(folder: Path) -> Halves:
    columns = ["item", "text", "gold"]
    verdicts = _read_table(folder / "panel.csv").melt(id_vars=columns, var_name="annotator", value_name="label")
    return verdicts[verdicts["label"] != ""], _read_table(folder / "test.csv", columns)


HUB: dict[str, Callable[[], Halves]] = {name: partial(_hub_questions, name) for name, of in SETS.items() if "hub" in of}
HUB |= {"pubmedqa": _hub_pubmedqa, "goemotions": _emotions, "cebab": _reviews}
PUBLISHED: dict[str, Callable[[Path], Halves]] = {
    "wikiattack": partial(_wikipedia, "attack", "attack"),
    "wikitoxicity": partial(_wikipedia, "toxicity", "toxicity_score"),
    "sentpolarity": _polarity,
    "civilcomments": _panel,
}
