"""Flags made of dataclass fields: a setting is stated once, and its flag and its key in a `--config` file follow.

    @takes(ReadingFlags)
    def check(file: Path, reading: ReadingFlags) -> None: ...

gives `check` a flag for each field of `ReadingFlags`, `--config FILE` and `--help-all`. Such a dataclass names the
fields that `--help` lists (`LISTED`; the others are in `--help-all`) and those that have no flag (`IN_CONFIG`).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
import typer.core

from realm.errors import RealmError, other_name
from realm.training.settings import described, flag_name

LabelsFiles = Annotated[list[Path], typer.Argument(metavar="LABELS", help="Table of annotations, or several as one.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for a script to read.", hidden=True)]
Raw = Annotated[bool, typer.Option("--raw", help="Write cells that a spreadsheet would run as they are.", hidden=True)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="CSV to write.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of what is random.", hidden=True)]
METAVARS = {"int": "N", "float": "N", "Path": "FILE"}
"""What stands for a value in the help, by type; TEXT for any other."""
SETTINGS = "realm.settings"
"""Where a click context keeps what `--config` says of settings that have no flag."""


def takes(*groups: Any, without: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace each parameter annotated with one of these dataclasses by flags, and add --config and --help-all.

    Fields named in `without` keep their default. A dataclass with a method `resolve` is told which flags were typed
    and what else the config holds, before the command runs.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        flags: dict[str, list[str]] = {}
        for name, parameter in inspect.signature(command).parameters.items():
            if hints[name] in groups:
                own_flags = [each for each in _parameters(hints[name]) if each.name not in without]
                flags[name] = [each.name for each in own_flags]
                parameters += own_flags
            else:
                parameters.append(parameter.replace(annotation=hints[name]))
        without_flag = {name for group in groups for name in group.IN_CONFIG if name not in without}
        takes_any = any(getattr(group, "TAKES_ANY_SETTING", False) for group in groups)
        with_flag = {name for names in flags.values() for name in names}
        parameters.append(_parameter("config", None, _config(with_flag, without_flag, takes_any)))
        parameters += [_parameter("help_all", False, HELP_ALL), _parameter("ctx", None, typer.Context)]

        @functools.wraps(command)
        def run(ctx: typer.Context, **values: Any) -> Any:
            del values["config"], values["help_all"]
            settings = dict(ctx.meta.get(SETTINGS, {}))
            sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
            typed = {*settings, *(name for name, source in sources.items() if source and source.name != "DEFAULT")}
            for name, names in flags.items():
                given = {field: values.pop(field) for field in names}
                own = {each.name for each in fields(hints[name])} & set(settings)
                values[name] = hints[name](**given, **{key: settings.pop(key) for key in own})
            for name in flags:
                if hasattr(values[name], "resolve"):
                    values[name].resolve(typed, settings)
            return command(**values)

        keyword = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in keyword}
        run.in_config = frozenset(without_flag)  # type: ignore[attr-defined]
        return run

    return decorate


class Command(typer.core.TyperCommand):
    """A command that says of a setting without a flag, typed as one, where it belongs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's NoSuchOption, which typer has from another module since it brings click
            name = _key(getattr(error, "option_name", "")).removeprefix("no_")
            if name not in getattr(self.callback, "in_config", ()):
                raise
            flag = f"--{name.replace('_', '-')}"
            where = f"Write `{name}: VALUE` into a YAML file, and give that as --config."
            raise RealmError(f"{flag}: this setting has no flag. {where}") from None


def flag_fields(group: Any) -> list[Field[Any]]:
    """The fields of a dataclass that have a flag: first those that `--help` lists, in its order."""
    listed: tuple[str, ...] = group.LISTED
    with_flag = [each for each in fields(group) if flag_name(each) and each.name not in group.IN_CONFIG]
    return sorted(with_flag, key=lambda each: listed.index(each.name) if each.name in listed else len(listed))


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group)
    annotated: Any = Annotated  # a type made at run time, which a type checker cannot follow
    parameters = []
    for each in flag_fields(group):
        # a number or a word is typed as text, which the settings' own check makes a number
        kind = str if each.metadata["words"] else each.metadata.get("typed") or hints[each.name]
        kinds = [getattr(part, "__name__", "") for part in (kind, *get_args(kind))]
        option = typer.Option(
            f"--{flag_name(each)}",
            help=described(each),
            metavar=None if kind is bool else next((METAVARS[part] for part in kinds if part in METAVARS), "TEXT"),
            hidden=each.name not in group.LISTED,
            rich_help_panel=each.metadata["panel"],  # a heading of the docs
        )
        parameters.append(_parameter(each.name, each.default, annotated[kind, option]))
    return parameters


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _show_all(ctx: typer.Context, requested: bool) -> None:
    if requested:
        hidden: list[Any] = [each for each in ctx.command.params if getattr(each, "hidden", False)]
        for each in hidden:
            each.hidden = False
        typer.echo(ctx.get_help())
        for each in hidden:
            each.hidden = True
        raise typer.Exit


HELP_ALL = Annotated[
    bool, typer.Option("--help-all", help="Show every flag and exit.", is_eager=True, callback=_show_all)
]


def _config(with_flag: Collection[str], without_flag: Collection[str], takes_any: bool) -> Any:
    """The `--config` of a command: its flags, these settings and, with `takes_any`, any of `RealmConfig`.

    A setting with a flag can be given under the flag's name or, as in Python, under its own.
    """

    def read(ctx: typer.Context, path: Path | None) -> Path | None:
        if path is None:
            return None
        from realm.files import TextLoader, UniqueKeysLoader, read_yaml

        try:  # flags as they are written, settings as YAML understands them
            texts, values = (read_yaml(path, loader) or {} for loader in (TextLoader, UniqueKeysLoader))
        except RealmError as error:
            raise RealmError(f"--config: {error}") from None
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise RealmError(f"--config: {path} must hold `flag: value` lines.")
        flags = {_key(name): param for param in ctx.command.params for name in param.opts if name != "--config"}
        flags |= {param.name: param for param in ctx.command.params if param.name in with_flag}
        defaults, settings = dict(ctx.default_map or {}), {}
        for key, value in values.items():
            if value is not None and (param := flags.get(_key(key))) is not None:
                defaults[param.name] = _as_typed(texts[key], getattr(param, "multiple", False), f"{path}, {key}")
            elif value is not None and (_key(key) in without_flag or takes_any):
                is_number = isinstance(value, str) and re.fullmatch(r"[-+]?\d+[eE][-+]?\d+", value)  # not YAML's 1e-3
                settings[_key(key)] = float(value) if is_number else value
            elif value is not None:
                hint = other_name(_key(key), [*flags, *without_flag], {})
                raise RealmError(f"--config: {path}: there is no flag or setting `{key}`. {hint}".rstrip())
        ctx.default_map, ctx.meta[SETTINGS] = defaults, settings
        return path

    help = "YAML file of flags and settings."
    annotated: Any = Annotated
    return annotated[Path | None, typer.Option("--config", metavar="FILE", help=help, is_eager=True, callback=read)]


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _as_typed(value: Any, repeated: bool, where: str) -> str | list[str]:
    """The value as it would be typed: a flag that may be repeated takes a list, any other a comma separated one."""
    from realm.data.label_sets import join_list

    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise RealmError(f"--config: {where}: must be a value or a list of values.")
    if repeated:
        return parts
    return join_list(parts) if isinstance(value, list) else str(value)
