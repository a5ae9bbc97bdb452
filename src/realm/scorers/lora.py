"""LoRA adapters through peft: added before training, merged into the weights after it."""

from __future__ import annotations

from typing import Any

from realm.scorers.base import Scorer

_TASK_TYPES = {"seq2seq": "SEQ_2_SEQ_LM", "causal": "CAUSAL_LM", "classifier": "SEQ_CLS"}


def add_lora(scorer: Scorer, rank: int) -> Any:
    """Put adapters of this rank into every linear layer of the backbone, in place; only they (and a head) train."""
    from peft import LoraConfig, get_peft_model

    # alpha = 2 * rank, the usual choice, keeps the adapters' scale the same at every rank
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type=_TASK_TYPES[scorer.kind],
    )
    return get_peft_model(scorer.backbone, config)


def merge_lora(scorer: Scorer, adapted: Any) -> None:
    """Merge the adapters into the weights: the backbone is a plain model again, with the same answers."""
    scorer.backbone = adapted.merge_and_unload()
