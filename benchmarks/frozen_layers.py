"""Training the top 3 of SmolLM2's 30 layers, whose 27 frozen ones are computed once, beside a plain `Trainer`.

    python -m benchmarks.frozen_layers            # about half an hour on one core
    python -m benchmarks.frozen_layers --quick    # a tiny model, seconds, no targets

The rival is a `transformers.Trainer` with the same weights frozen, rows grouped by length and logits at the answer
alone; one annotation per item, so that sharing a forward is worth nothing. Each side has the micro-batch that is
fastest for it. REALM starts from an empty cache each time. Then: what a comparison of 5 methods and 3 seeds pays for
the frozen layers.
"""

from __future__ import annotations

import os
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks import _material, _rival, _sides
from benchmarks._sides import Setup, Targets, ask, median, peak_of
from realm.scorers import frozen_cache

SIDES = ("realm", "trainer, tuned")
LAYERS, ITEMS, STEP = 3, 32, 16
MICRO_BATCHES = (4, 8, 16)
ROUNDS, SHORT, LONG = 5, 5, 20
MEMORY_LIMIT = 2.5e9
METHODS = ("realm", "noisy", "majority", "dawid-skene", "oracle")
SEEDS = 3
DATA = Path(__file__).parents[2] / "shared" / "data" / "sentpolarity"


def serve(side: str, setup: Setup, pipe: Connection) -> None:
    """`train(epochs)` from nothing; only the training itself is timed, so the model is loaded by `prepare` before."""
    _sides.quiet()
    os.environ["REALM_HOME"] = str(Path(setup.folder) / "home")
    at_hand: list[Any] = []

    def prepare(epochs: int, micro: int) -> None:
        at_hand.clear()
        frozen_cache.forget()
        at_hand.append(realm_side(setup, epochs, micro) if side == "realm" else trainer_side(setup, epochs, micro))

    def train() -> float:
        return float(at_hand[0].train().training_loss)

    def gradient() -> None:
        save = _rival.save_realm_gradient if side == "realm" else _rival.save_gradient
        save(at_hand[0], 4, Path(setup.folder) / side)

    _sides.answer(pipe, {"prepare": prepare, "gradient": gradient, "train": train})


def realm_side(setup: Setup, epochs: int, micro: int) -> Any:
    return _material.realm_trainer(
        setup.model,
        _material.crowd(ITEMS, 1),
        setup.folder,
        train_layers=LAYERS,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=STEP // micro,
        num_train_epochs=epochs,
    )


def trainer_side(setup: Setup, epochs: int, micro: int) -> Any:
    from realm.scorers import load_scorer

    table = _material.crowd(ITEMS, 1)
    scorer: Any = load_scorer(setup.model, table.items)
    layers = scorer.backbone.model.layers
    scorer.backbone.requires_grad_(False)
    for module in (*layers[len(layers) - LAYERS :], scorer.backbone.model.norm):
        module.requires_grad_(True)
    settings = {"num_train_epochs": epochs, "lr_scheduler_type": "cosine"}
    return _rival.trainer(table, scorer, Path(setup.folder), STEP, True, micro, **settings)


def beside_the_trainer(setup: Setup, targets: Targets) -> None:
    rows = []
    with _sides.sides(serve, SIDES, setup) as pipes:
        micro = {side: fastest_micro(pipe) for side, pipe in pipes.items()}
        print(f"micro-batches {list(micro.values())}", file=sys.stderr)
        for side, pipe in pipes.items():
            ask(pipe, "prepare", 1, micro[side])
            ask(pipe, "gradient")
        apart = _rival.gradients_apart(*(Path(setup.folder) / side for side in SIDES))
        for epochs, rounds, target in (
            (SHORT, 2 if targets.quick else ROUNDS, 2.2),
            (LONG, 1 if targets.quick else ROUNDS, 3.0),
        ):
            timings: dict[str, list[Any]] = {side: [] for side in SIDES}
            for _ in range(rounds):
                for side, pipe in pipes.items():
                    ask(pipe, "prepare", epochs, micro[side])
                    timings[side].append(ask(pipe, "train"))
            ratio = median(timings["trainer, tuned"]) / median(timings["realm"])
            target_text = targets.hold(f"frozen layers, {epochs} epochs", ratio, target)
            peak = max(result.peak for result in timings["realm"])
            assert peak < MEMORY_LIMIT, f"{peak / 1e9:.2f} GB; the limit is 2.5"
            seconds = [f"{median(timings[side]):.1f}" for side in SIDES]
            rows.append(
                [epochs, rounds, *seconds, f"{ratio:.2f}x", target_text, *(peak_of(timings[side]) for side in SIDES)]
            )
    columns = ["epochs", "rounds", "realm, s", "trainer, s", "faster", "target", "peak, realm, MB", "peak, trainer, MB"]
    title = f"Top {LAYERS} layers, {ITEMS} items, {STEP} to a step: processor seconds from an empty cache "
    title += f"(gradients {apart:.0e} apart)"
    _sides.show(title, columns, rows)


def fastest_micro(pipe: Connection) -> int:
    """The micro-batch in which two epochs take least time."""
    timings = {}
    for micro in MICRO_BATCHES:
        ask(pipe, "prepare", 2, micro)
        timings[micro] = ask(pipe, "train").seconds
    return min(timings, key=lambda micro: timings[micro])


# ------------------------------------------------------------------------------------------------ a comparison


def over_a_comparison(setup: Setup) -> None:
    """How often the frozen layers are run over the items by `compare`: the train and the test table once each."""
    from realm import compare

    os.environ["REALM_HOME"] = str(Path(setup.folder) / "comparison-home")
    _sides.quiet()
    passes: list[int] = []
    compute = frozen_cache.FrozenLayersCache._compute

    def counting_states(cache: Any, batch: Any) -> Any:
        passes.append(len(batch["input_ids"]))
        return compute(cache, batch)

    settings = {"train_layers": LAYERS, "max_steps": 1, "per_device_train_batch_size": 8}
    settings["gradient_accumulation_steps"] = 1
    table, test = _material.crowd(16, 3), _material.crowd(8, 1, seed=5)
    frozen_cache.FrozenLayersCache._compute = counting_states  # type: ignore[method-assign]
    try:
        compare(table, test, setup.model, methods=METHODS, seeds=SEEDS, settings=settings)
    finally:
        frozen_cache.FrozenLayersCache._compute = compute  # type: ignore[method-assign]
    items = table.n_items + test.n_items
    trainings = len(METHODS) * SEEDS
    assert sum(passes) == items, f"the frozen layers ran over {sum(passes)} rows; {items} items should be enough"
    row = [trainings, items, sum(passes), trainings * items, f"{trainings * items / sum(passes):.0f}x"]
    columns = ["trainings", "items", "rows through the frozen layers", "without the cache, at least", "fewer"]
    _sides.show(f"`compare` over {len(METHODS)} methods and {SEEDS} seeds", columns, [row])


def main() -> None:
    """Print the two tables; fail where a target is missed."""
    targets = _sides.start(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        from realm.models.store import resolve

        model = _material.save_causal(Path(folder) / "model") if targets.quick else resolve("smollm2-135m")
        setup = Setup(model, folder)
        beside_the_trainer(setup, targets)
        over_a_comparison(setup)
    targets.finish()


if __name__ == "__main__":
    main()
