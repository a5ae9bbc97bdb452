"""One label per item of a table: the default is what reports show, every method is honest about what it cannot know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.crowd.aggregation import METHODS, aggregate
from realm.crowd.estimate import estimate
from realm.data import Annotations
from realm.errors import RealmError
from tests.crowd.pools import Pool, simulate
from tests.peers.peers import Crowd


def frame_of(pool: Pool, task: str = "default", names: str = "abc") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "item": [f"{task}{i:04}" for i in pool.items],
            "task": task,
            "text": [f"{task} text {i:04}" for i in pool.items],
            "annotator": [f"w{a:02}" for a in pool.annotators],
            "label": [names[k] for k in pool.labels],
            "gold": [names[k] for k in pool.truth[pool.items]],
        }
    )


@pytest.mark.parametrize("use_gold", [False, True])
def test_the_default_gives_the_labels_confidence_and_annotators_that_a_report_shows(use_gold: bool) -> None:
    parts = [
        frame_of(simulate(seed=1, n_items=150), "one"),
        frame_of(simulate(seed=2, n_items=200, n_options=2), "two", "xy"),
    ]
    frame = pd.concat(parts)
    frame["gold"] = frame["gold"].where(frame["item"].str[-1] == "0", None)
    table = Annotations.from_pandas(frame)
    result = aggregate(table, use_gold=use_gold)
    estimates = estimate(table, gold=table.gold if use_gold else None)
    np.testing.assert_array_equal(result.posterior, estimates.posterior)
    np.testing.assert_array_equal(result.labels, estimates.posterior.argmax(axis=1))
    np.testing.assert_array_equal(result.confidence, estimates.posterior.max(axis=1))
    names, tasks = list(table.annotators), [task.name for task in table.tasks]
    for row in result.annotators.itertuples():
        place = names.index(row.annotator), tasks.index(row.task)
        expected = [values[place] for values in (estimates.accuracy, estimates.low, estimates.high)]
        assert [row.accuracy, row.low, row.high] == expected


def test_confidence_at_ties_is_not_above_the_evidence() -> None:
    """Two annotators who disagree on a fifth of the items: nothing in the table says who is right there."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=300)
    items, annotators = np.repeat(np.arange(300), 2), np.tile([0, 1], 300)
    labels = np.where(rng.random(600) < 0.9, truth[items], 1 - truth[items])
    table = Crowd(items, annotators, labels, truth, 2).table()
    result = aggregate(table)
    tied = labels[::2] != labels[1::2]
    assert result.confidence[tied].max() < 0.6 and result.confidence[~tied].min() > 0.7


def test_agreement_at_chance_is_said_whatever_the_method() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(3, size=200)
    items, annotators = np.repeat(np.arange(200), 5), np.tile(np.arange(5), 200)
    table = Crowd(items, annotators, rng.integers(3, size=1000), truth, 3).table()
    for method in METHODS:
        assert any("agree no more than" in warning for warning in aggregate(table, method).warnings), method
    careful = np.where(rng.random(1000) < 0.6, truth[items], rng.integers(3, size=1000))
    table = Crowd(items, annotators, careful, truth, 3).table()
    assert not any("agree no more than" in warning for warning in aggregate(table).warnings)


def test_too_few_labels_for_confusion_matrices_are_said_with_the_cure_that_works() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(200, size=600)
    items, annotators = np.repeat(np.arange(600), 5), rng.integers(30, size=3000)
    labels = np.where(rng.random(3000) < 0.9, truth[items], rng.integers(200, size=3000))
    crowd = Crowd(items, annotators, labels, truth, 200)
    plain, default = aggregate(crowd.table(), "dawid-skene"), aggregate(crowd.table())
    assert any("too few for dawid-skene" in warning and "`realm`" in warning for warning in plain.warnings)
    assert not default.warnings
    assert (plain.labels == truth).mean() < 0.9 < 0.97 < (default.labels == truth).mean()


def test_annotators_who_err_together_are_said_by_methods_that_do_not_allow_for_it() -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=400)
    seen = np.where(rng.random(400) < 0.7, truth, 1 - truth)
    alike = np.where(rng.random((400, 12)) < 0.9, seen[:, None], 1 - seen[:, None])
    hard = rng.random(400) < 0.4
    alike[hard] = rng.integers(2, size=(int(hard.sum()), 1))  # everybody is misled alike
    items, annotators = np.repeat(np.arange(400), 12), np.tile(np.arange(12), 400)
    table = Crowd(items, annotators, alike.ravel(), truth, 2).table()
    plain, default = aggregate(table, "one-coin"), aggregate(table)
    assert any("too sure" in warning for warning in plain.warnings) == (estimate(table).exponent[0] < 1)
    assert np.median(default.confidence) < np.median(plain.confidence)


