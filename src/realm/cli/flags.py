"""Flags that several commands share: single ones as types, groups as dataclasses spread into a command's signature.

    @dataclass
    class ReadingFlags:
        text: str | None = setting(None, "Column with the text to label.")

    @takes(ReadingFlags)
    def check(file: Path, reading: ReadingFlags) -> None: ...

gives `check` a `--text` flag and hands it a `ReadingFlags`. Every command that takes flags this way also takes
`--config FILE`, a YAML file whose keys are flag names; flags typed on the command line win.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from realm.cli.messages import Flag, with_flags
from realm.errors import RealmError
from realm.training.settings import Settings, described, flag_name

LabelsFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="LABELS",
        help="Table or export of an annotation tool; several files, or a folder of them, are read as one table.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for a script to read.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="Write cells as they are, even those that a spreadsheet would run as formulas.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]


def takes(*groups: type, without: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace each parameter annotated with one of these dataclasses by the flags of its fields, and add --config.

    A dataclass with a method `resolve` is told which flags were typed, before the command runs.
    Fields named in `without` get no flag and keep their default: those that the command has a parameter of its own for.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        fields_of: dict[str, list[str]] = {}
        for name, parameter in inspect.signature(command).parameters.items():
            if hints[name] in groups:
                flags = [each for each in _parameters_of(hints[name]) if each.name not in without]
                fields_of[name] = [each.name for each in flags]
                parameters.extend(flags)
            else:
                parameters.append(parameter.replace(annotation=hints[name]))
        parameters.append(_parameter("config", None, Annotated[Path | None, CONFIG]))
        parameters.append(_parameter("ctx", None, typer.Context))

        @functools.wraps(command)
        def run(ctx: typer.Context, **values: Any) -> Any:
            values.pop("config")
            for name, names in fields_of.items():
                values[name] = hints[name](**{field: values.pop(field) for field in names})
                if hasattr(values[name], "resolve"):
                    values[name].resolve(_typed_flags(ctx))
            return command(**values)

        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in keyword}
        return run

    return decorate


def _typed_flags(ctx: typer.Context) -> set[str]:
    """The parameters of a command whose flag was typed, or stands in the `--config` file."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


def _parameters_of(group: type) -> list[inspect.Parameter]:
    """One parameter per field with a flag; the fields of the class itself stand before those it inherits."""
    hints = get_type_hints(group)
    annotated: Any = Annotated  # a type made at run time, which a type checker cannot follow
    fields = [each for each in dataclasses.fields(group) if flag_name(each) is not None]
    flags = {each.name: Flag(f"--{flag_name(each)}", hints[each.name] is bool) for each in fields}
    of_library = {each.name for each in dataclasses.fields(Settings)} if issubclass(group, Settings) else ()
    parameters = []
    for each in sorted(fields, key=lambda each: each.name not in group.__annotations__):
        name = flags[each.name].name
        names = f"{name}/--no-{name[2:]}" if hints[each.name] is bool else name
        help = described(each) if each.name not in of_library else with_flags(described(each), flags)
        option = typer.Option(names, help=help, rich_help_panel=each.metadata["panel"])
        # a number or a word is typed as text, which the settings' own check makes a number
        kind = str if each.metadata["words"] else each.metadata.get("typed") or hints[each.name]
        parameters.append(_parameter(each.name, each.default, annotated[kind, option]))
    return parameters


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    if path is None:
        return None
    if not os.path.exists(path):
        raise RealmError(f"--config: no such file: {path}")
    from realm.files import TextLoader, read_yaml

    try:
        values = read_yaml(path, TextLoader) or {}
    except RealmError as error:
        raise RealmError(f"--config: {error}") from None
    if not isinstance(values, dict):
        raise RealmError(f"--config: {path} must hold `flag: value` lines.")
    param_of = {_key(name): param for param in ctx.command.params for name in param.opts if param.name != "config"}
    if unknown := sorted(str(key) for key in values if _key(key) not in param_of):
        raise RealmError(f"--config: {path} has unknown flags: {', '.join(unknown)}.")
    defaults = dict(ctx.default_map or {})
    for key, value in values.items():
        if value is not None:
            param = param_of[_key(key)]
            defaults[param.name] = _typed(value, getattr(param, "multiple", False), f"--config: {path}, {key}")
    ctx.default_map = defaults
    return path


CONFIG = typer.Option(
    "--config", help="YAML file with values of these flags, `flag: value`.", is_eager=True, callback=_read_config
)


def _key(name: Any) -> str:
    return str(name).lstrip("-").replace("-", "_")


def _typed(value: Any, repeated: bool, where: str) -> str | list[str]:
    """The value as it would be typed: a flag that may be repeated takes a list, any other a comma separated one."""
    from realm.data.label_sets import join_list

    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise RealmError(f"{where}: must be a value or a list of values.")
    if repeated:
        return parts
    return join_list(parts) if isinstance(value, list) else str(value)
