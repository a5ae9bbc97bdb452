"""`draw_plots`: the plots of a spec, one SVG file for each model and noise, a panel for each benchmark and pool."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from realm import RealmError
from realm.comparison.results import Results
from realm.comparison.simulation import implied_expertise
from realm.lab.plot_panels import (
    HEIGHT,
    LINE_HEIGHT,
    WIDTH,
    Panel,
    Picture,
    broken_into_lines,
    curves_panel,
    recovery_panel,
    trajectory_panel,
)
from realm.lab.spec import Spec
from realm.lab.spec_results import SpecResults, is_absent, load_spec_results, most_specific, select
from realm.lab.tables.expertise import expertise_by_annotator
from realm.lab.tables.table import display

BY_FILE = ("model", "noise", "regime", "steps", "rate")
"""Fields that have a file for each of their values, as the settings that a spec compares have."""
BY_PANEL = ("pool", "benchmark", "method")
PER_ROW = 3
"""Panels side by side: as many as a wide screen shows."""
MOST_PANELS = 30
"""In a file: ten rows, which can still be scrolled through."""
TITLE_HEIGHT = 34
"""Of the line above the panels."""


def draw_plots(spec: Spec, results: Results) -> Iterator[tuple[str, str]]:
    """Draw what the results of a spec have: names and contents of SVG files. Learning curves need a `curve`."""
    spec_results = load_spec_results(spec, results)
    frame = spec_results.frame[spec_results.frame["finished"]]
    if not len(frame):
        raise RealmError(f"{spec.name}: no cell is finished yet. `realm lab run {spec.name}` runs them.")
    learns = frame[frame["method"].str.startswith("realm")]
    expertise = expertise_by_annotator(spec_results, learns)
    curves = results.curves(frame["id"].tolist()).merge(frame.drop(columns=["accuracy"]), on="id")
    trajectories = _trajectories(results, learns, expertise)
    recovery = expertise.merge(learns, on="id", suffixes=("", "_test"))
    kinds: list[tuple[str, str, pd.DataFrame, Callable[[str, pd.DataFrame], Panel]]] = [
        ("curves", "Learning curves", curves, curves_panel),
        ("expertise", "Expertise during training", trajectories, trajectory_panel),
        ("recovery", "Expertise and accuracy", recovery, recovery_panel),
    ]
    for kind, title, rows, draw in kinds:
        for name, part in _files(rows, spec_results):
            panels = [draw(head, of_panel) for head, of_panel in _panels(part, single=kind != "curves")]
            sheet = _sheet(f"{title}: {spec.title}", panels[:MOST_PANELS])
            yield f"{'-'.join([spec.name, kind, *name])}.svg", sheet.file()


def _trajectories(results: Results, frame: pd.DataFrame, expertise: pd.DataFrame) -> pd.DataFrame:
    """A row per cell, step, annotator and task: name (of the annotator), accuracy, expertise, implied expertise."""
    points = results.trajectories(frame["id"].tolist())
    if not len(points) or not len(expertise):
        return pd.DataFrame()
    configured = expertise["pool_accuracy"].astype(float)
    annotators = expertise[["id", "annotator", "task"]].assign(
        implied=implied_expertise(configured, 1 / expertise["chance"].astype(float)),
        accuracy=configured.fillna(expertise["true_accuracy"].astype(float)),
    )
    rows = points.merge(annotators, on=["id", "annotator", "task"]).merge(frame.drop(columns=["accuracy"]), on="id")
    several = rows.groupby("id")["task"].transform("nunique") > 1
    rows["name"] = rows["annotator"]
    rows["name"] += (" " + rows["task"].map(display)).where(several, "")
    rows["name"] += rows["accuracy"].map(" ({:.2g})".format).where(rows["accuracy"].notna(), "")
    return rows


# -------------------------------------------------------------------- files and panels


def _files(rows: pd.DataFrame, spec_results: SpecResults) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """The rows of each file, and the words its name has beside those of the others.

    A method that does not read a setting stands in the files of each of its values.
    """
    if not len(rows):
        return
    unread = spec_results.unread
    names = (*BY_FILE, *spec_results.settings)
    varying = [name for name in names if rows[name].nunique(dropna=name in unread) > 1]
    outer, settings = ([name for name in varying if (name in unread) == is_setting] for is_setting in (False, True))
    for key, part in rows.groupby(outer, sort=False, dropna=False) if outer else [((), rows)]:
        words = [_in_file_name(name, value) for name, value in zip(outer, key, strict=True)]
        values = part.drop_duplicates(settings)[settings].to_dict("records") if settings else [{}]
        for fields in most_specific([{str(name): value for name, value in one.items()} for one in values], unread):
            more = [_in_file_name(name, value) for name, value in fields.items() if not is_absent(value)]
            yield [*words, *more], select(part, fields, open_fields=settings)


def _in_file_name(field: str, value: Any) -> str:
    word = "own" if is_absent(value) else display(value) if isinstance(value, float) else str(value)
    if field == "steps":
        word = f"{word}-{field}"
    elif field not in BY_FILE or field == "rate":
        word = f"{field}-{re.sub('^-', 'minus', word)}"
    return re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-")


def _panels(rows: pd.DataFrame, single: bool) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each panel and its title; methods have panels of their own where a panel is of one."""
    fields = [name for name in BY_PANEL if single or name != "method"]
    varying = [name for name in fields if rows[name].nunique(dropna=False) > 1] or ["benchmark"]
    for key, part in rows.groupby(varying, sort=False, dropna=False):
        yield ", ".join(display(value) for value in key if not is_absent(value)), part


def _sheet(title: str, panels: Sequence[Panel]) -> Picture:
    """Panels side by side under a title."""
    columns = min(PER_ROW, len(panels))
    width = columns * WIDTH
    top = TITLE_HEIGHT + LINE_HEIGHT * (len(broken_into_lines(title, width - 24)) - 1)
    height = top + -(-len(panels) // columns) * HEIGHT
    sheet = Picture(width, height, title, f"{len(panels)} panels.")
    sheet.add("rect", x=0.0, y=0.0, width=width, height=height, class_="paper")
    sheet.lines(12, 22, title, width - 24)
    for place, panel in enumerate(panels):
        sheet.place(panel, place % columns * WIDTH, top + place // columns * HEIGHT)
    return sheet
