"""From a model's name to a scorer: the backbone, its tokenizer, and the way of answering that suits both."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
import transformers

from realm.data import Items, Task
from realm.errors import RealmError, other_name
from realm.files import LONGEST_REASON
from realm.models import store
from realm.scorers import SCORERS, scorer_class
from realm.scorers.base import Scorer
from realm.scorers.model_folder import check_folder, check_loaded, has_new_head
from realm.scorers.prompts import LETTERS, Answers, PromptStyle

# Models that count positions from behind the padding token's id.
_OFFSET_POSITIONS = {"roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "mpnet", "longformer"}

UNREACHABLE = {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectionError", "ConnectError", "ConnectTimeout"}
"""Exceptions, by name, where the Hugging Face hub was not asked: it moves its classes."""


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
    path = store.resolve(model)
    check_folder(path, model)
    config = _load("AutoConfig", path, model)
    kind = scorer_kind(config, scorer)
    if answers not in ("auto", *get_args(Answers)):
        raise RealmError(f"`answers={answers}`: must be one of auto, {', '.join(get_args(Answers))}.")
    own = scorer_class(kind).answers_for(None if answers == "auto" else answers, items.tasks)  # type: ignore[arg-type]
    style = PromptStyle(own, instruction, min(max_length, _positions(config)), chat_template)
    most = int(items.option_counts.max(initial=2))
    if most > len(LETTERS) and style.answers == "letters":
        raise RealmError(f"an item has {most} options; letters can name {len(LETTERS)}. Use `answers=cloze`.")
    return build_scorer(path, kind, style, items.tasks, most, model=model)


def build_scorer(
    path: str,
    kind: str,
    style: PromptStyle,
    tasks: tuple[Task, ...],
    max_options: int,
    *,
    model: str | None = None,
    trained: bool = False,
) -> Scorer:
    """Load the backbone and tokenizer at `path` and put a scorer of this kind around them, in fp32.

    `model` is the name for messages; of a `trained` one the head may not be new.
    """
    name, scorer_type = model or path, scorer_class(kind)
    check_folder(path, name)
    tokenizer = _load("AutoTokenizer", path, name)
    options = {"dtype": torch.float32, "use_safetensors": True, **scorer_type.load_options(tasks)}
    # what does not fit is judged below: transformers fills it in at random
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    backbone, info = _load(scorer_type.auto_class, path, name, **options)
    new_head = has_new_head(backbone, info, name, allowed=scorer_type.has_head and not trained)
    check_loaded(backbone, tokenizer, name)
    scorer = scorer_type(backbone, tokenizer, style, tasks, max_options).eval()
    scorer.new_head = new_head
    with _loading(path, name), torch.no_grad():
        if not bool(scorer.check(name).isfinite().all()):
            raise RealmError(f"`model={name}`: its answers are not numbers: it was damaged, or its training diverged.")
    if getattr(backbone.config, "pad_token_id", None) is None:
        backbone.config.pad_token_id = tokenizer.pad_token_id  # by which a decoder's head finds the last token
    return scorer.train()


def scorer_kind(config: Any, scorer: str = "auto") -> str:
    """Which scorer suits a model, from its config."""
    kinds = (kind for kind in SCORERS if scorer_class(kind).matches(config))
    return next(kinds) if scorer == "auto" else scorer_class(scorer).kind


def _positions(config: Any) -> int:
    """How many tokens the model has positions for."""
    positions = getattr(config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(positions, int) or positions == -1:
        return sys.maxsize
    positions -= (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
    if positions < 1:
        raise RealmError(f"the model's config.json leaves room for {positions} tokens (max_position_embeddings).")
    return positions


def _load(loader: str, path: str, name: str, **options: Any) -> Any:
    transformers.utils.logging.disable_progress_bar()
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()  # a new head is no news to someone who trains one
    hub = logging.getLogger("huggingface_hub")
    hub_level = hub.level
    hub.setLevel(logging.ERROR)  # it would tell of every attempt to reach a host, with its address
    try:
        with _loading(path, name):
            return getattr(transformers, loader).from_pretrained(path, trust_remote_code=False, **options)
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
        hub.setLevel(hub_level)


@contextmanager
def _loading(path: str, name: str) -> Iterator[None]:
    """Turn whatever goes wrong while a model is loaded, or first run, into an error that names it."""
    try:
        yield
    except RealmError:
        raise
    except BaseException as error:
        # tokenizers raises plain exceptions, and what its Rust code raises derives from none
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        lines = (line.strip() for line in str(error).splitlines())
        reason = next(filter(None, lines), type(error).__name__)[:LONGEST_REASON]
        if Path(path).is_dir():
            raise RealmError(f"`model={name}`: cannot be loaded from the folder: {reason}") from error
        causes = {type(error).__name__, type(error.__cause__).__name__, type(error.__context__).__name__}
        if store.offline():
            reason = "the Hugging Face hub may not be asked (offline), and its cache has no such model"
        elif "RepositoryNotFoundError" in causes:
            reason = "it has no model of this name, or a private one"
        elif causes & UNREACHABLE:
            reason = "the Hugging Face hub could not be reached, and its cache has no such model"
        raise RealmError(
            f"`model={name}`: it is no folder, no named model (`realm models` lists them), and cannot be loaded from "
            f"the Hugging Face hub: {reason.rstrip('.')}. {other_name(name, store.names(), {})}".rstrip()
        ) from error
