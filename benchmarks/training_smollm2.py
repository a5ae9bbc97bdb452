"""Training SmolLM2-135M beside a plain `transformers.Trainer` (see `_training.py`).

python -m benchmarks.training_smollm2            # about fifty minutes on one core
python -m benchmarks.training_smollm2 --quick    # a tiny decoder, seconds, no targets
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import _material, _sides, _training


def main() -> None:
    targets = _sides.start(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        if targets.quick:
            _training.show("tiny decoder", _material.save_causal(Path(folder) / "causal"), targets)
        else:
            _training.show("SmolLM2-135M", "smollm2-135m", targets)


if __name__ == "__main__":
    main()
