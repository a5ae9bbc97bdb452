"""The 45 patients of Dawid and Skene (1979): five anaesthetists, of whom the first saw every patient three times."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from realm import DawidSkene

Rows = list[tuple[int, int, int]]


def em(rows: Rows, n_options: int, steps: int) -> tuple[list[list[float]], list[float], dict, float]:
    """The publication's EM: posterior, class shares, error rates by observer, truth and label, log-likelihood."""
    patients, observers, ks = sorted({i for i, _, _ in rows}), sorted({a for _, a, _ in rows}), range(n_options)
    own = {i: [(a, y) for j, a, y in rows if j == i] for i in patients}
    posterior = {i: [sum(y == k for _, y in own[i]) / len(own[i]) for k in ks] for i in patients}
    for _ in range(steps):
        shares = [sum(posterior[i][k] for i in patients) / len(patients) for k in ks]
        rates = {}
        for a in observers:
            for k in ks:
                counts = [sum(posterior[i][k] for i, b, z in rows if b == a and z == y) for y in ks]
                for y in ks:
                    rates[a, k, y] = counts[y] / max(sum(counts), 1e-300)
        likelihood = 0.0
        for i in patients:
            joint = [shares[k] * math.prod(rates[a, k, y] for a, y in own[i]) for k in ks]
            posterior[i] = [value / sum(joint) for value in joint]
            likelihood += math.log(sum(joint))
    return [posterior[i] for i in patients], shares, rates, likelihood


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> Rows:
    file = shared_data / "dawid_skene_1979" / "annotations.csv"
    if not file.exists():
        pytest.skip("the patients of 1979 are not in ../shared/data")
    with file.open() as lines:
        return [
            (int(r["item"][1:]) - 1, int(r["annotator"][1:]) - 1, int(r["label"]) - 1) for r in csv.DictReader(lines)
        ]


@pytest.mark.shared
@pytest.mark.parametrize("steps", [1, 5, 100])
def test_the_patients_to_a_millionth_of_an_em_written_out(rows: Rows, steps: int) -> None:
    assert len(rows) == 45 * 7  # replicate readings are kept
    posterior, shares, rates, likelihood = em(rows, 4, steps)
    model = DawidSkene(max_iter=steps, tol=0).fit(*map(np.array, zip(*rows, strict=True)))
    np.testing.assert_allclose(model.posterior_, posterior, atol=1e-6)
    assert model.log_likelihood_ == pytest.approx(likelihood, abs=1e-6)
    if steps == 100:  # at the maximum the last M-step no longer matters
        np.testing.assert_allclose(model.class_shares_, shares, atol=1e-6)
        ours = model.confusion_matrices_
        assert max(abs(ours[a, k, y] - rate) for (a, k, y), rate in rates.items()) < 1e-6


@pytest.mark.shared
def test_the_class_shares_that_were_published(rows: Rows) -> None:
    model = DawidSkene().fit(*map(np.array, zip(*rows, strict=True)))
    np.testing.assert_allclose(model.class_shares_, [0.40, 0.42, 0.11, 0.07], atol=0.01)
