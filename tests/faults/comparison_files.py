"""Mutates what `realm compare` and `realm lab run` keep, puts it through everything that reads it, and counts what
became of it.

python -m tests.faults.comparison_files --mutations 1000
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.machine_mutations import mutate_file
from tests.faults.mutations import mutate_bytes, mutate_document
from tests.faults.outcomes import Tally, limit_memory, run_command, show, working_in

NO_NUMBER = re.compile(r"(?<!\w)(nan|inf|NaN|Infinity)(?![\w-])")
"""What a figure that is none looks like on a page, in a picture or in JSON."""
VALUES: tuple[Any, ...] = (None, "", "x", -1, 2**40, 1.5, b"", b"\x00\x01", "{}", "[]", "null", '{"a": 1, "a": 2}')
"""What may stand in any column of a database."""


@dataclass(frozen=True)
class Subject:
    """A finished comparison with the command that made it, and a finished grid of the lab with its spec."""

    compared: Path
    words: tuple[str, ...]
    grid: Path
    spec: str


def make_subject(folder: Path) -> Subject:
    from tests.lab.small_benchmark import write_questions, write_spec
    from tests.tiny import crowd, save_tiny

    crowd(24, per_item=2).to_pandas().to_csv(folder / "labels.csv", index=False)
    crowd(12, seed=5).to_pandas().to_csv(folder / "test.csv", index=False)
    model = save_tiny(folder / "model", "bert", layers=1, width=16)
    words = ("compare", str(folder / "labels.csv"), "--test", str(folder / "test.csv"), "--model", model)
    words += ("--steps", "2", "--batch-size", "8", "--methods", "noisy,realm", "--seeds", "1")
    words += ("--channel", "uniform", "--expertise-update", "gradient", "--expertise-rates", "0.1,0.5")
    words += ("--learning-rates", "0.001,0.01", "--output")
    write_questions(folder / "data", train=12, test=12)
    grid = {"method": ["noisy", "realm"], "steps": 2}
    model = save_tiny(folder / "t5", "seq2seq", layers=1, width=16)
    spec = str(write_spec(folder / "tiny.yaml", model, grid, curve=1, table="noise-types"))
    subject = Subject(folder / "compared", words, folder / "lab.sqlite", spec)
    lab = ["lab", "run", spec, "--data", str(folder / "data"), "--results", str(subject.grid)]
    for line in ([*words, str(subject.compared)], lab):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code, _, error = run_command(line)
        assert code == 0, error
    return subject


def mutate_database(path: Path, generator: random.Random) -> str:
    """Change a results file in place: a value of a cell, in its structure or as a whole, or bytes of the file."""
    if generator.random() < 0.25:
        path.write_bytes(mutate_bytes(path.read_bytes(), generator))
        return f"{path.name} by its bytes"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.row_factory = sqlite3.Row
        row = generator.choice(connection.execute("SELECT * FROM cells ORDER BY id").fetchall())
        name = generator.choice(row.keys())
        value = _mutated(row[name], generator)
        with contextlib.suppress(sqlite3.IntegrityError):  # a null, which the file itself refuses
            connection.execute(f"UPDATE cells SET {name} = ? WHERE id = ?", [value, row["id"]])
    return f"{name} of a cell"


def _mutated(value: Any, generator: random.Random) -> Any:
    if isinstance(value, str) and value[:1] in "{[" and generator.random() < 0.8:
        box = [json.loads(value)]
        mutate_document(box, generator)
        return json.dumps(box[0] if box else None)
    if isinstance(value, bytes) and value and generator.random() < 0.8:
        place = generator.randrange(len(value))
        return value[:place] + bytes([generator.randrange(256)]) * generator.randint(0, 8) + value[place + 1 :]
    return generator.choice(VALUES)


def try_comparisons(numbers: range, folder: Path, subject: Subject) -> Tally:
    """One file mutated for each seed, through one way of reading it: read or refused, and no figure that is no number.

    Nothing says what the file was before, so that another number in its place may be read.
    """
    tally = Tally()
    folder.mkdir(parents=True, exist_ok=True)
    for seed in numbers:
        with working_in(folder / str(seed)) as place:
            generator = random.Random(seed)
            way = generator.choice(("report", "compare", "compare", "table", "plot"))
            outputs = [place / "page.html"]
            if way in ("report", "compare"):
                compared = Path(shutil.copytree(subject.compared, place / "compared"))
            if way == "report":
                story = mutate_file(compared / "results.json", generator).story
                words = ["report", str(compared), "--output", str(outputs[0])]
            elif way == "compare":
                story = mutate_database(compared / "results.sqlite", generator)
                outputs = [compared / "results.json", compared / "report.html"]
                for output in outputs:
                    output.unlink()
                words = [*subject.words, str(compared)]
            else:
                results = Path(shutil.copy(subject.grid, place / "lab.sqlite"))
                story = mutate_database(results, generator)
                words = ["lab", way, subject.spec, "--results", str(results)]
                words += ["--output", str(place / "plots")] if way == "plot" else []
            outcome, complaint = _judged(*run_command(words), outputs, place / "plots")
            tally.add(outcome, f"seed {seed}, {story}: {way}: {complaint}")
    return tally


def _judged(code: int, out: str, error: str, outputs: list[Path], plots: Path) -> tuple[str, str]:
    if code == -1:
        return "hang", ""
    if code not in (0, 2) or "Traceback" in out + error:
        return "traceback", error[-900:]
    written = [path for path in (*outputs, *plots.glob("*")) if path.is_file()]
    if code == 2:
        if not error.strip():
            return "traceback", "refused without a word"
        return ("wrong", f"refused, and wrote {written}") if written else ("refused", error)
    texts = [out, *(path.read_text() for path in written)]
    if match := next((match for text in texts if (match := NO_NUMBER.search(text))), None):
        return "wrong", f"a figure that is no number: ...{match.string[max(match.start() - 80, 0) : match.end() + 40]}"
    return "read", ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--memory-gb", type=float, default=8, help="addresses that the process may have")
    flags = parser.parse_args()
    limit_memory(flags.memory_gb)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as folder:
        subject = make_subject(Path(folder))
        numbers = range(flags.first, flags.first + flags.mutations)
        show("mutated comparisons", try_comparisons(numbers, Path(folder) / "tries", subject), flags.show)


if __name__ == "__main__":
    main()
