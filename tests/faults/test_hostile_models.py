"""Model folders that are damaged, incomplete or nonsense: every command says what is wrong, and nothing is guessed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from realm.errors import RealmError
from realm.scorers import load_scorer
from tests.faults.machine_files import Subject, fit_manifest, make_subjects
from tests.tiny import crowd, save_tiny

WEIGHTS = "model.safetensors"
ITEMS = crowd(6).items


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def of(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind) / "model"
            save_tiny(made[kind], kind, layers=1, width=16)
        return made[kind]

    return of


@pytest.fixture
def folder(kinds: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a tiny model, to be damaged."""

    def of(kind: str) -> Path:
        return Path(shutil.copytree(kinds(kind), tmp_path / kind))

    return of


def refused(folder: Path, message: str, **how: Any) -> None:
    with pytest.raises(RealmError, match=message) as error:
        load_scorer(str(folder), ITEMS, **how)
    assert str(folder) in str(error.value)


def config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in {**content, **values}.items() if value != "taken out"}))


@pytest.mark.parametrize("kind", ["causal", "gpt2", "seq2seq", "bert", "mpnet", "deberta"])
def test_whole_models_are_loaded(kind: str, kinds: Callable[[str], Path]) -> None:
    scorer = load_scorer(str(kinds(kind)), ITEMS)
    assert scorer.new_head == (scorer.kind == "classifier")


# ---------------------------------------------------------------- tokenizers


def test_no_tokenizer(folder) -> None:
    """transformers would make an empty one for some kinds of model."""
    for kind in ("causal", "bert"):
        path = folder(kind)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (path / name).unlink()
        refused(path, "the folder has no tokenizer")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"model": 3}', "not json"])
def test_a_tokenizer_that_is_none(content: str, folder) -> None:
    path = folder("causal")
    (path / "tokenizer.json").write_text(content)
    refused(path, "no tokenizer|cannot be loaded|knows no words")


def test_a_tokenizer_larger_than_the_embedding(folder) -> None:
    from transformers import AutoTokenizer

    path = folder("causal")
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.add_tokens(["<new-1>", "<new-2>"])
    tokenizer.save_pretrained(path)
    refused(path, "numbers tokens up to 385; the model has embeddings for 384")


def without_tokens(path: Path, *names: str) -> None:
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        if (path / file).exists():
            content = json.loads((path / file).read_text())
            (path / file).write_text(json.dumps({key: value for key, value in content.items() if key not in names}))


def test_a_tokenizer_without_padding_takes_the_token_that_ends_a_text(folder) -> None:
    path = folder("gpt2")
    without_tokens(path, "pad_token")
    scorer = load_scorer(str(path), ITEMS)
    assert scorer.tokenizer.pad_token == "</s>"


def test_without_padding_and_end_the_config_tells(folder) -> None:
    path = folder("gpt2")
    without_tokens(path, "pad_token", "eos_token", "bos_token")
    config(path, eos_token_id=2)
    assert load_scorer(str(path), ITEMS).tokenizer.pad_token_id == 2
    config(path, eos_token_id=None, bos_token_id=None)
    refused(path, "has no padding token")


def test_a_decoder_as_classifier_learns_of_the_padding(folder) -> None:
    """Its head reads the last token that is no padding, and would refuse batches without knowing which that is."""
    path = folder("gpt2")
    without_tokens(path, "pad_token")
    config(path, pad_token_id=None)
    scorer = load_scorer(str(path), ITEMS, scorer="classifier")
    assert scorer.backbone.config.pad_token_id == scorer.tokenizer.pad_token_id
    with torch.no_grad():
        answers = scorer.eval()(scorer.collate(scorer.encode(ITEMS), torch.arange(6).numpy()))
    assert answers.isfinite().all()


# ---------------------------------------------------------------- configs


@pytest.mark.parametrize("content", ["", "not json", "[]", "null"])
def test_a_config_that_is_none(content: str, folder) -> None:
    path = folder("causal")
    (path / "config.json").write_text(content)
    refused(path, r"config\.json")


def test_a_type_that_does_not_fit_the_weights(folder) -> None:
    """Without architectures nothing contradicts it but the names of the weights: all would be random."""
    path = folder("bert")
    config(path, model_type="distilbert", architectures="taken out")
    load_scorer(str(folder("causal")), ITEMS)  # the same without the change
    refused(path, "lack|cannot be")


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_hidden_layers": 2},
        {"num_attention_heads": 3},
        {"vocab_size": 200},
        {"intermediate_size": 32},
        {"hidden_size": "sixteen"},
        {"max_position_embeddings": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["causal", "bert"])
def test_a_config_of_another_size_than_the_weights(kind: str, sizes: dict[str, Any], folder) -> None:
    path = folder(kind)
    config(path, **sizes)
    with pytest.raises(RealmError):
        load_scorer(str(path), ITEMS)


def test_no_token_to_start_the_decoder_with(folder) -> None:
    path = folder("seq2seq")
    for file in ("config.json", "generation_config.json"):
        content = json.loads((path / file).read_text())
        content |= {"decoder_start_token_id": None, "pad_token_id": None}
        (path / file).write_text(json.dumps(content))
    refused(path, "names no decoder_start_token_id")


