"""What a trainer hands to `realm.runs`: its description when it starts, its results when it ends."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from realm.channels import CHANNELS, channel_class
from realm.files import writing
from realm.locks import holding
from realm.metrics import evaluate, items_trained_on
from realm.runs import folder as layout
from realm.runs import writer
from realm.training import checkpoints

if TYPE_CHECKING:
    from realm.scorers.scoring import Scores
    from realm.training.trainer import RealmTrainer


def begin(trainer: RealmTrainer, resume: bool, held: ExitStack) -> Path | None:
    """Make the run folder ready, find the checkpoint to go on from, and hold the folder until `held` is closed."""
    args, folder = trainer.args, trainer.run
    description = None
    if args.write_run:
        settings, channel = args.settings(), trainer.channel
        if channel is not None and trainer.given_channel is not None:  # the caller's, in place of the setting
            names = {channel_class(name): name for name in CHANNELS}
            settings["channel"] = names.get(type(channel), type(channel).__name__)
            settings["channel_settings"] = channel.settings()
        test, prior, gold_used = trainer.test, trainer.prior, args.reads_gold
        name, table = trainer.model_name, trainer.annotations
        description = writer.describe(name, table, settings, gold_used=gold_used, test=test, prior=prior)
        layout.check_output(folder, overwrite=args.overwrite and not resume, resume=resume, reads=[name])
    if args.write_run or args.save_strategy != "no":
        with writing(folder):
            held.enter_context(holding(folder))
    if description is not None:
        layout.check_output(folder, overwrite=args.overwrite, resume=resume)  # another may have written it meanwhile
        if resume:
            writer.check_same(folder, description)
    # A finished run stays as it is if there is nothing whole to go on from.
    checkpoint = checkpoints.newest_whole(folder / "checkpoints") if resume else None
    if description is not None:
        writer.write_start(folder, description, overwrite=args.overwrite and not resume)
    return checkpoint


def end(trainer: RealmTrainer, test_scores: Scores | None) -> None:
    """Write everything the run produced; `test_scores` are what the model says of the test table."""
    test = None
    if trainer.test is not None and test_scores is not None:
        test = evaluate(trainer.test, test_scores)
        test["items_trained_on"] = items_trained_on(trainer.annotations, trainer.test)
    names = ("scorer", "annotations", "warnings", "notes", "findings", "probabilities", "folds", "temperature")
    results = writer.RunResults(
        **{name: getattr(trainer, name) for name in names},
        model=trainer.model_name,
        method=trainer.args.method,
        log_probs=trainer.scores().log_probs,
        estimate=trainer.estimate(),
        channel=_channel_results(trainer),
        history=trainer.state.log_history,
        steps=trainer.state.global_step,
        test=test,
    )
    writer.write_results(trainer.run, results)


def _channel_results(trainer: RealmTrainer) -> writer.ChannelResults | None:
    channel, trajectory = trainer.channel, trainer.trajectory()
    if channel is None:
        return None
    columns = trajectory[-1][1] if trajectory else {}
    return writer.ChannelResults(
        name=type(channel).__name__,
        state=channel.state(),
        summary=channel.summary(),
        steps=np.array([step for step, _ in trajectory], dtype=np.int64),
        trajectory={name: np.stack([summary[name] for _, summary in trajectory]) for name in columns},
    )
