"""The transcribed figures: what the paper derives from its own figures comes out of them again.

Averages, differences, win counts and totals are recomputed from the entries of the tables. What does not recompute is
listed here by name, and on the page on benchmarks.
"""

from __future__ import annotations

import math

import pandas as pd
import pytest

from realm.errors import RealmError
from realm_lab import paper_figures
from realm_lab.datasets import SETS
from tests.lab.test_specs import RATES

GRIDS = {
    "tab:results_noise_types": "D1",
    "tab:results_dist2_noise_types": "D2",
    "tab:results_dist3_noise_types": "D3",
}
CONFIGURATION = ["model", "benchmark", "noise", "pool", "regime", "steps"]
JOINT = "arc+obqa+riddlesense"
TEST_ITEMS = {"arc": 1165, "obqa": 500, "piqa": 1838, "pubmedqa": 400, "riddlesense": 510}
"""How many test items the paper's figures are shares of: the only sizes that every printed figure fits."""


@pytest.fixture(scope="module")
def figures() -> pd.DataFrame:
    return paper_figures()


@pytest.fixture(scope="module")
def grid(figures: pd.DataFrame) -> pd.DataFrame:
    """The 135 single-task configurations, without averages and oracles."""
    return figures[figures["table"].isin(GRIDS) & (figures["benchmark"] != "average") & (figures["method"] != "oracle")]


def named(table: pd.DataFrame) -> pd.DataFrame:
    """With a word where a noise, pool or regime does not apply, so that it can be looked up by them."""
    return table.fillna(dict.fromkeys(["noise", "pool", "regime"], "none"))


def by_method(table: pd.DataFrame) -> pd.DataFrame:
    """Accuracies with a row per configuration and a column per method."""
    accuracies = named(table)[(table["quantity"] == "accuracy") & (table["method"] != "oracle")]
    return accuracies.set_index([*CONFIGURATION, "method"])["mean"].unstack("method")


def gains(table: pd.DataFrame) -> pd.Series:
    methods = by_method(table)
    return methods["realm"] - methods["noisy"]


# -------------------------------------------------------------------- the file


def test_every_table_of_the_paper_is_there(figures: pd.DataFrame) -> None:
    entries = figures.groupby("table").size()
    expected = {
        "tab:results_real": 64 + 4,
        "tab:results_uniform": 18 * 10,
        "tab:results_noise_types": 18 * 10,
        "tab:results_dist2_noise_types": 18 * 10,
        "tab:results_dist3_noise_types": 18 * 10,
        "tab:results_multi": 9 * 6 + 3,
        "tab:multi_per_dataset": 27 * 6,
        "tab:learned_expertise": 5 * 11,
        "tab:ablation_num_annotators": 5 * 6,
        "tab:ablation_annotators_dist1": 5 * 9,
        "tab:training_length": 2 * 5,
        "tab:lr_ablation": 5 * 5,
        "tab:agg_sim": 5 * 5,
        "tab:agg_steps": 5 * 6,
        "tab:significance": 6 * 4,
    }
    assert {name: entries[name] for name in expected} == expected


def test_the_words_are_those_of_the_lab(figures: pd.DataFrame) -> None:
    assert set(figures["model"].dropna()) == {"small", "base", "large"}
    known = {*SETS, JOINT, "average", "all"}
    assert set(figures["benchmark"].dropna()) <= known
    assert set(figures["method"].dropna()) == {"realm", "noisy", "majority", "dawid-skene", "oracle"}
    assert set(figures["regime"].dropna()) == {"sparse", "shared"}
    assert set(figures["noise"].dropna()) == {"uniform", "asymmetric", "systematic"}
    assert not figures["mean"].isna().any()
    oracles = figures[figures["method"] == "oracle"]
    assert oracles[["noise", "pool", "regime"]].isna().all().all()


def test_no_figure_is_there_twice(figures: pd.DataFrame) -> None:
    assert not figures.drop(columns=["mean", "std"]).duplicated().any()


def test_one_table_is_asked_for_by_its_label() -> None:
    assert set(paper_figures("tab:agg_sim")["table"]) == {"tab:agg_sim"}
    with pytest.raises(RealmError, match="tab:results_real"):
        paper_figures("tab:nowhere")


