"""SentPolarity: movie-review sentences labelled by 203 crowd workers (Rodrigues et al. 2013), text by Pang and Lee.

Published as `mturk_answers.csv`, a row per answer with the true polarity beside it. Its test half is only published as
topic vectors, so the test sentences are those of the sentence polarity set (`rt-polarity.pos`, `rt-polarity.neg`) that
no worker was shown.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from realm.data.readers.files import open_file
from realm.errors import RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, find, missing, places, read_plain, table_pair

NAME, TITLE = "sentpolarity", "SentPolarity"
LABELS = ("negative", "positive")
WORDS = {"neg": "negative", "pos": "positive"}
INSTRUCTION = "Is this sentence of a movie review negative or positive?"
COLUMNS = ["Input.id", "Input.original_sentence", "WorkerId", "Answer.sent", "Input.true_sent"]


def load_sentpolarity(folder: Path | None, offline: bool) -> Benchmark:
    """Load it from a folder: the hub holds no copy with the workers' answers."""
    if folder is None:
        raise RealmError(
            f"{TITLE} is not on the hub with its annotators. Give a folder with mturk_answers.csv and rt-polarity.pos, "
            "rt-polarity.neg by --data FOLDER; the page on benchmarks says where they are published."
        )
    where = places(folder, NAME, "sentiment_polarity")
    answers = find(where, "mturk_answers.csv")
    if answers is None:
        train, test, _ = read_plain(where, f"{TITLE}: no mturk_answers.csv, and", labels=LABELS)
    else:
        shown = _read_answers(answers)
        train, test = table_pair(shown, _read_rest(where, set(shown["text"])), source=str(answers), labels=LABELS)
    return Benchmark(
        NAME, TITLE, train, test, simulated=False, contrast=20, min_annotations=MIN_ANNOTATIONS, instruction=INSTRUCTION
    )


def _read_answers(file: Path) -> pd.DataFrame:
    frame: pd.DataFrame = open_file(file).table().to_pandas()
    if absent := [name for name in COLUMNS if name not in frame.columns]:
        raise RealmError(f"{file}: no column {', '.join(absent)}. There are: {', '.join(frame.columns)}.")
    frame = frame[COLUMNS].set_axis(["item", "text", "annotator", "label", "gold"], axis=1)
    frame["text"] = frame["text"].str.strip()
    for column in ("label", "gold"):
        frame[column] = frame[column].map(WORDS)
        if frame[column].isna().any():
            raise RealmError(
                f"{file}, row {int(frame[column].isna().argmax()) + 1}: the {column} is neither pos nor neg."
            )
    return frame


def _read_rest(where: list[Path], shown: set[str]) -> pd.DataFrame:
    """The sentences that no worker was shown, each text once."""
    rows = []
    for word, label in WORDS.items():
        file = find(where, f"rt-polarity.{word}", f"rt-polaritydata/rt-polarity.{word}")
        if file is None:
            raise missing(where, TITLE, [f"rt-polarity.{word}"])
        # Published in Windows-1252, before everybody agreed on UTF-8.
        lines = file.read_text(encoding="cp1252", errors="replace").splitlines()
        rows += [(f"{word}-{number}", line.strip(), label) for number, line in enumerate(lines, 1) if line.strip()]
    frame = pd.DataFrame(rows, columns=["item", "text", "gold"]).drop_duplicates("text")
    return frame[~frame["text"].isin(shown)]
