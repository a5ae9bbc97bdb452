"""What a run is made of before its first step: tables, scorer and channel, from the arguments of `RealmTrainer`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from transformers import set_seed

from realm.channels import Channel
from realm.crowd.earlier import EarlierEstimates, expert_rows
from realm.data import Annotations
from realm.data.alignment import aligned
from realm.files import without_home
from realm.metrics import check_test
from realm.runs import Run
from realm.scorers import Scorer, load_scorer
from realm.training.arguments import check_arguments
from realm.training.channel import make_channel
from realm.training.config import RealmConfig
from realm.training.continued import ContinuedRun
from realm.training.labels import training_labels

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False)
class RunParts:
    """The parts of a run.

    | field | meaning |
    |---|---|
    | annotations | the table as given, without gold unless the run reads it |
    | channel_annotations | the labels of the method: the same, one aggregated label per item, or gold |
    | training_annotations | those of them that are trained on: all but where a run is continued |
    | test | the test table, with the tasks of the training table |
    | channel, given_channel | what is trained, and the caller's channel as it was, which folds start from |
    | experts, earlier | rows of annotators taken to be right, and an earlier table of annotators |
    | scorer, model_name | the backbone, and the name of what it is made from; `loads_model`: it was loaded here |
    | continued | the earlier run that this one continues |
    """

    annotations: Annotations
    channel_annotations: Annotations
    training_annotations: Annotations
    test: Annotations | None
    channel: Channel
    given_channel: Channel | None
    experts: list[int]
    earlier: EarlierEstimates | None
    scorer: Scorer
    model_name: str
    loads_model: bool
    continued: ContinuedRun | None
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        model: str | Scorer | Run,
        annotations: Annotations,
        config: RealmConfig,
        test: Annotations | None,
        channel: Channel | None,
        prior: pd.DataFrame | None,
    ) -> RunParts:
        """Check the arguments of `RealmTrainer`, and make the parts of them."""
        check_arguments(model, annotations, config, test, channel)
        continued = ContinuedRun.of(model, annotations, config) if isinstance(model, Run) else None
        if continued is not None:
            annotations = continued.annotations
            test = None if test is None else aligned(test, annotations.tasks, (), "the table")
        if isinstance(config.cross_fit, int) and config.cross_fit:
            annotations.items.folds(config.cross_fit)  # refuses more folds than texts before anything is trained
        labels = training_labels(annotations, config.method, seed=config.seed, use_gold=config.use_gold)
        experts = expert_rows(annotations, config.experts or ())
        earlier = None if prior is None else EarlierEstimates.from_table(annotations, prior)
        given = None if channel is None else copy.deepcopy(channel)
        channel = make_channel(labels.annotations, config, channel, earlier)
        table = labels.annotations
        set_seed(config.seed)
        scorer, name = _scorer(model, continued, annotations, config)
        scorer.temperature = 1.0
        warnings = [*labels.warnings, *([] if continued is None else continued.warnings)]
        warnings += [] if test is None else check_test(annotations, test)
        return cls(
            annotations=annotations if config.reads_gold else annotations.without_gold(),
            channel_annotations=table,
            training_annotations=table if continued is None else table.take_items(continued.items),
            test=test,
            channel=channel,
            given_channel=given,
            experts=experts,
            earlier=earlier,
            scorer=scorer,
            model_name=name,
            loads_model=not isinstance(model, Scorer),
            continued=continued,
            warnings=warnings,
        )


def _scorer(
    model: str | Scorer | Run, continued: ContinuedRun | None, annotations: Annotations, config: RealmConfig
) -> tuple[Scorer, str]:
    """The scorer to train, and the name of the model that it is made from."""
    if continued is not None:
        return continued.scorer(), str(continued.run.config["model"])
    if isinstance(model, Scorer):
        return model, without_home(model.backbone.config._name_or_path)
    names = ("scorer", "answers", "instruction", "max_length", "chat_template")
    settings = {name: getattr(config, name) for name in names}
    return load_scorer(str(model), annotations.items, **settings), without_home(str(model))
