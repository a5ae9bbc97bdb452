"""Below the command line nothing prints, draws a progress bar or names a flag: messages name arguments."""

from __future__ import annotations

import ast
import functools
import re

from tests.contracts.commands import all_flags
from tests.contracts.modules import modules

TERMINAL = ("rich", "typer", "click", "tqdm")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def terminal_uses(source: str) -> list[str]:
    """What a module does that only the command line may do. Docstrings may show commands."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    uses = []
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        else:
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        uses += [f"line {line} imports {name}" for name in imported if name.split(".")[0] in TERMINAL]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input"):
            uses.append(f"line {line} calls {node.func.id}")
        if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr") and is_sys(node.value):
            uses.append(f"line {line} uses sys.{node.attr}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            uses += [f"line {line} names {flag}" for flag in FLAG.findall(node.value) if flag in our_flags()]
    return uses


@functools.cache
def our_flags() -> set[str]:
    """The flags of all commands; those of pip, torchrun or a style sheet are not ours."""
    flags = all_flags()
    assert {"--use-gold", "--map-labels", "--output"} <= flags
    return flags


def is_sys(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "sys"


def test_nothing_below_the_command_line_uses_the_terminal() -> None:
    below = {path: source for path, source in modules().items() if not path.startswith("cli/")}
    assert {path: uses for path, source in below.items() if (uses := terminal_uses(source))} == {}


def test_a_use_is_seen_wherever_it_stands() -> None:
    for source in (
        "print('done')",
        "def f():\n    from rich.progress import Progress",
        "import typer",
        "from tqdm.auto import tqdm",
        "raise RealmError('give --use-gold')",
        "raise RealmError(f'{name}: needs --gold, or --map-labels.')",
        "import sys\nsys.stderr.write('x')",
    ):
        assert terminal_uses(source), source
    for source in (
        "raise RealmError('give `use_gold`')",
        "'''`realm train --help`'''",
        "def f():\n    '''Under --use-gold.'''",
        "text = 'a -- b'",
        "text = '<!-- note -->'",
        "command = ['pip', 'download', '--no-deps']",
        "import enrich",
    ):
        assert terminal_uses(source) == [], source
