"""Guards: each fires where it should and is silent where it should be, on arrays, in a run and on the screen."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from realm.crowd.estimate import estimate
from realm.data import Annotations
from realm.runs import Run
from realm.runs.folder import probabilities_in_words
from realm.training.basis import even_log_probs
from realm.training.guards import compare_with_base_rate, model_findings, moved_labels, stand_in
from tests.tiny import FILLER, crowd
from tests.trainers import DEFAULT, trainer


def people(
    n: int = 300,
    shares=(0.5, 0.5),
    per_item: int = 5,
    annotators: int = 20,
    seed: int = 0,
    tasks: int = 1,
    worst: float = 0.55,
) -> tuple[Annotations, np.ndarray]:
    """Annotations by annotators of accuracy 0.55 (or `worst`) to 0.95, and the truth (items,)."""
    generator = np.random.default_rng(seed)
    names = ["no", "yes", "maybe"][: len(shares)]
    truth = generator.choice(len(shares), size=n, p=shares)
    accuracy = np.linspace(worst, 0.95, annotators)
    rows = []
    for item in range(n):
        for who in generator.choice(annotators, size=per_item, replace=False):
            right = generator.random() < accuracy[who]
            said = truth[item] if right else (truth[item] + generator.integers(1, len(shares))) % len(shares)
            row = {"item": f"i{item}", "text": f"text {item}", "annotator": f"w{who:02d}", "label": names[said]}
            rows.append(row | ({"task": f"t{item % tasks}"} if tasks > 1 else {}))
    return Annotations.from_pandas(pd.DataFrame(rows), labels=names), truth


def log_p(truth: np.ndarray, k: int, strength: float, seed: int = 1) -> np.ndarray:
    """A model's log P (items, k): noise, and as much of the truth as `strength` says."""
    scores = np.random.default_rng(seed).normal(size=(len(truth), k))
    scores[np.arange(len(truth)), truth] += strength
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def by_agreement(table: Annotations):
    return estimate(table, even_log_probs(table.option_counts, int(table.option_counts.max())))


def sentences(table, log_probs, **more) -> list[str]:
    several = bool((table.annotations_per_item > 1).any())
    return [
        found.sentence for found in model_findings(table, log_probs, by_agreement(table) if several else None, **more)
    ]


# -------------------------------------------------------------------- the base rate


def test_the_comparison_with_the_base_rate_is_what_its_definition_says() -> None:
    said = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.25, 0.75]])
    p = np.array([[0.7, 0.3], [0.4, 0.6], [0.6, 0.4], [0.5001, 0.4999]])
    found = compare_with_base_rate(np.log(p), said)
    shares = said.mean(axis=0)
    losses = [[-(said[i] * np.log(each)).sum() for i, each in enumerate(rows)] for rows in (p, [shares] * 4)]
    assert found.log_loss == pytest.approx(np.mean(losses[0]), abs=1e-4)  # right answers: no softening helps
    assert found.base_log_loss == pytest.approx(np.mean(losses[1]))
    assert found.accuracy == pytest.approx((1 + 1 + 1 + 0.25) / 4)
    assert found.base_accuracy == pytest.approx((1 + 0 + 1 + 0.25) / 4)
    gain = np.array(losses[1]) - np.array(losses[0])
    assert found.loss_z == pytest.approx(gain.mean() / (gain.std(ddof=1) / 2), rel=1e-2)


@pytest.mark.parametrize("per_item", [1, 5])
@pytest.mark.parametrize("seed", range(3))
def test_a_model_at_chance_is_called_so_and_one_that_learned_is_not(per_item: int, seed: int) -> None:
    table, truth = people(per_item=per_item, seed=seed)
    [text] = sentences(table, log_p(truth, 2, 0.0))
    assert text.startswith("the model is no better than the base rate: in-sample its log loss is 0.6")
    assert sentences(table, log_p(truth, 2, 2.0)) == []
    assert sentences(table, 8 * log_p(truth, 2, 2.0)) == [], "over-confidence is not ignorance"


