"""`--config`: a YAML file with any of a command's flags, under the names that are typed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from realm.cli.flags import takes
from realm.errors import RealmError
from realm.training.settings import setting


@dataclass
class Group:
    LISTED: ClassVar[tuple[str, ...]] = ("steps", "labels")
    IN_CONFIG: ClassVar[tuple[str, ...]] = ("rate",)
    labels: str | None = setting(None, "Names.")
    expert: list[str] | None = setting(None, "A name; may be repeated.")
    steps: int = setting(1, "How many.")
    grouping: bool = setting(False, "Whether.")
    word: str = setting("off", "A word.")
    rate: float = setting(0.5, "How fast; it has no flag.")
    n_rounds: int = setting(1, "How often.", flag="rounds")


app = typer.Typer(rich_markup_mode=None)


@app.command()
@takes(Group)
def show(group: Group, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    typer.echo(json.dumps([vars(group), as_json]))


def told(tmp_path: Path, config: str, *words: str) -> list:
    (tmp_path / "flags.yaml").write_text(config)
    shown = CliRunner().invoke(app, ["--config", str(tmp_path / "flags.yaml"), *words], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        ("labels: [neg, pos]", "labels", "neg,pos"),
        ("labels: neg,pos", "labels", "neg,pos"),
        ("labels: [no, yes, 1.0, 'a, b']", "labels", 'no,yes,1.0,"a, b"'),
        ("labels:", "labels", None),
        ("expert: ada", "expert", ["ada"]),
        ("expert: [ada, 'b, c']", "expert", ["ada", "b, c"]),
        ("steps: 1_000", "steps", 1000),
        ("grouping: yes", "grouping", True),
        ("rate: 1e-3", "rate", 0.001),
        ("rounds: 2", "n_rounds", 2),
        ("n_rounds: 2", "n_rounds", 2),
        ("word: on", "word", "on"),
        ("--word: on", "word", "on"),
    ],
)
def test_values_are_those_a_person_would_type(tmp_path: Path, config: str, name: str, value: object) -> None:
    assert told(tmp_path, config)[0][name] == value


def test_keys_are_the_names_of_flags_and_what_is_typed_wins(tmp_path: Path) -> None:
    assert told(tmp_path, "json: true")[1] is True
    assert told(tmp_path, "steps: 3\nexpert: ada", "--steps", "5", "--expert", "bob")[0] == {
        "labels": None, "expert": ["bob"], "steps": 5, "grouping": False, "word": "off", "rate": 0.5,
        "n_rounds": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "config", ["speed: 3", "as_json: true", "config: x", "labels: {a: b}", "- a", "labels: [a, ]]", "3: x"]
)
def test_what_no_flag_takes_is_refused(tmp_path: Path, config: str) -> None:
    with pytest.raises(RealmError, match="--config"):
        told(tmp_path, config)


def test_help_lists_the_flags_that_are_named_and_help_all_the_others() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert "--steps N" in shown and "--labels TEXT" in shown and "--word" not in shown
    assert "--rate" not in CliRunner().invoke(app, ["--help-all"]).output
    assert "--word TEXT" in CliRunner().invoke(app, ["--help-all"]).output
    assert CliRunner().invoke(app, ["--help"]).output == shown
    assert "No such option: --rate" in CliRunner().invoke(app, ["--rate", "1"]).output


@pytest.mark.parametrize("config", ["[" * 5000, "!!bool x", None])
def test_a_config_that_is_no_yaml(realm_cli, tmp_path: Path, config: str | None) -> None:
    path = tmp_path / "flags.yaml"
    if config is None:
        path.mkdir()
    else:
        path.write_text(config)
    code, _, error = realm_cli("check", tmp_path / "t.csv", "--config", path)
    assert code == 2 and "--config" in error and "Traceback" not in error


def test_a_setting_without_a_flag_says_where_it_belongs(realm_cli, tmp_path: Path) -> None:
    code, _, error = realm_cli("check", "labels.csv", "--repeats", "last")
    assert code == 2 and "`repeats: VALUE` into a YAML file" in error and "--config" in error
