"""What the contract tests read of the package: its modules, and what each of them imports."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "realm"


def modules() -> dict[str, str]:
    """The source of every module, by its path inside the package, such as "data/items.py"."""
    return {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(source: str, package: str = "realm") -> set[str]:
    """Full names of what a module imports from `package`, wherever the import stands.

    Imports inside functions and under TYPE_CHECKING count, and so do names that are imported by a string: the values
    of a module's table of lazily imported names, and the arguments of `import_module`.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and all(part.isidentifier() for part in str(node.value).split(".")):
            names.add(str(node.value))
    return {name for name in names if name == package or name.startswith(f"{package}.")}
