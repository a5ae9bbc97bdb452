"""How often real panels are wrong together, and the formula that foretells it from how far they err together.

    python -m benchmarks.shared_error [--data DATA]

For each panel with gold: the exponent tau that its labels show (`realm.crowd.dependence`), how sure its labels would be
with independent errors and with tau alone, how often they are right, and what `realm.crowd.shared_error` makes of it.
Then the two numbers of the formula, fitted to all panels by the log loss of gold, and without each panel in turn: the
confidence that the rest of the panels foretell for it. The constants of the package must be within a hundredth of the
best log loss.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from realm.crowd.estimate import estimate
from realm.crowd.shared_error import SHARE, SharedError

from ._crowds import Floats, Ints
from .honesty import real

SLOPES, SHARES = np.arange(0.0, 3.01, 0.25), np.arange(0.0, 0.41, 0.02)
"""Of the temperature 1 + slope (1 - tau), and of e = share (1 - sqrt(tau))."""
LEFT_OUT = "LLMBar, LLMBar/Natural"
"""A panel whose judges err together and are right all the same: shown, but the formula is not fitted to it."""
NEAR = 0.01


@dataclass(frozen=True)
class Panel:
    """What annotators see in each item, (items, K), its gold (items,), and tau."""

    name: str
    apparent: Floats
    gold: Ints
    exponent: float

    def posterior(self, slope: float, share: float) -> Floats:
        """P(true label) by the formula with these two numbers."""
        tempered = np.maximum(self.apparent, 1e-12) ** (1 / (1 + slope * (1 - self.exponent)))
        tempered /= tempered.sum(axis=1, keepdims=True)
        error = share * (1 - self.exponent**0.5)
        return (1 - error) * tempered + error * (1 - tempered) / (tempered.shape[1] - 1)

    def log_loss(self, slope: float, share: float) -> float:
        posterior = self.posterior(slope, share)
        return float(-np.log(posterior[np.arange(len(self.gold)), self.gold]).mean())

    @property
    def right(self) -> float:
        return float((self.apparent.argmax(axis=1) == self.gold).mean())


def panels(data: Path) -> list[Panel]:
    found = []
    for row, table in real(data):
        flat = np.zeros((table.n_items, int(table.option_counts.max())))
        result = estimate(table.without_gold(), flat)
        tau = float(result.exponent)
        error = SharedError(tau, SHARE * (1 - tau**0.5), 2 - tau)
        many = flat.shape[1]
        tempered = (result.posterior - error.share / (many - 1)) / (1 - error.share * many / (many - 1))
        apparent = np.clip(tempered, 1e-12, 1.0) ** (2 - tau)
        apparent /= apparent.sum(axis=1, keepdims=True)
        assert np.allclose(error.posterior(apparent, table.option_counts), result.posterior, atol=1e-6)
        found.append(Panel(row.name.split(" | ")[0], apparent, np.asarray(table.gold, np.int64), tau))
    return found


def fitted(some: list[Panel]) -> tuple[float, float]:
    """Slope and share with the lowest mean log loss, each panel counting alike."""
    return min(product(SLOPES, SHARES), key=lambda pair: np.mean([panel.log_loss(*pair) for panel in some]))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    args = parser.parse_args()
    if not args.data.exists():
        print("The real data sets are not beside this checkout.")
        return 0
    warnings.simplefilter("ignore")
    every = panels(args.data)
    fit_to = [panel for panel in every if panel.name != LEFT_OUT]
    print("| panel | items | tau | right | confidence: tau alone | the formula | fitted to the other panels |")
    print("|---|---|---|---|---|---|---|")
    for panel in every:
        others = fitted([each for each in fit_to if each is not panel])
        shown = [panel.posterior(*pair).max(axis=1).mean() for pair in ((0, 0), (1, SHARE), others)]
        print(
            f"| {panel.name} | {len(panel.gold):,} | {panel.exponent:.2f} | {panel.right:.3f} | "
            + " | ".join(f"{value:.3f}" for value in shown)
            + f" (slope {others[0]:.2f}, share {others[1]:.2f}) |",
            flush=True,
        )
    best = fitted(fit_to)
    losses = [float(np.mean([panel.log_loss(*pair) for panel in fit_to])) for pair in (best, (1.0, SHARE), (0, 0))]
    print(f"\nBest slope {best[0]:.2f}, share {best[1]:.2f}: log loss {losses[0]:.4f}.")
    print(f"The package's slope 1, share {SHARE}: {losses[1]:.4f}. tau alone: {losses[2]:.4f}.")
    return 0 if losses[1] < losses[0] + NEAR else 1


if __name__ == "__main__":
    sys.exit(main())
