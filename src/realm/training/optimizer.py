"""AdamW in which absent annotators do not move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


class MaskedAdamW(torch.optim.AdamW):
    """AdamW whose groups with `masked=True` step only where `touched()` is true, entry by entry.

    Dense AdamW keeps moving an entry whose gradient is 0, by the momentum of earlier batches: with thousands of
    annotators, nearly all of them at every step. Here an entry that no annotation of the effective batch touched
    keeps its value, and bias correction counts the steps of each entry on its own. Its momentum fades while it is
    away: an annotator met once in a while would otherwise be moved by what was said long ago, and what was said last
    would not be heard before training ends. For an entry that is touched at every step this is AdamW exactly.

    `touched()` returns a boolean mask for the step at hand, of the shape with which every masked parameter's begins:
    (annotators, tasks).
    """

    def __init__(self, groups: Iterable[dict[str, Any]], touched: Callable[[], Tensor], **defaults: Any) -> None:
        self.touched = touched
        super().__init__([{"masked": False, **group} for group in groups], **defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        masked = [
            (group, parameter, parameter.grad)
            for group in self.param_groups
            if group["masked"]
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        for _, parameter, _ in masked:
            parameter.grad = None
        loss = super().step(closure)
        touched = self.touched() if masked else None
        for group, parameter, gradient in masked:
            assert touched is not None
            self._step_masked(group, parameter, gradient, touched)
            parameter.grad = gradient
        return loss

    def _step_masked(self, group: dict[str, Any], parameter: nn.Parameter, gradient: Tensor, touched: Tensor) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros_like(parameter)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["weight"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        first, second = group["betas"]
        touched = touched.to(parameter.device)
        here, moving = gradient[touched], parameter[touched]
        state["step"] = state["step"].to(parameter.device)
        steps = state["step"][touched] + 1
        for name, value in (("exp_avg", here), ("weight", torch.ones_like(here))):
            state[name].mul_(first)
            state[name][touched] += (1 - first) * value
        square = second * state["exp_avg_sq"][touched] + (1 - second) * here * here
        state["step"][touched], state["exp_avg_sq"][touched] = steps, square
        corrected = (square / (1 - second**steps)).sqrt() + group["eps"]
        moving = moving * (1 - group["lr"] * group["weight_decay"])
        parameter[touched] = moving - group["lr"] * (state["exp_avg"][touched] / state["weight"][touched]) / corrected
