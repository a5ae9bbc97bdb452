"""Specs: what they expand to, and what is said of mistakes in them."""

from __future__ import annotations

import random

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from realm.lab.spec import Spec, expand, load_spec, packaged_specs

from realm.errors import RealmError
from tests.lab.small_benchmark import SMALL, write_spec

GRID = {
    "model": "m",
    "benchmark": "obqa",
    "noise": "uniform",
    "pool": "D1",
    "regime": "sparse",
    "method": "realm",
    "seeds": 2,
    "steps": 20,
}


def cells_of(tmp_path, grid=None, **said):
    return expand(load_spec(write_spec(tmp_path / "s.yaml", "m", grid, **said)))


def spec_of(grid, path="s.yaml", **shared) -> Spec:
    return Spec("s", "s", path, shared=shared, grids=(grid,))


# -------------------------------------------------------------------- expansion


def test_a_grid_is_the_product_of_its_axes(tmp_path) -> None:
    made = cells_of(tmp_path, {"pool": ["D1", "D2", "D3"], "method": ["realm", "noisy"], "seeds": 5, "steps": [3, 9]})
    assert len(made) == 3 * 2 * 5 * 2 == len({cell.id for cell in made})
    assert {cell.seed for cell in made} == {0, 1, 2, 3, 4} and {cell.steps for cell in made} == {3, 9}


def test_oracle_and_repeated_cells_appear_once(tmp_path) -> None:
    one = {**GRID, "method": ["realm", "oracle"], "pool": ["D1", "D2"], "noise": ["uniform", "asymmetric"], "seeds": 1}
    made = cells_of(tmp_path, [one, one])
    assert [cell.method for cell in made].count("oracle") == 1 and len(made) == 4 + 1


def test_oracles_of_own_annotators_keep_their_pool_and_share_regimes(tmp_path) -> None:
    own = {key: value for key, value in GRID.items() if key not in ("noise", "pool")}
    own |= {"method": ["realm", "oracle"], "regime": ["sparse", "shared"], "seeds": 1}
    pools = [cell.data.pool for cell in cells_of(tmp_path, [{**own, "pool": ["contrast:10", "contrast:20"]}])]
    assert pools.count("contrast:10") == pools.count("contrast:20") == 2 + 1
    assert [cell.data.pool for cell in cells_of(tmp_path, [own]) if cell.method == "oracle"] == ["all"]
    (joined,) = cells_of(tmp_path, [{**own, "method": "oracle", "benchmark": "arc+obqa"}])
    assert joined.data.pool is None


def test_aggregation_is_left_out_of_sparse_with_a_note(tmp_path) -> None:
    grid = {"method": ["noisy", "majority", "dawid-skene"], "regime": ["sparse", "shared"]}
    heard: list[str] = []
    made = expand(load_spec(write_spec(tmp_path / "s.yaml", "m", grid)), report=heard.append)
    assert {(c.method, c.data.regime) for c in made if c.method != "noisy"} == {
        ("majority", "shared"),
        ("dawid-skene", "shared"),
    }
    assert len(heard) == 2 and "majority: 1 cells left out" in heard[0]


def test_settings_of_a_grid_win_and_lists_are_axes(tmp_path) -> None:
    grid = {"method": "realm", "settings": {"expertise_learning_rate": [0.1, 1], "train_layers": 2}}
    made = cells_of(tmp_path, grid, settings={"train_layers": 1, "learning_rate": "5e-5", "max_steps": 7})
    assert [cell.settings["expertise_learning_rate"] for cell in made] == [0.1, 1.0]
    assert all(cell.settings["train_layers"] == 2 and cell.settings["learning_rate"] == 5e-5 for cell in made)
    assert {cell.steps for cell in made} == {3}  # the grid's own steps
    bare = {key: value for key, value in GRID.items() if key != "steps"}
    assert {cell.steps for cell in cells_of(tmp_path, [bare], settings={"max_steps": 7})} == {7}


