"""A run, or a table alone, as one self-contained HTML file: sections put together for the template `run.html`."""

from __future__ import annotations

from pathlib import Path

from realm.check import examine
from realm.crowd.against_gold import AgainstGold, gold_sentences
from realm.data import Annotations
from realm.display import counted
from realm.methods import METHODS
from realm.report import annotators, items
from realm.report.evaluation import curves, evaluation
from realm.report.html import NAME, fill, write_page
from realm.report.pseudonyms import pseudonymised
from realm.report.run_data import RunData, read_run, read_table
from realm.report.summary import Summary
from realm.runs import Run

SECTIONS = {
    "summary": "Labels",
    "annotators-section": "Annotators",
    "unclear": "Unclear",
    "disputed": "Disputed",
    "check": "Check",
    "test": "Test",
    "training": "Model",
    "limits": "Limits",
    "making": "How it was made",
}
"""The sections by id, in the order of a manager's questions, and what the bar at the top calls them."""
SHORTEST = 3
"""Names of one or two characters turn up in texts by chance."""


def write_report(
    run: Run | str | Path,
    *,
    output: Path | None = None,
    pseudonymise: bool = False,
    title: str = "",
    against_gold: AgainstGold | None = None,
) -> Path:
    """Write the report of a run as one HTML file, whole or not at all; RUN/report.html where no output is named.

    `against_gold` is how its labels did against gold that the run has not read, where the table at hand has any.
    """
    data = read_run(run, against_gold)
    folder = run.folder if isinstance(run, Run) else Path(run)
    path = Path(output) if output is not None else folder / NAME
    write_page(path, render(data, pseudonymise=pseudonymise, title=title))
    return path


def write_table_report(
    annotations: Annotations,
    file: str | Path,
    *,
    output: Path | None = None,
    pseudonymise: bool = False,
    title: str = "",
    use_gold: bool = False,
) -> Path:
    """Write the report of a table of annotations, without any model: what `realm check` finds, and agreement alone.

    `file` is where the table came from, for the page and for the name of the output: NAME.report.html here.
    """
    file = Path(file)
    path = Path(output) if output is not None else Path(table_report_name(file))
    data = read_table(annotations, file, use_gold=use_gold)
    write_page(path, render(data, pseudonymise=pseudonymise, title=title))
    return path


def table_report_name(file: Path) -> str:
    """`labels.csv` and `labels.csv.gz` get `labels.report.html`."""
    return f"{file.name.split('.')[0] or file.name}.{NAME}"


def render(data: RunData, *, pseudonymise: bool = False, title: str = "") -> str:
    """The page of a run, or of a table alone. `title` is its heading; by default the name of the table or run."""
    names = data.annotations.annotators
    if pseudonymise:
        data = pseudonymised(data)
    table, settling = annotators.AnnotatorTable(data), items.Settling(data)
    apart, n_apart = items.disagreements(data)
    summary = Summary(data)
    warnings = [str(text) for name in ("notes", "warnings") for text in data.metrics.get(name, [])]
    warnings = [text for text in warnings if text != summary.undertrained]
    if pseudonymise:
        shown = [data.annotations.texts[item].as_py() or "" for item in table.shown_items]
        shown += [one[part] for one in (*apart, *settling.items) for part in ("id", "text", "context")]
        n = sum(len(name) >= SHORTEST and any(name in text for text in shown) for name in names)
        if n:
            occur = "occurs" if n == 1 else "occur"
            warnings.append(f"{counted(n, 'annotator name')} also {occur} in the items' own texts or ids, as they are.")
    heading = title or data.file or data.name
    test = evaluation(data.metrics.get("test"))
    findings = [] if data.has_model else examine(data.annotations, screens=data.screens).findings
    context = {
        "data": data,
        "heading": heading,
        "summary": summary,
        "gold": data.against_gold,
        "gold_sentences": [] if data.against_gold is None else gold_sentences(data.against_gold),
        "rankings": annotators.rankings(data),
        "table": table,
        "heat": annotators.heat_map(data),
        "time_charts": annotators.changes_over_time(data),
        "settling": settling,
        "apart": apart,
        "n_apart": n_apart,
        "findings": findings,
        "dropped": list(data.annotations.ledger.counts.items()),
        "test": test,
        "curves": curves(data.metrics),
        "method": METHODS.get(str(data.settings.get("method", "realm"))),
        "warnings": warnings,
        "settings": [(key, str(value)) for key, value in sorted(data.settings.items())],
        "show_ids": "item" in (data.config.get("columns") or data.annotations.columns or {"item": ""}),
    }
    absent = {"check": findings, "test": test, "training": data.has_model}
    sections = [(id, name) for id, name in SECTIONS.items() if absent.get(id, True)]
    return fill("run.html", f"{heading} · annotator report", sections, context)
