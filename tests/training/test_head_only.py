"""`train_layers=head`: one state per item, whose answers and gradients are those of the whole model."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers as t

from realm.errors import RealmError
from realm.runs import Run
from realm.scorers import load_scorer
from realm.scorers.answers import AnswerTokens
from realm.scorers.freezing import FrozenBase
from realm.scorers.frozen_cache import FrozenLayersCache
from realm.scorers.scoring import score
from realm.training import RealmConfig
from realm.training.settings import Settings, check_values
from tests.tiny import crowd, save_tiny
from tests.trainers import trainer

SHAPE = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
PROBE = {"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
CLASSIFIERS = {
    "first token, pooler": lambda: t.BertForSequenceClassification(t.BertConfig(**SHAPE, num_labels=3)),
    "first token, dense head": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**SHAPE, num_labels=3)),
    "shared bias": lambda: t.MPNetForSequenceClassification(t.MPNetConfig(**SHAPE, num_labels=3)),
    "outer pooler": lambda: t.DebertaV2ForSequenceClassification(t.DebertaV2Config(**SHAPE, num_labels=3)),
    "outer dense": lambda: t.DistilBertForSequenceClassification(
        t.DistilBertConfig(vocab_size=40, dim=16, hidden_dim=24, n_layers=2, n_heads=2, num_labels=3)
    ),
    "projected": lambda: t.ElectraForSequenceClassification(t.ElectraConfig(**SHAPE, embedding_size=8, num_labels=3)),
    "last token": lambda: t.LlamaForSequenceClassification(t.LlamaConfig(**SHAPE, num_labels=3, pad_token_id=0)),
    "last token, older": lambda: t.GPT2ForSequenceClassification(
        t.GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, num_labels=3, pad_token_id=0)
    ),
}


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_classifiers_head_has_the_answers_and_gradients_of_the_whole_model(kind: str) -> None:
    torch.manual_seed(0)
    backbone = CLASSIFIERS[kind]().eval()
    whole = copy.deepcopy(backbone)
    ids = torch.randint(3, 40, (5, 7))
    lengths = torch.tensor([7, 4, 2, 5, 3])
    mask = (torch.arange(7) < lengths[:, None]).long()
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
    base = FrozenBase(backbone, PROBE)
    states = base.states(inputs)
    assert states.shape == (5, 16) and not states.requires_grad
    assert base.reads_last is kind.startswith("last")
    logits, expected = base.logits(states), whole(**inputs).logits
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-6)
    labels = torch.tensor([0, 1, 2, 1, 0])
    for output in (logits, expected):
        torch.nn.functional.cross_entropy(output, labels).backward()
    gradients = {name: parameter.grad for name, parameter in whole.named_parameters()}
    trained = {name: parameter for name, parameter in backbone.named_parameters() if parameter.requires_grad}
    assert trained and not any(".layer" in name or "embed" in name for name in trained)
    for name, parameter in trained.items():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-7, msg=name)
    torch.testing.assert_close(backbone(**inputs).logits, expected, rtol=1e-4, atol=1e-6)  # by itself as before


def test_bert_trains_its_pooler_too() -> None:
    backbone = CLASSIFIERS["first token, pooler"]()
    FrozenBase(backbone, PROBE)
    trained = {name for name, parameter in backbone.named_parameters() if parameter.requires_grad}
    assert trained == {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}


def test_a_head_that_averages_over_tokens_is_refused() -> None:
    config = t.ModernBertConfig(**SHAPE, num_labels=3, classifier_pooling="mean", pad_token_id=0)
    backbone = t.ModernBertForSequenceClassification(config)
    with pytest.raises(RealmError, match=r"ModernBertForSequenceClassification.*`train_layers=1`"):
        FrozenBase(backbone, PROBE)


@pytest.mark.parametrize("kind", ["causal", "gpt2", "seq2seq"])
@pytest.mark.parametrize("answers", ["letters", "names"])
def test_a_language_models_residual_has_the_gradient_of_its_output_rows(kind, answers, tiny_model) -> None:
    items = crowd(12).items
    scorer = load_scorer(tiny_model(kind), items, answers=answers)
    whole = load_scorer(tiny_model(kind), items, answers=answers)
    scorer.freeze_below("head")
    output = whole.head.layer
    output.weight = torch.nn.Parameter(output.weight.detach().clone())  # untied, or the embedding's gradient is in it
    batch = scorer.collate(scorer.encode(items), np.arange(12))
    for each in (scorer, whole):
        each.eval()
        each(batch)[:, 1].sum().backward()
    tokens = torch.unique(scorer.answer_tokens)
    assert [name for name, p in scorer.named_parameters() if p.requires_grad] == ["answer_residual"]
    assert scorer.answer_residual.grad.any()
    torch.testing.assert_close(scorer.answer_residual.grad, output.weight.grad[tokens], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", ["causal", "gpt2", "seq2seq"])
def test_the_residual_becomes_rows_of_an_untied_output_layer(kind, tiny_model, tmp_path) -> None:
    table = crowd(20)
    made = trainer(
        tiny_model(kind), table, tmp_path / "run", train_layers="head", answers="letters", write_run=True,
        learning_rate=0.1, max_steps=3, cross_fit=0,
    )  # fmt: skip
    before = made.scorer.head.layer.weight.detach().clone()
    embedding = made.scorer.backbone.get_input_embeddings().weight.detach().clone()
    untrained = made.score_training_items().log_probs
    made.train()
    made.scorer.temperature = 1.0
    trained = made.score_training_items().log_probs
    assert np.abs(trained - untrained).max() > 0.01
    loader = t.AutoModelForSeq2SeqLM if kind == "seq2seq" else t.AutoModelForCausalLM
    again, loading = loader.from_pretrained(tmp_path / "run" / "model", output_loading_info=True)
    assert not any(loading.values()), loading
    assert again.config.tie_word_embeddings is (kind == "seq2seq")  # which transformers claims of every T5
    rows = torch.unique(made.scorer.answer_tokens)
    changed = (again.get_output_embeddings().weight != before).any(1).nonzero()[:, 0]
    assert changed.tolist() == rows.tolist()
    torch.testing.assert_close(again.get_input_embeddings().weight, embedding, rtol=0, atol=0)
    # the model's own forward, whose logits nothing of ours touches
    batch = made.scorer.collate(made.encoded, np.arange(20))
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "decoder_input_ids") if name in batch}
    last = batch["decoder_lengths"] - 1 if kind == "seq2seq" else batch["attention_mask"].sum(1) - 1
    with torch.no_grad():
        logits = again(**inputs).logits[torch.arange(20), last]
    answers = torch.log_softmax(logits[:, made.scorer.answer_tokens[0, :4]], dim=1)
    np.testing.assert_allclose(answers, trained, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "causal"])
def test_a_written_run_predicts_evaluates_and_learns(kind, tmp_path) -> None:
    model = save_tiny(tmp_path / "model", kind, width=64)
    table, test = crowd(120, seed=1), crowd(60, seed=2)
    settings = {
        "learning_rate": 0.02,
        "max_steps": 60,
        "write_run": True,
        "answers": "auto" if kind != "causal" else "names",
    }
    made = trainer(model, table, tmp_path / "run", test=test, train_layers="head", **settings)
    made.train()
    run = Run.open(tmp_path / "run")
    texts = [item.text for item in test.items]
    expected = [test.label_name(i, k) for i, k in enumerate(made.test_scores().labels)]
    assert run.predict(texts)["label"].tolist() == expected
    assert run.evaluate(test)["accuracy"] == pytest.approx(made.evaluate()["eval_accuracy"])
    losses = [entry["loss"] for entry in made.state.log_history if "loss" in entry]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    assert made.scorer.answer_mass(made.scorer.collate(made.encoded, np.arange(3))) is None or kind == "causal"


def test_scores_before_the_residual_is_merged_are_those_after(tiny_model, tmp_path) -> None:
    made = trainer(tiny_model("causal"), crowd(20), tmp_path, train_layers="head", answers="letters", test=crowd(9))
    with torch.no_grad():
        made.scorer.answer_residual.normal_()
    before = made.test_scores(answer_mass=True)
    made.scorer.merge_head()
    after = made.test_scores(answer_mass=True)
    np.testing.assert_allclose(before.log_probs, after.log_probs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(before.answer_mass, after.answer_mass, rtol=1e-4)


def test_cross_fit_trains_each_fold(tiny_model, tmp_path) -> None:
    table = crowd(60, accuracies=(0.95, 0.95))
    made = trainer(
        tiny_model("bert"), table, tmp_path, train_layers="head", cross_fit=2, learning_rate=0.01, max_steps=40
    )
    made.train()
    assert made.folds == 2, made.warnings
    whole = score(made.scorer, made.encoded, cache=made._cache("train")).log_probs
    assert np.abs(made.scores().log_probs - whole).max(axis=1).min() > 1e-4


def test_a_step_over_the_cache_reads_no_tokens_and_is_one_forward(tiny_model, tmp_path) -> None:
    four = {"gradient_accumulation_steps": 4}
    made = trainer(tiny_model("bert"), crowd(100), tmp_path, train_layers="head", max_steps=3, **four)
    assert (made.args.per_device_train_batch_size, made.args.gradient_accumulation_steps) == (64, 1)
    assert made.args.effective_batch_size == 64
    batch = next(iter(made.get_train_dataloader()))
    assert "input_ids" not in batch and batch["frozen_states"].shape == (64, 32)
    calls = []
    made.scorer._frozen_base._run = lambda **inputs: calls.append(inputs)  # the real base model
    made.scorer.merge_temperature = lambda: None  # which tries the whole model after training
    made.train()
    assert made.scores().log_probs.shape == (100, 4)
    assert not calls


def test_another_answer_prefix_is_another_state(tiny_model) -> None:
    """A decoder's state depends on what it is fed, which the rows of an encoder-decoder do not hold."""
    items = crowd(6).items
    scorer = load_scorer(tiny_model("seq2seq"), items, answers="letters")
    scorer.freeze_below("head")
    encoded = scorer.encode(items)
    before = FrozenLayersCache(scorer, encoded, 1.0).collate(np.arange(6))["frozen_states"]
    scorer.answers = [AnswerTokens((7,), answer.tokens) for answer in scorer.answers]
    after = FrozenLayersCache(scorer, encoded, 1.0).collate(np.arange(6))["frozen_states"]
    assert (before != after).any(1).all()


