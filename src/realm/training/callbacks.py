"""`StepProgress`: tells a progress callback how far a training is."""

from __future__ import annotations

from typing import Any

from transformers.trainer_callback import TrainerCallback

from realm.progress import Progress

TRAINING = "training"
"""What optimiser steps are reported as."""


class StepProgress(TrainerCallback):
    """Calls `progress("training", step, steps)` at the start and after every optimiser step, on the first process."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._report(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._report(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step < state.max_steps and state.is_world_process_zero:  # stopped early
            self.progress(TRAINING, state.max_steps, state.max_steps)

    def _report(self, state: Any) -> None:
        if state.is_world_process_zero:
            self.progress(TRAINING, state.global_step, state.max_steps)