def test_settings_by_benchmark(tmp_path) -> None:
    rates = {"expertise_learning_rate": {"obqa": 0.1, "piqa": [0.5, 1]}}
    grid = {**GRID, "benchmark": ["obqa", "piqa", "arc", "obqa+piqa"], "method": ["realm", "noisy"], "seeds": 1}
    made = cells_of(tmp_path, [grid], by_benchmark=rates)
    of_realm = [(c.data.benchmark, c.settings.get("expertise_learning_rate")) for c in made if c.method == "realm"]
    assert of_realm == [("obqa", 0.1), ("piqa", 0.5), ("piqa", 1.0), ("arc", None), ("obqa+piqa", None)]
    written_out = {**GRID, "seeds": 1, "settings": {"expertise_learning_rate": 0.1}}
    assert cells_of(tmp_path, [written_out]) == [made[0]]
    assert not any("expertise_learning_rate" in c.settings for c in cells_of(tmp_path, [{**grid, "by_benchmark": {}}]))
    choose = {"realm": {"expertise_learning_rate": [0.1, 0.5]}}
    chosen = cells_of(tmp_path, [GRID, {**GRID, "benchmark": "arc", "choose": choose}], by_benchmark=rates)
    assert {(c.data.benchmark, bool(c.choose)) for c in chosen} == {("obqa", False), ("arc", True)}


def test_counts_are_shared_unless_the_grid_says_otherwise(tmp_path) -> None:
    made = cells_of(tmp_path, [GRID, {**GRID, "items": 5, "curve": None}], items=50, test_items=20, curve=10)
    assert {(cell.data.items, cell.data.test_items, cell.curve) for cell in made} == {(50, 20, 10), (5, 20, None)}


def test_choosing_belongs_to_its_method_and_can_be_turned_off(tmp_path) -> None:
    choose = {"realm": {"expertise_learning_rate": [0.1, 0.5]}}
    made = cells_of(tmp_path, [{**GRID, "method": ["realm", "noisy"]}], choose=choose)
    assert {cell.method: dict(cell.choose) for cell in made} == {
        "realm": {"expertise_learning_rate": (0.1, 0.5)},
        "noisy": {},
    }
    off = {**GRID, "choose": {}, "settings": {"expertise_learning_rate": 0.5}}
    assert not any(cell.choose for cell in cells_of(tmp_path, [off], choose=choose))


def test_own_annotations_and_joined_benchmarks(tmp_path) -> None:
    own = {key: value for key, value in GRID.items() if key not in ("noise", "pool")}
    assert {cell.data.pool for cell in cells_of(tmp_path, [own])} == {"all"}
    assert {cell.data.pool for cell in cells_of(tmp_path, [{**own, "pool": "contrast:20:10"}])} == {"contrast:20:10"}
    (made, _) = cells_of(tmp_path, [{**GRID, "benchmark": "arc+obqa+cebab/food", "pool": "D3"}])
    assert made.data.benchmarks == ["arc", "obqa", "cebab/food"]


def test_a_spec_writes_only_what_differs_from_the_one_it_extends(tmp_path) -> None:
    write_spec(tmp_path / "base.yaml", "m", {"pool": ["D1", "D2"]}, items=50, choose={"realm": {"train_layers": [1]}})
    (tmp_path / "s.yaml").write_text(
        "extends: base.yaml\ntitle: other\nsettings: {learning_rate: 1.0e-4}\nchoose: {}\n"
        "grid: [{seeds: 2}, {pool: D3}]\n"
    )
    spec = load_spec(tmp_path / "s.yaml")
    cells = expand(spec)
    assert (spec.name, spec.title) == ("s", "other")
    assert [(c.data.pool, c.seed) for c in cells] == [("D1", 0), ("D1", 1), ("D2", 0), ("D2", 1), ("D3", 0)]
    assert {(c.data.items, c.settings["learning_rate"], c.settings["per_device_train_batch_size"]) for c in cells} == {
        (50, 1e-4, 8)
    }
    assert {cell.model for cell in expand(load_spec(SMALL / "noise-small.yaml"))} == {"minilm-l6"}
    (tmp_path / "t.yaml").write_text(f"extends: {SMALL / 'noise-small.yaml'}\ngrid: {{model: larger}}\n")
    assert {cell.model for cell in expand(load_spec(tmp_path / "t.yaml"))} == {"larger"}


