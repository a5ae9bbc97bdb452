"""SentPolarity: movie-review sentences labelled by 203 crowd workers (Rodrigues et al. 2013), text by Pang and Lee.

Published as `mturk_answers.csv`, a row per answer with the true polarity beside it. Its test half is only published as
topic vectors, so the test sentences are those of the sentence polarity set (`rt-polarity.pos`, `rt-polarity.neg`) that
nobody labelled.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from realm import RealmError
from realm.lab.datasets.base import MIN_ANNOTATIONS, Benchmark, SetFolder, build_pair, not_on_hub, read_table

NAME = "sentpolarity"
LABELS = {"neg": "negative", "pos": "positive"}
"""The label that each word of the files means."""
INSTRUCTION = "Is this sentence of a movie review negative or positive?"
COLUMNS = ["Input.id", "Input.original_sentence", "WorkerId", "Answer.sent", "Input.true_sent"]
CONTRAST = 20
"""m of the paper's contrast-m pool."""


def load_sentpolarity(folder: Path | None, offline: bool) -> Benchmark:
    """Load it from a folder: the hub holds no copy with the annotators."""
    if folder is None:
        raise not_on_hub(NAME, "mturk_answers.csv and rt-polarity.pos, rt-polarity.neg")
    files, labels = SetFolder.of(NAME, folder, "sentiment_polarity"), tuple(LABELS.values())
    if (answers := files.find("mturk_answers.csv")) is None:
        train, test = files.read_plain(labels, "mturk_answers.csv")
    else:
        train_rows = _read_answers(answers)
        test_rows = _read_sentences(files)
        test_rows = test_rows[~test_rows["text"].isin(set(train_rows["text"]))]
        train, test = build_pair(train_rows, test_rows, source=str(answers), labels=labels)
    return Benchmark(
        NAME, train, test, simulated=False, contrast=CONTRAST, min_annotations=MIN_ANNOTATIONS,
        instruction=INSTRUCTION,
    )  # fmt: skip


def _read_answers(file: Path) -> pd.DataFrame:
    frame = read_table(file, COLUMNS).set_axis(["item", "text", "annotator", "label", "gold"], axis=1)
    frame["text"] = frame["text"].str.strip()
    for column in ("label", "gold"):
        frame[column] = frame[column].map(LABELS)
        if (unknown := frame[column].isna()).any():
            raise RealmError(f"{file}, row {int(unknown.argmax()) + 1}: the {column} is neither pos nor neg.")
    return frame


def _read_sentences(files: SetFolder) -> pd.DataFrame:
    """Every sentence of the sentence polarity set, each text once."""
    rows = []
    for word, label in LABELS.items():
        file = files.get(f"rt-polarity.{word}", f"rt-polaritydata/rt-polarity.{word}")
        # Published in Windows-1252, before everybody agreed on UTF-8.
        lines = file.read_text(encoding="cp1252", errors="replace").splitlines()
        rows += [(f"{word}-{number}", line.strip(), label) for number, line in enumerate(lines, 1) if line.strip()]
    return pd.DataFrame(rows, columns=["item", "text", "gold"]).drop_duplicates("text")
