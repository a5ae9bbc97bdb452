"""Whether numbers are numbers: the one check of a model's parameters, made wherever one is loaded or written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def first_not_finite(tensors: Iterable[tuple[str, Any]]) -> str | None:
    """The name of the first tensor with a value that is infinite or not a number; None where all are finite.

    The sum of a tensor is finite unless a value is not or it overflows, and needs no memory: only then is every value
    looked at.
    """
    for name, tensor in tensors:
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.is_meta:
            continue
        value = tensor.detach()
        if not bool(value.sum(dtype=torch.float32).isfinite()) and not bool(value.isfinite().all()):
            return name
    return None