@pytest.mark.parametrize(
    ("extends", "words"),
    [("s.yaml", "extends this spec itself"), ("wins", "several grids"), ("none", "realm lab list"), ("[1]", "text")],
)
def test_what_cannot_be_extended(extends: str, words: str, tmp_path) -> None:
    (tmp_path / "s.yaml").write_text(f"extends: {extends}\n")
    with pytest.raises(RealmError, match=words):
        load_spec(tmp_path / "s.yaml")


names = st.sampled_from(["benchmark", "pool", "noise", "regime", "method", "steps", "model"])


@given(st.sets(names), st.randoms(use_true_random=False))
def test_the_order_of_keys_and_one_value_as_a_list_change_nothing(listed: set[str], luck: random.Random) -> None:
    grid = {key: [value] if key in listed else value for key, value in GRID.items()}
    settings = [("learning_rate", 1e-3), ("train_layers", 2), ("expertise_learning_rate", 1)]
    luck.shuffle(settings)
    said = list({**grid, "settings": {k: [v] if luck.random() < 0.5 else v for k, v in settings}}.items())
    luck.shuffle(said)
    usual = {**GRID, "settings": {"expertise_learning_rate": 1.0, "learning_rate": 0.001, "train_layers": 2}}
    assert [c.id for c in expand(spec_of(dict(said)))] == [c.id for c in expand(spec_of(usual))]


def test_every_spec_of_the_package_reads() -> None:
    assert "noise-real" in packaged_specs()
    for name in packaged_specs():
        spec = load_spec(name)
        assert expand(spec) and spec.name == name


# -------------------------------------------------------------------- mistakes

