"""An error that nobody foresaw: two lines for the person, and the whole trace in a file that can be sent to us.

The file holds no environment variable, no token and no home folder. It may quote a word of the data, which the message
of an error can do, and says so.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from realm.files import without_home

MENDABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EMFILE)
"""What a disk or a folder refuses: nothing that a trace would explain."""
SECRET = re.compile(r"(?i)token|secret|passw|api_?key|access_?key|private|credential|auth|cookie")
"""Names of variables and flags whose values are nobody's business."""
TOKENS = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|eyJ)[A-Za-z0-9_\-./+=]{8,}"
    r"|(?i:\b(?:bearer|basic|token)\s+[A-Za-z0-9_\-./+=]{12,})"
)
"""Tokens of Hugging Face, GitHub, GitLab, OpenAI, Slack and Amazon, JSON web tokens, and headers with any other."""
IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
"""A name and a password in an address."""
SHORTEST_SECRET = 6
"""Characters of a value that is taken out wherever it stands; a shorter one would take out parts of words."""


def mendable(error: BaseException) -> str | None:
    """What to say of an error that is not ours but the machine's: no room, no right, no memory."""
    if isinstance(error, MemoryError):
        return "not enough memory. Give it less at once (fewer rows, a smaller batch), or a machine with more."
    if isinstance(error, OSError) and error.errno in MENDABLE:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}."
    return None


def write_trace(error: BaseException) -> Path | None:
    """Write the whole trace beside the command's output, or here, or where temporary files go; None if nowhere."""
    for folder in _folders():
        try:
            handle, name = tempfile.mkstemp(prefix="realm-error-", suffix=".txt", dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(_text(error))
            return Path(name)
        except OSError:
            continue
    return None


def _folders() -> Iterator[Path]:
    words = sys.argv[1:]
    for index, word in enumerate(words):
        if word in ("--output", "-o") and index + 1 < len(words):
            yield Path(words[index + 1]).parent
        elif word.startswith("--output="):
            yield Path(word.partition("=")[2]).parent
    yield Path()
    yield Path(tempfile.gettempdir())


def _text(error: BaseException) -> str:
    from realm import __version__

    trace = "".join(traceback.format_exception(error))
    head = (
        "An error in realm that nobody foresaw. Home folders, tokens and the values of variables that hold secrets\n"
        "were taken out. The message of an error may quote a word of your data: look through it before you send it.\n"
    )
    return (
        f"{head}\nrealm {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n"
        f"{command_line()}\n\n{redacted(trace)}"
    )


def command_line() -> str:
    """The command as it was typed, without the values of flags that name a secret."""
    words: list[str] = []
    is_secret = False
    for word in sys.argv[1:]:
        flag, mark, _ = word.partition("=")
        if is_secret:
            words.append("[taken out]")
            is_secret = False
        elif word.startswith("-") and SECRET.search(flag):
            words.append(f"{flag}=[taken out]" if mark else flag)
            is_secret = not mark
        else:
            words.append(word)
    return redacted(" ".join(["realm", *words]))


def redacted(text: str) -> str:
    """The text without home folders, tokens, passwords in addresses, and values of variables that hold secrets."""
    secrets = {
        name: value for name, value in os.environ.items() if SECRET.search(name) and len(value) >= SHORTEST_SECRET
    }
    for name, value in sorted(secrets.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(value, f"[${name}]")
    return IN_ADDRESS.sub("[taken out]", TOKENS.sub("[token]", without_home(text)))
