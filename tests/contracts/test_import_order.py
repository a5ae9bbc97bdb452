"""Data flows one way: each package imports only those that stand before it."""

from __future__ import annotations

import realm
from tests.contracts.modules import imports_of, modules

ORDER = (
    "errors", "locks", "schema", "files", "progress", "display", "methods", "data", "crowd", "check",
    "channels", "objectives", "models", "scorers", "metrics", "runs", "integrations", "training", "comparison",
    "report", "demo", "testing", "cli",
)  # fmt: skip
OUTSIDE = ("__init__.py", "__main__.py")  # the public surface, and the entry point


def package_of(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def wrong_imports(path: str, source: str) -> list[str]:
    """What a module imports from a package that stands after its own."""
    own = ORDER.index(package_of(path))
    wrong = []
    for name in sorted(imports_of(source)):
        _, *parts = name.split(".")
        if parts and parts[0] in realm.__all__ and parts[0] not in ORDER:  # a public name: where it comes from
            parts = realm._MODULE_OF.get(parts[0], "realm").split(".")[1:]
        if parts and parts[0] in ORDER and ORDER.index(parts[0]) > own:
            wrong.append(f"imports {name}")
    return wrong


def test_every_package_has_a_place() -> None:
    assert {package_of(path) for path in modules() if path not in OUTSIDE} == set(ORDER)


def test_packages_import_only_those_before_them() -> None:
    violations = {path: wrong_imports(path, source) for path, source in modules().items() if path not in OUTSIDE}
    assert {path: wrong for path, wrong in violations.items() if wrong} == {}


def test_a_wrong_import_is_seen_wherever_it_stands() -> None:
    for source in (
        "from realm.training import RealmConfig",
        "import realm.training.trainer",
        "def score():\n    from realm.training.trainer import RealmTrainer",
        "if TYPE_CHECKING:\n    from realm.training import RealmConfig",
        "_HOME = {'RealmConfig': 'realm.training'}",
        "import_module('realm.training.config')",
        "from realm import RealmTrainer",
        "def f():\n    import realm.training as t",
    ):
        assert wrong_imports("data/planted.py", source), source
        assert wrong_imports("cli/planted.py", source) == [], source
    for source in ("from realm.errors import RealmError", "import numpy", "'realm train labels.csv'", "import realm"):
        assert wrong_imports("data/planted.py", source) == [], source
