"""One engine: its statistics add up over shards, there is one EM loop, and the annotator's formula stands once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from realm.crowd.engine import (
    PRIORS,
    Floats,
    LabelTable,
    Parameters,
    Pool,
    Priors,
    item_scores,
    maximise,
    normalise,
    prior_parameters,
    statistics,
)
from tests.contracts.modules import modules

DAWID_SKENE = {"dawid-skene": Priors(rows=0.02, shared=float("inf"), habit=float("inf"), form="none")}
EVERY = {**PRIORS, **DAWID_SKENE}
Statistics = Callable[[LabelTable, Floats], Floats]


# -------------------------------------------------------------------- statistics are additive over shards


def crowd(seed: int = 0, options: int = 4, narrow: bool = False) -> LabelTable:
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, options + 1, 60) if narrow else np.full(60, options)
    item = np.sort(rng.integers(0, 60, 500))
    return LabelTable(
        item, rng.integers(0, 9, 500), rng.integers(0, counts[item]), 60, 9, options, rng.uniform(0.2, 2.0, 500), counts
    )


def shards_of(table: LabelTable, n: int) -> list[np.ndarray]:
    """The items of each shard: of very different sizes, the last without any."""
    cuts = np.unique(np.geomspace(1, table.n_items, n).astype(int))
    order = np.random.default_rng(1).permutation(table.n_items)
    return [np.sort(part) for part in np.split(order, cuts[:-1])] + [np.zeros(0, dtype=np.int64)]


def summed(table: LabelTable, posterior: Floats, shards: list[np.ndarray], count: Statistics) -> Floats:
    """The statistics of every shard added up: shards keep the numbers of the cells."""
    return np.sum([count(table.take_items(items), posterior[items]) for items in shards], axis=0)


def check_additive(count: Statistics) -> None:
    for narrow in (False, True):
        table = crowd(narrow=narrow)
        posterior = np.random.default_rng(2).dirichlet(np.ones(table.n_options), table.n_items)
        whole = count(table, posterior)
        for n in (2, 5, 60):
            np.testing.assert_allclose(summed(table, posterior, shards_of(table, n), count), whole, atol=1e-9)


def test_statistics_add_up_over_shards_of_items() -> None:
    check_additive(statistics)


@pytest.mark.parametrize(
    "planted",
    [
        lambda table, posterior: statistics(table, posterior) / max(len(table.item), 1),
        lambda table, posterior: statistics(table, posterior) + 0.01,
        lambda table, posterior: statistics(table, posterior / max(posterior.sum(), 1)),
    ],
    ids=["a mean", "a prior in every shard", "normalised in every shard"],
)
def test_statistics_that_do_not_add_up_are_seen(planted: Statistics) -> None:
    with pytest.raises(AssertionError):
        check_additive(planted)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("narrow", [False, True])
def test_a_round_of_em_over_shards_is_that_of_the_whole(name: str, narrow: bool) -> None:
    """As workers of a cluster do: each takes the E-step of its own items, and one adds up and maximises."""
    table, priors = crowd(narrow=narrow), EVERY[name]
    pool = Pool.of(table, priors)
    whole = split = prior_parameters(table, priors, pool)
    log_prior = np.log(np.random.default_rng(3).dirichlet(np.ones(table.n_options)))
    shards = [(items, table.take_items(items)) for items in shards_of(table, 4)]
    for _ in range(4):
        posterior = item_scores(table, whole, log_prior, priors=priors)
        total = normalise(posterior)
        whole = maximise(statistics(table, posterior), table, priors, pool, whole)
        logs, counts = 0.0, np.zeros((len(table.cell_label), table.n_options))
        for items, part in shards:
            scores = item_scores(part, split, log_prior, priors=priors)
            logs += normalise(scores)
            counts += statistics(part, scores)
            np.testing.assert_allclose(scores, posterior[items], atol=1e-9)
        split = maximise(counts, table, priors, pool, split)
        assert logs == pytest.approx(total, abs=1e-9)
        for field in Parameters.__dataclass_fields__:
            np.testing.assert_allclose(getattr(split, field), getattr(whole, field), atol=1e-9, err_msg=field)


# -------------------------------------------------------------------- one EM loop, one formula


def functions(source: str) -> Iterator[tuple[str, ast.AST]]:
    """Every function of a module with its name, and the module itself."""
    tree = ast.parse(source)
    yield "", tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node


def called(node: ast.AST) -> str:
    """The name that a call calls, without what it is an attribute of."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def loops_that_maximise(source: str) -> list[str]:
    """The functions with a loop in which an M-step is taken: `maximise` is called, whatever is called around it."""
    return [
        name
        for name, node in functions(source)
        if name
        for loop in ast.walk(node)
        if isinstance(loop, ast.For | ast.While | ast.ListComp | ast.GeneratorExp | ast.DictComp)
        and any(called(each) == "maximise" for each in ast.walk(loop))
    ]


