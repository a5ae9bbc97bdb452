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
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
import yaml

from realm.cli.messages import Flag, with_flags
from realm.errors import RealmError
from realm.training.settings import Settings, described, flag_name, setting


def flag(default: Any, help: str, *, panel: str | None = None) -> Any:
    """A dataclass field that becomes a command line flag."""
    return setting(default, help, panel=panel)


def takes(*groups: type, without: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace each parameter annotated with one of these dataclasses by the flags of its fields, and add --config.

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
        parameters.append(_config_parameter())

        @functools.wraps(command)
        def run(**values: Any) -> Any:
            values.pop("config")
            for name, names in fields_of.items():
                values[name] = hints[name](**{field: values.pop(field) for field in names})
            return command(**values)

        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in keyword}
        return run

    return decorate


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
        declared = f"{name}/--no-{name[2:]}" if hints[each.name] is bool else name
        help = described(each) if each.name not in of_library else with_flags(described(each), flags)
        option = typer.Option(declared, help=help, rich_help_panel=each.metadata["panel"])
        parameters.append(
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=annotated[hints[each.name], option],
            )
        )
    return parameters


def _config_parameter() -> inspect.Parameter:
    option = typer.Option("--config", help="YAML file with any of these flags.", is_eager=True, callback=_read_config)
    return inspect.Parameter(
        "config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[Path | None, option]
    )


class _TextLoader(yaml.SafeLoader):
    """Every value as it is written, but null: `labels: [no, yes]` lists words, and `1.0` keeps its nought."""


_TextLoader.yaml_implicit_resolvers = {
    mark: [(tag, form) for tag, form in resolvers if tag in ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")]
    for mark, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    if path is None:
        return None
    try:
        values = _TextLoader(path.read_text(encoding="utf-8")).get_single_data() or {}
    except FileNotFoundError:
        raise RealmError(f"--config: no such file: {path}") from None
    except OSError as error:
        raise RealmError(f"--config: {path} cannot be read: {error.strerror or error}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RealmError(f"--config: {path} is not readable YAML: {error}") from None
    if not isinstance(values, dict):
        raise RealmError(f"--config: {path} must hold `flag: value` lines.")
    known = {_key(name): param for param in ctx.command.params for name in param.opts if param.name != "config"}
    if unknown := sorted(str(key) for key in values if _key(key) not in known):
        raise RealmError(f"--config: {path} has unknown flags: {', '.join(unknown)}.")
    defaults = dict(ctx.default_map or {})
    for key, value in values.items():
        if value is not None:
            param = known[_key(key)]
            defaults[param.name] = _typed(value, getattr(param, "multiple", False), f"--config: {path}, {key}")
    ctx.default_map = defaults
    return path


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
