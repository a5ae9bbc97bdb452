"""From a model's name to a scorer: the backbone, its tokenizer, and the way of answering that suits both."""

from __future__ import annotations

import json
import logging
import pickle
import sys
from pathlib import Path
from typing import Any, Literal

import torch

from realm.data import Items, Task
from realm.errors import RealmError
from realm.scorers.base import Scorer
from realm.scorers.causal import CausalScorer
from realm.scorers.classifier import ClassifierScorer
from realm.scorers.language import CLOZE_SCALE, LanguageScorer, NamesDoNotSeparateError
from realm.scorers.prompts import LETTERS, Answers, PromptStyle
from realm.scorers.seq2seq import Seq2SeqScorer

logger = logging.getLogger(__name__)

Kind = Literal["seq2seq", "causal", "classifier"]
_LANGUAGE: dict[str, type[LanguageScorer]] = {"seq2seq": Seq2SeqScorer, "causal": CausalScorer}


def load_scorer(
    model: str,
    items: Items,
    *,
    scorer: str = "auto",
    answers: str = "auto",
    instruction: str | None = None,
    max_length: int = 512,
    chat_template: bool = False,
) -> Scorer:
    """Load a model to train on these items. `model` is a folder, a named model of the store, or a Hugging Face id."""
    from realm.models.store import resolve

    path = resolve(model)
    config = _load("AutoConfig", path, model)
    kind = scorer_kind(config, scorer)
    said = _choose_answers(kind, answers, items.tasks)
    style = PromptStyle(said, instruction, min(max_length, _positions(config)), chat_template)
    most = int(items.option_counts.max(initial=2))
    if most > len(LETTERS) and kind != "classifier" and style.answers == "letters":
        raise RealmError(f"an item has {most} options; letters can name {len(LETTERS)}. Use --answers cloze.")
    return build_scorer(path, kind, style, items.tasks, most, model=model)


def build_scorer(
    path: str,
    kind: Kind,
    style: PromptStyle,
    tasks: tuple[Task, ...],
    max_options: int,
    *,
    cloze_scale: float = CLOZE_SCALE,
    model: str | None = None,
    use_safetensors: bool | None = None,
) -> Scorer:
    """Load the backbone and tokenizer at `path` and put a scorer of this kind around them, in fp32.

    `use_safetensors=True` reads no other kind of weights.
    """
    name = model or path
    tokenizer = _load("AutoTokenizer", path, name)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if kind == "classifier":
        backbone = _load_classifier(path, name, tasks, use_safetensors)
        return ClassifierScorer(backbone, tokenizer, style, tasks)
    loader = "AutoModelForSeq2SeqLM" if kind == "seq2seq" else "AutoModelForCausalLM"
    backbone = _load(loader, path, name, dtype=torch.float32, use_safetensors=use_safetensors)
    try:
        made = _LANGUAGE[kind](backbone, tokenizer, style, tasks, max_options, cloze_scale)
    except NamesDoNotSeparateError as error:
        logger.warning("--answers names: the labels of task %r do not differ in one token; using cloze.", str(error))
        style = PromptStyle("cloze", style.instruction, style.max_length, style.chat_template)
        made = _LANGUAGE[kind](backbone, tokenizer, style, tasks, max_options, cloze_scale)
    _check_rows(made)
    return made


def scorer_kind(config: Any, wanted: str = "auto") -> Kind:
    """Which scorer suits a model, from its config."""
    if wanted in ("seq2seq", "causal", "classifier"):
        return wanted  # type: ignore[return-value]
    if wanted != "auto":
        raise RealmError(f"--scorer {wanted}: must be auto, seq2seq, causal or classifier.")
    if getattr(config, "is_encoder_decoder", False):
        return "seq2seq"
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED

    made_as = " ".join(getattr(config, "architectures", None) or [])
    if "ForCausalLM" in made_as or "LMHead" in made_as:
        return "causal"
    return "causal" if config.model_type in CAUSAL and config.model_type not in MASKED else "classifier"


