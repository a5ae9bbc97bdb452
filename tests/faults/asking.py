"""Odd inputs for the commands that ask a finished run, each with what must come of it.

A try asks one of two runs: of plain texts, or of hypotheses whose context is in the column `text`. A table that loses
nothing must come back row by row with its own columns and with the answers that the model card's snippet gives in plain
transformers; one that loses something must be refused. The same seed gives the same tries.

    python -m tests.faults.asking --tries 500
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.odd_inputs import LOSSLESS, PACKED_ANNOTATOR, TEXTS, WRONG_BYTES, Row, as_csv, pick
from tests.faults.outcomes import Tally, judged, run_command, show, try_cases

PREMISES = ("the old boat", "a small bird, near", 'she said "no"', "=2+2", "a house\nunder a tree", "עברית")
LONG = 300
"""Characters of a text that may be shortened to fit: the snippet, which shortens nothing, is not asked about it."""
CLOSE = 1e-4
"""How far the probabilities of a batch may lie from those of one item alone."""
ROLES = {"plain": {"text": "text"}, "pairs": {"text": "hypothesis", "context": "text"}}
"""The columns that the two runs were trained on."""


@dataclass(frozen=True)
class AskedRun:
    """A run, and the answers of its model card."""

    name: str
    folder: Path

    @functools.cached_property
    def snippet(self) -> dict[str, Any]:
        card = (self.folder / "model" / "README.md").read_text(encoding="utf-8")
        code = card.split("```python\n")[1].split("```")[0]
        names: dict[str, Any] = {}
        exec(code.replace('folder = "."', f"folder = {str(self.folder / 'model')!r}"), names)
        return names

    @functools.cached_property
    def shares_of(self) -> Callable[[str, str | None], dict[str, float]]:
        return functools.cache(lambda text, context: self.snippet["probabilities"](text, context=context))

    @functools.cached_property
    def labels(self) -> list[Row]:
        """The cleaned labels, from the machine files of the run."""
        from realm.runs import Run

        return list(Run.open(self.folder).labels.to_dict("records"))

    @property
    def columns(self) -> dict[str, str]:
        return ROLES[self.name]


def train_runs(folder: Path) -> dict[str, AskedRun]:
    """The two runs: an encoder on texts alone, a decoder on texts with contexts."""
    from tests.tiny import crowd, save_tiny

    table = crowd(24, (0.9, 0.8, 0.7), per_item=2).to_pandas().drop(columns=["gold", "task"])
    table.drop(columns="item").to_csv(folder / "plain.csv", index=False)
    premises = [PREMISES[int(item[1:]) % len(PREMISES)] for item in table["item"]]
    table.rename(columns={"text": "hypothesis"}).assign(text=premises).to_csv(folder / "pairs.csv", index=False)
    runs = {}
    for name, kind in (("plain", "bert"), ("pairs", "causal")):
        words = ["train", str(folder / f"{name}.csv"), "--model", save_tiny(folder / f"{name}-model", kind)]
        words += ["--output", str(folder / name), "--steps", "2", "--max-length", "128", "--seed", "1"]
        if name == "pairs":
            words += ["--text", "hypothesis", "--context", "text"]
        code, _, error = run_command(words)
        assert code == 0, error
        runs[name] = AskedRun(name, folder / name)
    return runs


# ---------------------------------------------------------------- tries


@dataclass
class Case:
    """The words of a command and what must come of it."""

    name: str
    words: list[str]
    run: AskedRun
    refuse: bool = False
    rows: list[Row] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    output: Path | None = None
    budget: float = 0.0
    asked: frozenset[str] | None = None


def known_rows(run: AskedRun, columns: dict[str, str], generator: random.Random) -> list[Row]:
    """Rows to answer: texts come again, under one context or another, and gold is the same wherever they do."""
    labels = list(run.snippet["labels"])
    texts = generator.sample(TEXTS, generator.randint(2, 6))
    rows = []
    for number in range(generator.randint(3, 12)):
        text = generator.choice(texts)
        row: Row = {columns["text"]: text}
        if "context" in columns:
            row[columns["context"]] = generator.choice(PREMISES[:3])
        place = sum(map(ord, "".join(row.values()))) % len(labels)
        rows.append(row | {"gold": labels[place], "nr": f"n{number % 3}"})
    if generator.random() < 0.4:
        rows = [row | {"label": f"mine {number}", "confidence": "low"} for number, row in enumerate(rows)]
    if generator.random() < 0.3:
        rows = [{"": "x", **row, "=note": f"-{number}"} for number, row in enumerate(rows)]
    return rows


def _put(name: str, value: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [*rows[:-1], {**rows[-1], name: value}]


def _without(name: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [{key: value for key, value in row.items() if key != name} for row in rows]


def wrong_tables(command: str, columns: dict[str, str]) -> dict[str, Callable[[list[Row]], list[Row]]]:
    tables = {f"no {role}": _without(name) for role, name in columns.items()}
    tables["a blank text"] = _put(columns["text"], "  ")
    if command == "evaluate":
        tables |= {
            "no gold": _without("gold"),
            "gold of no label": _put("gold", "never heard of"),
            "gold that is blank throughout": lambda rows: [{**row, "gold": ""} for row in rows],
        }
    return tables


SEVERAL_TABLES = {"zip of two halves", "zip of a table in two forms"}
"""Read as one where annotations are; `predict` refuses them, because its answers stand beside the rows of one table."""
READABLE = ("a column twice", PACKED_ANNOTATOR)
"""Odd bytes in which only columns of annotations are wrong, which are not read here."""
WRONG_FLAGS: dict[str, tuple[str, ...]] = {
    "a text that is not there": ("--text", "nosuch"),
    "a context that is not there": ("--context", "nosuch"),
    "an annotator, which is not read": ("--annotator", "nr"),
    "a weight, which is not read": ("--weight", "nr"),
    "a format that is none": ("--format", "nosuch"),
    "another tool's format": ("--format", "prodigy"),
    "gigabytes that are none": ("--max-unpacked-gb", "nan"),
    "a flag that is none": ("--nosuch",),
    "a config that is not there": ("--config", "nosuch.yaml"),
}
WRONG_COSTS: dict[str, bytes] = {
    "costs, empty": b"",
    "costs without a price": b"annotator,price\nw0,1\n",
    "costs of nobody": b"annotator,cost\nW0 ,1\n",
    "a cost of 0": b"annotator,cost\nw0,0\n",
    "a cost that is none": b"annotator,cost\nw0,nan\n",
    "a cost without end": b"annotator,cost\nw0,inf\n",
    "a cost in words": b"annotator,cost\nw0,cheap\n",
    "two costs": b"annotator,cost\nw0,1\nw0,2\n",
    "costs in utf-16": "annotator,cost\nw0,1\n".encode("utf-16"),
    "costs, ragged": b"annotator,cost\nw0,1,2,3\nw1\n",
    "costs with an open quote": b'annotator,cost\n"w0,1\n',
    "costs of zeros": b"\x00" * 40,
}
COMMANDS = ("predict", "evaluate", "relabel", "report")


def make_case(seed: int, folder: Path, runs: dict[str, AskedRun]) -> Case:
    """The try of a seed, with its files in the folder."""
    generator = random.Random(f"asking {seed}")
    folder.mkdir(parents=True, exist_ok=True)
    command = generator.choices(COMMANDS, [8, 6, 3, 2])[0]
    run = runs[generator.choice(sorted(runs))]
    case = Case("", [command, str(run.folder)], run)
    if command in ("predict", "evaluate"):
        _asked_table(case, folder, generator)
    elif command == "relabel":
        _relabelled(case, folder, generator)
    else:
        _written_out(case, folder, generator)
    return case


def _asked_table(case: Case, folder: Path, generator: random.Random) -> None:
    command = case.words[0]
    columns, flags = dict(case.run.columns), []
    kind = generator.choices(["lossless", "table", "bytes", "flags"], [10, 3, 4, 3])[0]
    if kind == "lossless" and generator.random() < 0.3:
        columns = {role: f"my {name}" for role, name in columns.items()}
        flags = [word for role, name in columns.items() for word in (f"--{role}", name)]
    rows = known_rows(case.run, columns, generator)
    forms = set(LOSSLESS) - (SEVERAL_TABLES if command == "predict" else set())
    name, write = LOSSLESS[form := generator.choice(sorted(forms))]
    case.name = form
    if kind == "table":
        case.name, change = pick(generator, wrong_tables(command, columns))
        rows, case.refuse = change(rows), True
        if case.name == "no text" and not columns.get("context") and not rows[0]:
            rows = [{"other": "x"}]
    elif kind == "bytes":
        rows = [{**row, "a": "", "b": "", "c": ""} for row in rows]  # more cells than a row that is too long has
        case.name, (name, write) = pick(generator, {k: v for k, v in WRONG_BYTES.items() if k not in READABLE})
        case.refuse = True
    elif kind == "flags":
        case.name, words = pick(generator, WRONG_FLAGS)
        flags, case.refuse = list(words), True
    path = folder / name
    path.write_bytes(write(rows))
    case.rows, case.columns = rows, columns
    case.words += [str(path), *flags]
    if command == "evaluate":
        case.words.append("--json")
    elif generator.random() < 0.6:
        case.output = folder / generator.choice(["out.csv", "out.jsonl"])
        case.words += ["--output", str(case.output), "--raw"]
    else:
        case.words.append("--json")


def _relabelled(case: Case, folder: Path, generator: random.Random) -> None:
    budget = generator.choice([0.5, 1, 3, 7.5, 1000])
    case.budget = budget
    costs = {"w0": 1.0, "w1": generator.choice([0.25, 2.0]), "w2": 1.5}
    flags = []
    if generator.random() < 0.5:
        named = generator.sample(sorted(costs), generator.randint(1, 3))
        lines = [{"annotator": name, "cost": str(costs[name]), "note": "x"} for name in named]
        (folder / "costs.csv").write_bytes(as_csv(lines))
        flags, case.asked = ["--costs", str(folder / "costs.csv")], frozenset(named)
    if generator.random() < 0.4:
        case.refuse = True
        wrong: dict[str, Any] = {f"a budget of {text}": text for text in ("0", "-1", "nan", "much")} | WRONG_COSTS
        case.name, value = pick(generator, wrong)
        if isinstance(value, bytes):
            (folder / "wrong.csv").write_bytes(value)
            flags = ["--costs", str(folder / "wrong.csv")]
        else:
            budget = value
    case.name = case.name or "a queue"
    case.output = folder / "again.csv"
    case.words += ["--budget", str(budget), *flags, "--output", str(case.output), "--raw"]


def _written_out(case: Case, folder: Path, generator: random.Random) -> None:
    command = case.words[0]
    case.output = folder / "out.html"
    flags: list[str] = ["--output", str(case.output)]
    if generator.random() < 0.5:
        flags.append("--pseudonymise")
    if generator.random() < 0.4:
        case.refuse = True
        (folder / "there.csv").write_text("mine\n")
        wrong = {
            "a file that is there": ["--output", str(folder / "there.csv")],
            "a folder for an output": ["--output", str(folder)],
            "the run's own file": ["--output", str(case.run.folder / "expertise.csv"), "--overwrite"],
            "a file of the model": ["--output", str(case.run.folder / "model" / "x.csv")],
            "a flag that is none": ["--nosuch"],
        }
        case.name, flags = pick(generator, wrong)
    case.name = case.name or command
    case.words += flags


# ---------------------------------------------------------------- judging


def judge(case: Case, code: int, out: str, error: str) -> tuple[str, str]:
    """The outcome of a try, and what is wrong with it where it is a bad one."""
    return judged(
        code, out, error, output=case.output, refuse=case.refuse, complaint=functools.partial(_complaint, case, out)
    )


def _complaint(case: Case, out: str) -> str | None:
    check = {"predict": _predicted, "evaluate": _evaluated, "relabel": _queued}.get(case.words[0], _exported)
    try:
        return check(case, out)
    except (LookupError, ValueError) as failure:
        return f"what came out cannot be read: {failure!r}"


def _records(path: Path) -> list[Row]:
    """The rows of a file that a command wrote, read by nothing of ours."""
    if path.suffix == ".csv":
        csv.field_size_limit(10_000_000)
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    text = path.read_text(encoding="utf-8")
    return list(json.loads(text)) if path.suffix == ".json" else [json.loads(line) for line in text.split("\n") if line]


def _expected(case: Case, row: Row) -> dict[str, float] | None:
    """The probabilities by the model card's snippet; None where the text may have been shortened."""
    text, context = row[case.columns["text"]], row.get(case.columns.get("context", ""), None)
    return None if len(text) > LONG else case.run.shares_of(text, context)


