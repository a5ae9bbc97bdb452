"""`examine` names the spammer, the copiers and the constant answerer that were planted, and nobody else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.check import Examination, examine
from realm.data import Annotations, Items
from realm.methods import METHODS

PEOPLE = {"constant", "chance", "below chance", "near copies"}


def crowd(seed: int, n_labels: int, items: int = 400, honest: int = 12, per_item: int = 5) -> pd.DataFrame:
    """Honest annotators of accuracy 0.7 to 0.95, each item labelled by some of them, in a random order."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_labels, size=items)
    accuracy = np.linspace(0.7, 0.95, honest)
    rows = []
    for item in range(items):
        for person in rng.permutation(honest)[:per_item]:
            right = rng.random() < accuracy[person]
            label = truth[item] if right else (truth[item] + rng.integers(1, n_labels)) % n_labels
            rows.append((f"text {item}", f"honest{person:02d}", f"label{label}"))
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label"])
    frame["truth"] = [f"label{truth[int(text.split()[1])]}" for text in frame["text"]]
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def add(frame: pd.DataFrame, name: str, labels: list[str], texts: list[str]) -> pd.DataFrame:
    return pd.concat([frame, pd.DataFrame({"text": texts, "annotator": name, "label": labels})], ignore_index=True)


def planted(seed: int, n_labels: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed + 100)
    frame = crowd(seed, n_labels)
    names = [f"label{k}" for k in range(n_labels)]
    texts = [f"text {k}" for k in rng.permutation(400)[:200]]
    frame = add(frame, "spammer", list(rng.choice(names, 200)), texts)
    texts = [f"text {k}" for k in rng.permutation(400)[:60]]
    frame = add(frame, "constant", [names[0]] * 60, texts)
    original = frame[frame["annotator"] == "honest03"].head(120)
    return add(frame, "copier", list(original["label"]), list(original["text"]))


def named(examination: Examination) -> dict[str, str]:
    return {" and ".join(f.about): f.code for f in examination.findings if f.code in PEOPLE}


def look(frame: pd.DataFrame) -> Examination:
    return examine(Annotations.from_pandas(frame.drop(columns="truth"), keep_rows=True))


