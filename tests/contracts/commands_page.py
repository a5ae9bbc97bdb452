"""docs/reference/commands.md, made of the command line itself by `python -m tests.contracts.test_commands_page`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from realm.cli.main import app

OWN = "Options"
"""The panel of flags that belong to one command alone."""
HEAD = """# Commands

Every command with its arguments and flags, as `realm COMMAND --help-all` shows them (`--help` has those that most
people use); this page is written from the same source by `python -m tests.contracts.test_commands_page`. `--config
FILE` reads flags, and the [settings](settings.md) that have none, from a YAML file; what is typed wins. Exit codes: 0
success, 2 a mistake that the message says how to fix, 130 stopped by Ctrl-C, 1 a fault of REALM.
"""


def commands_page(application: typer.Typer = app) -> str:
    """The page: a section for each command, in the order of `realm --help`."""
    root = typer.main.get_command(application)
    lines = [HEAD, "## realm", "", "Before the name of any command:", "", *_table(_shown(root))]
    written: dict[tuple[str, ...], str] = {}  # a table of flags, and the command under which it stands
    for name, command in _commands(root, "realm"):
        lines += ["", f"## {name}", "", _paragraphs(command.help or ""), "", _usage(name, command)]
        if arguments := [each for each in command.params if each.param_type_name == "argument" and each.help]:
            lines += ["", "| argument | what it is |", "|---|---|"]
            lines += [f"| `{_metavar(each)}` | {_cell(each.help)} |" for each in arguments]
        options = _shown(command)
        for panel in dict.fromkeys([OWN, *(each.rich_help_panel or OWN for each in options)]):
            table = _table([each for each in options if (each.rich_help_panel or OWN) == panel])
            first = written.setdefault(tuple(table), name)
            title = [] if panel == OWN else ["", f"**{panel}**"]
            lines += [*title, "", *(table if first == name else [f"As for [{first}](#{_anchor(first)})."])]
    return "\n".join(lines) + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, each in command.commands.items():
        if each.hidden:
            continue
        if not getattr(each, "commands", None) or each.invoke_without_command:
            yield f"{path} {name}", each
        if getattr(each, "commands", None):
            yield from _commands(each, f"{path} {name}")


def _shown(command: Any) -> list[Any]:
    unlisted = ("help", "help_all", "install_completion", "show_completion")
    return [each for each in command.params if each.param_type_name == "option" and each.name not in unlisted]


def _usage(name: str, command: Any) -> str:
    words = [name]
    for each in command.params:
        if each.param_type_name == "argument":
            words.append(_metavar(each) if each.required else f"[{_metavar(each)}]")
        elif each.required:
            words.append(f"{each.opts[0]} {_metavar(each)}")
    return f"    {' '.join(words)} ..."


def _metavar(parameter: Any) -> str:
    several = parameter.nargs != 1 and "..." not in (parameter.metavar or "")
    return f"{parameter.metavar or parameter.name.upper()}{'...' if several else ''}"


def _table(options: list[Any]) -> list[str]:
    lines = ["| flag | default | what it does |", "|---|---|---|"]
    for each in options:
        lines.append(f"| {_flag(each)} | {_default(each)} | {_cell(each.help or '')} |")
    return lines


def _flag(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = "" if option.is_flag else f" {option.metavar}" if option.metavar else ""
    return ", ".join(f"`{name}{value}`" for name in names)


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if option.default is None or option.default in ([], ()):
        return ""
    if isinstance(option.default, bool):
        return "on" if option.default else ""
    return f"`{option.default}`"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def _paragraphs(text: str) -> str:
    return "\n\n".join(_cell(paragraph).replace("\\|", "|") for paragraph in re.split(r"\n\s*\n", text.strip()))


def _anchor(name: str) -> str:
    return name.replace(" ", "-")
