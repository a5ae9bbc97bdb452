"""The same short runs in one process and in two: what is run, and the program that `torchrun` starts.

    torchrun --nproc-per-node 2 -m tests.invariant.two_processes MODELS OUTPUT CASE...
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

EFFECTIVE = 16


@dataclass(frozen=True)
class Case:
    """A configuration that must not depend on how many processes run it."""

    kind: str = "causal"
    double: bool = True
    table: dict[str, Any] = field(default_factory=lambda: {"n_items": 50, "per_item": 2})
    settings: dict[str, Any] = field(default_factory=dict)


FULL: dict[str, Any] = {}
LORA = {"lora_rank": 2}
FROZEN = {"train_layers": 1, "cache_gb": 0.0}  # the cache holds fp32, so float64 goes without it
ANNOTATION = {"batch_unit": "annotation"}
DENSE = {"expertise_optimizer": "adamw"}

CASES = {
    "full": Case("seq2seq"),
    "full-annotation-dense": Case("causal", settings=ANNOTATION | DENSE),
    "lora-dense": Case("causal", settings=LORA | DENSE),
    "lora-annotation": Case("bert", settings=LORA | ANNOTATION),
    "frozen": Case("causal", settings=FROZEN),
    "frozen-annotation-dense": Case("seq2seq", settings=FROZEN | ANNOTATION | DENSE),
    "em": Case("bert", settings={"expertise_update": "em"}),
    "gold": Case("bert", settings={"use_gold": True}),
    "gold-annotation": Case("bert", settings={"use_gold": True} | ANNOTATION),
    "float32": Case("causal", double=False),
    "float32-lora": Case("seq2seq", double=False, settings=LORA),
    "float32-cache": Case("causal", double=False, settings={"train_layers": 1}),
}
MORE = {
    "full-dense": Case("bert", settings=DENSE),
    "full-annotation": Case("seq2seq", settings=ANNOTATION),
    "lora": Case("seq2seq", settings=LORA),
    "lora-annotation-dense": Case("causal", settings=LORA | ANNOTATION | DENSE),
    "frozen-dense": Case("bert", settings=FROZEN | DENSE),
    "frozen-annotation": Case("causal", settings=FROZEN | ANNOTATION),
    "tasks-cloze": Case("causal", table={"n_items": 50, "tasks": 2}, settings={"answers": "cloze"}),
    "experts": Case("bert", settings={"experts": ["w0"]}),
    "noisy": Case("bert", settings={"method": "noisy"}),
}


def run_case(case: Case, models: Path, folder: Path) -> dict[str, np.ndarray]:
    """Twenty steps: the loss of each step as this process sees it, omega after each, and the trained weights."""
    from tests.runs import trainer, trajectory
    from tests.tiny import crowd

    world = int(os.environ.get("WORLD_SIZE", "1"))
    made = trainer(
        str(models / case.kind),
        crowd(**case.table),
        folder,
        double=case.double,
        max_steps=20,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=EFFECTIVE // (4 * world),
        **case.settings,
    )
    # LoRA's own parameters leave the model when they are merged at the end, so they are held here.
    trained = [parameter for parameter in made.model.parameters() if parameter.requires_grad]
    losses, omegas = trajectory(made)
    weights = np.concatenate([parameter.detach().double().numpy().ravel() for parameter in trained])
    return {"losses": losses, "omegas": omegas, "weights": weights}


def main() -> None:
    models, output = Path(sys.argv[1]), Path(sys.argv[2])
    rank = os.environ["RANK"]
    for name in sys.argv[3:]:
        np.savez(output / f"{name}.{rank}.npz", **run_case({**CASES, **MORE}[name], models, output / "run"))


if __name__ == "__main__":
    main()