def _differs(shares: dict[str, float], expected: dict[str, float] | None) -> bool:
    if expected is None:
        return abs(sum(shares.values()) - 1) > CLOSE
    return shares.keys() != expected.keys() or any(abs(shares[k] - expected[k]) > CLOSE for k in shares)


def _predicted(case: Case, out: str) -> str:
    rows = _records(case.output) if case.output else [json.loads(line) for line in out.split("\n") if line]
    if len(rows) != len(case.rows):
        return f"{len(rows)} rows in place of {len(case.rows)}"
    own = {name: "predicted_" * (name in case.rows[0]) + name for name in ("label", "confidence", "probabilities")}
    answers: dict[tuple[str, str], Any] = {}
    for row, before in zip(rows, case.rows, strict=True):
        if any(row.get(name) != value for name, value in before.items()):
            return f"the row {before} came back as {row}"
        if set(row) != {*before, *own.values()}:
            return f"columns {sorted(row)} of {sorted(before)}"
        shares = row[own["probabilities"]]
        shares = json.loads(shares) if isinstance(shares, str) else shares
        if _differs(shares, _expected(case, before)):
            return f"{before}: {shares} in place of {_expected(case, before)}"
        if shares[row[own["label"]]] < max(shares.values()):
            return f"{row[own['label']]} is not the most probable of {shares}"
        key = tuple(before[name] for name in case.columns.values())
        if answers.setdefault(key, shares) != shares:  # type: ignore[arg-type]
            return f"{key} was answered in two ways"
    return ""