def test_the_base_rate_is_that_of_the_labels_and_not_one_in_k() -> None:
    table, truth = people(1000, shares=(0.95, 0.05), annotators=10)
    shares = np.broadcast_to(np.log([0.95, 0.05]), (1000, 2))
    [text] = sentences(table, shares + 1e-3 * np.random.default_rng(0).normal(size=shares.shape))
    assert "no better than the base rate" in text, "right nearly always, and knows nothing"
    assert sentences(table, shares + 1.5 * log_p(truth, 2, 3.0)) == []


def test_a_task_is_judged_by_itself_and_named() -> None:
    table, truth = people(600, tasks=2)
    mixed = np.where((table.item_tasks == 0)[:, None], log_p(truth, 2, 0.0), log_p(truth, 2, 2.0))
    found = model_findings(table, mixed, by_agreement(table))
    assert [each.task for each in found] == [0] and found[0].sentence.startswith('task "t0": the model is no better')


def test_a_fold_that_learned_the_flipped_labels_is_found() -> None:
    table, truth = people(600)
    folds = np.arange(600) % 3
    good = log_p(truth, 2, 4.0)
    assert sentences(table, good, fold_of_item=folds) == []
    flipped = np.where((folds == 1)[:, None], good[:, ::-1], good)
    assert [text[:32] for text in sentences(table, flipped, fold_of_item=folds)] == ["the model trained without fold 2"]


# -------------------------------------------------------------------- one answer


def test_a_model_that_gives_one_answer_is_called_so_unless_people_do_too() -> None:
    table, truth = people(400, shares=(0.6, 0.4))
    hints = log_p(truth, 2, 2.0)
    always = hints + np.array([9.0, 0.0])
    texts = sentences(table, always)
    assert any(
        text.startswith('the model gives the same answer ("no") to 100% of the items; annotators give it to')
        for text in texts
    )
    assert not any("the same answer" in text for text in sentences(table, hints))
    rare, truth = people(1000, shares=(0.97, 0.03), annotators=10, worst=0.9)
    assert not any("the same answer" in text for text in sentences(rare, log_p(truth, 2, 2.0) + np.array([9.0, 0.0])))


# -------------------------------------------------------------------- expertise


def test_expertise_that_contradicts_agreement_is_found() -> None:
    table, truth = people(600)
    good, agreement = log_p(truth, 2, 2.0), by_agreement(table)
    followed = agreement.expertise + np.random.default_rng(0).normal(0, 0.05, agreement.expertise.shape)
    assert model_findings(table, good, agreement, followed) == []
    [found] = model_findings(table, good, agreement, -followed)
    assert found.sentence.startswith("trained expertise contradicts agreement: over the 20 annotators")
    assert model_findings(table, good, agreement, np.full_like(followed, 0.5)) == [], "nothing was learned of anybody"
    single, truth = people(600, per_item=1)
    assert model_findings(single, log_p(truth, 2, 2.0), None, -followed) == [], "there is no agreement to contradict"


def test_expertise_that_has_nothing_to_do_with_agreement_is_found_where_annotators_are_many() -> None:
    table, truth = people(2000, annotators=100)
    good, agreement = log_p(truth, 2, 2.0), by_agreement(table)
    ranks = agreement.expertise.argsort(axis=0).argsort(axis=0)
    unrelated = np.abs(ranks - ranks.mean())  # the worst and the best alike: a correlation of about 0
    [found] = model_findings(table, good, agreement, unrelated)
    assert found.sentence.startswith("trained expertise contradicts agreement: over the 100 annotators")


def test_annotators_who_are_alike_have_no_ranks_to_contradict() -> None:
    table = crowd(400, accuracies=(0.8,) * 12, per_item=5)
    agreement = by_agreement(table)
    assert model_findings(table, log_p(table.gold, 4, 3.0), agreement, -agreement.expertise) == []