def _choose_answers(kind: Kind, wanted: str, tasks: tuple[Task, ...]) -> Answers:
    """`auto`: letters for encoder-decoders; for decoder-only models names, or cloze where items have own options."""
    if wanted in ("letters", "names", "cloze"):
        return wanted  # type: ignore[return-value]
    if wanted != "auto":
        raise RealmError(f"--answers {wanted}: must be auto, letters, names or cloze.")
    if kind != "causal":
        return "letters"
    return "names" if all(task.labels is not None for task in tasks) else "cloze"


def _positions(config: Any) -> int:
    """How many tokens the model has positions for. RoBERTa and its kin begin to count behind the padding token."""
    positions = getattr(config, "max_position_embeddings", None) or sys.maxsize
    behind = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "mpnet", "longformer"}
    return int(positions) - (config.pad_token_id + 1 if config.model_type in behind else 0)


def _load(loader: str, path: str, name: str, **options: Any) -> Any:
    import transformers

    _refuse_kernels(path, name)
    transformers.utils.logging.disable_progress_bar()
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()  # a new head is no news to someone who trains one
    try:
        return getattr(transformers, loader).from_pretrained(path, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError, ImportError, pickle.UnpicklingError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        where = "the folder" if Path(path).is_dir() else "a folder, a named model (`realm models`) or the hub"
        raise RealmError(f"--model {name}: cannot be loaded from {where}: {first}") from error
    finally:
        transformers.utils.logging.set_verbosity(verbosity)


def _refuse_kernels(path: str, name: str) -> None:
    """A checkpoint may name an attention kernel on the hub (`owner/repository`), which would be fetched and run."""
    config = Path(path) / "config.json"
    if not config.is_file():
        return
    try:
        said = json.loads(config.read_text(encoding="utf-8"))
    except ValueError:
        return  # said in better words by who reads it next
    kinds = [said.get(key) for key in ("attn_implementation", "_attn_implementation")] if isinstance(said, dict) else []
    if any("/" in json.dumps(kind) for kind in kinds):
        raise RealmError(
            f"--model {name}: {config} names an attention kernel to fetch and run, which is not done here. Remove "
            "attn_implementation from it."
        )


def _load_classifier(path: str, name: str, tasks: tuple[Task, ...], use_safetensors: bool | None) -> Any:
    if missing := [task.name for task in tasks if task.labels is None]:
        raise RealmError(
            f"--scorer classifier: the items of task {missing[0]!r} list options of their own; a classifier needs one "
            "label inventory per task. Use a language model."
        )
    rows = [(task.name, label) for task in tasks for label in task.labels or ()]
    names = [label if len(tasks) == 1 else f"{task}: {label}" for task, label in rows]
    options: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": use_safetensors}
    labels: dict[str, Any] = {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
    return _load("AutoModelForSequenceClassification", path, name, **options, **labels)


@torch.no_grad()
def _check_rows(scorer: LanguageScorer) -> None:
    """The rows we project must give the logits the model itself gives; a backbone that does more is refused."""
    ids = torch.tensor([[scorer.tokenizer.pad_token_id, 1, 2]]).clamp(max=scorer.backbone.config.vocab_size - 1)
    training = scorer.training
    scorer.eval()
    inputs: dict[str, torch.Tensor] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if scorer.kind == "seq2seq":
        inputs["decoder_input_ids"] = ids[:, :1]
    own = scorer.backbone(**inputs).logits[:, -1, :3].float()
    batch = {**inputs, "decoder_lengths": torch.tensor([1])}
    ours = scorer.head.rows(scorer.answer_states(batch), torch.tensor([[0, 1, 2]]))
    scorer.train(training)
    if not torch.allclose(own, ours, rtol=1e-3, atol=1e-3):
        raise RealmError(
            f"{type(scorer.backbone).__name__} changes its logits after the output layer in a way that is not known "
            "here; use another model."
        )