def _evaluated(case: Case, out: str) -> str:
    figures = json.loads(out)
    gold = {tuple(row[name] for name in case.columns.values()): row for row in case.rows}
    if figures["items"] != len(gold):
        return f"{figures['items']} items in place of {len(gold)}"
    right, sure = 0, True
    for row in gold.values():
        shares = _expected(case, row)
        if shares is None:
            sure = False
            continue
        first, second = sorted(shares.values())[-1:-3:-1]
        sure &= first - second > 2 * CLOSE
        right += max(shares, key=lambda label: shares[label]) == row["gold"]
    if sure and abs(figures["accuracy"] - right / len(gold)) > 1e-9:
        return f"accuracy {figures['accuracy']} in place of {right / len(gold)}"
    return ""


def _queued(case: Case, out: str) -> str:
    assert case.output is not None
    rows = _records(case.output)
    studio = case.output.suffix == ".json"
    entries = [row["data"] | row["meta"] if studio else row for row in rows]
    by_id = {row["item"]: row for row in case.run.labels}
    for entry in entries:
        label = by_id[entry["item"]]
        if any(entry.get(name) != label[name] for name in ("text", "context") if name in label):
            return f"{entry} is not {label}"
        if case.asked is not None and entry["ask"] not in case.asked:
            return f"{entry['ask']} is asked, who has no price"
    if not studio and sum(float(row["cost"]) for row in rows) > case.budget * (1 + 1e-9):
        return f"more than {case.budget} was spent"
    repeated = [item for item, count in Counter(entry["item"] for entry in entries).items() if count > 1]
    return f"{repeated[0]} is listed twice" if repeated else ""


