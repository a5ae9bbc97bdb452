"""Tables on narrow screens: no word and no name is broken, nothing is left out."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from realm.cli import terminal
from realm.cli.terminal import note_table
from realm.data import Annotations
from realm.display import counted

WORDS = st.text("abcdefghij", min_size=1, max_size=terminal.WORD_WIDTH)
CELLS = st.one_of(st.floats(0, 1), st.integers(0, 10**6), st.lists(WORDS, max_size=6).map(" ".join))


def shown(width: int, table: Callable[[], None]) -> list[str]:
    """The lines of what `table` prints on a screen of this width."""
    console = Console(width=width, highlight=False, record=True, force_terminal=False)
    before = terminal.console
    terminal.console = lambda stderr=False: console
    try:
        with console.capture() as captured:
            table()
        return captured.get().splitlines()
    finally:
        terminal.console = before


@given(st.data())
def test_tables_of_any_content_break_no_word(data) -> None:
    n = data.draw(st.integers(1, 9))
    rows = data.draw(st.lists(st.tuples(WORDS, *[CELLS] * n), min_size=1, max_size=4))
    names = ["name", *(f"column {index}" for index in range(n))]
    lines = shown(80, lambda: terminal.show_table("Title", names, rows))
    words = {word for line in lines for word in line.split()}
    for row in rows:
        assert {word for cell in row for word in terminal.show_value(cell).split()} <= words


@pytest.mark.parametrize("width", [60, 80, 120])
def test_names_are_whole_whatever_stands_beside_them(width: int) -> None:
    habit = "answers `toxic` 93% of the time when not answering from the item"
    rows = [("annotator_007@example.org", 0.5, habit, *[0.1] * 7)] * 2
    names = ["annotator", "accuracy", "habit", *(f"recall of label {index}" for index in range(7))]
    lines = shown(width, lambda: terminal.show_table("Title", names, rows))
    assert sum(line.startswith("annotator_007@example.org ") for line in lines) == 2
    assert len(lines[0]) <= width and {"`toxic`", "answering"} <= {word for line in lines for word in line.split()}


def test_what_is_the_same_in_every_row_is_said_once(capsys) -> None:
    frame = pd.DataFrame({"annotator": ["a", "b", "c"], "task": "all", "accuracy": [0.1, 0.2, 0.3], "cost": 1.0})
    lines = shown(80, lambda: terminal.show_frame("Title", frame))
    assert lines[1].split() == ["annotator", "accuracy"]
    assert capsys.readouterr().out.strip() == "The same in every row shown: task all, cost 1.000."
    lines = shown(80, lambda: terminal.show_frame("Title", frame.head(2)))
    assert lines[1].split() == ["annotator", "task", "accuracy", "cost"], "two rows may be alike by chance"


def test_counts_agree_with_their_nouns(capsys) -> None:
    one = Annotations.from_pandas(pd.DataFrame({"text": ["a"], "annotator": ["x"], "label": ["p"]}), labels=["p", "n"])
    note_table(one)
    assert "1 annotation of 1 item by 1 annotator\n" in capsys.readouterr().err
    assert counted(0, "item") == "0 items" and counted(1_200, "more file") == "1,200 more files"


def test_data_commands_no_terminal(monkeypatch, capsys) -> None:
    from realm.cli.terminal import write_out

    text = "\x1b]0;title\x07\x1b[2Ja \x9b red\u202e bird\n"
    write_out(text)
    assert capsys.readouterr().out == f"{text}\n", "a pipe gets the data as they are"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_out(text, end="")
    shown = capsys.readouterr().out
    assert shown.endswith("a ⟨U+009B⟩ red⟨U+202E⟩ bird\n") and "\x1b" not in shown