# -------------------------------------------------------------------- labels that moved


def test_a_label_that_moved_by_a_third_is_reported_and_noise_is_not() -> None:
    table, truth = people(500, shares=(0.5, 0.3, 0.2))
    kept = np.eye(3)[truth]
    assert moved_labels(table, kept * 0 + stand_in(table, by_agreement(table))) == []
    lost = kept.copy()
    lost[truth == 2] = [0.9, 0.0, 0.1]
    texts = [found.sentence for found in moved_labels(table, lost)]
    assert any(text.startswith('"maybe" is less frequent among the cleaned labels (0.0%)') for text in texts)
    few = table.take_items(np.arange(4))
    assert moved_labels(few, lost[:4]) == [], "four items show nothing"


# -------------------------------------------------------------------- words


def test_the_words_for_what_an_estimate_rests_on() -> None:
    assert probabilities_in_words(3) == "out of fold (3 folds)" and probabilities_in_words(0) == "in-sample"
    assert probabilities_in_words(0, by_model=False, by_agreement=True) == "agreement alone"
    assert probabilities_in_words(0, by_agreement=True) == "agreement alone, in-sample with one label"
    assert probabilities_in_words(2, by_agreement=True) == "out of fold (2 folds), agreement alone in some tasks"
    assert probabilities_in_words(0, by_model=False, by_label=True) == "the label alone"
    both = probabilities_in_words(3, by_model=False, by_agreement=True, by_label=True)
    assert both == "agreement alone, the label alone with one label"


# -------------------------------------------------------------------- runs


def hopeless(n: int = 120, per_item: int = 10, seed: int = 0) -> Annotations:
    """Two options, ten annotations per item, texts that say nothing of the label."""
    table, _ = people(n, per_item=per_item, annotators=30, seed=seed)
    generator = np.random.default_rng(seed + 100)
    texts = [" ".join([*generator.choice(FILLER, 6), str(index)]) for index in range(n)]
    return replace(table, items=replace(table.items, texts=pa.array(texts, pa.large_string())))


