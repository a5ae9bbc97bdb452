"""An earlier estimate that fits nobody is a mistake, not a start."""

from __future__ import annotations

import pandas as pd
import pytest

from realm.crowd.priors import earlier_estimates
from realm.data import Annotations
from realm.errors import RealmError


def prior(**changed: object) -> pd.DataFrame:
    row = {"annotator": "ada", "task": "default", "expertise": 0.8, "accuracy": 0.9, "low": 0.8, "high": 0.95}
    return pd.DataFrame([{**row, **changed}])


@pytest.fixture
def table() -> Annotations:
    return Annotations.from_pandas(pd.DataFrame({"text": ["a", "b"], "annotator": ["ada", "bob"], "label": ["x", "y"]}))


def test_who_is_known_is_found(table: Annotations) -> None:
    assert earlier_estimates(table, prior()) == {(0, 0): [0.8, 0.9, 0.8, 0.95]}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"annotator": "zoe"}, "none of its annotators (zoe) is in the table, which has: ada, bob"),
        ({"task": "mood"}, "none of its tasks (mood) is in the table, which has: default"),
        ({"low": ""}, "has expertise, accuracy, low and high"),
    ],
)
def test_an_estimate_that_fits_nobody_is_refused(table: Annotations, changed: dict[str, object], says: str) -> None:
    with pytest.raises(RealmError) as refused:
        earlier_estimates(table, prior(**changed))
    assert str(refused.value).startswith("`prior`: ") and says in str(refused.value)
