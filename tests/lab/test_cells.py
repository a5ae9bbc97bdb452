"""What a cell trains on: the same for every method, smaller variants, several benchmarks jointly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from realm.comparison.cells import Cell, CellTables
from realm.comparison.simulation import realised_accuracies
from realm.errors import RealmError
from realm_lab import cells as lab_cells
from realm_lab.cells import load_channel
from realm_lab.specs import Spec, spec_rows
from tests.lab.small_benchmark import write_questions
from tests.tiny import crowd


def cell(**changed) -> Cell:
    grid = {"model": "m", "benchmark": "obqa", "noise": "uniform", "pool": "D1", "regime": "sparse", "method": "realm"}
    grid |= {"seeds": [changed.pop("seed", 0)], "steps": 1, "settings": {}, **changed}
    channel = grid.pop("channel", None)
    [row] = spec_rows(Spec("made", "made", Path("made.yaml"), (grid,)))
    return row["cell"] if channel is None else replace(row["cell"], data=replace(row["cell"].data, channel=channel))


D3 = np.array([[0.9, 0.5, 0.1], [0.1, 0.9, 0.5], [0.5, 0.1, 0.9]])


def load(of: Cell, folder: Path) -> CellTables:
    """The tables of a cell whose benchmark is in a folder."""
    return replace(of.data, folder=folder).load(of.method, of.seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    write_questions(place, "obqa", train=300)
    write_questions(place, "piqa", train=300, labels=2)
    write_questions(place, "arc", train=300, labels=4)
    own = place / "sentpolarity"
    own.mkdir()
    words = {"red": "negative", "green": "positive"}
    crowd(80, (0.95, 0.9, 0.5, 0.2), labels=2).to_pandas().replace(words).to_csv(own / "annotations.csv", index=False)
    test = crowd(30, seed=5, labels=2).to_pandas().replace(words)[["item", "text", "gold"]].drop_duplicates()
    test.to_csv(own / "test.csv", index=False)
    return place


def test_methods_of_a_configuration_see_the_same_annotations_and_seeds_differ(folder) -> None:
    tables = {method: load(cell(method=method), folder).annotations for method in ("realm", "noisy")}
    assert tables["realm"].fingerprint() == tables["noisy"].fingerprint()
    assert load(cell(seed=1), folder).annotations.fingerprint() != tables["realm"].fingerprint()
    oracle = load(cell(method="oracle"), folder).annotations
    assert oracle.n_annotations == 0 and oracle.texts.equals(tables["realm"].texts)
    assert (oracle.gold == tables["realm"].gold).all()


def test_regimes(folder) -> None:
    assert (load(cell(), folder).annotations.annotations_per_item == 1).all()
    assert (load(cell(regime="shared", pool="graded:5"), folder).annotations.annotations_per_item == 5).all()


def test_a_smaller_variant_takes_the_same_items_for_every_seed_and_pool(folder) -> None:
    small = [
        load(cell(items=50, test_items=7, seed=seed, pool=pool), folder) for seed in (0, 1) for pool in ("D1", "D2")
    ]
    assert {found.annotations.n_items for found in small} == {50} and {found.test.n_items for found in small} == {7}
    assert len({tuple(found.annotations.item_ids.to_pylist()) for found in small}) == 1
    larger = load(cell(items=80), folder).annotations.item_ids.to_pylist()
    assert set(small[0].annotations.item_ids.to_pylist()) < set(larger)
    assert load(cell(items=10_000), folder).annotations.n_items == 300


def test_joined_benchmarks_are_tasks_with_the_patterns_of_the_paper(folder) -> None:
    found = load(cell(benchmark="obqa+piqa+arc", pool="D3", regime="shared"), folder)
    table = found.annotations
    assert [task.name for task in table.tasks] == ["obqa", "piqa", "arc"] == [t.name for t in found.test.tasks]
    assert [set(table.option_counts[table.item_tasks == task]) for task in range(3)] == [{4}, {2}, {4}]
    assert found.accuracies is not None and (found.accuracies == D3).all()
    assert np.abs(realised_accuracies(table) - D3).max() < 0.1
    assert len({*zip(table.item_ids.to_pylist(), table.item_tasks.tolist(), strict=True)}) == table.n_items == 900
    alone = load(cell(benchmark="piqa"), folder).annotations
    assert alone.texts.to_pylist() == [
        t for t, task in zip(table.texts.to_pylist(), table.item_tasks, strict=True) if task == 1
    ]
    assert load(cell(benchmark="obqa+piqa", pool="D1", items=20), folder).annotations.n_items == 40


def test_own_annotations_with_their_pool(folder) -> None:
    own = {"benchmark": "sentpolarity", "noise": None, "regime": "shared"}
    everyone = load(cell(**own, pool="all"), folder)
    assert everyone.annotations.n_annotators == 4 and everyone.accuracies is None
    assert set(load(cell(**own, pool="contrast:1:10"), folder).annotations.annotators) == {"w0", "w3"}
    sparse = load(cell(**{**own, "regime": "sparse"}, pool="all", items=20), folder).annotations
    assert sparse.n_items == sparse.n_annotations == 20
    assert load(cell(benchmark="sentpolarity", noise="uniform"), folder).annotations.annotators == ("a1", "a2", "a3")
    with pytest.raises(RealmError, match="needs 18 annotators"):
        load(cell(**own, pool="contrast:9:10"), folder)
    with pytest.raises(RealmError, match="no annotations of its own"):
        load(cell(noise=None, pool="all"), folder)


def write_own(folder, gold_of) -> None:
    """Reviews in SentPolarity's plain form, the first half by w0 and w1 and the rest by w2 and w3."""
    (folder / "sentpolarity").mkdir()
    rows = [
        {"item": f"i{i}", "text": f"text {i}", "annotator": f"w{2 * (i // 20) + i % 2}", "label": "positive"}
        | {"gold": gold_of(i)}
        for i in range(40)
    ]
    pd.DataFrame(rows).to_csv(folder / "sentpolarity" / "annotations.csv", index=False)
    test = [{"item": f"t{i}", "text": "x", "gold": gold} for i, gold in enumerate(["positive", "negative"])]
    pd.DataFrame(test).to_csv(folder / "sentpolarity" / "test.csv", index=False)


