"""Groups of annotators: each has a pool of its own, and everything that is drawn to a pool is drawn to that one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from realm import Annotations, aggregate, estimate
from realm.crowd.panel import Panel
from realm.crowd.tables import expertise_table

JUDGES, HUMANS = 20, 12


def mixed(seed: int = 0, right: tuple[float, float] = (0.62, 0.95), each: int = 6) -> tuple[Annotations, np.ndarray]:
    """300 items; 20 judges who label all of them and are right `right[0]` of the time, 12 humans with `each` labels."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=300)
    rows = []
    for item in range(300):
        for judge in range(JUDGES):
            label = truth[item] if rng.random() < right[0] else 1 - truth[item]
            rows.append((f"t{item}", f"judge {judge:02}", str(label), "models"))
    for human in range(HUMANS):
        for item in rng.permutation(300)[:each]:
            label = truth[item] if rng.random() < right[1] else 1 - truth[item]
            rows.append((f"t{item}", f"human {human:02}", str(label), "people"))
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label", "kind"])
    table = Annotations.from_pandas(frame, group="kind")
    ids = {f"t{item}": truth[item] for item in range(300)}
    return table, np.array([ids[text] for text in table.texts.to_pylist()])


def known(truth: np.ndarray, share: float = 0.9) -> np.ndarray:
    return np.where(np.arange(2) == truth[:, None], share, 1 - share)


def test_people_with_few_labels_are_not_drawn_to_the_models() -> None:
    errors = []
    for seed in range(3):
        table, truth = mixed(seed)
        people = np.array([group == "people" for group in table.groups or ()])
        for one in (table, replace(table, groups=None)):
            accuracy = estimate(one, known(truth)).accuracy[people, 0]
            errors.append(np.abs(accuracy - 0.95).mean())
    with_groups, without = np.array(errors).reshape(3, 2).T
    assert (with_groups < without - 0.03).all()
    assert with_groups.mean() < 0.7 * without.mean()


def test_one_group_of_all_is_no_groups_to_the_last_bit() -> None:
    table, truth = mixed()
    none, one = replace(table, groups=None), replace(table, groups=("all",) * table.n_annotators)
    first, second = (estimate(each, known(truth)).to_arrays() for each in (none, one))
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)
    first, second = aggregate(none, "mace"), aggregate(one, "mace")
    np.testing.assert_array_equal(first.posterior, second.posterior)
    assert "group" in second.annotators and "group" not in first.annotators


def test_groups_change_nothing_where_no_pool_is_fitted() -> None:
    table, _ = mixed()
    for method in ("majority", "dawid-skene", "one-coin"):
        first, second = (aggregate(each, method).posterior for each in (table, replace(table, groups=None)))
        np.testing.assert_array_equal(first, second)


def apart(seed: int = 1) -> tuple[Annotations, np.ndarray]:
    """Two groups that share no item; items list their own options, so that they have no class shares in common."""
    rng = np.random.default_rng(seed)
    rows, truths = [], {}
    for group, annotators, items, right in (("models", 8, 120, 0.65), ("people", 6, 80, 0.93)):
        for item in range(items):
            text, truth = f"{group} {item}", int(rng.integers(3))
            truths[text] = truth
            for annotator in rng.permutation(annotators)[:4]:
                label = truth if rng.random() < right else (truth + rng.integers(1, 3)) % 3
                options = [f"{text} {k}" for k in range(3)]
                rows.append((text, f"{group} {annotator}", options[label], options, group))
    frame = pd.DataFrame(rows, columns=["text", "annotator", "label", "options", "kind"])
    table = Annotations.from_pandas(frame, group="kind")
    return table, np.array([truths[text] for text in table.texts.to_pylist()])


def alone(table: Annotations, group: str) -> tuple[np.ndarray, Annotations]:
    """Rows of the annotators of a group, and the table with them alone."""
    rows = np.array([row for row, name in enumerate(table.groups or ()) if name == group])
    items = np.unique(table.item[np.isin(table.annotator, rows)])
    return items, replace(table.take_items(items).compact(), groups=None)


def test_the_estimate_of_groups_that_share_no_item_is_that_of_each_alone() -> None:
    table, truth = apart()
    probs = np.where(np.arange(3) == truth[:, None], 0.6, 0.2)
    together = estimate(table, probs)
    without = estimate(replace(table, groups=None), probs)
    distances = []
    for group in ("models", "people"):
        items, part = alone(table, group)
        rows = np.array([table.annotators.index(name) for name in part.annotators])
        single = estimate(part, probs[items])
        for name in ("accuracy", "low", "high"):
            np.testing.assert_allclose(getattr(together, name)[rows], getattr(single, name), atol=3e-3, err_msg=name)
        np.testing.assert_allclose(together.posterior[items], single.posterior, atol=0.06)  # shared confusions are one
        distances.append(np.abs(without.accuracy[rows] - single.accuracy).max())
    assert max(distances) > 0.01  # without groups the pools are one


def test_tables_name_the_group_where_there_are_groups() -> None:
    table, truth = mixed()
    for one in (table, replace(table, groups=None)):
        expertise = expertise_table(one, estimate(one, known(truth)))
        panel = Panel(one).table()
        assert ("group" in expertise) == ("group" in panel) == (one.groups is not None)
    shown = dict(zip(Panel(table).table()["annotator"], Panel(table).table()["group"], strict=True))
    assert shown["judge 03"] == "models" and shown["human 03"] == "people"
