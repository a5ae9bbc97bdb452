"""EM that goes on from an earlier fit: the same maximum in fewer iterations, whoever and whatever is new."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm import Annotations, DawidSkene, Glad, MajorityVote, OneCoin, RealmError, aggregate
from realm.crowd.aggregation.fitted import FittedAnnotators, WarmStart

METHODS = ("dawid-skene", "one-coin", "mace")


def crowd(n_items: int = 400, n_annotators: int = 12, per_item: int = 5, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    accuracy = rng.uniform(0.5, 0.95, n_annotators)
    rows = []
    for item in range(n_items):
        truth = rng.integers(3)
        for who in rng.choice(n_annotators, per_item, replace=False):
            label = truth if rng.random() < accuracy[who] else rng.integers(3)
            rows.append((f"t{item}", f"a{who}", "xyz"[label]))
    return pd.DataFrame(rows, columns=["text", "annotator", "label"])


def both(method: str, more: pd.DataFrame):
    """The result from scratch, and the one from the fit to all rows but the last 40."""
    earlier = aggregate(Annotations.from_pandas(more.iloc[:-40], labels=list("xyz")), method)
    table = Annotations.from_pandas(more, labels=list("xyz"))
    return aggregate(table, method), aggregate(table, method, start_from=earlier.fitted), earlier


@pytest.mark.parametrize("method", METHODS)
def test_a_warm_start_ends_where_a_cold_one_does(method) -> None:
    cold, warm, _ = both(method, crowd())
    assert np.mean(cold.labels == warm.labels) > 0.99
    assert np.abs(cold.posterior - warm.posterior).max() < 0.1
    assert np.abs(cold.annotators.accuracy - warm.annotators.accuracy).max() < 0.01


@pytest.mark.parametrize("estimator", [DawidSkene, OneCoin])
def test_it_takes_fewer_iterations(estimator) -> None:
    table = Annotations.from_pandas(crowd(2000))
    arrays = (table.item, table.annotator, table.label)
    part = tuple(each[:-500] for each in arrays)
    first = estimator().fit(*part)
    start = WarmStart(first.parameters_, first.priors_)
    cold, warm = estimator().fit(*arrays), estimator().fit(*arrays, start=start)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.log_likelihood_ >= cold.log_likelihood_ - 1e-5 * len(table)


@pytest.mark.parametrize("method", METHODS)
def test_a_label_that_somebody_gives_for_the_first_time_and_newcomers(method) -> None:
    rows = crowd()
    rows.loc[(rows.annotator == "a3") & (rows.label == "z"), "label"] = "x"  # a3 never says z
    fresh = pd.DataFrame([(f"t{i}", "new", "y") for i in range(20)], columns=rows.columns)
    first_z = pd.DataFrame([(f"t{i}", "a3", "z") for i in range(400, 420)], columns=rows.columns)
    second = pd.DataFrame([(f"t{i}", "a1", "z") for i in range(400, 420)], columns=rows.columns)
    earlier = aggregate(Annotations.from_pandas(rows, labels=list("xyz")), method)
    table = Annotations.from_pandas(pd.concat([rows, fresh, first_z, second]), labels=list("xyz"))
    warm, cold = aggregate(table, method, start_from=earlier.fitted), aggregate(table, method)
    assert np.isfinite(warm.posterior).all() and np.isfinite(warm.annotators.accuracy).all()
    assert np.mean(warm.labels == cold.labels) > 0.98


def test_a_start_that_does_not_fit_is_refused_or_left_out() -> None:
    rows = crowd()
    table = Annotations.from_pandas(rows)
    fitted = aggregate(table, "dawid-skene").fitted
    with pytest.raises(RealmError, match="`start_from` was learned by dawid-skene"):
        aggregate(table, "one-coin", start_from=fitted)
    for method in ("majority", "glad"):
        with pytest.raises(RealmError, match="cannot start from an earlier aggregation"):
            aggregate(table, method, start_from=fitted)
    for estimator in (MajorityVote(), Glad()):
        with pytest.raises(RealmError, match="cannot start from an earlier aggregation"):
            estimator.fit([0, 0], [0, 1], [0, 1], start=WarmStart(np.ones((2, 1)), np.ones(2)))
    with pytest.raises(RealmError, match="`start` has parameters of shape"):
        OneCoin().fit([0, 0], [0, 1], [0, 1], start=WarmStart(np.ones((3, 1)), np.ones(2)))
    other = Annotations.from_pandas(rows.replace({"label": {"x": "w"}}))
    result = aggregate(other, "dawid-skene", start_from=fitted)
    assert any("starts from scratch" in text for text in result.warnings)
    assert np.array_equal(result.labels, aggregate(other, "dawid-skene").labels)
    assert not any("scratch" in text for text in aggregate(table, "dawid-skene", start_from=fitted).warnings)


def test_the_file_gives_back_what_was_written(tmp_path) -> None:
    fitted = aggregate(Annotations.from_pandas(crowd()), "mace").fitted
    path = tmp_path / "a.fitted.parquet"
    fitted.write(path)
    again = FittedAnnotators.read(path)
    assert again.method == "mace" and again.tasks[0].annotators == fitted.tasks[0].annotators
    assert np.array_equal(again.tasks[0].parameters, fitted.tasks[0].parameters)
    assert np.array_equal(again.tasks[0].class_shares, fitted.tasks[0].class_shares)


def test_a_disk_that_refuses_the_file_is_an_error_that_names_it(tmp_path) -> None:
    fitted = aggregate(Annotations.from_pandas(crowd()), "dawid-skene").fitted
    assert fitted is not None
    (tmp_path / "none").touch()  # a file where the folder should be
    with pytest.raises(RealmError, match=r"none/fitted\.parquet: cannot be written"):
        fitted.write(tmp_path / "none" / "fitted.parquet")


def test_a_file_of_something_else_is_an_error_that_names_it(tmp_path) -> None:
    pd.DataFrame({"task": [1]}).to_parquet(tmp_path / "other.parquet")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    for name in ("other.parquet", "torn.parquet"):
        with pytest.raises(RealmError, match=name):
            FittedAnnotators.read(tmp_path / name)


def test_on_the_command_line(tmp_path: Path, realm_cli) -> None:
    rows = crowd()
    rows.iloc[:-40].to_csv(tmp_path / "monday.csv", index=False)
    rows.to_csv(tmp_path / "tuesday.csv", index=False)
    code, _, error = realm_cli("aggregate", tmp_path / "monday.csv", "-o", tmp_path / "m.csv")
    assert code == 0 and (tmp_path / "m.fitted.parquet").exists(), error
    start = ("--from", tmp_path / "m.fitted.parquet")
    code, _, error = realm_cli("aggregate", tmp_path / "tuesday.csv", "-o", tmp_path / "t.csv", *start)
    assert code == 0, error
    realm_cli("aggregate", tmp_path / "tuesday.csv", "-o", tmp_path / "c.csv")
    warm, cold = (pd.read_csv(tmp_path / f"{name}.csv") for name in "tc")
    assert (warm.label == cold.label).mean() > 0.99
    code, _, error = realm_cli("aggregate", tmp_path / "tuesday.csv", "--from", tmp_path / "m.csv")
    assert code == 2 and "fitted.parquet" in error
    code, _, error = realm_cli("aggregate", tmp_path / "tuesday.csv", "--method", "one-coin", *start)
    assert code == 2 and "--from was learned by dawid-skene" in error
