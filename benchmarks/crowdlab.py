"""Cleaned labels and annotator quality from votes and a model's probabilities, beside cleanlab's CROWDLAB.

    python -m benchmarks.crowdlab            # some minutes
    python -m benchmarks.crowdlab --quick    # a small table, seconds, no target

Both get the same simulated annotations and the same probabilities, of a model that is right most of the time and as
sure as it should be. Each side fits in turn in a process of its own; medians of five. They are different methods, so
the answers may differ; nothing counts unless ours are right at least as often.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import _sides
from benchmarks._sides import median, peak_of
from realm.data import Annotations

SIDES = ("realm", "CROWDLAB")
ROUNDS, TARGET = 5, 1.0
OPTIONS, PER_ITEM = 3, 5


@dataclass(frozen=True)
class Size:
    items: int
    annotators: int


@dataclass(frozen=True)
class Material:
    """Annotations, P (items, options) and the true labels (items,)."""

    annotations: Annotations
    probabilities: npt.NDArray[np.float64]
    truth: npt.NDArray[np.int64]


def simulated(size: Size) -> Material:
    """Truth drawn from P; annotators right 40 to 95% of the time, five different ones to an item."""
    import pandas as pd

    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(OPTIONS, 0.6), size.items)
    truth = (probabilities.cumsum(axis=1) < rng.random(size.items)[:, None]).sum(axis=1).clip(max=OPTIONS - 1)
    item = np.repeat(np.arange(size.items), PER_ITEM)
    annotator = rng.random((size.items, size.annotators)).argpartition(PER_ITEM, axis=1)[:, :PER_ITEM].ravel()
    right = rng.random(len(item)) < rng.uniform(0.4, 0.95, size.annotators)[annotator]
    label = np.where(right, truth[item], (truth[item] + rng.integers(1, OPTIONS, len(item))) % OPTIONS)
    names = [str(option) for option in range(OPTIONS)]
    frame = pd.DataFrame({"item": item, "text": item, "annotator": annotator, "label": label}).astype(str)
    return Material(Annotations.from_pandas(frame, labels=names), probabilities, truth)


def wide(table: Annotations) -> Any:
    """The dense items x annotators frame that cleanlab wants, NaN where nobody labelled."""
    import pandas as pd

    labels = np.full((table.n_items, table.n_annotators), np.nan)
    labels[table.item, table.annotator] = table.label
    return pd.DataFrame(labels)


def consensus(frame: Any, probabilities: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """CROWDLAB's label of every item."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quality = get_label_quality_multiannotator(frame, probabilities, verbose=False)
    labels: npt.NDArray[np.int64] = quality["label_quality"]["consensus_label"].to_numpy()
    return labels


def serve(side: str, size: Size, pipe: Connection) -> None:
    """`fit()`: the label of every item. What each method reads is made before."""
    material = simulated(size)
    table, probabilities = material.annotations, material.probabilities
    if side == "realm":
        from realm.crowd.estimate import estimate

        def fit() -> Any:
            return estimate(table, probabilities).posterior.argmax(axis=1)
    else:
        import cleanlab.multiannotator  # noqa: F401  (so that no import is timed)

        frame = wide(table)

        def fit() -> Any:
            return consensus(frame, probabilities)

    _sides.answer(pipe, {"fit": fit})


def main() -> None:
    """Print the table; fail where CROWDLAB is faster, or right more often."""
    targets = _sides.start(__doc__)
    size = Size(1_000, 50) if targets.quick else Size(40_000, 400)
    truth = simulated(size).truth
    with _sides.sides(serve, SIDES, size) as pipes:
        timings = _sides.take_turns(pipes, "fit", 2 if targets.quick else ROUNDS)
    right = {side: float(np.mean(results[-1].value == truth)) for side, results in timings.items()}
    assert right["realm"] >= right["CROWDLAB"], right
    ratio = median(timings["CROWDLAB"]) / median(timings["realm"])
    target = targets.hold("beside CROWDLAB", ratio, TARGET)
    rows = [
        [
            side,
            f"{median(timings[side]):.2f}",
            f"{ratio:.1f}x" if side == "CROWDLAB" else "",
            target if side == "CROWDLAB" else "",
            peak_of(timings[side]),
            f"{right[side]:.4f}",
        ]
        for side in SIDES
    ]
    annotations = f"{size.items * PER_ITEM:,} annotations by {size.annotators:,} annotators, the same probabilities"
    _sides.show(annotations, ["side", "processor, s", "realm is faster", "target", "peak, MB", "labels right"], rows)
    targets.finish()


if __name__ == "__main__":
    main()
