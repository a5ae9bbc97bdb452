"""Groups of flags that several commands share, written once as dataclasses and spread into each command's signature.

    @dataclass
    class Source:
        text: str | None = flag(None, "Column with the text to label.")

    @takes(Source)
    def check(file: Path, source: Source) -> None: ...

gives `check` a `--text` flag and hands it a `Source`. Every command that takes flags this way also takes
`--config FILE`, a YAML file whose keys are flag names; flags typed on the command line win.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
import yaml

from realm.errors import RealmError


def flag(default: Any, help: str, *names: str, panel: str | None = None) -> Any:
    """A dataclass field that becomes a command-line flag. `names` replaces the flag's own name."""
    return dataclasses.field(default=default, metadata={"help": help, "names": names, "panel": panel})


def takes(*groups: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace each parameter annotated with one of these dataclasses by the flags of its fields, and add --config."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        grouped: dict[str, type] = {}
        for name, parameter in inspect.signature(command).parameters.items():
            if hints[name] in groups:
                grouped[name] = hints[name]
                parameters.extend(_parameters_of(hints[name]))
            else:
                parameters.append(parameter.replace(annotation=hints[name]))
        parameters.append(_config_parameter())

        @functools.wraps(command)
        def run(**given: Any) -> Any:
            given.pop("config")
            for name, group in grouped.items():
                given[name] = group(**{f.name: given.pop(f.name) for f in dataclasses.fields(group)})
            return command(**given)

        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in keyword}
        return run

    return decorate


def _parameters_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group)
    annotated: Any = Annotated  # a type made at run time, which a type checker cannot follow
    made = []
    for field in dataclasses.fields(group):
        option = typer.Option(
            *field.metadata["names"], help=field.metadata["help"], rich_help_panel=field.metadata["panel"]
        )
        annotation = annotated[hints[field.name], option]
        made.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)
        )
    return made


def _config_parameter() -> inspect.Parameter:
    option = typer.Option("--config", help="YAML file with any of these flags.", is_eager=True, callback=_read_config)
    return inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option]
    )


def _read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    if path is None:
        return None
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise RealmError(f"--config: no such file: {path}") from None
    except OSError as error:
        raise RealmError(f"--config: {path} cannot be read: {error.strerror or error}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RealmError(f"--config: {path} is not readable YAML: {error}") from None
    if not isinstance(values, dict):
        raise RealmError(f"--config: {path} must hold `flag: value` lines.")
    known = {param.name for param in ctx.command.params if param.name}
    given = {str(key).replace("-", "_"): value for key, value in values.items()}
    if unknown := sorted(set(given) - known):
        raise RealmError(f"--config: {path} has unknown flags: {', '.join(unknown)}.")
    ctx.default_map = {**(ctx.default_map or {}), **given}
    return path
