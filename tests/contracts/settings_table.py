"""The tables of docs/reference/settings.md, made of the fields by `python -m tests.contracts.test_settings`."""

from __future__ import annotations

from typing import Any

from realm.cli.flags import flag_fields
from realm.cli.training_flags import TrainingFlags
from realm.training.settings import described, flag_name, settings_of


def settings_table(settings: type = TrainingFlags) -> str:
    """The settings as Markdown tables for the docs, one per panel: flag, name in Python, default, meaning."""
    settings_with_help = settings_of(settings)
    flags = {each.name: f"`--{flag_name(each)}`" for each in flag_fields(settings)}
    lines = []
    for panel in dict.fromkeys(each.metadata["panel"] for each in settings_with_help):
        lines += [f"**{panel}**", "", "| flag | in Python | default | what it does |", "|---|---|---|---|"]
        for each in (each for each in settings_with_help if each.metadata["panel"] == panel):
            flag_cell = flags.get(each.name, "")
            name_cell = "" if each.name in TrainingFlags.__annotations__ else f"`{each.name}`"
            lines.append(f"| {flag_cell} | {name_cell} | {_default_cell(each.default)} | {described(each)} |")
        lines.append("")
    return "\n".join(lines)


def _default_cell(default: Any) -> str:
    if default is None:
        return ""
    return f"`{'on' if default else 'off'}`" if isinstance(default, bool) else f"`{default}`"
