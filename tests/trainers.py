"""Short training runs for tests: the same call everywhere, so that tests differ only in what they vary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers.trainer_callback import PrinterCallback, TrainerCallback

from realm.data import Annotations
from realm.scorers import load_scorer
from realm.training import RealmConfig, RealmTrainer

BY_GRADIENT = {"channel": "uniform", "objective": "paper", "expertise_update": "gradient", "opinion": False}
"""The paper's channel, learned by gradient: for tests of the loop, in which every parameter moves at every step."""
DEFAULT = {"channel": "confusion", "objective": "joint", "expertise_update": "em", "opinion": True}
"""The default of `RealmConfig` in these settings."""


def config(folder: Path, **settings) -> RealmConfig:
    chosen = {
        **BY_GRADIENT,
        "write_run": False,
        "save_strategy": "no",
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
        "learning_rate": 1e-3,
        "max_steps": 20,
        "seed": 0,
        **settings,
    }
    return RealmConfig(str(folder), **chosen)


def trainer(
    model: str,
    annotations: Annotations,
    folder: Path,
    *,
    double: bool = False,
    test: Annotations | None = None,
    channel=None,
    prior=None,
    **settings,
) -> RealmTrainer:
    """A trainer that prints nothing; `double` computes in float64. `channel` is a name or a channel."""
    if isinstance(channel, str):
        settings["channel"], channel = channel, None
    chosen = config(folder, **settings)
    more = {"test": test, "channel": channel, "prior": prior}
    if double:
        torch.manual_seed(chosen.seed)
        wanted = {"answers": chosen.answers, "scorer": chosen.scorer, "max_length": chosen.max_length}
        made = RealmTrainer(load_scorer(model, annotations.items, **wanted).double(), annotations, chosen, **more)
        made.model.double()
        keep_double(made.model)
    else:
        made = RealmTrainer(model, annotations, chosen, **more)
    made.remove_callback(PrinterCallback)
    return made


def trajectory(made: RealmTrainer, **how) -> tuple[np.ndarray, np.ndarray]:
    """Train, and return the loss of every step and omega (or expertise, in closed form) after every step."""
    omegas: list[np.ndarray] = []
    losses: list[float] = []
    parts: list[float] = []
    forward = made.training_step

    def training_step(*args, **kwargs):
        loss = forward(*args, **kwargs)
        parts.append(float(loss))  # `Trainer` logs in float32
        return loss

    made.training_step = training_step

    class Recorder(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            losses.append(sum(parts))
            parts.clear()
            if made.channel is not None:
                omega = getattr(made.channel, "omega", None)
                learned = (
                    made.channel.summary()["expertise_trained"] if omega is None else omega.detach().double().numpy()
                )
                omegas.append(learned.copy())

    made.add_callback(Recorder())
    made.train(**how)
    return np.array(losses), np.array(omegas)


def keep_double(model: torch.nn.Module) -> None:
    """T5's and Llama's norms compute in float32 whatever their input; for float64 tests they must not."""

    def exact(norm):
        def forward(states: torch.Tensor) -> torch.Tensor:
            return norm.weight * states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)

        return forward

    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            module.forward = exact(module)