@pytest.mark.parametrize("n_labels", [2, 3, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_planted_are_named_and_nobody_else(seed: int, n_labels: int) -> None:
    found = named(look(planted(seed, n_labels)))
    assert found.pop("spammer") in ("chance", "below chance")
    assert found.pop("constant") == "constant"
    (pair,) = found
    assert set(pair.split(" and ")) == {"copier", "honest03"}


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("seed", range(2))
def test_nobody_is_named_among_the_honest(seed: int, n_labels: int) -> None:
    assert named(look(crowd(seed, n_labels))) == {}


def test_one_who_was_given_one_class_only_is_not_constant() -> None:
    frame = crowd(5, 2)
    texts = sorted(frame.loc[frame["truth"] == "label1", "text"].unique())[:60]
    assert "lucky" not in named(look(add(frame, "lucky", ["label1"] * 60, texts)))


def test_swapped_labels_are_worse_than_chance() -> None:
    frame = crowd(6, 2)
    truth = frame.drop_duplicates("text").head(100)
    swapped = ["label1" if label == "label0" else "label0" for label in truth["truth"]]
    examination = look(add(frame, "swapped", swapped, list(truth["text"])))
    assert named(examination) == {"swapped": "below chance"}


# ---------------------------------------------------------------- structure, methods, texts, labels


def codes(examination: Examination) -> set[str]:
    return {finding.code for finding in examination.findings}


def verdicts(examination: Examination) -> dict[str, str]:
    return {method.name: method.applies for method in examination.methods}


def test_one_annotation_per_item() -> None:
    examination = look(crowd(0, 2).drop_duplicates("text"))
    assert "one annotation per item" in codes(examination)
    expected = {"yes": ["noisy"], "with care": [name for name, row in METHODS.items() if row.learns_expertise]}
    for name, verdict in verdicts(examination).items():  # nothing to aggregate, and no gold
        assert verdict == next((applies for applies, names in expected.items() if name in names), "no"), name
    assert examination.alpha == {"default": None}


def test_separate_groups() -> None:
    left, right = crowd(0, 2, items=50, honest=5), crowd(1, 2, items=30, honest=5)
    right = right.assign(text="r" + right["text"], annotator="r" + right["annotator"])
    examination = look(pd.concat([left, right]))
    assert [group.annotators for group in examination.groups] == [5, 5]
    assert "separate groups" in codes(examination)


def test_gold_and_the_oracle() -> None:
    frame = crowd(0, 2)
    assert verdicts(examine(Annotations.from_pandas(frame, gold="truth")))["oracle"] == "yes"
    some = frame.assign(truth=frame["truth"].where(frame["text"] < "text 2"))
    assert verdicts(examine(Annotations.from_pandas(some, gold="truth")))["oracle"] == "with care"


def test_few_labels_rare_labels_and_low_agreement() -> None:
    frame = add(crowd(0, 2), "new@example.org", ["label1", "label0", "rare"], ["text 1", "text 2", "text 3"])
    examination = look(frame)
    assert {"few labels", "rare labels"} <= codes(examination)
    few = next(finding for finding in examination.findings if finding.code == "few labels")
    assert few.about == ("new@example.org",)
    rng = np.random.default_rng(0)
    noise = crowd(0, 2).assign(label=lambda f: rng.integers(2, size=len(f)))
    assert "low agreement" in codes(look(noise))


def test_texts_that_are_in_the_test_set_too() -> None:
    table = Annotations.from_pandas(crowd(0, 2), keep_rows=True)
    test = Items.from_pandas(pd.DataFrame({"text": ["text 1", " TEXT  2", "new"], "item": ["t1", "t2", "t3"]}))
    leak = next(finding for finding in examine(table, test).findings if finding.code == "text leak")
    assert leak.message.startswith("2 of 3 test items are in the table too.")
    assert leak.about == ("t1", "t2")
    clean = Items.from_pandas(pd.DataFrame({"text": ["new"]}))
    assert "text leak" not in codes(examine(table, clean))


def test_one_text_in_another_context_is_no_leak() -> None:
    columns = {"text": ["it sleeps"] * 2, "context": ["a cat on a mat", "a dog in a fog"]}
    table = Annotations.from_pandas(pd.DataFrame({**columns, "annotator": "w", "label": ["x", "y"]}), context="context")
    test = pd.DataFrame({"text": ["it sleeps"] * 2, "context": ["a bird", "A dog in a fog"], "item": ["1", "2"]})
    leaks = [
        each for each in examine(table, Items.from_pandas(test, context="context")).findings if each.code == "text leak"
    ]
    assert [leak.about for leak in leaks] == [("2",)], "as `evaluate` has it"


def test_texts_under_two_ids() -> None:
    frame = pd.DataFrame({"text": ["a", "a", "b"], "item": ["1", "2", "3"], "annotator": "w", "label": ["x", "y", "x"]})
    repeated = next(
        finding for finding in examine(Annotations.from_pandas(frame)).findings if finding.code == "repeated texts"
    )
    assert repeated.about == ("1", "2")


def test_texts_that_differ_in_spaces_alone() -> None:
    frame = pd.DataFrame({"text": ["a b", "a  b ", "b"], "annotator": "w", "label": ["x", "y", "x"]})
    findings = [each for each in examine(Annotations.from_pandas(frame)).findings if "texts" in each.code]
    assert [each.code for each in findings] == ["spaced texts"]
    assert findings[0].message == "2 items have the text of another but for spaces, such as 'a b'."


@pytest.mark.shared
def test_the_real_sets(shared_data: Path) -> None:
    sentpolarity = examine(Annotations.read(shared_data / "sentpolarity" / "annotations.csv", keep_rows=True))
    assert (sentpolarity.summary["items"], sentpolarity.summary["annotators"]) == (4999, 203)
    assert sentpolarity.summary["annotations"] == 27746
    cebab = examine(Annotations.read(shared_data / "cebab_aspects" / "annotations.csv", keep_rows=True))
    facts = {name: cebab.summary[name] for name in ("items", "annotators", "annotations")}
    assert facts == {"items": 10053, "annotators": 175, "annotations": 50305}
    assert [task["task"] for task in cebab.summary["tasks"]] == ["service", "noise", "food", "ambiance"]
    assert all(alpha is not None and 0.6 < alpha < 0.8 for alpha in cebab.alpha.values())
