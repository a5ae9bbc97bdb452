"""The benchmark of the default: its data, paired tests, tables and verdicts, without any training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import _default_data as data
from benchmarks import _default_knobs as knobs
from benchmarks import _default_measures as measures
from benchmarks import default
from sklearn.metrics import f1_score

from realm import METHODS, Annotations
from realm.comparison.cells import Cell
from realm.comparison.simulation import realised_accuracies
from realm.metrics import rarest_recall
from tests.tiny import crowd

ITEMS = 400


def measured(share_right: float, seeds: int = 4, seed: int = 0, log_prob: float = -0.4) -> measures.Measured:
    """Answers of which about so many are right, the same items wrong over seeds but for a few."""
    rng = np.random.default_rng(seed)
    gold = (np.arange(ITEMS) % 4 == 0).astype(np.int32)  # label 1 is the rarest
    ease = np.random.default_rng(99).random(ITEMS)
    right = ease + 0.02 * rng.normal(size=(seeds, ITEMS)) < share_right
    labels = np.where(right, gold, 1 - gold).astype(np.int32)
    figures = {
        "accuracy": right.mean(1),
        "macro_f1": np.array([f1_score(gold, row, average="macro") for row in labels]),
        "rarest_recall": np.array([rarest_recall(gold, row) for row in labels]),
        "log_loss": np.full(seeds, -log_prob) + 0.001 * rng.normal(size=seeds),
        "spearman_trained": np.full(seeds, np.nan),
    }
    log_probs = np.full((seeds, ITEMS), log_prob) + 0.01 * rng.normal(size=(seeds, ITEMS))
    return measures.Measured(figures, labels, gold, log_probs)


# -------------------------------------------------------------------- paired tests


def test_a_loss_needs_both_tests() -> None:
    worse = {"realm": measured(0.70), "noisy": measured(0.85, seed=1)}
    level = {"realm": measured(0.80), "noisy": measured(0.80, seed=1)}
    assert measures.is_loss(measures.compare_accuracy(worse, "noisy"))
    assert measures.is_win(measures.compare_accuracy(worse, "realm", "noisy"))
    assert not measures.is_loss(measures.compare_accuracy(level, "noisy"))
    assert measures.compare_accuracy(worse, "majority") is None


def test_one_item_less_on_every_seed_is_no_loss() -> None:
    """The t-test alone is certain of it: there is no variance over seeds."""
    base = measured(0.8, seeds=1)
    labels = np.repeat(base.labels, 4, axis=0)
    one_wrong = labels.copy()
    one_wrong[:, np.flatnonzero(labels[0] == base.gold)[0]] ^= 1
    arms = {
        name: measures.Measured({"accuracy": (rows == base.gold).mean(1)}, rows, base.gold, np.zeros(rows.shape))
        for name, rows in (("realm", one_wrong), ("noisy", labels))
    }
    test = measures.compare_accuracy(arms, "noisy")
    assert test is not None and test.p_seeds == 0 and test.delta < 0 and not measures.is_loss(test)


def test_resampled_macro_f1_is_that_of_scikit_learn_on_the_resample() -> None:
    rng = np.random.default_rng(0)
    gold, labels = (rng.integers(3, size=60).astype(np.int32) for _ in range(2))
    weights = rng.multinomial(60, np.full(60, 1 / 60), size=5)
    expected = [f1_score(np.repeat(gold, w), np.repeat(labels, w), average="macro") for w in weights]
    np.testing.assert_allclose(measures.resampled_macro_f1(labels, gold, weights), expected, rtol=1e-5)


@pytest.mark.parametrize("metric", measures.QUALITY)
def test_each_quality_is_judged_in_its_own_direction(metric: str) -> None:
    arms = {"realm": measured(0.6, log_prob=-0.8), "noisy": measured(0.9, seed=1, log_prob=-0.3)}
    assert measures.is_worse(arms, metric) is True
    assert measures.is_worse(arms, metric, "realm", "noisy") is False
    assert measures.is_worse({"realm": arms["realm"]}, metric) is None


# -------------------------------------------------------------------- verdicts and tables


@pytest.fixture
def table() -> measures.Table:
    return {
        "first": {
            "realm": measured(0.85),
            "noisy": measured(0.80, seed=1),
            "paper 0.1": measured(0.75, seed=2),
            "paper 0.5": measured(0.84, seed=3),
            "oracle": measured(0.95, seed=4),
        },
        "second": {"realm": measured(0.80), "noisy": measured(0.82, seed=1)},
    }


def test_the_paper_is_taken_at_its_best_rate_and_the_oracle_is_no_rival(table) -> None:
    assert measures.best_paper(table["first"]) == "paper 0.5"
    assert measures.without_gold(table["first"]) == ["noisy", "paper 0.5"]
    assert measures.ahead_of_paper(table).holds is True
    assert measures.ahead_of_paper({"second": table["second"]}).holds is None


def test_verdicts_hold_fail_or_are_not_measured(table) -> None:
    assert measures.lead(table, "noisy", 0.5).holds is True  # +5 and -2: +1.5 in the mean
    assert measures.lead(table, "noisy", 2).holds is False
    assert measures.lead(table, "noisy", 0, each=True).holds is False
    assert measures.lead(table, "noisy", 0, ["first"], each=True).holds is True
    assert measures.lead(table, "majority", 0).holds is None
    assert measures.never_below(table, ["noisy"]).holds is False
    assert measures.no_losses({"first": table["first"]}).holds is True
    behind = {"third": {"realm": measured(0.6), "noisy": measured(0.9, seed=1)}}
    assert measures.no_losses(behind).holds is False and "third" in str(measures.no_losses(behind))
    assert measures.quality_kept(behind).holds is False
    assert str(measures.no_losses({})).startswith("- **not measured**")


def test_bounds_and_ranges() -> None:
    assert measures.at_least("ranks", {"a": 0.9}, {"a": 0.8}).holds is True
    assert measures.at_least("ranks", {"a": 0.7}, {"a": 0.8}).holds is False
    assert measures.at_least("ranks", {"a": float("nan")}, {"a": 0.8}).holds is None
    assert measures.small_range({"knob": {0.1: 0.801, 1.0: 0.803}}, 1).holds is True
    assert measures.small_range({"knob": {0.1: 0.78, 1.0: 0.803}}, 1).holds is False
    assert measures.small_range({"knob": {1.0: 0.8}}, 1).holds is None


def test_tables_have_a_row_per_configuration_and_marks(table) -> None:
    table = {**table, "third": {"realm": measured(0.6, log_prob=-0.9), "noisy": measured(0.9, seed=1)}}
    accuracy = measures.accuracy_table(table).splitlines()
    assert accuracy[0] == "| configuration | realm | noisy | oracle | paper, best rate |"
    assert len(accuracy) == 2 + len(table) and "(0.5)" in accuracy[2] and "!" in accuracy[4] and "*" in accuracy[2]
    quality = measures.quality_table(table).splitlines()
    assert len(quality) == 2 + len(table) and quality[4].count("!") == 3
    assert all(line.count("|") == accuracy[0].count("|") for line in accuracy)
    assert len(measures.difference_table(table).splitlines()) == 2 + 4


def test_a_metric_that_only_tasks_have_is_their_mean() -> None:
    metrics = {"accuracy": 0.5, "accuracy/a": 0.4, "macro_f1": None, "macro_f1/a": 0.2, "macro_f1/b": 0.6, "x": None}
    whole = default.whole_metrics(metrics)
    assert whole["accuracy"] == 0.5 and whole["macro_f1"] == pytest.approx(0.4) and np.isnan(whole["x"])


# -------------------------------------------------------------------- data


def test_a_panel_is_read_by_column_and_blanks_are_no_labels(tmp_path: Path) -> None:
    (tmp_path / "panel.csv").write_text("item,text,gold,j1,j2\n0,a b,fine,fine,toxic\n1,c d,toxic,,toxic\n")
    (tmp_path / "test.csv").write_text("item,text,gold\n2,e f,fine\n")
    panel = data.PanelData("panel", tmp_path, judges=1)
    tables = panel.load("realm", 0)
    assert tables.annotations.n_annotations == 2 and tables.test.n_items == 1
    assert data.read_panel(tmp_path / "panel.csv").n_annotations == 3
    assert panel.describe() != data.PanelData("panel", tmp_path).describe()


def test_so_many_annotations_of_each_item_are_kept_by_weight() -> None:
    table = crowd(200, (0.9, 0.8, 0.7, 0.6))
    drawn = data.per_item(table, np.array([1.0, 1.0, 1.0, 50.0]), 2, seed=3)
    assert set(drawn.annotations_per_item) == {2}
    counts = drawn.annotations_per_annotator
    assert counts[3] > 180 and counts[:3].max() < 100
    assert drawn.fingerprint() == data.per_item(table, np.array([1.0, 1.0, 1.0, 50.0]), 2, seed=3).fingerprint()


def test_annotators_of_the_chance_set_have_their_accuracy() -> None:
    """Who is asked must not depend on who is right: both are drawn with the same seed."""
    table = data.ChanceData().load("realm", 0).annotations
    realised = realised_accuracies(table)[:, 0]
    assert np.abs(realised - data.CHANCE_ANNOTATORS).max() < 0.2
    assert np.abs(realised - data.CHANCE_ANNOTATORS).mean() < 0.05
    assert (table.annotations_per_annotator[-3:] >= 400).all() and set(table.annotations_per_item) == {10}


class Tables:
    """A table as the data of a cell."""

    origin = "tables"

    def __init__(self, table: Annotations) -> None:
        self.table = table

    def describe(self) -> dict[str, object]:
        return {}

    def fingerprint(self) -> str:
        return self.table.fingerprint(gold=True)

    def load(self, method: str, seed: int) -> data.CellTables:
        return data.CellTables(self.table, self.table)


def test_items_of_the_opinion_are_in_no_training() -> None:
    whole = Tables(crowd(100))
    rest = data.KeptApart(whole, whole).load("realm", 1).annotations
    gold = data.GoldApart(whole).load("oracle", 0).annotations
    assert gold.n_items == data.APART and rest.n_items == 100 - data.APART
    assert not set(gold.item_ids.to_pylist()) & set(rest.item_ids.to_pylist())
    assert gold.gold is not None and np.ptp(np.bincount(gold.gold)) <= 1
    assert data.KeptApart(whole, whole).describe() != data.GoldApart(whole).describe()


def test_a_changed_constant_has_another_key_and_is_put_back() -> None:
    whole = Tables(crowd(20))
    knob = knobs.Knob("realm.crowd.mixture_weights", "PRIOR")
    keys = {Cell("m", data.Noted(whole, f"{knob.name} x {factor}"), "realm", 0).id for factor in knob.factors}
    assert data.Noted(data.Noted(whole, "a"), "b").describe() == {"note": "a b"}
    assert len(keys) == len(knob.factors) and max(knob.factors) / min(knob.factors) == pytest.approx(50)
    import realm.training.channel

    before = realm.crowd.mixture_weights.PRIOR
    with knobs.scaled(knob, 2.0):
        assert tuple(2 * part for part in before) == realm.crowd.mixture_weights.PRIOR
        assert realm.training.channel.PRIOR == realm.crowd.mixture_weights.PRIOR
    assert realm.crowd.mixture_weights.PRIOR == realm.training.channel.PRIOR == before


@pytest.mark.parametrize("knob", knobs.KNOBS, ids=lambda knob: knob.name)
def test_every_knob_is_a_constant_of_the_project(knob: knobs.Knob) -> None:
    with knobs.scaled(knob, 1.5):
        pass


# -------------------------------------------------------------------- rows


def test_rows_have_distinct_configurations_and_aggregate_only_where_items_have_several_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(default, "with_opinion", lambda options, benchmark: f"opinion-{benchmark}")
    options = default.arguments(["--seeds", "2"])
    sizes = {"sentpolarity": 6, "civilcomments": 3, "cebab": 1, "simulated": 40, "equals": 2, "chance": 1}
    for row, make in default.TRAINED.items():
        configurations = make(options)
        assert len(configurations) == len({one.title for one in configurations}) == sizes[row]
        for one in configurations:
            names = [arm.name for arm in one.arms]
            assert len(names) == len(set(names)) and names[0] == "realm" and "oracle" in names
            single = "sparse" in one.title or one.title.startswith("1 per")
            assert single == all(METHODS[arm.method].aggregator is None for arm in one.arms)
            keys = {arm.name: {cell.id for cell in one.cells(arm, options)} for arm in one.arms}
            assert all(len(each) == 2 for each in keys.values())
            assert sum(map(len, keys.values())) == len(set.union(*keys.values()))


def test_a_tag_trains_the_default_anew_and_nothing_else() -> None:
    plain, tagged = (default.arguments(words) for words in ([], ["--tag", "second"]))
    for one in default.civilcomments(plain):
        for arm in one.arms:
            same = [cell.id for cell in one.cells(arm, plain)] == [cell.id for cell in one.cells(arm, tagged)]
            assert same == (arm.name != "realm")


def test_the_noises_of_a_binary_set_are_one() -> None:
    assert default.NOISES["sentpolarity"] == ("uniform",)
    first, second = (
        data.simulate(data.ChanceData._table(50, 0), [0.9, 0.1], noise=noise, regime="shared", seed=1)  # type: ignore[arg-type]
        for noise in ("uniform", "systematic-offset")
    )
    assert first.fingerprint() == second.fingerprint()


def test_the_paper_s_bar_is_read_by_number_of_options() -> None:
    arm = measured(0.8)
    good = measures.Measured({**arm.metrics, "pool_spearman_trained": np.full(4, 0.95)}, arm.labels, arm.gold,
                             arm.gold_log_probs)  # fmt: skip
    one = {"cebab/food, graded:5, uniform, sparse": {"realm": good}}
    assert default._as_in_the_paper(one).holds is True
    assert default._as_in_the_paper({"sentpolarity, graded:5, uniform, sparse": {"realm": good}}).holds is False
    assert default._as_in_the_paper({"cebab/food, graded:5, asymmetric, sparse": {"realm": good}}).holds is None


def test_the_program_resumes_reports_and_fails_where_something_does_not_hold(tmp_path, tiny_model, capsys) -> None:
    words = ["--model", tiny_model("bert"), "--train-layers", "1", "--work", str(tmp_path), "--data", str(tmp_path)]
    words += ["--only", "chance", "--methods", "realm", "noisy", "--seeds", "2", "--epochs", "0.05"]
    code = default.main(words)
    first = capsys.readouterr()
    assert "| 600 items, ten labels each |" in first.out and "trained expertise follows agreement" in first.out
    assert first.err.count("seed") == 4 and code == int("**FAILS**" in first.out)
    assert default.main(words) == code
    again = capsys.readouterr()
    assert again.err == "" and again.out == first.out
    assert default.main([*words, "--report"]) == code
    assert capsys.readouterr().out == first.out
    assert default.main([*words, "--report", "--epochs", "0.1"]) == 0  # other settings: nothing is measured
    assert "not measured" in capsys.readouterr().out
