"""Tables of counts: in how many configurations REALM is better, and in how many that is significant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from realm.comparison import Summary, Wins, count_wins
from realm.lab.cells import JOINED
from realm.lab.spec_results import SpecResults
from realm.lab.tables.contrasts import BASELINE, Compared, configurations, contrasts, wins_said
from realm.lab.tables.layouts import shown
from realm.lab.tables.published import Published
from realm.lab.tables.table import Column, Entry, Row, Table

COUNTED = ("significance", "wins")
"""Tables of counts by the name a spec gives as `table`."""
EVEN = ("goemotions",)
"""Real annotators of even quality, whom the paper leaves out of its counts."""
OTHER = "app:significance"
"""Where the paper gives its counts by model size and over all."""


def significance_table(title: str, made: Sequence[Compared], published: Published) -> Table:
    """Outcomes of the paired t-test over seeds, by benchmark and by model."""
    by_model = Published(OTHER if len(published) else None)
    columns = tuple(Column("", name) for name in ("configurations", "REALM better", "no sig. diff.", "Noisy better"))
    quantities = ("configurations", "significant-wins", "not-significant", "significant-losses")
    rows = []
    for field, label in (("benchmark", "Dataset"), ("model", "Model")):
        for value in dict.fromkeys(one.fields[field] for one in made):
            of_value = _counted(made, lambda fields, f=field, v=value: fields[f] == v)  # type: ignore[misc]
            source = published if field == "benchmark" else by_model
            figures = (of_value.configurations, of_value.better, of_value.undecided, of_value.worse)
            named = quantities if field == "benchmark" else ("configurations-per-model", *quantities[1:])
            entries = [
                _count(figure, name, source, **{field: value}) for name, figure in zip(named, figures, strict=True)
            ]
            rows.append(Row((label, shown(value)), tuple(entries)))
    every = count_wins(one.contrast for one in made)
    totals = (every.configurations, every.better, every.undecided, every.worse)
    rows.append(
        Row(
            ("All", ""),
            tuple(_count(n, name, published, benchmark="all") for name, n in zip(quantities, totals, strict=True)),
            average=True,
        )
    )
    decided = every.better + every.worse
    notes = [f"In {every.unanimous} of the {decided} significant configurations the winner is ahead on every seed."]
    theirs = [by_model.figure("realm", name) for name in ("ahead-on-every-seed", "significant")]
    if theirs[0] is not None and theirs[1] is not None:
        notes[0] += f" In the paper: {theirs[0][0]:.0f} of {theirs[1][0]:.0f}."
    return Table(title, ("", ""), columns, tuple(rows), notes)


def wins_table(title: str, made: Sequence[Compared], published: Published) -> Table:
    """Outright wins by mean accuracy, over single-task and multi-task configurations."""
    groups: list[tuple[str, Callable[[Any], bool]]] = [
        ("single task", lambda fields: JOINED not in fields["benchmark"]),
        ("several tasks", lambda fields: JOINED in fields["benchmark"]),
    ]
    for noise in dict.fromkeys(one.fields["noise"] for one in made):
        groups.append((f"{noise} noise", lambda fields, n=noise: fields["noise"] == n))  # type: ignore[misc]
    groups.append(("All", lambda fields: True))
    columns = tuple(Column("", name) for name in ("configurations", "ahead", "behind", "mean difference"))
    rows = []
    for name, within in groups:
        chosen = [one for one in made if within(one.fields)]
        if not chosen:
            continue
        wins = count_wins(one.contrast for one in chosen)
        last = name == "All"
        mean = 100 * sum(one.contrast.delta for one in chosen) / len(chosen)
        delta = published.figure("realm", "average-delta") if last else None
        delta = published.figure("realm", "single-task-average-delta") if name == "single task" else delta
        entries: tuple[Entry | str | None, ...] = (
            _count(wins.configurations, "configurations", published) if last else str(wins.configurations),
            _count(wins.ahead, "wins", published) if last else str(wins.ahead),
            str(wins.behind),
            Entry({"quantity": "delta", "group": name}, Summary(mean, float("nan"), 1), 1, delta, 1, signed=True),
        )
        rows.append(Row((name,), entries, average=last))
    exceptions = ", ".join(_named(one) for one in made if one.contrast.delta < 0)
    notes = [f"Behind in: {exceptions}."] if exceptions else []
    return Table(title, ("Configurations",), columns, tuple(rows), notes)


def real_table(main: Table, published: Published) -> Table | None:
    """How often and by how much REALM is ahead of the best baseline in a table of real annotators."""
    deltas = [e for e in main.entries if e.key["quantity"] == "delta" and e.key["benchmark"] not in EVEN]
    if not deltas:
        return None
    gains = [entry.ours.mean for entry in deltas if entry.ours is not None]
    ahead = _count(sum(gain > 0 for gain in gains), "real-wins", published)
    figures = {"real-average-delta": sum(gains) / len(gains), "real-best-delta": max(gains)} if gains else {}
    sizes = [
        Entry(
            {"quantity": name}, Summary(figures[name], float("nan"), 1) if figures else None, 1,
            published.figure("realm", name), digits=1, signed=True,
        )
        for name in ("real-average-delta", "real-best-delta")
    ]  # fmt: skip
    columns = tuple(Column("", name) for name in ("finished", "ahead", "mean difference", "greatest difference"))
    row = Row((str(len(deltas)),), (str(len(gains)), ahead, *sizes))
    notes = ["GoEmotions is not counted, as in the paper: its raters are of even quality."]
    return Table("REALM against the best baseline", ("Configurations",), columns, (row,), notes)


def counted_table(of_spec: SpecResults, name: str, published: Published) -> Table:
    """A table of counts by its name. Only configurations with finished cells of both methods are counted."""
    made = contrasts(of_spec, [BASELINE])
    table = (significance_table if name == "significance" else wins_table)(of_spec.spec.title, made, published)
    wanted = sum(1 for _ in configurations(of_spec))
    notes = [*table.notes, wins_said(count_wins(one.contrast for one in made))]
    if len(made) < wanted:
        notes.append(f"{wanted - len(made)} of the {wanted} configurations have no finished pair yet.")
    return Table(table.title, table.stub, table.columns, table.rows, notes)


def _counted(made: Sequence[Compared], within: Callable[[Any], bool]) -> Wins:
    return count_wins(one.contrast for one in made if within(one.fields))


def _count(n: int, quantity: str, published: Published, **fields: Any) -> Entry:
    paper = published.figure("realm", quantity, **fields)
    return Entry({**fields, "quantity": quantity}, Summary(n, float("nan"), 1), 1, paper, digits=0)


def _named(one: Compared) -> str:
    return " ".join(shown(one.fields[name]) for name in ("benchmark", "model", "noise", "pool") if one.fields[name])