# -------------------------------------------------------------------- averages and differences


def test_differences_are_realm_minus_the_best_baseline(figures: pd.DataFrame) -> None:
    checked = 0
    for name, table in figures.groupby("table"):
        printed = named(table)[(table["quantity"] == "delta") & (table["benchmark"] != "average")]
        if printed.empty or name == "tab:training_length":  # which prints nothing but differences
            continue
        methods = by_method(table)
        best = methods.drop(columns="realm").max(axis=1)
        printed = printed.set_index(CONFIGURATION)["mean"]
        expected = (methods["realm"] - best).reindex(printed.index)
        assert expected.to_numpy() == pytest.approx(printed.to_numpy(), abs=1e-9), name
        checked += len(printed)
    assert checked == 16 + 4 * 45 + 15 + 5


@pytest.mark.parametrize("name", ["tab:results_uniform", *GRIDS])
def test_averages_recompute(name: str) -> None:
    table = named(paper_figures(name))
    keys = ["model", "noise", "pool", "method", "quantity"]
    averages = table[table["benchmark"] == "average"].set_index(keys)
    entries = table[table["benchmark"] != "average"].groupby(keys)
    mean, std = entries["mean"].mean(), entries["std"].mean()
    assert len(averages) == len(mean) == 30
    for key, printed in averages.iterrows():
        if key[-1] == "accuracy":
            assert mean[key] == pytest.approx(printed["mean"], abs=0.00501)
            if not math.isnan(printed["std"]):
                assert std[key] == pytest.approx(printed["std"], abs=0.00501)
        else:
            # Of six averages of differences the printed one is the difference of the printed averages instead.
            realm, noisy = (averages.loc[(*key[:3], method, "accuracy")]["mean"] for method in ("realm", "noisy"))
            of_averages = realm - noisy
            errors = abs(mean[key] - printed["mean"]), abs(of_averages - printed["mean"])
            assert min(errors) < 0.00501


def test_the_uniform_table_repeats_the_tables_of_noises(figures: pd.DataFrame) -> None:
    keys = ["model", "benchmark", "noise", "pool", "method", "quantity"]
    uniform = paper_figures("tab:results_uniform")
    uniform = uniform[uniform["method"] != "oracle"].set_index(keys)[["mean", "std"]]
    others = figures[figures["table"].isin(GRIDS) & (figures["noise"] == "uniform")].set_index(keys)[["mean", "std"]]
    pd.testing.assert_frame_equal(uniform.sort_index(), others.sort_index())


def test_averages_over_the_numbers_of_annotators() -> None:
    gained = gains(paper_figures("tab:ablation_num_annotators")).groupby("pool").mean()
    stated = paper_figures("sec:num_annotators").set_index("pool")["mean"]
    assert gained.to_dict() == pytest.approx(stated.to_dict(), abs=0.00501)


# -------------------------------------------------------------------- the abstract


def test_wins_and_averages_of_the_abstract(grid: pd.DataFrame) -> None:
    stated = paper_figures("abstract").set_index("quantity")["mean"]
    single, joint = gains(grid), gains(paper_figures("tab:results_multi"))
    both = pd.concat([single, joint])
    assert (len(single), len(joint), len(both)) == (135, 27, stated["configurations"])
    assert (both > 0).sum() == stated["wins"] == 152
    assert round(both.mean(), 1) == stated["average-delta"] == 5.0
    assert round(single.mean(), 1) == stated["single-task-average-delta"] == 5.5


def test_the_ten_losses_are_where_the_paper_says(grid: pd.DataFrame) -> None:
    single = gains(grid)
    losses = single[single <= 0].reset_index()
    assert losses["benchmark"].value_counts().to_dict() == {"pubmedqa": 7, "piqa": 2, "arc": 1}
    assert "uniform" not in set(losses["noise"])
    assert (gains(paper_figures("tab:results_multi")) > 0).all()


