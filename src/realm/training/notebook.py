"""Training shown in a notebook: `Trainer`'s table without a column that is always empty, and bars for what takes long
before and after it. Imported in notebooks alone: it needs IPython."""

from __future__ import annotations

import time
from typing import Any

from transformers.utils.notebook import NotebookProgressBar, NotebookProgressCallback

EMPTY = "Validation Loss"
"""`Trainer`'s column for `eval_loss`, a figure that there is none of: the test table is judged by `eval_log_loss`."""
SECONDS = 1.0
"""What is done sooner than this is not shown."""


class TrainingTable(NotebookProgressCallback):
    """`Trainer`'s bar and table of steps, losses and figures of the test table."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        super().on_train_begin(args, state, control, **more)
        self._drop_empty()

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **more: Any) -> None:
        """Add the figures to the table; outside training `evaluate` returns them, and nothing is shown."""
        if self.training_tracker is not None:
            super().on_evaluate(args, state, control, metrics, **more)
            self._drop_empty()

    def _drop_empty(self) -> None:
        table = self.training_tracker.inner_table
        if table and EMPTY in table[0]:
            position = table[0].index(EMPTY)
            self.training_tracker.inner_table = [row[:position] + row[position + 1 :] for row in table]


class ProgressBars:
    """A `Progress` that draws a bar for whatever takes longer than a second, and takes it away when it is done."""

    def __init__(self) -> None:
        self._what = ""
        self._start = 0.0
        self._bar: Any = None

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self._what or done == 0:
            self._what, self._start, self._bar = what, time.monotonic(), None
        if self._bar is None and done < total and time.monotonic() - self._start > SECONDS:
            self._bar = NotebookProgressBar(total, prefix=what, leave=False)
        if self._bar is not None and done < total:
            self._bar.update(done)
        elif self._bar is not None:
            self._bar.close()
            self._bar = None
