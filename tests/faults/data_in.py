"""Runs the tries over the commands and readers that data comes in through, and counts what became of them.

python -m tests.faults.data_in --odd 2000 --mutations 4000
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from tests.faults.mutations import mutate, seeds
from tests.faults.odd_inputs import judge, make_case
from tests.faults.outcomes import Tally, attempt, limit_memory, show, try_cases


def try_odd_inputs(numbers: range, folder: Path) -> Tally:
    """Odd inputs of these seeds through `check`, `import`, `aggregate` and `simulate`."""
    return try_cases(numbers, folder, make_case, judge)


def try_mutations(numbers: range, folder: Path) -> Tally:
    """Mutated exports of these seeds through every way of reading a file, and what was read through `examine`."""
    from realm.check import examine
    from realm.data import Annotations, Items, Task
    from realm.data.readers.streaming import stream_rows

    folder.mkdir(parents=True, exist_ok=True)
    tally, files = Tally(), seeds()
    tasks = (Task("default", ("x", "y")),)

    def examined(table: Annotations) -> str | None:
        if table.n_annotations:
            examine(table).as_dict()
        total = len(table.label)
        return None if total == table.n_annotations and (table.label >= 0).all() else "labels that are none"

    for seed in numbers:
        name, content = mutate(seed, files)
        path = folder / name
        path.write_bytes(content)
        flags: dict[str, Any] = {"multi": (None, "first", "drop")[seed % 3], "missing": ("error", "drop")[seed % 2]}
        story = f"seed {seed}, {name}"
        attempt(tally, story, lambda path=path, flags=flags: Annotations.read(path, **flags), examined)
        other = seed % 3
        if other == 0:
            attempt(tally, story, lambda path=path: Annotations.read_test(path))
        elif other == 1:
            attempt(tally, story, lambda path=path: Items.read(path))
        else:
            attempt(tally, story, lambda path=path: list(stream_rows(path, tasks=tasks, chunk_rows=2)))
        path.unlink()
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--odd", type=int, default=2000)
    parser.add_argument("--mutations", type=int, default=4000)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--memory-gb", type=float, default=4, help="addresses that the process may have")
    flags = parser.parse_args()
    limit_memory(flags.memory_gb)
    with tempfile.TemporaryDirectory() as folder:
        for title, tally in (
            ("odd inputs", try_odd_inputs(range(flags.odd), Path(folder))),
            ("mutated exports", try_mutations(range(flags.mutations), Path(folder) / "mutated")),
        ):
            show(title, tally, flags.show)


if __name__ == "__main__":
    main()
