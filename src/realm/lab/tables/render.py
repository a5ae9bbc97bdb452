"""Tables as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from itertools import groupby

from realm.comparison import LEVEL
from realm.lab.tables.table import Entry, Row, Table

FORMATS = ("md", "latex", "csv")
SEPARATOR = " · "
LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    **{"Δ": r"$\Delta$", "±": r"$\pm$", "·": r"$\cdot$", "<": "$<$", ">": "$>$"},
}


# -------------------------------------------------------------------- Markdown


def markdown(table: Table) -> str:
    """A table in pipes, under its title; groups stand before the name of each of their columns."""
    heads = [*table.stub, *(f"{column.group}{SEPARATOR}{column.name}".strip(SEPARATOR) for column in table.columns)]
    lines = [f"**{_piped(table.title)}**", "", _line([_piped(head) for head in heads])]
    lines.append(_line(["---"] * len(table.stub) + ["---:"] * len(table.columns)))
    lines += [_line([*map(_piped, row.labels), *(_piped(_cell(entry)) for entry in row.entries)]) for row in table.rows]
    if table.has_paper:
        lines += ["", "In brackets: the paper's figure and how far ours is from it."]
    if any(entry.contrast is not None and entry.contrast.significant for entry in table.entries):
        lines += ["", f"\\*: p < {LEVEL:g}, paired t-test over seeds."]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _piped(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def _cell(entry: Entry | str | None) -> str:
    if entry is None or isinstance(entry, str):
        return entry or ""
    said = ours_said(entry)
    if entry.best:
        said = f"**{said}**"
    if entry.paper is not None:
        off = entry.difference
        said += f" [{entry.paper[0]:{_form(entry)}}" + ("]" if off is None else f", {off:+.{entry.digits}f}]")
    return said


def ours_said(entry: Entry) -> str:
    """Our figure: mean, spread, a star where a difference is significant over seeds, and how many seeds are there."""
    if entry.ours is None:
        return "missing"
    said = f"{entry.ours.mean:{_form(entry)}}"
    if not math.isnan(entry.ours.std) and entry.ours.seeds > 1:
        said += f" ±{entry.ours.std:.{entry.digits}f}"
    if entry.contrast is not None and entry.contrast.significant:
        said += "*"
    return said + (f" ({entry.ours.seeds} of {entry.seeds} seeds)" if entry.partial else "")


def _form(entry: Entry) -> str:
    return f"{'+' if entry.signed else ''}.{entry.digits}f"


# -------------------------------------------------------------------- LaTeX


def latex(table: Table) -> str:
    """A `table` environment for booktabs, with groups of columns under one head."""
    groups = [(name, len(list(part))) for name, part in groupby(table.columns, key=lambda column: column.group)]
    empty = [""] * len(table.stub)
    tops = [
        rf"\multicolumn{{{size}}}{{c}}{{{escaped(name)}}}" if name else " & ".join([""] * size) for name, size in groups
    ]
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escaped(table.title)}}}",
        rf"\begin{{tabular}}{{{'l' * len(table.stub)}{'r' * len(table.columns)}}}",
        r"\toprule",
    ]
    if any(name for name, _ in groups):
        lines.append(" & ".join([*empty, *tops]) + r" \\")
    lines.append(" & ".join(escaped(head) for head in (*table.stub, *(c.name for c in table.columns))) + r" \\")
    lines.append(r"\midrule")
    before: Row | None = None
    for row in table.rows:
        if before is not None and (row.average or before.average):
            lines.append(r"\midrule")
        cells = [*(escaped(label) for label in row.labels), *(_latex_cell(entry) for entry in row.entries)]
        lines.append(" & ".join(cells) + r" \\")
        before = row
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {escaped(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def _latex_cell(entry: Entry | str | None) -> str:
    if entry is None or isinstance(entry, str):
        return escaped(entry or "")
    if entry.ours is None:
        said = "--"
    else:
        mean = f"{entry.ours.mean:{_form(entry)}}"
        mean = rf"\mathbf{{{mean}}}" if entry.best else mean
        spread = not math.isnan(entry.ours.std) and entry.ours.seeds > 1
        star = "^{*}" if entry.contrast is not None and entry.contrast.significant else ""
        said = f"${mean}{star}" + (rf"_{{\pm {entry.ours.std:.{entry.digits}f}}}" if spread else "") + "$"
    return said + (rf" {{\scriptsize [${entry.paper[0]:{_form(entry)}}$]}}" if entry.paper is not None else "")


# -------------------------------------------------------------------- CSV


KEYS = ("model", "benchmark", "noise", "pool", "regime", "steps", "rate", "method", "against", "annotator", "quantity")
FIGURES = ("mean", "std", "seeds", "of_seeds", "paper_mean", "paper_std", "difference")
TESTS = ("p_seeds", "ahead", "behind", "low_items", "high_items", "p_items")


def comma_separated(table: Table) -> str:
    """One line per figure: what it is, ours, the paper's, the difference, and for differences their tests."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    keys = list(dict.fromkeys([*KEYS, *(name for entry in table.entries for name in entry.key)]))
    writer.writerow([*keys, *FIGURES, *TESTS])
    for entry in table.entries:
        ours, paper, tested = entry.ours, entry.paper or (None, None), entry.contrast
        figures = (
            [None, None, 0] if ours is None else [ours.mean, None if math.isnan(ours.std) else ours.std, ours.seeds]
        )
        tests = [None] * len(TESTS)
        if tested is not None:
            percent = [None if value is None else 100 * value for value in (tested.low, tested.high)]
            tests = [tested.p_seeds, tested.ahead, tested.behind, *percent, tested.p_items]  # type: ignore[list-item]
        row = [*(entry.key.get(name) for name in keys), *figures, entry.seeds, *paper, entry.difference, *tests]
        writer.writerow(
            ["" if value is None else f"{value:.6g}" if isinstance(value, float) else value for value in row]
        )
    return out.getvalue()
