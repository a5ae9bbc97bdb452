"""From a model's name to a scorer: the backbone, its tokenizer, and the way of answering that suits both."""

from __future__ import annotations

import json
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
from realm.scorers.language import CLOZE_SCALE, LanguageScorer
from realm.scorers.prompts import LETTERS, Answers, PromptStyle
from realm.scorers.seq2seq import Seq2SeqScorer

Kind = Literal["seq2seq", "causal", "classifier"]
_LANGUAGE: dict[str, tuple[type[LanguageScorer], str]] = {
    "seq2seq": (Seq2SeqScorer, "AutoModelForSeq2SeqLM"),
    "causal": (CausalScorer, "AutoModelForCausalLM"),
}
# Models that count positions from behind the padding token's id.
_OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "mpnet", "longformer"}


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
    style = PromptStyle(
        _answers(kind, answers, items.tasks), instruction, min(max_length, _positions(config)), chat_template
    )
    most = int(items.option_counts.max(initial=2))
    if most > len(LETTERS) and kind != "classifier" and style.answers == "letters":
        raise RealmError(f"an item has {most} options; letters can name {len(LETTERS)}. Use `answers=cloze`.")
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

    `model` is the name for messages; `use_safetensors=True` reads no other kind of weights.
    """
    name = model or path
    options: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": use_safetensors}
    tokenizer = _load("AutoTokenizer", path, name)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if kind == "classifier":
        options |= _label_names(tasks)
        backbone, found = _load("AutoModelForSequenceClassification", path, name, output_loading_info=True, **options)
        classifier = ClassifierScorer(backbone, tokenizer, style, tasks)
        classifier.new_head = bool(found["missing_keys"])
        return classifier
    scorer_class, loader = _LANGUAGE[kind]
    backbone = _load(loader, path, name, **options)
    scorer = scorer_class(backbone, tokenizer, style, tasks, max_options, cloze_scale)
    _check_rows(scorer)
    return scorer


def scorer_kind(config: Any, scorer: str = "auto") -> Kind:
    """Which scorer suits a model, from its config."""
    if scorer in ("seq2seq", "causal", "classifier"):
        return scorer  # type: ignore[return-value]
    if scorer != "auto":
        raise RealmError(f"`scorer={scorer}`: must be auto, seq2seq, causal or classifier.")
    if getattr(config, "is_encoder_decoder", False):
        return "seq2seq"
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED

    architectures = " ".join(getattr(config, "architectures", None) or [])
    if "ForCausalLM" in architectures or "LMHead" in architectures:
        return "causal"
    return "causal" if config.model_type in CAUSAL and config.model_type not in MASKED else "classifier"


def _answers(kind: Kind, answers: str, tasks: tuple[Task, ...]) -> Answers:
    """`auto`: letters for encoder-decoders; for decoder-only models names, or cloze where items have own options."""
    if answers in ("letters", "names", "cloze"):
        return answers  # type: ignore[return-value]
    if answers != "auto":
        raise RealmError(f"`answers={answers}`: must be auto, letters, names or cloze.")
    if kind != "causal":
        return "letters"
    return "names" if all(task.labels is not None for task in tasks) else "cloze"


def _positions(config: Any) -> int:
    """How many tokens the model has positions for."""
    positions = getattr(config, "max_position_embeddings", None) or sys.maxsize
    return int(positions) - (config.pad_token_id + 1 if config.model_type in _OFFSET_POSITIONS else 0)


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
        raise RealmError(f"`model={name}`: cannot be loaded from {where}: {first}") from error
    finally:
        transformers.utils.logging.set_verbosity(verbosity)


def _refuse_kernels(path: str, name: str) -> None:
    """A checkpoint may name an attention kernel on the hub (`owner/repository`), which would be fetched and run."""
    file = Path(path) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    except ValueError:
        return  # transformers refuses the file with a message of its own
    if not isinstance(config, dict):
        return
    kernels = [config.get(key) for key in ("attn_implementation", "_attn_implementation")]
    if any("/" in json.dumps(kernel) for kernel in kernels):
        raise RealmError(
            f"`model={name}`: {file} names an attention kernel to fetch and run, which is not done here. Remove "
            "attn_implementation from it."
        )


def _label_names(tasks: tuple[Task, ...]) -> dict[str, Any]:
    """What a classifier's config says of the rows of its head."""
    if missing := [task.name for task in tasks if task.labels is None]:
        raise RealmError(
            f"`scorer=classifier`: the items of task {missing[0]!r} list options of their own; a classifier needs one "
            "label set per task. Use a language model."
        )
    rows = [(task.name, label) for task in tasks for label in task.labels or ()]
    names = [label if len(tasks) == 1 else f"{task}: {label}" for task, label in rows]
    return {"id2label": dict(enumerate(names)), "label2id": {name: row for row, name in enumerate(names)}}


@torch.no_grad()
def _check_rows(scorer: LanguageScorer) -> None:
    """The rows we project must give the logits the model itself gives; a backbone that does more is refused."""
    training = scorer.training
    scorer.eval()
    batch = scorer.probe()
    inputs = {name: value for name, value in batch.items() if name != "decoder_lengths"}
    expected = scorer.backbone(**inputs).logits[:, -1, :3].float()
    states = scorer.answer_states(batch)
    logits = scorer.head.rows(states, torch.tensor([[0, 1, 2]]))
    scorer.train(training)
    # far above the rounding of fp32, far below any scale, cap or bias that a model would apply
    if not torch.allclose(expected, logits, rtol=1e-3, atol=1e-3):
        raise RealmError(
            f"{type(scorer.backbone).__name__} changes its logits after the output layer in a way that is not known "
            "here; use another model."
        )
