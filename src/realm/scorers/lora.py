"""LoRA adapters through peft: added before training, merged into the weights after it."""

from __future__ import annotations

from typing import Any

from torch import nn

from realm.errors import RealmError
from realm.scorers.base import Scorer


def add_lora(scorer: Scorer, rank: int) -> Any:
    """Put adapters of this rank into every linear layer of the backbone, in place; only they (and a head) train.

    A classifier's head, what lies above its base model, trains as it is; a language model's output layer stays.
    """
    from peft import LoraConfig, get_peft_model

    backbone = scorer.backbone
    body = backbone.base_model if scorer.has_head else backbone
    inside = {id(parameter) for parameter in body.parameters()}
    head = [parameter for parameter in backbone.parameters() if id(parameter) not in inside]
    if scorer.has_head and not head:
        raise RealmError(
            f"`lora_rank`: {type(backbone).__name__} does not tell its head from the rest. Use `train_layers=1`."
        )
    # alpha = 2 * rank, the usual choice, keeps the adapters' scale the same at every rank
    config = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=_adapted_layers(backbone, body))
    adapted = get_peft_model(backbone, config)
    for parameter in head:
        parameter.requires_grad_(True)
    return adapted


def _adapted_layers(backbone: Any, body: Any) -> list[str]:
    """The names of the linear layers of the body that get an adapter."""
    from transformers.pytorch_utils import Conv1D

    inside = {id(module) for module in body.modules()} - {id(backbone.get_output_embeddings())}
    # state-space layers (Mamba) have kernels that read these weights themselves, past any adapter
    inside -= {
        id(module.out_proj) for module in body.modules() if hasattr(module, "conv1d") and hasattr(module, "out_proj")
    }
    layers = [(name, module) for name, module in backbone.named_modules() if isinstance(module, nn.Linear | Conv1D)]
    return [name for name, module in layers if id(module) in inside]


def merge_lora(scorer: Scorer, adapted: Any) -> None:
    """Merge the adapters into the weights: the backbone is a plain model again, with the same answers."""
    scorer.backbone = adapted.merge_and_unload()