QUICK = {"learning_rate": 3e-3, "max_steps": 30, "per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}


@pytest.mark.parametrize("settings", [{"train_layers": 1}, {"train_layers": 1, "cross_fit": 0}, {"cross_fit": 2}])
def test_a_model_that_cannot_learn_does_no_harm(settings, tiny_model, tmp_path) -> None:
    table = hopeless()
    made = trainer(tiny_model("bert"), table, tmp_path / "run", **DEFAULT, **QUICK, **settings, write_run=True)
    made.train()
    run = Run.open(tmp_path / "run")
    alone = by_agreement(table)
    np.testing.assert_array_equal(run.estimate.posterior, alone.posterior)
    np.testing.assert_array_equal(run.estimate.accuracy, alone.accuracy)
    assert run.probabilities == "agreement alone" and set(run.labels["probabilities"]) == {"agreement alone"}
    if made.folds:
        assert run.findings[0].startswith("the model is no better than the base rate: on items that it was not trained")
        assert (
            run.findings[-1]
            == "the model is therefore not used: labels and reliability are estimated from agreement alone."
        )
        assert json.loads((run.folder / "metrics.json").read_text())["findings"] == run.findings
        card = (run.folder / "model" / "README.md").read_text()
        assert "## What training found" in card and "- the model is no better than the base rate" in card
    assert made.folds == {"train_layers": 3, "cross_fit": settings.get("cross_fit")}[[*settings][-1]]


def test_a_model_that_learns_is_heard_out_of_fold_and_says_nothing(tmp_path, tiny_model) -> None:
    table = crowd(400, accuracies=(0.9, 0.8, 0.7), labels=2)
    more = {"learning_rate": 3e-3, "max_steps": 120, "cross_fit": 2}
    made = trainer(tiny_model("bert"), table, tmp_path, **DEFAULT, **more)
    made.train()
    assert made.findings == [] and made.probabilities == "out of fold (2 folds)"
    assert made.basis().model_heard.all()
    np.testing.assert_array_equal(made.basis().log_probs, made.scores().log_probs)


def test_items_with_one_label_are_judged_in_sample_without_folds_and_others_by_agreement(tiny_model, tmp_path) -> None:
    table = crowd(300, accuracies=(0.9, 0.85, 0.8), labels=2)
    table = table.keep_annotations((table.item % 2 == 0) | (table.annotator == 0))
    made = trainer(tiny_model("bert"), table, tmp_path, **DEFAULT, learning_rate=3e-3, max_steps=120)
    made.train()
    assert made.findings == [] and made.probabilities == "agreement alone, in-sample with one label"
    several = table.annotations_per_item > 1
    np.testing.assert_array_equal(made.basis().model_heard, ~several)
    np.testing.assert_allclose(made.basis().log_probs[several], np.log(0.5))
    np.testing.assert_array_equal(made.basis().log_probs[~several], made.scores().log_probs[~several])


def test_auto_trains_no_fold_that_nothing_needs(tiny_model, tmp_path, monkeypatch) -> None:
    from realm.scorers import load_scorer
    from realm.training.cross_fit import planned_folds

    table = crowd(30)

    def folds(model=None, **settings) -> int:
        chosen = {"train_layers": 1, "write_run": True, **settings}
        return planned_folds(trainer(model or tiny_model("bert"), table, tmp_path, **chosen))

    assert folds() == 3 and folds(cross_fit=0) == 0 and folds(train_layers=0, cross_fit=4) == 4
    assert folds(write_run=False) == 0, "a cell of a comparison, or a fold itself"
    assert folds(train_layers=0) == 0 and folds(cache_gb=0.0) == 0, "it would not be cheap"
    assert folds(load_scorer(tiny_model("bert"), table.items)) == 0, "it cannot be loaded again as it was"
    table = crowd(2)
    assert folds() == 0, "fewer texts than folds"


def test_a_label_on_the_model_card_is_text_and_nothing_else(tiny_model) -> None:
    from realm.runs.model_card import model_card
    from realm.scorers import load_scorer

    table = crowd(5)
    scorer = load_scorer(tiny_model("bert"), table.items)
    card = model_card(scorer, "tiny", "realm", table, ['one answer ("<script>a_b_`c`\n# [x](y)") to 97% of the items'])
    assert r"- one answer (\"\<script\>a\_b\_\`c\` \# \[x\](y)\") to 97% of the items" in card.splitlines()
    assert "What training found" not in model_card(scorer, "tiny", "realm", table)


def test_the_screen_and_the_report_say_first_that_the_model_did_not_learn(tiny_model, tmp_path, realm_cli) -> None:
    table = hopeless(60)
    frame = pd.DataFrame(
        {
            "text": [table.texts[int(item)].as_py() for item in table.item],
            "annotator": [table.annotators[who] for who in table.annotator],
            "label": ["no" if label == 0 else "yes" for label in table.label],
        }
    )
    frame.to_csv(tmp_path / "labels.csv", index=False)
    code, _, error = realm_cli(
        "train", tmp_path / "labels.csv", "--model", tiny_model("bert"), "--output", tmp_path / "run",
        "--train-layers", 1, "--steps", 10,
    )  # fmt: skip
    assert code == 0, error
    lines = [
        line for line in error.splitlines() if line.startswith(("warning:", "opinion:", "channel:", "confidence:"))
    ]
    assert lines[0].startswith("warning: the model is no better than the base rate")
    assert any(line.startswith("warning: the model is therefore not used") for line in lines[1:3])
    page = (tmp_path / "run" / "report.html").read_text()
    assert 0 < page.index("The model is no better than the base rate") < page.index('class="cards"')
