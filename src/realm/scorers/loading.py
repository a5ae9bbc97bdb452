"""From a model's name to a scorer: the backbone, its tokenizer, and the way of answering that suits both."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch

from realm.data import Items, Task
from realm.errors import RealmError, other_name
from realm.files import LONGEST_REASON
from realm.scorers.base import Scorer
from realm.scorers.causal import CausalScorer
from realm.scorers.classifier import ClassifierScorer
from realm.scorers.language import CLOZE_SCALE, LanguageScorer
from realm.scorers.model_folder import (
    check_config,
    check_folder,
    check_loaded,
    check_sizes,
    check_tokenizer,
    give_padding,
    new_weights,
)
from realm.scorers.prompts import LETTERS, Answers, PromptStyle
from realm.scorers.seq2seq import Seq2SeqScorer

Kind = Literal["seq2seq", "causal", "classifier"]
_LANGUAGE: dict[str, tuple[type[LanguageScorer], str]] = {
    "seq2seq": (Seq2SeqScorer, "AutoModelForSeq2SeqLM"),
    "causal": (CausalScorer, "AutoModelForCausalLM"),
}
# Models that count positions from behind the padding token's id.
_OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "mpnet", "longformer"}

NOT_THERE = {"RepositoryNotFoundError", "GatedRepoError", "RevisionNotFoundError"}
"""Exceptions of `huggingface_hub` where it was asked and has no such model for us, by name: it moves its classes."""
UNREACHABLE = {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "ConnectError", "ConnectTimeout"}
"""Those, and of the libraries below it, where it was not asked."""


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
    if Path(path).is_dir():
        check_folder(Path(path), model)
    config = _load("AutoConfig", path, model)
    check_config(config, model)
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
    weights = check_folder(Path(path), name) if Path(path).is_dir() else None
    config = _load("AutoConfig", path, name)
    check_config(config, name)
    tokenizer = _load("AutoTokenizer", path, name)
    give_padding(tokenizer, config, name)
    with _loading(path, name):
        check_tokenizer(tokenizer, name)
    loader = "AutoModelForSequenceClassification" if kind == "classifier" else _LANGUAGE[kind][1]
    options: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": use_safetensors}
    if kind == "classifier":
        options |= label_names(tasks)
    if weights is not None:
        with _loading(path, name):
            check_sizes(config, _transformers_class(loader), weights, name)
    # what does not fit is judged below: transformers fills it in at random
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    backbone, found = _load(loader, path, name, **options)
    new_head = new_weights(backbone, found, name, may_have_new_head=kind == "classifier" and not use_safetensors)
    check_loaded(backbone, tokenizer, name)
    if kind == "seq2seq" and _start_token(backbone) is None:
        raise RealmError(f"`model={name}`: its config.json names no decoder_start_token_id and no pad_token_id.")
    if (
        getattr(backbone.config, "pad_token_id", None) is None
    ):  # by which a decoder's classification head finds the last token
        backbone.config.pad_token_id = tokenizer.pad_token_id
    if kind == "classifier":
        classifier = ClassifierScorer(backbone, tokenizer, style, tasks)
        classifier.new_head = new_head
        _check_rows_of_head(classifier, name)
        return classifier
    scorer = _LANGUAGE[kind][0](backbone, tokenizer, style, tasks, max_options, cloze_scale)
    _check_rows(scorer, name)
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
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(positions, int) or positions == -1:
        return sys.maxsize
    positions -= (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
    if positions < 1:
        raise RealmError(f"the model's config.json leaves room for {positions} tokens (max_position_embeddings).")
    return positions


def _start_token(backbone: Any) -> int | None:
    places = ((backbone.config, "decoder_start_token_id"), (backbone.generation_config, "decoder_start_token_id"))
    found = [getattr(*place, None) for place in (*places, (backbone.config, "pad_token_id"))]
    return next((token for token in found if token is not None), None)


def _transformers_class(name: str) -> Any:
    import transformers

    return getattr(transformers, name)


def _load(loader: str, path: str, name: str, **options: Any) -> Any:
    import transformers

    transformers.utils.logging.disable_progress_bar()
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()  # a new head is no news to someone who trains one
    hub = logging.getLogger("huggingface_hub")
    hub_level = hub.level
    hub.setLevel(logging.ERROR)  # it would tell of every attempt to reach a host, with its address
    try:
        with _loading(path, name):
            return _transformers_class(loader).from_pretrained(path, trust_remote_code=False, **options)
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
        hub.setLevel(hub_level)


@contextmanager
def _loading(path: str, name: str) -> Iterator[None]:
    """Turn whatever goes wrong while a model is loaded into an error that names it: it can fail in any way."""
    try:
        yield
    except RealmError:
        raise
    except BaseException as error:
        # tokenizers raises plain exceptions, and what its Rust code raises derives from none
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        lines = str(error).strip().splitlines()
        first = next((line.strip() for line in lines if line.strip()), type(error).__name__)[:LONGEST_REASON]
        if Path(path).is_dir():
            raise RealmError(f"`model={name}`: cannot be loaded from the folder: {first}") from error
        from realm.models.store import models

        near = other_name(name, [each.name for each in models()], {})
        reason = _why_the_hub_has_none(error) or f"cannot be loaded from the Hugging Face hub: {first}"
        raise RealmError(f"`model={name}`: {reason} {near}".rstrip()) from error


def _why_the_hub_has_none(error: BaseException) -> str:
    """Why a name that is no folder and no named model is no model of the hub either; empty where it is one."""
    from realm.models.store import offline

    names, cause = set(), error
    while cause is not None and type(cause).__name__ not in names:
        names.add(type(cause).__name__)
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    tried = "it is no folder and no named model"
    if names & NOT_THERE:
        return (
            f"{tried}, and the Hugging Face hub has no model of this name, or a private one. Check the name, or give a "
            "named model (`realm models` lists them) or a folder."
        )
    if names & UNREACHABLE:
        why = "may not be asked (offline)" if offline() else "could not be reached"
        return (
            f"{tried}, its files are not in the cache of the Hugging Face hub, and the hub {why}. Give a named model "
            "(`realm models` lists them) or a folder, or go online."
        )
    return ""


def label_names(tasks: tuple[Task, ...]) -> dict[str, Any]:
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
def _check_rows(scorer: LanguageScorer, name: str) -> None:
    """The rows we project must give the logits the model itself gives; a backbone that does more is refused."""
    training = scorer.training
    scorer.eval()
    with _running(name):
        batch = scorer.probe()
        inputs = {name: value for name, value in batch.items() if name != "decoder_lengths"}
        expected = scorer.backbone(**inputs).logits[:, -1, :3].float()
        states, tokens = scorer.answer_states(batch), torch.tensor([[0, 1, 2]])
        same = _close(scorer.head.rows(states, tokens), expected)
        if not same and hasattr(scorer.backbone.config, "d_model"):  # UMT5 scales as T5 does, but has no flag for it
            scorer.head.hidden_scale = float(scorer.backbone.config.d_model) ** -0.5
            same = _close(scorer.head.rows(states, tokens), expected)
    scorer.train(training)
    if not bool(expected.isfinite().all()):
        raise RealmError(f"`model={name}`: its answers are not numbers: it was damaged, or its training diverged.")
    if not same:
        raise RealmError(
            f"{type(scorer.backbone).__name__} changes its logits after the output layer in a way that is not known "
            "here; use another model."
        )


def _close(logits: torch.Tensor, expected: torch.Tensor) -> bool:
    # far above the rounding of fp32, far below any scale, cap or bias that a model would apply
    return torch.allclose(logits, expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def _check_rows_of_head(scorer: ClassifierScorer, name: str) -> None:
    """The head must have a row for every label, and give numbers."""
    training = scorer.training
    scorer.eval()
    with _running(name):
        logits = scorer.run_backbone(scorer.probe())
    scorer.train(training)
    rows = sum(len(task.labels or ()) for task in scorer.tasks)
    if logits.shape != (1, rows):
        raise RealmError(f"`model={name}`: its head has {logits.shape[-1]} rows; the tasks have {rows} labels.")
    if not bool(logits.isfinite().all()):
        raise RealmError(f"`model={name}`: its answers are not numbers: it was damaged, or its training diverged.")


@contextmanager
def _running(name: str) -> Iterator[None]:
    """Turn whatever a backbone says of its first short input into an error that names the model."""
    try:
        yield
    except RealmError:
        raise
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST_REASON]
        raise RealmError(
            f"`model={name}`: it cannot be run ({first}): its config.json does not fit its weights."
        ) from error