def test_real_annotators() -> None:
    table = paper_figures("tab:results_real")
    stated = paper_figures("abstract").set_index("quantity")["mean"]
    deltas = table[(table["quantity"] == "delta") & (table["benchmark"] != "goemotions")]["mean"]
    assert (len(deltas), (deltas > 0).sum()) == (12, stated["real-wins"])
    assert round(deltas.mean(), 1) == stated["real-average-delta"] == 2.9
    assert deltas.max() == stated["real-best-delta"] == 7.7
    oracles = table[table["method"] == "oracle"].set_index("benchmark")["mean"].to_dict()
    assert oracles == {"wikiattack": 96.3, "wikitoxicity": 74.4, "sentpolarity": 90.8, "goemotions": 70.2}


# -------------------------------------------------------------------- the rate of the expertise


def test_the_main_grid_gives_its_expertise_rates_away(grid: pd.DataFrame) -> None:
    """Its figures, mean and std, are those of one rate of the ablation and of no other."""
    main = grid.query("model == 'base' and noise == 'uniform' and pool == 'D1' and method == 'realm'")
    main = main[main["quantity"] == "accuracy"]
    keys = [*CONFIGURATION, "method", "mean", "std"]
    found = paper_figures("tab:lr_ablation").merge(main[keys], on=keys)
    assert len(main) == len(found) == 5
    assert dict(zip(found["benchmark"], found["rate"], strict=True)) == RATES


# -------------------------------------------------------------------- significance


def test_significance_totals(figures: pd.DataFrame) -> None:
    counts = paper_figures("tab:significance").set_index(["benchmark", "quantity"])["mean"].unstack()
    outcomes = ["significant-wins", "not-significant", "significant-losses"]
    assert (counts[outcomes].sum(axis=1) == counts["configurations"]).all()
    of_sets = counts.drop("all").sum()
    assert of_sets.to_dict() == counts.loc["all"].to_dict()
    assert counts.loc["all", outcomes].tolist() == [99, 32, 4]
    text = paper_figures("app:significance")
    by_size = text[(text["quantity"] == "significant-wins")]["mean"]
    assert by_size.tolist() == [23, 37, 39]
    assert by_size.sum() == 99
    stated = text[text["model"].isna()].set_index("quantity")["mean"]
    assert stated["significant"] == 99 + 4
    assert stated["ahead-on-every-seed"] <= stated["significant"]
    assert 3 * stated["configurations-per-model"] == 135


# -------------------------------------------------------------------- what the figures are shares of


def fits(printed: float, items: int, runs: int) -> bool:
    """Whether a mean over runs of shares of so many items can be printed like this, in percent to two places."""
    count = round(printed / 100 * items * runs)
    return any(abs(100 * (count + step) / (items * runs) - printed) < 0.00501 for step in (-1, 0, 1))


def fits_two_runs(mean: float, std: float, items: int) -> bool:
    """Whether two whole numbers of right answers have this mean and this population standard deviation."""
    middle, half = mean / 100 * 2 * items, std / 100 * 2 * items
    sums = [c for c in range(int(middle) - 1, int(middle) + 3) if abs(100 * c / (2 * items) - mean) < 0.00501]
    gaps = [c for c in range(max(int(half) - 1, 0), int(half) + 3) if abs(100 * c / (2 * items) - std) < 0.00501]
    return any((c + gap) % 2 == 0 for c in sums for gap in gaps)


@pytest.mark.parametrize("name", TEST_ITEMS)
def test_accuracies_are_shares_of_this_many_test_items_over_five_runs(name: str, figures: pd.DataFrame) -> None:
    single = [*GRIDS, "tab:ablation_num_annotators", "tab:lr_ablation"]
    of_set = figures[figures["table"].isin(single) & (figures["benchmark"] == name)]
    accuracies = of_set[(of_set["quantity"] == "accuracy") & (of_set["method"] != "oracle")]["mean"]
    assert len(accuracies) == 54 + 6 + 5
    assert all(fits(value, TEST_ITEMS[name], 5) for value in accuracies)
    assert all(fits(value, TEST_ITEMS[name], 1) for value in of_set[of_set["method"] == "oracle"]["mean"])
    published = {"arc": 1172, "riddlesense": 1021, "pubmedqa": 500}.get(name, TEST_ITEMS[name] - 1)
    assert not all(fits(value, published, 5) for value in accuracies)


