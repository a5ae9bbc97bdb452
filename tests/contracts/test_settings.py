"""A setting is one dataclass field: its flag, its key in a configuration file and its row in the docs follow."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from realm.channels import CHANNELS
from realm.cli.flags import flag_fields, takes
from realm.cli.main import app as realm_app
from realm.cli.training_flags import TrainingFlags
from realm.errors import RealmError
from realm.objectives import OBJECTIVES
from realm.training import RealmConfig
from realm.training.settings import (
    NO_FLAG,
    PAPER,
    Settings,
    check_values,
    default_learning_rate,
    flag_name,
    recorded_values,
    setting,
)
from tests.contracts.settings_table import settings_table

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reference" / "settings.md"
GENERATED = re.compile(r"(<!-- settings: [^\n]* -->\n)(.*)(<!-- end of settings -->)", re.DOTALL)


@dataclasses.dataclass
class Extended(TrainingFlags):
    """The settings with two more."""

    dropout_rate: float = setting(0.25, "Share of units dropped.", panel="Model", minimum=0, maximum=1)
    colour: str = setting("red", "Colour of the model", panel="Model", choices=("red", "blue"), flag="paint")
    hidden: int = setting(1, "Of Python only.", panel="Model", flag=NO_FLAG, changes_results=False)


def run(*words: str) -> dict[str, object]:
    """The extended settings that a command with their flags is handed."""
    app = typer.Typer()

    @app.command()
    @takes(Extended)
    def show(training: Extended) -> None:
        typer.echo(json.dumps(dataclasses.asdict(training)))

    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_new_field_is_a_flag_with_its_default() -> None:
    values = run()
    assert (values["dropout_rate"], values["colour"], values["hidden"]) == (0.25, "red", 1)
    values = run("--dropout-rate", "0.5", "--paint", "blue")
    assert (values["dropout_rate"], values["colour"]) == (0.5, "blue")
    with pytest.raises(AssertionError, match="No such option"):
        run("--hidden", "2")


def test_a_new_field_is_a_key_of_a_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "flags.yaml").write_text("dropout-rate: 0.75\npaint: blue\nsteps: 7\nobjective: paper\nhidden: 3\n")
    values = run("--config", str(tmp_path / "flags.yaml"))
    assert (values["dropout_rate"], values["colour"], values["max_steps"]) == (0.75, "blue", 7)
    assert (values["objective"], values["hidden"]) == ("paper", 3), "settings that have no flag"


def test_a_new_field_is_a_row_of_the_docs() -> None:
    table = settings_table(Extended)
    assert "| `--dropout-rate` | `dropout_rate` | `0.25` | Share of units dropped. |" in table
    assert "| `--paint` | `colour` | `red` | Colour of the model (red or blue). |" in table
    assert "|  | `hidden` | `1` | Of Python only. |" in table
    assert "dropout_rate" not in settings_table()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "green"}, "`colour=green`: must be one of red, blue"),
        ({"dropout_rate": -0.5}, "`dropout_rate` must be 0 or more, but is -0.5"),
        ({"dropout_rate": 2.0}, "`dropout_rate` must be 1 or less, but is 2.0"),
        ({"dropout_rate": float("nan")}, "`dropout_rate` must be 0 or more"),
    ],
)
def test_a_new_field_is_checked(changes: dict[str, object], message: str) -> None:
    check_values(Extended())
    with pytest.raises(RealmError, match=re.escape(message)):
        Extended(**changes)


def test_a_new_field_is_recorded_with_a_run_if_it_changes_results() -> None:
    recorded = recorded_values(Extended())
    assert recorded["dropout_rate"] == 0.25 and "hidden" not in recorded
    assert "judges" not in recorded and recorded_values(Extended(judges=True))["judges"]


def test_every_setting_is_a_flag_of_train_with_its_default_or_a_key_of_its_config() -> None:
    train = typer.main.get_command(realm_app).commands["train"]  # type: ignore[attr-defined]
    options = {parameter.name: parameter for parameter in train.params}
    for each in flag_fields(TrainingFlags):
        assert f"--{flag_name(each)}" in options[each.name].opts
        assert options[each.name].default == each.default and options[each.name].help, each.name
    names = {each.name for each in dataclasses.fields(TrainingFlags)}
    assert {*TrainingFlags.LISTED, *TrainingFlags.IN_CONFIG} <= names
    assert not {*TrainingFlags.IN_CONFIG} & set(options)


def test_the_configuration_has_the_settings_and_their_defaults(tmp_path: Path) -> None:
    config = RealmConfig(str(tmp_path), use_cpu=True)
    for each in dataclasses.fields(Settings):
        default = default_learning_rate(config) if each.name == "learning_rate" else each.default
        assert getattr(config, each.name) == default, each.name
    assert set(config.settings()) == {*recorded_values(Settings()), "effective_batch_size"}
    assert {"method", "channel", "objective", "seed", "adam_beta1"} <= set(config.settings())
    assert not {"overwrite", "write_run", "cache_gb", "logging_steps"} & set(config.settings())


@pytest.mark.parametrize(
    "settings, rate",
    [({}, 5e-5), ({"train_layers": 2}, 2e-4), ({"lora_rank": 8}, 5e-4), ({"train_layers": "head"}, 1e-3)],
)
def test_the_learning_rate_follows_from_what_is_trained_unless_it_is_given(settings, rate, tmp_path: Path) -> None:
    config = RealmConfig(str(tmp_path), use_cpu=True, **settings)
    assert config.learning_rate == config.settings()["learning_rate"] == rate
    given = RealmConfig(str(tmp_path), use_cpu=True, learning_rate=3e-6, **settings)
    assert given.learning_rate == given.settings()["learning_rate"] == 3e-6


def test_every_objective_and_learned_channel_can_be_named() -> None:
    choices = {each.name: each.metadata["choices"] for each in dataclasses.fields(Settings)}
    assert tuple(choices["objective"]) == tuple(OBJECTIVES)
    assert {"identity", *choices["channel"]} == set(CHANNELS)


WRITING = (
    *("compare", "simulate", "aggregate", "judges", "relabel", "predict", "label_studio", "report", "emit", "check"),
)
"""Modules of commands that write a file, and of the rule for it."""


def test_a_default_stands_once() -> None:
    """No module but the one of the settings gives a setting a default again, in a signature or in a class."""
    names = {each.name for each in dataclasses.fields(Settings)}
    again = []
    for path in sorted((ROOT / "src" / "realm" / "cli").glob("*.py")):
        again += [f"{path.name}: {name}" for name in defaults_in(path.read_text()) if name in names]
    # commands other than `train` with a parameter of the same name, which is not the setting
    ours = {
        "simulate.py: seed",
        "aggregate.py: seed",
        "demo.py: seed",
        "aggregate.py: use_gold",
        "aggregate.py: judges",
        "judges.py: use_gold",
        "report.py: use_gold",
        "aggregate.py: method",
    }
    overwriting = {f"{name}.py: overwrite" for name in WRITING}
    assert set(again) - ours - overwriting == set()


def settings_given(*words: str) -> dict[str, object]:
    """The settings of `realm train` with these flags."""
    values = run(*words)
    return {name: values[name] for name in PAPER}


def test_the_paper_is_one_flag_whatever_the_defaults_are(tmp_path: Path) -> None:
    assert settings_given("--paper") == PAPER
    assert settings_given() == {name: getattr(Settings, name) for name in PAPER}
    config = RealmConfig(str(tmp_path), use_cpu=True, **PAPER)
    assert {name: config.settings()[name] for name in PAPER} == PAPER
    (tmp_path / "flags.yaml").write_text("paper: true\n")
    assert settings_given("--config", str(tmp_path / "flags.yaml")) == PAPER


def test_a_setting_that_contradicts_the_paper_is_refused_even_if_it_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "flags.yaml").write_text("objective: joint\n")
    with pytest.raises(RealmError, match="--paper sets `objective` paper, but joint is given too"):
        run("--paper", "--config", str(tmp_path / "flags.yaml"))


def defaults_in(source: str) -> list[str]:
    """Names that get a default: arguments of functions and annotated names of classes."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            positional = node.args.posonlyargs + node.args.args
            names += [argument.arg for argument in positional[len(positional) - len(node.args.defaults) :]]
            names += [a.arg for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
        elif isinstance(node, ast.ClassDef):
            names += [
                line.target.id
                for line in node.body
                if isinstance(line, ast.AnnAssign) and line.value is not None and isinstance(line.target, ast.Name)
            ]
    return names


def test_a_repeated_default_would_be_seen() -> None:
    assert defaults_in("def train(x, seed=0, *, max_steps=3, y): ...") == ["seed", "max_steps"]
    assert defaults_in("class Training:\n    max_length: int = flag(512, 'x')\n    y: int") == ["max_length"]


def test_the_docs_have_the_table_of_settings() -> None:
    """Written anew by: python -m tests.contracts.test_settings"""
    match = GENERATED.search(DOCS.read_text())
    assert match is not None and match.group(2) == settings_table()


if __name__ == "__main__":
    DOCS.write_text(GENERATED.sub(lambda match: match[1] + settings_table() + match[3], DOCS.read_text()))
