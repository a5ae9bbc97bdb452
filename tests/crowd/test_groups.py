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


def test_tables_name_the_group_where_there_are_groups() -> None:
    table, truth = mixed()
    for one in (table, replace(table, groups=None)):
        expertise = expertise_table(one, estimate(one, known(truth)))
        panel = Panel(one).table()
        assert ("group" in expertise) == ("group" in panel) == (one.groups is not None)
    shown = dict(zip(Panel(table).table()["annotator"], Panel(table).table()["group"], strict=True))
    assert shown["judge 03"] == "models" and shown["human 03"] == "people"
