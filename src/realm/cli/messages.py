"""Messages of the library name its arguments; the command line shows them as the flags a user types."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ARGUMENT = re.compile(r"`([A-Za-z_]\w*)(?:=([^`\n]*))?`")

# Arguments of the library whose command parameter has another name.
ALIASES = {
    "effective_batch_size": "batch_size",
    "output_dir": "output",
    "resume_from_checkpoint": "resume",
}


@dataclass(frozen=True)
class Flag:
    """One command line flag: its name, and for a switch the name that turns it off ("" if there is none)."""

    name: str
    is_switch: bool = False
    off: str = ""


def with_flags(message: str, flags: Mapping[str, Flag] | None = None) -> str:
    """The message with every `` `argument` `` and `` `argument=value` `` written as its flag.

    `flags` maps argument names to flags; by default it holds those of all commands. Backticked words that are no
    argument stay as they are.

        >>> with_flags("`max_steps=0`: give `use_gold=True`")
        '--steps 0: give --use-gold'
    """
    flag_by_name = all_flags() if flags is None else flags

    def flag_of(match: re.Match[str]) -> str:
        name, value = match.group(1), match.group(2)
        if (flag := flag_by_name.get(name)) is None:
            return match.group()
        if value is None or (flag.is_switch and value == "True"):
            return flag.name
        if flag.is_switch and value == "False":
            return flag.off or f"no {flag.name}"
        return f"{flag.name} {_unquoted(value)}"

    return _ARGUMENT.sub(flag_of, message)


@functools.cache
def all_flags() -> dict[str, Flag]:
    """The flags of all commands, by the name of the parameter, and of the library's argument where that differs."""
    import typer

    from realm.cli.main import app

    flags: dict[str, Flag] = {}
    pending: list[Any] = [typer.main.get_command(app)]
    while pending:
        command = pending.pop()
        pending += getattr(command, "commands", {}).values()
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                long = next(name for name in parameter.opts if name.startswith("--"))
                off = next(iter(parameter.secondary_opts), "")
                flags.setdefault(parameter.name, Flag(long, bool(parameter.is_flag), off))
    return flags | {alias: flags[name] for alias, name in ALIASES.items() if name in flags and alias not in flags}


def _unquoted(value: str) -> str:
    """The value as it is typed in a shell: without the quotes of a Python string."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


class NoteHandler(logging.Handler):
    """Shows what the library logs as notes on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        from realm.cli.terminal import note

        note(record.getMessage())


def show_log() -> None:
    """Show warnings that the library logs, once, however often the command line is entered."""
    logger = logging.getLogger("realm")
    if not any(isinstance(handler, NoteHandler) for handler in logger.handlers):
        logger.addHandler(NoteHandler(logging.WARNING))