@pytest.mark.parametrize("method", METHODS)
def test_labels_index_the_items_own_options(method: str) -> None:
    rows = []
    for i in range(30):
        options = ["red", "green", "blue", "grey"][: 2 + i % 3]
        rows += [(f"q{i}", f"question {i}", options, who, options[i % len(options)]) for who in ("Ann", "Bob", "Cy")]
        rows[-1] = (*rows[-1][:4], options[(i + 1) % len(options)])
    frame = pd.DataFrame(rows, columns=["item", "text", "options", "annotator", "label"])
    table = Annotations.from_pandas(frame, options="options")
    found = aggregate(table, method)
    assert (found.labels == [i % (2 + i % 3) for i in range(30)]).all()
    assert (found.labels < table.option_counts).all()
    assert found.table(table)["label"].tolist()[:4] == ["red", "green", "blue", "green"]


def test_a_table_labelled_once_is_refused_whatever_the_method() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=4))).sparse(seed=0)
    for method in METHODS:
        with pytest.raises(RealmError, match=f"^{method}: no item has two annotations.*perfect"):
            aggregate(table, method)


def test_gold_takes_the_place_of_a_second_annotation() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=4, n_items=1500))).sparse(seed=0)
    found = aggregate(table, "one-coin", use_gold=True)
    np.testing.assert_array_equal(found.labels, table.gold)
    right = (table.label == table.gold[table.item]).astype(float)
    share = np.bincount(table.annotator, right) / np.bincount(table.annotator)
    np.testing.assert_allclose(
        found.annotators.sort_values("annotator")["accuracy"], share[np.argsort(table.annotators)]
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_share_labelled_once_is_said_and_a_task_labelled_once_gets_no_confidence(method: str) -> None:
    shared, once = frame_of(simulate(seed=5, n_items=50), "shared"), frame_of(simulate(seed=6, n_items=50), "once")
    table = Annotations.from_pandas(pd.concat([shared, once.drop_duplicates("item")]))
    found = aggregate(table, method)
    assert any("50 of 100 items (50%)" in warning for warning in found.warnings)
    assert any("task once" in warning for warning in found.warnings)
    alone = table.item_tasks == [task.name for task in table.tasks].index("once")
    assert np.isnan(found.confidence[alone]).all() and np.isfinite(found.confidence[~alone]).all()
    assert (found.labels[alone] == table.label[alone[table.item]]).all()
    assert found.annotators.query("task == 'once'")["accuracy"].isna().all()


@pytest.mark.parametrize("method", METHODS)
def test_an_item_without_annotations_gets_no_label(method: str) -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=7)))
    table = table.keep_annotations(table.item != 3)
    found = aggregate(table, method)
    assert found.labels[3] == -1 and np.isnan(found.confidence[3]) and (np.delete(found.labels, 3) >= 0).all()
    assert found.table(table)["label"].isna().sum() == 1
    assert any("1 item has no annotation" in warning for warning in found.warnings)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("use_gold", [False, True])
def test_the_posterior_is_a_distribution_over_the_items_own_options(method: str, use_gold: bool) -> None:
    tasks = [frame_of(simulate(seed=k, n_items=40, n_options=k), f"of {k}") for k in (2, 3)]
    table = Annotations.from_pandas(pd.concat(tasks))
    table = table.keep_annotations(table.item != 3)
    found = aggregate(table, method, use_gold=use_gold)
    known = found.labels >= 0
    assert found.posterior.shape == (80, 3) and not found.posterior[~known].any() and known[4:].all()
    np.testing.assert_allclose(found.posterior[known].sum(axis=1), 1.0)
    beyond = np.arange(3) >= table.option_counts[:, None]
    assert not found.posterior[beyond].any()
    best = found.posterior[np.arange(80), np.maximum(found.labels, 0)]
    np.testing.assert_allclose(best[known], found.posterior.max(axis=1)[known])
    np.testing.assert_array_equal(best[known], found.confidence[known])


