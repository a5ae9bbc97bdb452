"""Answer tokens: distinct, and read at the right place, whatever the tokenizer does with a letter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from realm.data import Annotations, Items
from realm.errors import RealmError
from realm.scorers import load_scorer
from realm.scorers.answers import find_answer_tokens
from realm.scorers.prompts import LETTERS, PromptStyle, encode_prompt, render
from realm.scorers.seq2seq import Seq2SeqScorer
from tests.tiny import crowd, tokenizer_for
from tests.trainers import keep_double


def test_what_the_answers_share_is_fed_and_the_rest_must_differ() -> None:
    codes = {"a": [7, 1], "b": [7, 2], "c": [7, 3]}
    found = find_answer_tokens(lambda answer: [5, 6, *codes[answer]], ["a", "b", "c"], [5, 6])
    assert found is not None and found.prefix == (7,) and found.tokens == (1, 2, 3)
    assert find_answer_tokens(lambda a: {"a": [1], "ab": [1, 2]}[a], ["a", "ab"]) is None  # one ends inside the other
    assert find_answer_tokens(lambda a: {"x": [1, 2], "y": [3, 2], "z": [1, 4]}[a], ["x", "y", "z"]) is None
    assert find_answer_tokens(lambda a: [9, 1] if a == "a" else [9, 2], ["a", "b"], [5]) is None  # the prompt changed


@pytest.mark.shared
@pytest.mark.parametrize("k", [2, 4, 26])
def test_letters_of_the_real_flan_t5_tokenizer(k, shared_data: Path) -> None:
    from transformers import AutoConfig, AutoTokenizer, T5ForConditionalGeneration

    folder = shared_data.parent / "models" / "flan-t5-small-tokenizer"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = AutoConfig.from_pretrained(folder)
    config.num_layers = config.num_decoder_layers = 1
    config.d_model, config.d_ff, config.d_kv, config.num_heads = 16, 16, 4, 2
    backbone = T5ForConditionalGeneration(config)
    from realm.data import Task

    scorer = Seq2SeqScorer(backbone, tokenizer, PromptStyle(), (Task("t", None),), max_options=k)
    found = scorer.answers[0]
    assert len(set(found.tokens)) == k
    assert tokenizer.convert_ids_to_tokens(list(found.tokens)) == list(LETTERS[:k])
    assert tokenizer.convert_ids_to_tokens(list(found.prefix)) == ["▁"]
    assert not config.scale_decoder_outputs  # Flan-T5 does not scale its decoder output
    rows = [{"text": "x", "options": [str(i) for i in range(k)]}]
    batch = scorer.collate(scorer.encode(Items.from_pandas(pd.DataFrame(rows))), np.array([0]))
    assert batch["decoder_input_ids"].tolist() == [[config.decoder_start_token_id, *found.prefix]]


def test_letters_of_a_byte_level_tokenizer_are_read_behind_the_cue(tiny_model) -> None:
    scorer = load_scorer(tiny_model("causal"), crowd(3).items, answers="letters")
    tokenizer, found = scorer.tokenizer, scorer.answers[0]
    assert len(set(found.tokens)) == 4
    encoded = scorer.encode(crowd(3).items)
    for k, letter in enumerate("abcd"):
        prompt = render(scorer.style, crowd(3).texts[0].as_py(), None, crowd(3).options_of(0))
        whole = tokenizer(f"{prompt} {letter}")["input_ids"]
        assert [*encoded.rows[0], found.tokens[k]] == whole[: len(encoded.rows[0]) + 1]


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "gpt2"])
@pytest.mark.parametrize("answers", ["letters", "names"])
def test_the_restricted_softmax_equals_the_models_own_logits(kind, answers, tiny_model) -> None:
    table = crowd(6)
    scorer = load_scorer(tiny_model(kind), table.items, answers=answers).double().eval()
    keep_double(scorer)
    encoded = scorer.encode(table.items)
    with torch.no_grad():
        ours = scorer(scorer.collate(encoded, np.arange(6)))
        for item in range(6):
            inputs = {"input_ids": torch.tensor(encoded.rows[item][None].astype(np.int64))}
            if kind == "seq2seq":
                said = [scorer.start_token, *scorer.answers[0].prefix]
                inputs["decoder_input_ids"] = torch.tensor([said])
            logits = scorer.backbone(**inputs).logits[0, -1]
            expected = logits[list(scorer.answers[0].tokens)].log_softmax(0)
            torch.testing.assert_close(ours[item], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["seq2seq", "causal"])
def test_cloze_equals_the_mean_log_likelihood_by_the_models_own_logits(kind, tiny_model) -> None:
    rows = [
        {
            "item": "1",
            "text": "the bird",
            "options": ["sits near", "runs", "white boat under"],
            "annotator": "w",
            "label": 0,
        },
        {"item": "2", "text": "a house", "options": ["old", "very new"], "annotator": "w", "label": 1},
    ]
    table = Annotations.from_pandas(pd.DataFrame(rows), label_form="index")
    scorer = load_scorer(tiny_model(kind), table.items, answers="cloze").double().eval()
    keep_double(scorer)
    scale = scorer.log_scale.detach().exp()
    assert float(scale) == pytest.approx(10, rel=1e-6)  # a parameter is born in float32
    with torch.no_grad():
        ours = scorer(scorer.collate(scorer.encode(table.items), np.arange(2)))
        for item, row in enumerate(rows):
            scores = []
            for option in row["options"]:
                if kind == "causal":
                    before = scorer.tokenizer(f"{row['text']}\nAnswer:")["input_ids"]
                    said = scorer.tokenizer(f" {option}", add_special_tokens=False)["input_ids"]
                    logits = scorer.backbone(torch.tensor([before + said])).logits[0, len(before) - 1 : -1]
                else:
                    before = scorer.tokenizer(f"{row['text']}\nAnswer:")["input_ids"]
                    said = scorer.tokenizer(option)["input_ids"][:-1]
                    fed = torch.tensor([[0, *said[:-1]]])
                    logits = scorer.backbone(input_ids=torch.tensor([before]), decoder_input_ids=fed).logits[0]
                scores.append(logits.log_softmax(-1).gather(1, torch.tensor(said)[:, None]).mean())
            expected = (scale * torch.stack(scores)).log_softmax(0)
            torch.testing.assert_close(ours[item, : len(scores)], expected, rtol=1e-9, atol=1e-9)


def test_names_that_do_not_separate_fall_back_to_cloze(tiny_model, caplog) -> None:
    rows = [{"text": f"t{i}", "annotator": "w", "label": ["sits", "sits near"][i % 2]} for i in range(4)]
    scorer = load_scorer(tiny_model("causal"), Annotations.from_pandas(pd.DataFrame(rows)).items, answers="names")
    assert scorer.style.answers == "cloze" and "do not differ in one token" in caplog.text


def test_auto_answers_by_kind_of_model(tiny_model) -> None:
    assert load_scorer(tiny_model("seq2seq"), crowd(3).items).style.answers == "letters"
    assert load_scorer(tiny_model("causal"), crowd(3).items).style.answers == "names"


def test_truncation_never_cuts_options_or_cue() -> None:
    tokenizer = tokenizer_for("causal")
    style = PromptStyle(max_length=60)
    text, context, options = "house " * 200, "boat " * 300, ["red bird", "blue tree"]
    ids = encode_prompt(tokenizer, style, text, context, options)
    said = tokenizer.decode(ids)
    assert len(ids) <= 60 and said.endswith("a) red bird\nb) blue tree\nAnswer:") and "house" in said
    with pytest.raises(RealmError, match="`max_length` allows"):
        encode_prompt(tokenizer, PromptStyle(max_length=5), text, context, options)
    with pytest.raises(RealmError, match="26"):
        render(style, "x", None, [str(i) for i in range(27)])
    for answers in ("names", "cloze"):
        assert render(PromptStyle(answers), "x", None, [str(i) for i in range(27)])


def test_chat_template_is_used_when_asked() -> None:
    tokenizer = tokenizer_for("causal")
    style = PromptStyle(answers="names", chat_template=True)
    with pytest.raises(RealmError, match="no chat template"):
        render(style, "x", None, ["a", "b"], tokenizer)
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    assert render(style, "x", None, ["a", "b"], tokenizer) == "<user>Labels: a, b\nText: x<assistant>"