MISTAKES = [
    ({"benchmark": "obqua"}, {}, ["grid: benchmark", "obqua", "obqa"]),
    ({"benchmark": "obqa+obqa"}, {}, ["grid: benchmark", "twice"]),
    ({"noise": "loud"}, {}, ["grid: noise", "loud", "uniform"]),
    ({"pool": "D9"}, {}, ["grid", "D9", "graded:N"]),
    ({"pool": "contrast:20"}, {}, ["grid", "contrast:20", "D1"]),
    ({"pool": "all", "noise": None, "benchmark": "arc+obqa"}, {}, ["noise is missing", "arc+obqa"]),
    ({"pool": "D3", "benchmark": "arc+obqa"}, {}, ["grid", "D3", "three tasks"]),
    ({"pool": None}, {}, ["pool is missing", "pool: D1"]),
    ({"pool": "D1", "noise": None, "method": "oracle"}, {}, ["pool D1", "contrast:20"]),
    ({"pool": "contrast:none", "noise": None}, {}, ["contrast:none", "contrast:20"]),
    ({"regime": "dense"}, {}, ["grid: regime", "dense", "shared"]),
    ({"method": "magic"}, {}, ["grid: method", "magic", "oracle"]),
    ({"method": []}, {}, ["grid: method", "empty"]),
    ({"method": 3}, {}, ["grid: method", "text", "3"]),
    ({"seeds": 0}, {}, ["grid: seeds", "1 or more"]),
    ({"seeds": [0, -1]}, {}, ["grid: seeds", "0 or more"]),
    ({"seeds": "five"}, {}, ["grid: seeds", "whole number"]),
    ({"steps": 0}, {}, ["grid: steps", "1 or more"]),
    ({"steps": 1.5}, {}, ["grid: steps", "whole number"]),
    ({"colour": 1}, {}, ["grid", "unknown key colour", "benchmark"]),
    ({"items": -1}, {}, ["grid: items", "1 or more"]),
    ({}, {"items": "many"}, ["s.yaml: items", "whole number"]),
    ({}, {"sead": 1}, ["s.yaml", "unknown key sead", "grid"]),
    ({}, {"title": 3}, ["s.yaml: title", "text"]),
    ({}, {"name": "other"}, ["name", "that of the file", "other"]),
    ({}, {"settings": {"learning_rat": 1}}, ["settings", "no such setting: learning_rat", "learning_rate"]),
    ({}, {"settings": {"output_dir": "x"}}, ["no such setting: output_dir"]),
    ({}, {"settings": {"seed": 1}}, ["seed", "seeds"]),
    ({}, {"settings": {"num_train_epochs": 1}}, ["num_train_epochs", "steps"]),
    ({}, {"settings": {"use_gold": True}}, ["use_gold", "oracle"]),
    ({}, {"settings": {"learning_rate": "fast"}}, ["settings: learning_rate", "number", "fast"]),
    ({}, {"settings": {"train_layers": 1.5}}, ["settings: train_layers", "whole number"]),
    ({}, {"settings": {"bf16": "yes"}}, ["settings: bf16", "true or false"]),
    ({}, {"settings": {"learning_rate": []}}, ["learning_rate", "empty"]),
    ({}, {"settings": [1]}, ["settings", "name: value"]),
    ({"settings": {"expertise": "vector"}}, {}, ["grid: settings: expertise", "scalar or matrix"]),
    ({"method": "realm", "settings": {"expertise": "scalar", "expertise_update": "em"}}, {}, ["scalar", "em"]),
    ({}, {"choose": {"magic": {"learning_rate": [1]}}}, ["choose", "magic", "realm"]),
    ({}, {"choose": {"noisy": {"learning_rate": [1]}}}, ["learning_rate", "settings", "choose"]),
    ({}, {"choose": {"realm": {"max_steps": [1]}}}, ["choose", "max_steps"]),
    ({}, {"choose": [1]}, ["choose", "realm"]),
    ({}, {"by_benchmark": {"train_layers": 2}}, ["s.yaml: by_benchmark", "arc: 2"]),
    ({}, {"by_benchmark": {"train_layers": {"ark": 2}}}, ["by_benchmark: train_layers", "ark", "arc"]),
    ({}, {"by_benchmark": {"train_layers": {"arc": "x"}}}, ["by_benchmark: train_layers", "whole number"]),
    ({}, {"by_benchmark": {"max_steps": {"arc": 2}}}, ["by_benchmark: max_steps", "steps"]),
    ({}, {"by_benchmark": {"learning_rate": {"obqa": 1}}}, ["learning_rate", "settings", "by_benchmark"]),
    (
        {"method": "realm", "by_benchmark": {"train_layers": {"obqa": 1}}},
        {"choose": {"realm": {"train_layers": [1]}}},
        ["train_layers", "by_benchmark", "choose"],
    ),
    ([1], {}, ["grid", "key: value"]),
    ([], {}, ["grid", "key: value"]),
    ([GRID, {**GRID, "noise": "loud"}], {}, ["grid 2: noise", "loud"]),
]


@pytest.mark.parametrize(("grid", "said", "words"), MISTAKES)
def test_mistakes_name_the_file_the_key_and_the_mending(grid, said, words, tmp_path) -> None:
    path = write_spec(tmp_path / "s.yaml", "m", grid, **said)
    with pytest.raises(RealmError) as error:
        load_spec(path)
    for word in [str(path), *words]:
        assert word in str(error.value)


@pytest.mark.parametrize("name", ["model", "benchmark", "regime", "method", "seeds", "steps"])
def test_a_key_that_is_needed_is_asked_for(name, tmp_path) -> None:
    path = write_spec(tmp_path / "s.yaml", "m", [{key: value for key, value in GRID.items() if key != name}])
    with pytest.raises(RealmError, match=f"{name} is missing"):
        load_spec(path)


