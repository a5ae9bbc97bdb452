"""What a run's JSON and YAML files hold, as dataclasses; a file that does not fit is refused by its name.

That a file is the one which was written is for the manifest to say, which `Run.open` verifies first.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from realm import __version__
from realm.data import Task
from realm.errors import RealmError
from realm.files import read_json, read_yaml
from realm.runs import folder as layout
from realm.schema import damaged, parse
from realm.scorers import SCORERS
from realm.scorers.prompts import PromptStyle


@dataclass(frozen=True)
class RunDescription:
    """What `config.yaml` holds. It must be the same again for the run to be resumed.

    `data` is the fingerprint and the sizes of the annotations; `weights` the fingerprint of the model's files, None for
    a name that stands for itself; `test` that of the test table; `prior` a hash of the earlier estimate. From `columns`
    to `map_annotators` it says how the table was read, so that tables for the run are read in the same way.
    """

    model: str
    settings: dict[str, Any]
    gold_used: bool
    data: dict[str, str | int]
    weights: str | None = None
    test: str | None = None
    prior: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    export: str | None = None
    exclude: list[str] | None = None
    map_labels: dict[str, str] | None = None
    map_annotators: dict[str, str] | None = None
    file: str | None = None
    versions: dict[str, str] = field(
        default_factory=lambda: {name: version(name) for name in ("torch", "transformers", "peft", "accelerate")}
    )

    def as_dict(self) -> dict[str, Any]:
        entries = {"realm": __version__, "format": layout.FORMAT, **asdict(self)}
        return {name: value for name, value in entries.items() if value is not None}


@dataclass(frozen=True)
class ScorerSettings:
    """What `scorer.json` holds: how items are asked."""

    kind: str
    style: PromptStyle
    tasks: list[Task]
    max_options: int
    cloze_scale: float | None = None
    temperature: float = 1.0


@dataclass(frozen=True)
class Metrics:
    """What `metrics.json` holds: `Trainer`'s log, what the user should know, the figures on the test table.

    `probabilities` says in words what labels and reliability rest on; `channel` is the class of the learned channel.
    """

    history: list[dict[str, Any]]
    steps: int
    warnings: list[str]
    notes: list[str]
    findings: list[str]
    probabilities: str
    channel: str | None
    out_of_fold: bool
    folds: int
    temperature: float
    test: dict[str, Any] | None = None


def read_config(folder: Path) -> dict[str, Any]:
    """`config.yaml`, refused where the layout of the run is another one than ours."""
    path = folder / layout.CONFIG
    config = read_yaml(path)
    if not isinstance(config, dict):
        raise RealmError(f"{path} holds no settings: it is damaged, or not the config of a run.")
    if config.get("format") != layout.FORMAT:
        raise RealmError(
            f"{folder} was written by realm {config.get('realm', '(unknown)')} in format "
            f"{config.get('format', 0)}; this is realm {__version__}, which reads format {layout.FORMAT}. "
            "Train again, or read it with the version that wrote it."
        )
    parse(path, config, RunDescription)
    return config


def read_checked(path: Path, kind: Any) -> Any:
    """The content of a JSON file that must be of this kind."""
    content = parse(path, read_json(path), kind)
    if kind is ScorerSettings and content["kind"] not in SCORERS:
        raise damaged(path, f"`kind` is '{content['kind']}', not one of {', '.join(SCORERS)}")
    return content