def test_the_oracle_sees_the_items_of_the_methods_beside_it(tmp_path, folder) -> None:
    write_own(tmp_path, lambda i: "positive" if i % 2 else "negative")
    own = {"benchmark": "sentpolarity", "noise": None}
    for pool, items, count in (("contrast:1:5", None, 20), ("contrast:1:5", 12, 12), ("all", None, 40)):
        for regime in ("sparse", "shared"):
            said = {**own, "pool": pool, "items": items, "regime": regime}
            theirs, oracle = (load(cell(**said, method=how), tmp_path).annotations for how in ("noisy", "oracle"))
            assert oracle.item_ids.to_pylist() == theirs.item_ids.to_pylist() and oracle.n_items == count
    simulated = cell(benchmark="sentpolarity", method="oracle", pool="D2")
    assert load(simulated, tmp_path).annotations.n_items == 40


def test_the_oracle_leaves_out_items_of_the_pool_that_lack_gold(tmp_path) -> None:
    write_own(tmp_path, lambda i: None if i % 4 == 0 else ("positive", "negative")[i % 2])
    own = {"benchmark": "sentpolarity", "noise": None, "pool": "all", "items": 24}
    items = load(cell(**own), tmp_path).annotations
    oracle = load(cell(**own, method="oracle"), tmp_path).annotations
    known = [name for name in items.item_ids.to_pylist() if int(name[1:]) % 4]
    assert oracle.item_ids.to_pylist() == known and 0 < len(known) < 24


def test_a_pool_without_gold_has_no_oracle(tmp_path) -> None:
    write_own(tmp_path, lambda i: None)
    with pytest.raises(RealmError, match="sentpolarity, pool all: no gold"):
        load(cell(benchmark="sentpolarity", noise=None, pool="all", method="oracle"), tmp_path)


