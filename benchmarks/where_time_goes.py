"""Where the time of a training step goes, before and after the fused optimiser.

    python -m benchmarks.where_time_goes            # SmolLM2-135M, a few minutes on one core
    python -m benchmarks.where_time_goes --quick    # a tiny model

Five items to a step, five annotations each. `before` is the step as it was first written (AdamW tensor by tensor). Then
the same for the top 3 layers over a filled cache, where everything around the model weighs most.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import _material, _sides

ITEMS, ROUNDS = 5, 4


class Clock:
    """Processor seconds spent in each part; a part within another counts for the inner one."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.running: list[str] = []
        self.since = time.process_time()

    def wrap(self, owner: Any, method: str, part: str) -> None:
        original = getattr(owner, method)

        def timed(*arguments: Any, **keywords: Any) -> Any:
            self._switch()
            self.running.append(part)
            try:
                return original(*arguments, **keywords)
            finally:
                self._switch()
                self.running.pop()

        setattr(owner, method, timed)

    def _switch(self) -> None:
        now = time.process_time()
        part = self.running[-1] if self.running else "everything else"
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self.since
        self.since = now

    def start(self) -> None:
        self.seconds.clear()
        self.since = time.process_time()

    def stop(self) -> dict[str, float]:
        self._switch()
        return dict(self.seconds)


def profile(model: str, folder: str, **settings: Any) -> dict[str, float]:
    """Milliseconds of processor per optimiser step in each part; the first step is not counted."""
    from transformers.trainer_callback import TrainerCallback

    settings |= {"per_device_train_batch_size": ITEMS, "gradient_accumulation_steps": 1}
    trainer = _material.realm_trainer(model, _material.crowd(ITEMS, 5), folder, num_train_epochs=ROUNDS + 1, **settings)
    clock, seconds_by_part = Clock(), {}

    class Watch(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 1:
                clock.start()
            elif state.global_step == ROUNDS + 1:
                seconds_by_part.update(clock.stop())

    trainer.add_callback(Watch())
    clock.wrap(trainer, "compute_loss", "forward")
    clock.wrap(trainer.accelerator, "backward", "backward")
    clock.wrap(trainer, "_clip_grad_norm", "clip")
    clock.wrap(trainer, "get_batch_samples", "batches")
    clock.wrap(trainer.create_optimizer(), "step", "optimiser")
    trainer.train()
    return {part: 1000 * seconds / ROUNDS for part, seconds in seconds_by_part.items()}


def main() -> None:
    """Print the parts of a step."""
    targets = _sides.start(__doc__)
    _sides.quiet()
    with tempfile.TemporaryDirectory() as folder:
        model = _material.save_causal(Path(folder) / "model") if targets.quick else "smollm2-135m"
        runs = {
            "all layers, before": profile(model, folder, optim="adamw_torch"),
            "all layers": profile(model, folder),
            "top 3 layers, before": profile(model, folder, train_layers=3, optim="adamw_torch"),
            "top 3 layers": profile(model, folder, train_layers=3),
        }
    parts = ["batches", "forward", "backward", "clip", "optimiser", "everything else"]
    rows = []
    for name, seconds in runs.items():
        whole = sum(seconds.values())
        rows.append([name, *(f"{seconds.get(part, 0):,.0f} ({seconds.get(part, 0) / whole:.0%})" for part in parts)])
        rows[-1].append(f"{whole:,.0f}")
    _sides.show(f"Milliseconds of processor in a step of {ITEMS} items", ["trained", *parts, "step"], rows)
    targets.finish()


if __name__ == "__main__":
    main()
