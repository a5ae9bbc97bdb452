"""`write_plots`: the pictures of a spec, one file for each model and noise, a panel for each benchmark and pool."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from realm import RealmError
from realm.comparison import Results, implied_expertise
from realm.files import write_text
from realm.lab.plots.panels import HEIGHT, STYLE, WIDTH, curves_panel, recovery_panel, trajectory_panel
from realm.lab.spec import Spec
from realm.lab.spec_results import SpecResults, fullest, select, spec_results
from realm.lab.tables.expertise import learned_expertise
from realm.lab.tables.layouts import shown
from realm.report.svg import Picture, Plot

BY_FILE = ("model", "noise", "regime", "steps", "rate")
"""Fields that have a file for each of their values, as the settings that a spec compares have."""
BY_PANEL = ("pool", "benchmark", "method")
PER_ROW = 3
MOST_PANELS = 30


def write_plots(spec: Spec, results: Results, folder: Path) -> list[Path]:
    """Draw what the results of a spec have, and return the files. Learning curves need a spec with `curve`."""
    of_spec = spec_results(spec, results)
    frame = of_spec.frame[of_spec.frame["finished"]]
    if not len(frame):
        raise RealmError(f"{spec.name}: no cell is finished yet. `realm lab run {spec.name}` runs them.")
    folder.mkdir(parents=True, exist_ok=True)
    learning = frame[frame["method"].str.startswith("realm")]
    learned = learned_expertise(of_spec, learning)
    kinds: list[tuple[str, str, pd.DataFrame, Callable[[str, pd.DataFrame], Plot]]] = [
        ("curves", "Learning curves", _curves(of_spec, frame), curves_panel),
        ("expertise", "Expertise during training", _trajectories(of_spec, learning, learned), trajectory_panel),
        (
            "recovery",
            "Expertise and accuracy",
            learned.merge(learning, on="id", suffixes=("", "_test")),
            recovery_panel,
        ),
    ]
    written = []
    for kind, title, rows, draw in kinds:
        for name, part in _files(rows, (*BY_FILE, *of_spec.settings), of_spec.unread):
            path = folder / f"{'-'.join([spec.name, kind, *name])}.svg"
            panels = [draw(head, of_panel) for head, of_panel in _panels(part, single=kind != "curves")]
            write_text(path, _sheet(f"{title}: {spec.title}", panels[:MOST_PANELS]).file(STYLE))
            written.append(path)
    return written


# -------------------------------------------------------------------- what is drawn


def _curves(of_spec: SpecResults, frame: pd.DataFrame) -> pd.DataFrame:
    """A row per cell and step, with the fields of the cell."""
    assert of_spec.results is not None
    curves = of_spec.results.curves(frame["id"].tolist())
    return curves.merge(frame.drop(columns=["accuracy"]), on="id")


def _trajectories(of_spec: SpecResults, frame: pd.DataFrame, learned: pd.DataFrame) -> pd.DataFrame:
    """A row per cell, step, annotator and task: what the annotator is called, expertise, and the implied one."""
    assert of_spec.results is not None
    moved = of_spec.results.trajectories(frame["id"].tolist())
    if not len(moved) or not len(learned):
        return pd.DataFrame(columns=[*frame.columns, "step", "name", "expertise", "implied"])
    named = learned[["id", "annotator", "task"]].assign(
        implied=implied_expertise(learned["asked_accuracy"].astype(float), 1 / learned["chance"].astype(float)),
        said=learned["asked_accuracy"].astype(float).fillna(learned["true_accuracy"].astype(float)),
    )
    made = moved.merge(named, on=["id", "annotator", "task"]).merge(frame, on="id")
    several = made.groupby("id")["task"].transform("nunique") > 1
    made["name"] = [
        " ".join([who, *([shown(task)] if more else []), *([] if math.isnan(value) else [f"({value:.2g})"])])
        for who, task, more, value in zip(made["annotator"], made["task"], several, made["said"], strict=True)
    ]
    return made


# -------------------------------------------------------------------- files and panels


def _files(
    rows: pd.DataFrame, fields: Sequence[str], unread: Sequence[str]
) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """The rows of each file, and the words its name has beside those of the others.

    A method that does not read a setting stands in the files of each of its values.
    """
    if not len(rows):
        return
    varying = [name for name in fields if rows[name].nunique(dropna=name in unread) > 1]
    outer, settings = ([name for name in varying if (name in unread) == inner] for inner in (False, True))
    for key, part in rows.groupby(outer, sort=False, dropna=False) if outer else [((), rows)]:
        words = [_in_file_name(name, value) for name, value in zip(outer, key, strict=True)]
        values = part.drop_duplicates(settings)[settings].to_dict("records") if settings else [{}]
        for chosen in fullest([{str(name): value for name, value in one.items()} for one in values], unread):
            said = [_in_file_name(name, value) for name, value in chosen.items() if not _absent(value)]
            yield [*words, *said], select(part, chosen, open_fields=settings)


def _in_file_name(field: str, value: Any) -> str:
    said = "own" if _absent(value) else shown(value) if isinstance(value, float) else str(value)
    if field == "steps":
        said = f"{said}-{field}"
    elif field not in BY_FILE or field == "rate":
        said = f"{field}-{said.replace('-', 'minus', 1) if said.startswith('-') else said}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", said).strip("-")


def _panels(rows: pd.DataFrame, single: bool) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each panel and its head; methods have panels of their own where a panel shows one."""
    fields = [name for name in BY_PANEL if single or name != "method"]
    varying = [name for name in fields if rows[name].nunique(dropna=False) > 1] or ["benchmark"]
    for key, part in rows.groupby(varying, sort=False, dropna=False):
        yield ", ".join(shown(value) for value in key if not _absent(value)), part


def _absent(value: Any) -> bool:
    return value is None or value != value


def _sheet(title: str, panels: Sequence[Plot]) -> Picture:
    """Panels side by side under a title."""
    columns = min(PER_ROW, len(panels))
    lines = -(-len(panels) // columns)
    sheet = Picture(columns * WIDTH, 34 + lines * HEIGHT, title, f"{len(panels)} panels.")
    sheet.add("rect", x=0, y=0, width=sheet.width, height=sheet.height, class_="paper")
    sheet.text(12, 22, title, "head")
    for place, panel in enumerate(panels):
        sheet.place(panel, place % columns * WIDTH, 34 + place // columns * HEIGHT)
    return sheet
