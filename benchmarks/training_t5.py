"""Training a model of T5-small's shape beside a plain `transformers.Trainer` (see `_training.py`).

python -m benchmarks.training_t5            # about fifty minutes on one core
python -m benchmarks.training_t5 --quick    # a tiny model, seconds, no targets
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import _material, _sides, _training


def main() -> None:
    targets = _sides.start(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        model = _material.save_t5(Path(folder) / "t5", targets.quick)
        # 64 items to a step, which is REALM's default and, beside a model this small, affordable.
        _training.show("T5-small shape", model, targets, steps=4)


if __name__ == "__main__":
    main()