def test_one_task_of_a_benchmark(tmp_path) -> None:
    own = tmp_path / "cebab"
    own.mkdir()
    rows = [
        {
            "item": f"i{i}/{task}",
            "task": task,
            "text": f"text {i}",
            "annotator": f"w{i % 2}",
            "label": label,
            "gold": label,
        }
        for i, label in enumerate(["positive", "negative", "unknown"] * 4)
        for task in ("food", "service", "ambiance", "noise")
    ]
    pd.DataFrame(rows).to_csv(own / "annotations.csv", index=False)
    pd.DataFrame(rows).drop(columns=["annotator", "label"]).to_csv(own / "test.csv", index=False)
    found = load(cell(benchmark="cebab/service", noise=None, pool="all"), tmp_path)
    assert [task.name for task in found.annotations.tasks] == ["service"] == [task.name for task in found.test.tasks]
    assert found.annotations.n_items == 12 and not found.annotations.item_tasks.any()
    assert all(name.endswith("/service") for name in found.annotations.item_ids.to_pylist())
    with pytest.raises(RealmError, match="drinks"):
        load(cell(benchmark="cebab/drinks"), tmp_path)


def test_the_fingerprint_tells_data_apart(folder, tmp_path) -> None:
    write_questions(tmp_path, "obqa", train=299)
    assert lab_cells._fingerprint("obqa", folder) != lab_cells._fingerprint("obqa", tmp_path)
    assert lab_cells._fingerprint("obqa", folder) != lab_cells._fingerprint("obqa+piqa", folder)


def test_a_channel_of_ones_own_comes_with_the_tables(folder) -> None:
    name = "realm_lab.channels.crowd_layer:CrowdLayerChannel"
    found = load(cell(channel=name), folder)
    assert found.channel is load_channel(name) and load(cell(), folder).channel is None
    described = cell(channel=name).fields()
    assert described["channel"] == name and cell().fields()["channel"] is None


# -------------------------------------------------------------------- gold kept apart, and labels drawn per item


def test_gold_kept_apart_is_in_no_training_and_the_same_for_every_seed_and_method(folder) -> None:
    whole = load(cell(), folder).annotations
    loaded = [
        load(cell(gold_apart=12, seed=seed, method=method), folder)
        for seed, method in ((0, "realm"), (1, "noisy"), (0, "oracle"))
    ]
    apart = [set(tables.gold_apart.item_ids.to_pylist()) for tables in loaded]
    assert apart[0] == apart[1] == apart[2] and len(apart[0]) == 12
    for tables in loaded:
        rest = set(tables.annotations.item_ids.to_pylist())
        assert not rest & apart[0] and rest | apart[0] == set(whole.item_ids.to_pylist())
    assert np.bincount(loaded[0].gold_apart.gold).tolist() == [3, 3, 3, 3]  # the labels in turn
    with pytest.raises(RealmError, match="gold_apart 300"):
        load(cell(gold_apart=300), folder)
    assert load(cell(), folder).gold_apart is None


def test_gold_apart_of_several_tasks_has_every_label_of_each(folder) -> None:
    apart = load(cell(benchmark="obqa+piqa", gold_apart=6), folder).gold_apart
    assert sorted(zip(apart.item_tasks.tolist(), apart.gold.tolist(), strict=True)) == [
        (0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1),
    ]  # fmt: skip


def test_labels_drawn_per_item(folder) -> None:
    own = {"benchmark": "sentpolarity", "noise": None, "regime": "shared", "pool": "per-item:2"}
    tables = [load(cell(**own, seed=seed), folder).annotations for seed in (0, 0, 1)]
    assert (tables[0].annotations_per_item == 2).all() and tables[0].n_items == 80
    assert tables[0].fingerprint() == tables[1].fingerprint() != tables[2].fingerprint()
    everybody = load(cell(**{**own, "pool": "all"}), folder).annotations
    given = set(zip(everybody.item.tolist(), everybody.annotator.tolist(), everybody.label.tolist(), strict=True))
    kept = zip(tables[0].item.tolist(), tables[0].annotator.tolist(), tables[0].label.tolist(), strict=True)
    assert set(kept) < given
    # all annotators are drawn alike: half of the four, each
    counts = np.bincount(tables[0].annotator, minlength=4)
    assert counts.sum() == 160 and (counts > 20).all()
    oracle = cell(**own, method="oracle")
    assert oracle == cell(**{**own, "pool": "all"}, method="oracle") and oracle.data.pool == "all"
    for pool in ("per-item", "per-item:0", "per-item:a", "per-item:1:2", "all:3"):
        with pytest.raises(RealmError, match="per-item:3"):
            load(cell(**{**own, "pool": pool}), folder)
