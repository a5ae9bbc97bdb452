"""What a release carries beside the code, and type hints that are complete."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml

import realm
from tests.contracts.modules import modules

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == realm.__version__ and citation["license"] == PROJECT["license"]
    assert citation["preferred-citation"]["authors"][0]["family-names"] == "Ghiasvand"


def test_issue_templates_are_forms() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("something-*.yml"):
        form = yaml.safe_load(path.read_text())
        assert form["name"] and form["description"]
        assert all(part["type"] == "markdown" or part["attributes"]["label"] for part in form["body"])


def test_every_python_that_is_named_is_in_the_table_of_what_was_tried() -> None:
    named = set(re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"])))
    tried = set(re.findall(r"^\| (3\.\d+) \|", (ROOT / "RELEASING.md").read_text(), re.MULTILINE))
    assert named == tried and f">={min(named)}" == PROJECT["requires-python"]


def test_the_base_install_has_no_tools_for_tests() -> None:
    tools = {"pytest", "hypothesis", "mypy", "ruff", "playwright", "build", "nbclient", "ipykernel", "crowd-kit"}
    assert not tools & {re.split(r"[<>=\[ ]", requirement)[0] for requirement in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    assert {"ray", "sklearn", "docs", "test", "dev"} == set(extras)


def third_party(source: str) -> set[str]:
    """The packages that a module imports, wherever the import stands, but for ours and the standard library's."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names - {"realm", *sys.stdlib_module_names}


BROUGHT = {
    "huggingface_hub": "transformers",
    "tokenizers": "transformers",
    "markupsafe": "jinja2",
}
"""Packages that are imported and brought along by a dependency, which needs the same one."""
OPTIONAL = {"ray": "ray", "sklearn": "sklearn"}
"""Packages of an extra, by its name: imported where they are asked for."""


def test_everything_that_is_imported_is_a_dependency() -> None:
    """What works here because of a tool for tests would fail elsewhere."""
    names = {re.split(r"[<>=\[ ]", requirement)[0].lower() for requirement in PROJECT["dependencies"]} | {"yaml"}
    imported = set().union(*map(third_party, modules().values()))
    assert imported - names - set(BROUGHT) - set(OPTIONAL) == set()
    assert set(BROUGHT.values()) <= names and set(OPTIONAL.values()) <= set(PROJECT["optional-dependencies"])
    assert set(BROUGHT) <= imported and set(OPTIONAL) <= imported, "an entry nobody needs"


def test_an_import_is_seen_wherever_it_stands() -> None:
    assert third_party("def f():\n    import sklearn.base\n    from crowdkit import x\nimport os, realm") == {
        "sklearn",
        "crowdkit",
    }


# -------------------------------------------------------------------- type hints


def missing_hints(function: Callable[..., Any]) -> list[str]:
    """The parameters of a function without a type hint, and `return` if that has none."""
    parameters = list(inspect.signature(function).parameters)
    own = parameters[1:] if parameters[:1] in (["self"], ["cls"]) else parameters
    hints = set(function.__annotations__)
    return [name for name in [*own, "return"] if name not in hints]


def public_functions() -> dict[str, Callable[..., Any]]:
    """Every public function and every method of a public class that is written here, by name."""
    functions: dict[str, Callable[..., Any]] = {}
    for name in realm.__all__:
        value = getattr(realm, name)
        if inspect.isfunction(value):
            functions[name] = value
        elif inspect.isclass(value):
            for attribute, member in vars(value).items():
                own = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
                ours = inspect.isfunction(own) and own.__module__.startswith("realm")
                generated = attribute == "__init__" and dataclasses.is_dataclass(value)
                if ours and not generated and (not attribute.startswith("_") or attribute == "__init__"):
                    functions[f"{name}.{attribute}"] = own
    return functions


def test_every_public_function_is_typed() -> None:
    functions = public_functions()
    assert {"compare", "Run.predict", "Run.expertise", "RealmTrainer.__init__", "Annotations.read"} <= set(functions)
    assert {name: missing for name, function in functions.items() if (missing := missing_hints(function))} == {}


def test_a_missing_hint_is_seen() -> None:
    assert missing_hints(lambda a: a) == ["a", "return"]

    def typed(self: Any, a: int, **more: int) -> None: ...

    assert missing_hints(typed) == []


def test_the_fields_of_public_dataclasses_have_hints_that_resolve() -> None:
    """What a settings form or a notebook's help asks for."""
    for name in ("RealmConfig", "ReadOptions", "Task", "ItemScores", "Observed"):
        value = getattr(realm, name)
        assert set(get_type_hints(value)) >= {each.name for each in dataclasses.fields(value) if each.init}


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src" / "realm" / "py.typed").exists()


@pytest.mark.parametrize("target", ["setup", "demo", "test"])
def test_make_says_which_step_of_how_many(target: str) -> None:
    """The tools for tests are installed for tests alone."""
    import shutil
    import subprocess

    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    command = ["make", "--dry-run", "--always-make", "VENV=.venv-nowhere", target]
    plan = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    steps = re.findall(r"\[(\d) of (\d)\]", plan)
    last = 4 if target == "test" else 3
    assert steps == [(str(step), str(last)) for step in range(1, last + 1)]
    assert ("[dev]" in plan) == (target == "test")
