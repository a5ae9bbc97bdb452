"""The run folder: one training with everything it produced, written atomically and read back."""

from realm.runs.run import Run

__all__ = ["Run"]