def formulas(source: str) -> list[str]:
    """The functions in which `b [y = k] + (1 - b) xi(y)` is written out, plainly or in log space.

    Plainly: a sum of products x * a and (1 - x) * b where x has the name of an expertise, or a is a comparison, an
    identity matrix or called `same`. In log space: a `logaddexp` of `logsigmoid`s.
    """
    found = []
    for name, function in functions(source):
        for node in ast.walk(function) if name else []:
            if called(node) == "logaddexp" and any(called(each) == "logsigmoid" for each in ast.walk(node)):
                found.append(name)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_mixture(node.left, node.right):
                found.append(name)
    return sorted(set(found))


def _is_mixture(left: ast.expr, right: ast.expr) -> bool:
    for one, other in ((left, right), (right, left)):
        for share, value in _products(one):
            if any(_is_rest(rest, share) for rest, _ in _products(other)) and (_is_skill(share) or _says_same(value)):
                return True
    return False


def _products(node: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _products(node.left) or [(node.left, node.right)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [(node.left, node.right), (node.right, node.left)]
    return []


def _is_rest(node: ast.expr, share: ast.expr) -> bool:
    """Whether an expression is 1 minus another, whatever axes either is given."""
    node, share = _without_axes(node), _without_axes(share)
    is_rest = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and getattr(node.left, "value", 0) == 1
    return is_rest and ast.dump(_without_axes(node.right)) == ast.dump(share)


def _without_axes(node: ast.expr) -> ast.expr:
    return _without_axes(node.value) if isinstance(node, ast.Subscript) else node


def _is_skill(node: ast.expr) -> bool:
    node = _without_axes(node)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in ("b", "beta", "skill", "own_skill", "expertise")


def _says_same(node: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Compare) or called(each) in ("eye", "diag") or getattr(each, "id", "") == "same"
        for each in ast.walk(node)
    )


def test_there_is_one_em_loop() -> None:
    loops = {path: found for path, source in modules().items() if (found := loops_that_maximise(source))}
    assert loops == {"crowd/engine.py": ["fit"]}


@pytest.mark.parametrize("name", ["statistics", "maximise", "mixture"])
def test_each_step_is_defined_once(name: str) -> None:
    homes = [path for path, source in modules().items() for each, _ in functions(source) if each == name]
    assert homes == ["crowd/engine.py"]


def test_a_second_em_loop_is_seen() -> None:
    for source in (
        "def f():\n    for _ in range(9):\n        parameters = maximise(statistics(t, q), t)\n        q = softmax(x)",
        "def f():\n    while True:\n        counts = engine.statistics(t, q)\n        p = engine.maximise(counts, t)",
        "def f():\n    return [maximise(c, t) for c in counts]",
    ):
        assert loops_that_maximise(source), source
    assert loops_that_maximise("def f():\n    return maximise(statistics(t, q), t)") == [], "a step is no loop"


def test_the_formula_of_an_annotator_stands_once() -> None:
    places = {path: found for path, source in modules().items() if (found := formulas(source))}
    assert places.pop("crowd/engine.py") == ["mixture"]
    assert set(places) <= {"channels/uniform.py"}, "in log space for gradients, which need it finite at any omega"


def test_a_second_formula_is_seen() -> None:
    for source in (
        "def f(b, y, k):\n    return b * (y == k) + (1 - b) / 4",
        "def f(b, xi):\n    return b[:, None] * np.eye(3) + (1 - b)[:, None] * xi",
        "def f(w, same, xi):\n    return (1 - w) * xi + same * w",
        "def f(beta, p, guess):\n    return np.log(beta * p + (1 - beta) * guess)",
        "def f(omega, g):\n    return torch.logaddexp(logsigmoid(omega), logsigmoid(-omega) + g)",
        "class A:\n    def f(self):\n        return self.b * (y == k) + (1 - self.b) * self.xi",
    ):
        assert formulas(source), source
    for source in (
        "def f(e, q):\n    return (1 - e) * q + e * (1 - q)",
        "def f(a, c):\n    return a * 2 + (1 - c) * a",
    ):
        assert formulas(source) == [], source
