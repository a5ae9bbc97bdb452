"""The mixture channel beside its likelihood, which `tests/paper` holds to the equations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from realm.channels import HabitChannel, ItemScores, Observed, UniformChannel
from realm.crowd.engine import mixture


def test_expertise_is_placed_where_it_is_known_and_nobody_pinned_moves() -> None:
    channel = UniformChannel(annotators=3, tasks=2, start=2.0)
    channel.pin([2], 0.999)
    nan = float("nan")
    channel.start_from(torch.tensor([[0.25, nan], [nan, 1e-6], [0.5, 0.5]], dtype=torch.float64))
    beta = channel.expertise()
    assert beta[0, 0].item() == pytest.approx(0.25) and beta[1, 1].item() == pytest.approx(1e-6)
    assert channel.omega[0, 1].item() == channel.omega[1, 0].item() == 2.0
    assert beta[2].tolist() == pytest.approx([0.999, 0.999])


@pytest.mark.parametrize("kind", [UniformChannel, HabitChannel])
def test_in_log_space_it_is_the_mixture_of_the_engine(kind) -> None:
    """Channels that learn by gradient write it with logarithms, which stay finite for every omega."""
    more = {} if kind is UniformChannel else {"options": 3, "shares": [[0.5, 0.3, 0.2]]}
    channel = kind(4, **more).double()
    with torch.no_grad():
        channel.omega[:, 0] = torch.tensor([-8.0, -0.5, 1.0, 9.0])
    zeros = torch.zeros(12, dtype=torch.long)
    who, label = torch.arange(4).repeat_interleave(3), torch.arange(3).repeat(4)
    found = channel(
        ItemScores(torch.zeros(1, 3), torch.tensor([3])), Observed(zeros, who, zeros, label, torch.ones(12))
    )
    skill = channel.expertise().numpy()[who, :1]
    guess = np.full(3, 1 / 3) if kind is UniformChannel else np.array([0.5, 0.3, 0.2])
    expected = mixture(skill, np.eye(3)[label], guess[label][:, None])
    np.testing.assert_allclose(found.detach().exp(), expected, rtol=1e-6)