def test_an_adapter_would_load_another_model(folder) -> None:
    path = folder("causal")
    (path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "somebody/else"}))
    refused(path, "an adapter would load another model")


# ---------------------------------------------------------------- weights


def test_no_weights(folder) -> None:
    path = folder("causal")
    (path / WEIGHTS).unlink()
    refused(path, "has no weights")


@pytest.mark.parametrize("kind", ["causal", "gpt2", "seq2seq", "bert"])
def test_weights_that_are_missing_are_not_made_up(kind: str, folder) -> None:
    path = folder(kind)
    weights = load_file(path / WEIGHTS)
    lost = next(name for name in sorted(weights) if "norm" in name.lower() or "ln_" in name)
    save_file({k: v for k, v in weights.items() if k != lost}, path / WEIGHTS, metadata={"format": "pt"})
    refused(path, "the weights lack .*they would be random")


def test_a_head_of_another_label_set_is_new_and_nothing_else_is(folder) -> None:
    """As users of `ignore_mismatched_sizes` expect; a body that does not fit is refused."""
    from transformers import AutoModelForSequenceClassification

    path = folder("bert")
    AutoModelForSequenceClassification.from_pretrained(path, num_labels=7).save_pretrained(path)
    scorer = load_scorer(str(path), ITEMS)
    assert scorer.new_head and scorer.backbone.config.num_labels == 4
    scorer.backbone.save_pretrained(path)
    assert not load_scorer(str(path), ITEMS).new_head
    weights = load_file(path / WEIGHTS)
    name = "bert.encoder.layer.0.output.dense.weight"
    save_file({**weights, name: weights[name][:, :-1].contiguous()}, path / WEIGHTS, metadata={"format": "pt"})
    refused(path, f"lack {name}")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:100],
        lambda content: content[:-1],
        lambda content: b"PK\x03\x04" + content,
    ],
)
def test_safetensors_that_are_cut(change: Callable[[bytes], bytes], folder) -> None:
    path = folder("causal")
    (path / WEIGHTS).write_bytes(change((path / WEIGHTS).read_bytes()))
    refused(path, r"model\.safetensors is not whole")


def test_a_part_of_the_weights_that_was_not_copied(folder) -> None:
    path = folder("causal")
    (path / WEIGHTS).rename(path / "model-00001.safetensors")
    weights = {name: "model-00001.safetensors" for name in load_file(path / "model-00001.safetensors")}
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    load_scorer(str(path), ITEMS)
    index.write_text(json.dumps({"metadata": {}, "weight_map": {**weights, "x": "model-00002.safetensors"}}))
    refused(path, r"model-00002\.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(value: float, folder) -> None:
    path = folder("bert")
    weights = load_file(path / WEIGHTS)
    weights["encoder.layer.0.output.dense.weight"][0, 0] = value
    save_file(weights, path / WEIGHTS, metadata={"format": "pt"})
    refused(path, r"encoder\.layer\.0\.output\.dense\.weight hold values that are infinite or not a number")


# ---------------------------------------------------------------- through the commands


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return make_subjects(tmp_path_factory.mktemp("subjects"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model/config.json", lambda c: b"{", "not readable as JSON"),
        ("model/tokenizer.json", lambda c: b"", "has no tokenizer"),
        ("model/model.safetensors", lambda c: c[:-4], "is not whole"),
    ],
)
def test_commands_that_need_the_model_end_with_two(name, change, message, subjects, tmp_path, realm_cli) -> None:
    for subject in subjects:
        run = tmp_path / subject.run.parent.name / "run"
        shutil.copytree(subject.run, run)
        (run / name).write_bytes(change((run / name).read_bytes()))
        fit_manifest(run, name)
        out, labels = run.parent / "out.csv", (subject.test, "--annotator", "item", "--label", "gold")
        for words in (
            ("predict", run, subject.test, "--output", out),
            ("evaluate", run, subject.test),
            ("train", *labels, "--model", run / "model", "--output", run.parent / "next", "--steps", 1),
        ):
            code, output, error = realm_cli(*words)
            assert code == 2 and message in error and "Traceback" not in output + error, (words[0], error)
        assert not out.exists()
        # these do not need the model
        assert realm_cli("relabel", run, "--output", run.parent / "relabel.csv")[0] == 0
        assert realm_cli("report", run)[0] == 0


def test_a_new_head_is_no_head_of_a_run(subjects, tmp_path) -> None:
    """A run's classifier without its head would answer at random."""
    from realm.runs import Run

    run = Path(shutil.copytree(subjects[1].run, tmp_path / "run"))
    weights = load_file(run / "model" / WEIGHTS)
    save_file(
        {k: v for k, v in weights.items() if "classifier" not in k}, run / "model" / WEIGHTS, metadata={"format": "pt"}
    )
    fit_manifest(run, f"model/{WEIGHTS}")
    with pytest.raises(RealmError, match=r"lack classifier\.bias, classifier\.weight"):
        _ = Run.open(run).scorer