def _exported(case: Case, out: str) -> str:
    assert case.output is not None
    labels = case.run.labels
    if case.words[0] == "report":
        page = case.output.read_text(encoding="utf-8")
        return "" if page.lower().startswith("<!doctype html") and f"{len(labels)} items" in page else "no report"
    rows = _records(case.output)
    if len(rows) != len(labels):
        return f"{len(rows)} rows in place of {len(labels)}"
    for row, label in zip(rows, labels, strict=True):
        if case.output.suffix == ".json":
            (prediction,) = row["predictions"]
            choice = prediction["result"][0]["value"]["choices"]
            data = row["data"]
            row = {**data, "text": data[case.columns["text"]], "label": choice[0], "confidence": prediction["score"]}
        wrong = [name for name in ("item", "text", "context", "label") if name in label and row[name] != label[name]]
        if wrong or abs(float(row["confidence"]) - label["confidence"]) > 1e-6:
            return f"{row} is not {label}"
    return ""


def try_asking(numbers: Iterable[int], folder: Path, runs: dict[str, AskedRun]) -> Tally:
    """Tries of these seeds; a run must be the same, byte by byte, when all are done."""
    whole = {run.folder: _files(run.folder) for run in runs.values()}
    tally = try_cases(numbers, folder, lambda seed, place: make_case(seed, place, runs), judge)
    for run, files in whole.items():
        if _files(run) != files:
            tally.add("wrong", f"{run} was changed")
    return tally


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=500)
    parser.add_argument("--show", type=int, default=20)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = try_asking(range(flags.tries), Path(folder), train_runs(Path(folder)))
    show("finished runs asked", tally, flags.show)


if __name__ == "__main__":
    main()