@pytest.mark.parametrize("content", ["- 1", "a: [", "\x00", "grid", "title: no grid"])
def test_what_is_no_spec_at_all(content, tmp_path) -> None:
    (tmp_path / "s.yaml").write_text(content)
    with pytest.raises(RealmError, match=r"s\.yaml"):
        load_spec(tmp_path / "s.yaml")


def test_a_spec_that_is_not_there(tmp_path) -> None:
    with pytest.raises(RealmError, match="realm lab list"):
        load_spec("no-such-spec")
    with pytest.raises(RealmError, match=r"gone\.yaml"):
        load_spec(tmp_path / "gone.yaml")


def test_yaml_makes_no_objects(tmp_path) -> None:
    (tmp_path / "s.yaml").write_text("title: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(RealmError, match="not readable YAML"):
        load_spec(tmp_path / "s.yaml")
    assert yaml.safe_load("1") == 1


# -------------------------------------------------------------------- benchmarks of one's own


def own_spec(tmp_path, **entry):
    for name in ("train", "test"):
        (tmp_path / f"{name}.csv").write_text("text,annotator,label,gold\na,x,no,no\nb,y,yes,yes\n")
    given = {"train": "train.csv", "test": "test.csv", **entry}
    benchmarks = {"mine": {key: value for key, value in given.items() if value is not None}}
    return write_spec(tmp_path / "s.yaml", "m", {"benchmark": ["mine", "obqa"]}, benchmarks=benchmarks)


def test_a_benchmark_of_ones_own_stands_beside_those_of_the_package(tmp_path) -> None:
    made = expand(load_spec(own_spec(tmp_path)))
    mine, other = made
    assert (mine.data.benchmark, other.data.benchmark) == ("mine", "obqa")
    assert [each.name for each in mine.data.own] == ["mine"] and other.data.own == ()
    assert "files" in mine.fields() and "files" not in other.fields()
    (tmp_path / "more").mkdir()
    extending = write_spec(tmp_path / "more" / "e.yaml", "m", {}, extends="../s.yaml")
    assert expand(load_spec(extending))[0].data.benchmark == "obqa"
    own = {"benchmark": "mine"}
    extended = expand(load_spec(write_spec(tmp_path / "more" / "e.yaml", "m", own, extends="../s.yaml")))
    assert extended[0].data.own[0].train.samefile(tmp_path / "train.csv") and extended[0].id == mine.id, (
        "the paths are relative to the spec that names them"
    )
    (tmp_path / "test.csv").write_text("text,gold\nc,no\n")
    again = expand(load_spec(tmp_path / "s.yaml"))[0]
    assert again.id != mine.id, "another content is another cell"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"train": None}, "mine: train is missing"),
        ({"test": "nowhere.csv"}, r"mine: test: there is no file .*nowhere\.csv"),
        ({"colour": "red"}, "unknown key colour. There are: train, test, columns"),
        ({"columns": {"worker": "w"}}, "columns: unknown column worker. There are: item"),
        ({"columns": ["text"]}, "columns: must be like"),
        ({"labels": "yes"}, "labels: must be a list"),
        ({"instruction": 3}, "instruction: must be text"),
        ({"min_annotations": 0}, "min_annotations: must be a whole number"),
        ({"annotated": "no"}, "annotated: must be true or false"),
    ],
)
def test_mistakes_in_a_benchmark_of_ones_own(entry, said, tmp_path) -> None:
    with pytest.raises(RealmError, match=said):
        load_spec(own_spec(tmp_path, **entry))


@pytest.mark.parametrize(
    ("benchmarks", "said"),
    [
        ({"obqa": {"train": "a", "test": "b"}}, "a benchmark of the package has this name"),
        ({"a+b": {"train": "a", "test": "b"}}, "a name has letters"),
        (["mine"], "benchmarks: must be like"),
        ({"mine": "train.csv"}, "benchmarks: must be like"),
    ],
)
def test_mistakes_in_the_names_of_benchmarks(benchmarks, said, tmp_path) -> None:
    with pytest.raises(RealmError, match=said):
        load_spec(write_spec(tmp_path / "s.yaml", "m", benchmarks=benchmarks))
