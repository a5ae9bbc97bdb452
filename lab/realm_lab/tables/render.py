"""Tables as Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from itertools import groupby

from realm.comparison.significance import LEVEL
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
    names = [*table.stub, *(f"{column.group}{SEPARATOR}{column.name}".strip(SEPARATOR) for column in table.columns)]
    lines = [f"**{_escape_pipes(table.title)}**", "", _line([_escape_pipes(name) for name in names])]
    lines.append(_line(["---"] * len(table.stub) + ["---:"] * len(table.columns)))
    for row in table.rows:
        lines.append(_line([_escape_pipes(text) for text in (*row.labels, *map(_markdown_entry, row.entries))]))
    if table.has_paper:
        lines += ["", "In brackets: the paper's figure, and ours minus the paper's."]
    if any(entry.contrast is not None and entry.contrast.significant for entry in table.entries):
        lines += ["", f"\\*: p < {LEVEL:g}, paired t-test over seeds."]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _escape_pipes(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|")


def _markdown_entry(entry: Entry | str | None) -> str:
    """Mean, spread, a star where a difference is significant over seeds, how many seeds, and the paper's figure."""
    if entry is None or isinstance(entry, str):
        return entry or ""
    text = "missing"
    if entry.summary is not None:
        text = _number(entry.summary.mean, entry)
        text += f" ±{entry.summary.std:.{entry.digits}f}" if _has_spread(entry) else ""
        text += "*" if entry.contrast is not None and entry.contrast.significant else ""
        text += f" ({entry.summary.seeds} of {entry.seeds} seeds)" if entry.partial else ""
    text = f"**{text}**" if entry.best else text
    if entry.paper is not None:
        difference = "" if entry.difference is None else f", {entry.difference:+.{entry.digits}f}"
        text += f" [{_number(entry.paper[0], entry)}{difference}]"
    return text


def _number(value: float, entry: Entry) -> str:
    return f"{value:{'+' if entry.signed else ''}.{entry.digits}f}"


def _has_spread(entry: Entry) -> bool:
    return entry.summary is not None and not math.isnan(entry.summary.std) and entry.summary.seeds > 1


# -------------------------------------------------------------------- LaTeX


def latex(table: Table) -> str:
    """A `table` environment for booktabs, with groups of columns under one head."""
    groups = [(name, len(list(columns))) for name, columns in groupby(table.columns, key=lambda column: column.group)]
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escape_latex(table.title)}}}",
        rf"\begin{{tabular}}{{{'l' * len(table.stub)}{'r' * len(table.columns)}}}",
        r"\toprule",
    ]
    if any(name for name, _ in groups):
        tops = [
            rf"\multicolumn{{{size}}}{{c}}{{{escape_latex(name)}}}" if name else " & ".join([""] * size)
            for name, size in groups
        ]
        lines.append(" & ".join([""] * len(table.stub) + tops) + r" \\")
    names = (*table.stub, *(column.name for column in table.columns))
    lines += [" & ".join(map(escape_latex, names)) + r" \\", r"\midrule"]
    previous: Row | None = None
    for row in table.rows:
        if previous is not None and (row.average or previous.average):
            lines.append(r"\midrule")
        lines.append(" & ".join([*map(escape_latex, row.labels), *map(_latex_entry, row.entries)]) + r" \\")
        previous = row
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {escape_latex(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(LATEX.get(letter, letter) for letter in text)


def _latex_entry(entry: Entry | str | None) -> str:
    if entry is None or isinstance(entry, str):
        return escape_latex(entry or "")
    text = "--"
    if entry.summary is not None:
        mean = _number(entry.summary.mean, entry)
        mean = rf"\mathbf{{{mean}}}" if entry.best else mean
        star = "^{*}" if entry.contrast is not None and entry.contrast.significant else ""
        spread = rf"_{{\pm {entry.summary.std:.{entry.digits}f}}}" if _has_spread(entry) else ""
        text = f"${mean}{star}{spread}$"
    return text + (rf" {{\scriptsize [${_number(entry.paper[0], entry)}$]}}" if entry.paper is not None else "")


# -------------------------------------------------------------------- CSV


KEYS = ("model", "benchmark", "noise", "pool", "regime", "steps", "rate", "method", "against", "annotator", "quantity")
FIGURES = ("mean", "std", "seeds", "of_seeds", "paper_mean", "paper_std", "difference")
TESTS = ("p_seeds", "ahead", "behind", "low_items", "high_items", "p_items")


def comma_separated(table: Table) -> str:
    """One line per figure: what it is, ours, the paper's, the difference, and for differences their tests."""
    keys = list(dict.fromkeys([*KEYS, *(name for entry in table.entries for name in entry.key)]))
    file = io.StringIO()
    writer = csv.DictWriter(file, [*keys, *FIGURES, *TESTS], lineterminator="\n")
    writer.writeheader()
    for entry in table.entries:
        row = {**entry.key, "seeds": 0, "of_seeds": entry.seeds, "difference": entry.difference}
        row["paper_mean"], row["paper_std"] = entry.paper or (None, None)
        if entry.summary is not None:
            std = None if math.isnan(entry.summary.std) else entry.summary.std
            row |= {"mean": entry.summary.mean, "std": std, "seeds": entry.summary.seeds}
        if (test := entry.contrast) is not None:
            row |= {"p_seeds": test.p_seeds, "ahead": test.ahead, "behind": test.behind, "p_items": test.p_items}
            bounds = {"low_items": test.low, "high_items": test.high}
            row |= {name: None if value is None else 100 * value for name, value in bounds.items()}
        writer.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()})
    return file.getvalue()
