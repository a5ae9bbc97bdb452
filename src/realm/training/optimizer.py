"""What the optimiser moves and how: groups of parameters, and AdamW in which absent annotators do not move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from realm.errors import RealmError
from realm.training.config import RealmConfig
from realm.training.model import RealmModel


def parameter_groups(model: RealmModel, config: RealmConfig, decayed: set[str]) -> list[dict[str, Any]]:
    """Groups of everything that trains: the model (weight decay for the names in `decayed`), the channel, the scale of
    `cloze`. A parameter that requires a gradient and is in no group is refused: it would never be trained."""
    backbone = model.scorer.backbone.named_parameters(prefix="scorer.backbone")
    trained = [(name, parameter) for name, parameter in backbone if parameter.requires_grad]
    trained += [(f"scorer.{name}", parameter) for name, parameter in model.scorer.head_parameters()]
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in trained if name in decayed], "weight_decay": config.weight_decay},
        {"params": [p for name, p in trained if name not in decayed], "weight_decay": 0.0},
    ]
    masking, rate = config.expertise_optimizer == "masked", config.expertise_learning_rate
    for group in model.channel.parameter_groups(rate):
        group = {"lr": rate, "weight_decay": 0.0, "masked": False, **group}
        groups.append({**group, "masked": group["masked"] and masking})
    scale = list(model.scorer.scale_parameters())
    groups.append({"params": scale, "weight_decay": 0.0, "lr": config.cloze_learning_rate})
    refuse_ungrouped(model, groups)
    return [group for group in groups if group["params"]]


def refuse_ungrouped(model: RealmModel, groups: list[dict[str, Any]]) -> None:
    """Refuse a parameter that requires a gradient and that no group of the optimiser holds."""
    grouped = {id(parameter) for group in groups for parameter in group["params"]}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in grouped:
            raise RealmError(
                f"the parameter {name} requires a gradient but is in no optimiser group: it would never be trained. "
                "A channel's belong into its `parameter_groups`; freeze what is not to be trained."
            )


class MaskedAdamW(torch.optim.AdamW):
    """AdamW whose groups with `masked=True` step only where `touched()` is true, entry by entry.

    Dense AdamW keeps moving an entry whose gradient is 0, by the momentum of earlier batches: with thousands of
    annotators, nearly all of them at every step. Here an entry that no annotation of the effective batch touched
    keeps its value, and bias correction counts the steps of each entry on its own. Its momentum fades while it is
    away: the newest gradient of an annotator met once in a while would otherwise be outweighed by those of long ago.
    For an entry that is touched at every step this is AdamW exactly.

    `touched()` returns a boolean mask for the step at hand, of the shape with which every masked parameter's begins:
    (annotators, tasks).
    """

    def __init__(self, groups: Iterable[dict[str, Any]], touched: Callable[[], Tensor], **defaults: Any) -> None:
        self.touched = touched
        super().__init__([{"masked": False, **group} for group in groups], **defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        masked = [(group, each) for group in self.param_groups if group["masked"] for each in group["params"]]
        masked = [(group, each) for group, each in masked if each.grad is not None]
        gradients = [parameter.grad for _, parameter in masked]
        for _, parameter in masked:
            parameter.grad = None
        loss = super().step(closure)
        touched = self.touched() if masked else torch.zeros(0)
        for (group, parameter), gradient in zip(masked, gradients, strict=True):
            self._step_masked(group, parameter, gradient, touched.to(parameter.device))
            parameter.grad = gradient
        return loss

    def _step_masked(self, group: dict[str, Any], parameter: nn.Parameter, gradient: Tensor, touched: Tensor) -> None:
        state = self.state[parameter]
        if not state:
            for name in ("step", "exp_avg", "weight", "exp_avg_sq"):
                state[name] = torch.zeros_like(parameter)
        first, second = group["betas"]
        here, moving = gradient[touched], parameter[touched]
        state["step"] = state["step"].to(parameter.device)  # which AdamW keeps on the processor when it is loaded
        steps = state["step"][touched] + 1
        for name, value in (("exp_avg", here), ("weight", torch.ones_like(here))):
            state[name].mul_(first)
            state[name][touched] += (1 - first) * value
        square = second * state["exp_avg_sq"][touched] + (1 - second) * here * here
        state["step"][touched], state["exp_avg_sq"][touched] = steps, square
        corrected = (square / (1 - second**steps)).sqrt() + group["eps"]
        moving = moving * (1 - group["lr"] * group["weight_decay"])
        parameter[touched] = moving - group["lr"] * (state["exp_avg"][touched] / state["weight"][touched]) / corrected