def test_cloze_is_refused(tiny_model, tmp_path) -> None:
    with pytest.raises(RealmError, match=r"`train_layers=head`.*`answers=cloze`.*`answers=letters`"):
        trainer(tiny_model("causal"), crowd(5), tmp_path, train_layers="head", answers="cloze")


@pytest.mark.parametrize("value", ["top", "1.5", -1, "-1", 1.5, True, ""])
def test_another_word_or_no_whole_number_is_refused(value, tmp_path) -> None:
    with pytest.raises(RealmError, match="`train_layers"):
        RealmConfig(str(tmp_path), train_layers=value, use_cpu=True)


def test_a_number_may_be_written_as_text() -> None:
    settings = Settings(train_layers="3")
    check_values(settings)
    assert settings.train_layers == 3


def test_the_command_line_takes_the_word(realm_cli, tiny_model, tmp_path) -> None:
    crowd(20).to_pandas().drop(columns="gold").to_csv(tmp_path / "labels.csv", index=False)
    words = ("train", tmp_path / "labels.csv", "--model", tiny_model("bert"), "--steps", 1)
    code, _, error = realm_cli(*words, "--output", tmp_path / "run", "--train-layers", "head")
    assert code == 0, error
    assert Run.open(tmp_path / "run").config["settings"]["train_layers"] == "head"
    code, _, error = realm_cli(*words, "--output", tmp_path / "other", "--train-layers", "top")
    assert code == 2 and "`train_layers=top`: must be a whole number or head" in error
