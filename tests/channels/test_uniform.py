"""The mixture channel beside its likelihood, which `tests/paper` holds to the equations."""

from __future__ import annotations

import pytest
import torch

from realm.channels import UniformChannel


def test_expertise_is_placed_where_it_is_known_and_nobody_pinned_moves() -> None:
    channel = UniformChannel(annotators=3, tasks=2, start=2.0)
    channel.pin([2], 0.999)
    nan = float("nan")
    channel.start_from(torch.tensor([[0.25, nan], [nan, 1e-6], [0.5, 0.5]], dtype=torch.float64))
    beta = channel.expertise()
    assert beta[0, 0].item() == pytest.approx(0.25) and beta[1, 1].item() == pytest.approx(1e-6)
    assert channel.omega[0, 1].item() == channel.omega[1, 0].item() == 2.0
    assert beta[2].tolist() == pytest.approx([0.999, 0.999])
