"""Agreement statistics: published figures, and the packages that people use for them."""

from __future__ import annotations

import krippendorff
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from realm import Annotations, agreement
from realm.crowd.agreement import icc, label_patterns
from realm.errors import RealmError

UNITS = [  # Krippendorff (2011): four observers, twelve units, gaps
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
JUDGES = np.array([[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], float)


def table(rows: list[list[object]], labels: list[str] | None = None) -> Annotations:
    """Annotations from rows of annotators, a column for each item; None is no label."""
    cells = [
        {"item": f"i{column:03}", "text": f"text {column}", "annotator": f"w{row}", "label": str(label)}
        for row, given in enumerate(rows)
        for column, label in enumerate(given)
        if label is not None
    ]
    return Annotations.from_pandas(pd.DataFrame(cells), labels=labels)


def statistic(of: Annotations, name: str, **settings: object) -> float:
    rows = agreement(of, draws=20, **settings).statistics.set_index("statistic")
    return float(rows.loc[name, "value"])


def random_rows(seed: int, gaps: bool) -> list[list[object]]:
    generator = np.random.default_rng(seed)
    truth = generator.integers(1, 5, size=40)
    rows = []
    for _ in range(4):
        wrong = generator.random(40) < 0.35
        labels = np.where(wrong, generator.integers(1, 5, size=40), truth)
        missing = generator.random(40) < 0.25 if gaps else np.zeros(40, bool)
        rows.append([None if empty else int(label) for label, empty in zip(labels, missing, strict=True)])
    return rows


@pytest.mark.parametrize(("scale", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_own_example(scale, value) -> None:
    assert statistic(table(UNITS), "Krippendorff's alpha", scale=scale) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("seed", range(3))
def test_alpha_is_that_of_the_krippendorff_package(scale, seed) -> None:
    rows = random_rows(seed, gaps=True)
    numbers = np.array([[np.nan if label is None else label for label in labels] for labels in rows], float)
    expected = krippendorff.alpha(reliability_data=numbers, level_of_measurement=scale)
    assert statistic(table(rows), "Krippendorff's alpha", scale=scale) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_fleiss_kappa_is_that_of_statsmodels(seed) -> None:
    fleiss_kappa = pytest.importorskip("statsmodels.stats.inter_rater").fleiss_kappa
    rows = random_rows(seed, gaps=False)
    counts = np.array([[column.count(k) for k in range(1, 5)] for column in zip(*rows, strict=True)])
    assert statistic(table(rows), "Fleiss' kappa") == pytest.approx(fleiss_kappa(counts), abs=1e-9)


@pytest.mark.parametrize(("scale", "weights"), [("nominal", None), ("ordinal", "quadratic")])
def test_cohens_kappa_is_that_of_scikit_learn(scale, weights) -> None:
    rows = random_rows(7, gaps=True)
    pairs = agreement(table(rows), scale=scale, draws=20).pairs
    assert len(pairs) == 6
    for pair in pairs.itertuples():
        both = [
            (a, b)
            for a, b in zip(rows[int(pair.annotator_1[1:])], rows[int(pair.annotator_2[1:])], strict=True)
            if a is not None and b is not None
        ]
        first, second = zip(*both, strict=True)
        expected = cohen_kappa_score(first, second, labels=[1, 2, 3, 4], weights=weights)
        assert pair.kappa == pytest.approx(expected, abs=1e-9) and pair.items == len(both)
        assert pair.agreement == pytest.approx(np.mean(np.equal(first, second)))


def test_intraclass_correlations_of_shrout_and_fleiss() -> None:
    """Table 4 of their paper: .17, .29 and .71."""
    of = table([[int(score) for score in column] for column in JUDGES.T])
    assert statistic(of, "ICC(1)", scale="interval") == pytest.approx(0.1657, abs=5e-5)
    assert statistic(of, "ICC(2,1)", scale="interval") == pytest.approx(0.2898, abs=5e-5)
    assert statistic(of, "ICC(3,1)", scale="interval") == pytest.approx(0.7148, abs=5e-5)


def test_weighted_items_are_repeated_items() -> None:
    """A bootstrap sample in which items occur several times is the table in which they do."""
    times = np.array([2, 1, 1, 3, 1, 1])
    for kind in ("absolute", "consistency"):
        weighted = icc(JUDGES, times[None].astype(float), kind)
        assert weighted == pytest.approx(icc(np.repeat(JUDGES, times, axis=0), np.ones((1, times.sum())), kind))


def test_intervals_hold_the_value_and_narrow_with_items() -> None:
    widths = []
    for copies in (1, 9):
        rows = agreement(table([row * copies for row in random_rows(1, gaps=False)]), draws=300)
        for part, name in ((rows.statistics, "value"), (rows.pairs, "kappa"), (rows.labels, "alpha")):
            assert (part["low"] <= part[name]).all() and (part[name] <= part["high"]).all()
        widths.append((rows.statistics["high"] - rows.statistics["low"]).mean())
    assert widths[1] == pytest.approx(widths[0] / 3, rel=0.25)


def test_what_cannot_be_known_is_nan() -> None:
    one_each = agreement(table([["a", "b", None], [None, None, "a"]]), draws=10)
    assert one_each.statistics["value"].isna().all() and one_each.pairs.empty
    same = agreement(table([["a", "a"], ["a", "a"]], ["a", "b"]), draws=10)
    assert same.statistics["value"].isna().all() and (same.pairs["agreement"] == 1).all()


def test_each_label_against_the_others() -> None:
    rows = random_rows(4, gaps=False)
    labels = agreement(table(rows), draws=20).labels
    assert list(labels["label"]) == ["1", "2", "3", "4"] and labels["annotations"].sum() == 160
    binary = np.array([[int(label == 3) for label in row] for row in rows], float)
    expected = krippendorff.alpha(reliability_data=binary, level_of_measurement="nominal")
    assert labels.set_index("label").loc["3", "alpha"] == pytest.approx(expected, abs=1e-9)


def test_many_labels_have_the_patterns_of_few() -> None:
    generator = np.random.default_rng(0)
    item, label = generator.integers(50, size=300), generator.integers(3, size=300)
    rows = []
    for count in (3, 60):  # so many that a pattern is no whole number of 63 bits
        patterns, times = label_patterns(item, label, count)
        rows.append(sorted((tuple(row[:3]), int(n)) for row, n in zip(patterns, times, strict=True)))
    assert rows[0] == rows[1]


def test_words_have_no_distance() -> None:
    with pytest.raises(RealmError, match=r"`scale=interval`: the labels 'a', 'b' are not numbers"):
        agreement(table([["a", "b"], ["a", "b"]]), scale="interval")
    with pytest.raises(RealmError, match=r"`scale=ratio`"):
        agreement(table([["a", "b"], ["a", "b"]]), scale="ratio")