def test_gold_is_not_looked_at_unless_asked() -> None:
    table = Annotations.from_pandas(frame_of(simulate(seed=8, low=0.2, high=0.7)))
    for method in METHODS:
        plain, blind = aggregate(table, method), aggregate(table.without_gold(), method)
        np.testing.assert_array_equal(plain.confidence, blind.confidence)
        np.testing.assert_array_equal(plain.labels, blind.labels)
        np.testing.assert_array_equal(aggregate(table, method, use_gold=True).labels, table.gold)
    with pytest.raises(RealmError, match="no gold"):
        aggregate(table.without_gold(), "majority", use_gold=True)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("method", "accuracy"),
    [("majority", 0.886), ("dawid-skene", 0.915), ("one-coin", 0.917), ("mace", 0.917), ("realm", 0.917)],
)
def test_accuracy_on_sentpolarity(shared_data: Path, method: str, accuracy: float) -> None:
    table = Annotations.read(shared_data / "sentpolarity" / "annotations.csv")
    found = aggregate(table.without_gold(), method)
    assert float((found.labels == table.gold).mean()) == pytest.approx(accuracy, abs=0.003)


# -------------------------------------------------------------------- abstentions


def labelling_functions(seed: int = 0, n_items: int = 1500) -> tuple[pd.DataFrame, np.ndarray]:
    """Ten rules as in weak supervision: each knows one label, fires on part of its items, and else abstains."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n_items) < 0.4).astype(int)
    own = np.arange(10) % 2
    right, wrong = rng.uniform(0.25, 0.6, 10), rng.uniform(0.02, 0.12, 10)
    fires = rng.random((n_items, 10)) < np.where(truth[:, None] == own, right, wrong)
    items, rules = np.indices(fires.shape)
    label = np.where(fires, np.array(["ham", "spam"])[own], "abstain")
    columns = {"item": items.ravel(), "text": items.ravel(), "annotator": rules.ravel(), "label": label.ravel()}
    frame = pd.DataFrame(columns).astype(str)
    return frame, truth


def test_an_abstention_is_an_answer_and_never_the_truth() -> None:
    method = "dawid-skene"
    frame, truth = labelling_functions()
    table = Annotations.from_pandas(frame)
    names = table.tasks[0].labels
    result = aggregate(table, method, abstain="abstain")
    wanted = np.array([names.index("ham"), names.index("spam")])[truth]
    assert (result.labels != names.index("abstain")).all() and (result.posterior[:, names.index("abstain")] == 0).all()
    missing = Annotations.from_pandas(frame[frame["label"] != "abstain"])
    without = aggregate(missing, method).table(missing).set_index("item")["label"]
    silent = without.reindex(table.item_ids.to_pylist()).to_numpy(dtype=object)
    as_missing = np.mean(silent == np.array(names, dtype=object)[wanted])
    assert (result.labels == wanted).mean() > max(as_missing, 0.8) + 0.05
    accuracy = result.annotators.set_index("annotator")["accuracy"]
    fired = frame[frame["label"] != "abstain"].assign(truth=lambda rows: wanted[rows["item"].astype(int)])
    shares = (fired["label"] == np.array(names)[fired["truth"]]).groupby(fired["annotator"]).mean()
    assert (accuracy[shares.index] - shares).abs().mean() < 0.1


def test_majority_counts_no_abstention_and_leaves_silence_without_a_label() -> None:
    rows = [("a", "x", "yes"), ("a", "y", "none"), ("a", "z", "none"), ("b", "x", "none"), ("b", "y", "none")]
    rows += [("c", "x", "no"), ("c", "y", "no"), ("c", "z", "yes")]
    table = Annotations.from_pandas(pd.DataFrame(rows, columns=["text", "annotator", "label"]))
    result = aggregate(table, "majority", abstain="none")
    assert result.table(table)["label"].fillna("").tolist() == ["yes", "", "no"]
    np.testing.assert_allclose(result.confidence, [1.0, np.nan, 2 / 3])
    assert result.annotators["accuracy"].tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("method", "abstain", "message"),
    [
        ("one-coin", "abstain", "one-coin cannot handle abstentions.*majority, dawid-skene, mace"),
        ("realm", "abstain", "realm cannot handle abstentions.*majority, dawid-skene, mace"),
        ("mace", "skip", "no label.*'skip'"),
    ],
)
def test_an_abstention_that_cannot_be_is_refused(method: str, abstain: str, message: str) -> None:
    table = Annotations.from_pandas(labelling_functions(n_items=20)[0])
    with pytest.raises(RealmError, match=message):
        aggregate(table, method, abstain=abstain)