def test_combined_accuracy_is_pooled_over_items() -> None:
    keys = ["model", "noise", "pool", "method"]
    parts = paper_figures("tab:multi_per_dataset")
    right = (parts["mean"] * parts["benchmark"].map(TEST_ITEMS)).groupby([parts[key] for key in keys]).sum()
    pooled = right / sum(TEST_ITEMS[name] for name in JOINT.split("+"))
    combined = paper_figures("tab:results_multi")
    combined = combined[combined["method"] != "oracle"].set_index(keys)["mean"]
    assert len(combined) == 54
    # Each part is itself rounded, by 0.005 at most.
    assert (pooled - combined).abs().max() < 0.0101


def test_multi_task_figures_are_of_two_runs_not_of_five() -> None:
    parts = paper_figures("tab:multi_per_dataset")
    parts = parts.assign(items=parts["benchmark"].map(TEST_ITEMS))
    combined = paper_figures("tab:results_multi").query("method != 'oracle'").assign(items=2175)
    both = pd.concat([parts, combined])
    assert all(fits_two_runs(row["mean"], row["std"], row["items"]) for _, row in both.iterrows())
    single = paper_figures("tab:results_noise_types").query("benchmark == 'obqa' and quantity == 'accuracy'")
    assert not all(fits_two_runs(row["mean"], row["std"], 500) for _, row in single.dropna(subset=["std"]).iterrows())


# -------------------------------------------------------------------- what does not recompute


def test_statements_that_the_tables_do_not_bear_out(figures: pd.DataFrame, grid: pd.DataFrame) -> None:
    """The list of the page on benchmarks. A corrected transcription, or a corrected paper, makes this fail."""
    graded = gains(paper_figures("tab:ablation_num_annotators")).reset_index()
    ties = graded[graded[0] == 0]
    assert ties[["benchmark", "pool"]].to_numpy().tolist() == [["pubmedqa", "graded:10"]]

    single = gains(grid).reset_index(name="gain")
    reversed_ = single[(single["pool"] == "D2") & (single["noise"] == "systematic") & (single["gain"] < 0)]
    assert set(reversed_["model"]) == {"small", "base", "large"}
    assert set(reversed_["benchmark"]) == {"pubmedqa"}

    real = by_method(paper_figures("tab:results_real")).reset_index()
    above = real[real["majority"] > real["noisy"]]
    assert above["benchmark"].tolist().count("wikiattack") == 2

    learned = paper_figures("tab:learned_expertise").query("benchmark == 'arc' and pool == 'D1' and annotator == 'a1'")
    told = paper_figures("app:impl").query("quantity == 'expertise' and annotator == 'a1' and steps == 200")
    assert (learned["mean"].item(), told["mean"].item()) == (0.96, 0.58)

    again = paper_figures("tab:ablation_annotators_dist1").query("pool == 'one-reliable:3' and method == 'noisy'")
    main = grid.query("model == 'base' and noise == 'uniform' and pool == 'D1' and method == 'noisy'")
    main = main.set_index("benchmark")["mean"]
    assert all(abs(row["mean"] - main[row["benchmark"]]) < 0.0501 for _, row in again.iterrows())

    stated = paper_figures("app:impl").query("quantity == 'epochs'").set_index("benchmark")["mean"]
    published = {"piqa": 16113, "obqa": 4957, "riddlesense": 3510, "arc": 1119, "pubmedqa": 450}
    epochs = {name: 200 * 64 / items for name, items in published.items()}
    off = {name for name, value in epochs.items() if abs(value - stated[name]) > (0.5 if stated[name] >= 10 else 0.05)}
    assert off == {"obqa", "arc"}


def test_systematic_noise_leaves_piqa_the_same_pool(grid: pd.DataFrame) -> None:
    """With two options its second annotator is never wrong, and the pools differ in nothing else."""
    piqa = grid.query("benchmark == 'piqa' and noise == 'systematic' and quantity == 'accuracy'")
    printed = piqa.groupby(["model", "method"])["mean"].nunique()
    assert printed[printed > 1].index.tolist() == [("small", "realm")]


def test_greatest_spearman_under_ties() -> None:
    """The paper's 0.87 is the most that a pool with two equal annotators allows."""
    from scipy.stats import spearmanr

    for true in ([0.9, 0.1, 0.1], [0.9, 0.9, 0.1]):
        assert round(float(spearmanr(true, [0.9, 0.5, 0.1]).statistic), 2) == 0.87
