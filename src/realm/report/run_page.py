"""A run, or a table alone, as one self-contained HTML file: sections put together for the template `run.html`."""

from __future__ import annotations

from pathlib import Path

from realm.check import examine
from realm.crowd.against_gold import AgainstGold, gold_sentences
from realm.data import Annotations
from realm.display import counted
from realm.methods import METHODS
from realm.report import annotators, items, model, summary
from realm.report.disputes import Disputes
from realm.report.evaluation import evaluation
from realm.report.html import NAME, fill, write_page
from realm.report.pseudonyms import names_in_texts, pseudonymised
from realm.report.run_data import RunData, read_run, read_table
from realm.runs import Run

SECTIONS = {
    "summary": "Labels", "annotators-section": "Annotators", "unclear": "Unclear", "disputed": "Disputed",
    "check": "Check", "test": "Test", "training": "Model", "limits": "Limits",
    "making": "How it was made",
}  # fmt: skip
"""The sections by id, in the order of a manager's questions, and what the bar at the top calls them."""


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
    apart = items.disagreements(data)
    warnings = [str(text) for name in ("notes", "warnings") for text in data.metrics.get(name, [])]
    first_screen = summary.Summary(data)
    warnings = [text for text in warnings if text != first_screen.undertrained]
    if pseudonymise:
        texts = [data.annotations.texts[item].as_py() or "" for item in table.shown_items]
        if n := names_in_texts(names, [*apart.items, *settling.items.items], texts):
            warnings.append(
                f"{counted(n, 'annotator name')} also occur{'s' * (n == 1)} in the items' own texts or ids, "
                "which are shown as they are."
            )
    heading = title or data.file or data.name
    test = evaluation(data.metrics.get("test"))
    findings = [] if data.has_model else examine(data.annotations, screens=data.screens).findings
    context = {
        "data": data,
        "heading": heading,
        "facts": _facts(data, heading),
        "summary": first_screen,
        "gold": data.against_gold,
        "gold_sentences": [] if data.against_gold is None else gold_sentences(data.against_gold),
        "rankings": annotators.rankings(data),
        "table": table,
        "heat": annotators.heat_map(data),
        "time": annotators.over_time(data),
        "settling": settling,
        "disputes": Disputes(data),
        "apart": apart,
        "findings": findings,
        "dropped": list(data.annotations.ledger.counts.items()),
        "test": test,
        "calibration": model.calibration(data),
        "curves": model.curves(data) if data.has_model else [],
        "making": making(data),
        "warnings": warnings,
        "settings": [(key, str(value)) for key, value in sorted(data.settings.items())],
        "show_ids": "item" in (data.config.get("columns") or data.annotations.columns or {"item": ""}),
    }
    absent = {"check": findings, "test": test, "training": data.has_model}
    sections = [(id, name) for id, name in SECTIONS.items() if absent.get(id, True)]
    return fill("run.html", f"{heading} · annotator report", sections, context)


def _facts(data: RunData, heading: str) -> list[str]:
    """What the report is about, under its heading: the table, the run, the model and the day."""
    facts = [data.file, f"run {data.name}" if data.has_model else "no model trained"]
    if data.has_model and data.config.get("model"):
        facts.append(f"model {data.config['model']}")
    return [fact for fact in (*facts, data.date) if fact and fact != heading]


def making(data: RunData) -> list[tuple[str, str]]:
    """How the run was made: terms and values, the essential ones; all settings stand below them."""
    settings, config, scorer = data.settings, data.config, data.scorer_settings
    method = METHODS.get(str(settings.get("method", "realm")))
    told = settings.get("method", "realm") if method is None else f"{method.name} ({method.description})"
    answers = scorer.get("style", {}).get("answers")  # a classifier has no answer tokens
    steps, temperature = data.metrics.get("steps"), data.metrics.get("temperature")
    epochs, versions = settings.get("num_train_epochs"), {"realm": config.get("realm"), **config.get("versions", {})}
    rows = {
        "Report of": " · ".join(part for part in (data.name, data.date) if part),
        "Table": data.file,
        "Method": told if data.has_model else "agreement between annotators; no model was trained",
        "Model": config.get("model"),
        "Asked as": ", ".join(str(part) for part in (scorer.get("kind"), answers) if part),
        "Training": f"{steps} steps, {epochs:g} epochs" if epochs and steps else "",
        "Seed": settings.get("seed"),
        "Gold labels": "used: where it is known it decides"
        if data.gold_used
        else "not used: neither training nor these estimates have seen a true label",
        "Probabilities": data.probabilities,
        "Temperature": f"{temperature:.2f}: the model's probabilities were softened to fit the annotations"
        if temperature not in (None, 1)
        else "",
        "Taken as experts": ", ".join(map(str, settings.get("experts") or [])),
        "Carried in": "an earlier estimate of expertise" if config.get("prior") else "",
        "Data": f"fingerprint {config.get('data', {}).get('fingerprint', 'not recorded')}",
        "Versions": ", ".join(f"{name} {number}" for name, number in versions.items() if number),
    }
    return [(term, str(value)) for term, value in rows.items() if value not in (None, "")]
