"""One row per item and a column for each judge, not one of which is named."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations
from realm.data.long_table import NO_ANNOTATIONS
from realm.errors import RealmError

PANEL = "item,text,gold,gpt,llama,gemma\n1,t1,x,x,,y\n2,t2,y,y,y,x\n3,t3,,,,\n"


def panel(folder: Path, text: str = PANEL) -> Path:
    path = folder / "panel.csv"
    path.write_text(text)
    return path


def test_rest_is_the_same_as_naming_every_column(tmp_path: Path) -> None:
    path = panel(tmp_path)
    named, rest = (Annotations.read(path, wide=wide) for wide in (["gpt", "llama", "gemma"], "rest"))
    assert rest.to_pandas().equals(named.to_pandas())
    assert rest.annotators == ("gpt", "gemma", "llama") and rest.ledger.counts == {NO_ANNOTATIONS: 1}
    assert Annotations.read(path, wide=["rest"]).fingerprint(gold=True) == named.fingerprint(gold=True)


@pytest.mark.parametrize("seed", range(5))
def test_any_panel_read_by_rest_is_the_long_table_that_it_was_made_of(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    judges = [f"judge {index}" for index in range(draw.randint(2, 8))]
    labels = [f"l{index}" for index in range(draw.randint(2, 4))]
    long = [
        (str(item), f"text {item}", judge, draw.choice(labels))
        for item in range(30)
        for judge in judges
        if draw.random() < 0.7 or judge == judges[0]
    ]
    frame = pd.DataFrame(long, columns=["item", "text", "annotator", "label"])
    wide = frame.pivot(index=["item", "text"], columns="annotator", values="label").reset_index()
    wide = wide[draw.sample(list(wide.columns), len(wide.columns))]  # roles and judges in any order
    wide.to_csv(tmp_path / "wide.csv", index=False)
    table = Annotations.read(tmp_path / "wide.csv", wide="rest")
    columns = ["item", "annotator", "label"]
    assert sorted(map(tuple, table.to_pandas()[columns].values)) == sorted(map(tuple, frame[columns].values))
    assert set(table.annotators) == set(judges)


def test_the_error_for_a_table_of_judges_says_so(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="no column 'annotator'") as error:
        Annotations.read(panel(tmp_path))
    assert 'a row for each item and a column for each annotator, give `wide="rest"`.' in str(error.value)
    for text in ("text,who,label\na,b,c\n", "text,note\na,b\n"):  # a label, or too few columns for two judges
        with pytest.raises(RealmError, match="no column 'annotator'") as error:
            Annotations.read(panel(tmp_path, text))
        assert "wide" not in str(error.value)


@pytest.mark.parametrize(
    "odd",
    [lambda i: f"because of {i}", lambda i: str(i), lambda i: f"2026-01-{i:02}T00:00"],
    ids=["note", "id", "time"],
)
def test_a_column_that_is_no_judges_is_refused_and_can_be_ignored(tmp_path: Path, odd: object) -> None:
    rows = [f"t{i},{i % 2},{i % 3 % 2},{odd(i)}" for i in range(30)]  # type: ignore[operator]
    path = panel(tmp_path, "\n".join(["text,gpt,llama,extra", *rows]) + "\n")
    with pytest.raises(RealmError, match=r"most cells of extra are like .* `ignore=extra`"):
        Annotations.read(path, wide="rest")
    assert Annotations.read(path, wide="rest", ignore=["extra"]).annotators == ("gpt", "llama")


def test_a_judge_with_a_slip_of_their_own_is_a_judge(tmp_path: Path) -> None:
    path = panel(tmp_path, "text,gpt,llama\na,x,x\nb,y,y\nc,x,Why?\nd,y,y\n")
    assert Annotations.read(path, wide="rest", labels=["x", "y", "Why?"]).annotators == ("gpt", "llama")


def test_what_rest_cannot_mean(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="the column 'rest' is called as in"):
        Annotations.read(panel(tmp_path, "text,rest,gpt\na,x,y\n"), wide="rest")
    with pytest.raises(RealmError, match="the column 'label' is called as in a table with one row per annotation"):
        Annotations.read(panel(tmp_path, "text,label,gpt\na,x,y\n"), wide="rest")
    path = panel(tmp_path, "text,label,gpt,llama\na,x,y,x\nb,x,y,y\n")
    assert Annotations.read(path, wide="rest", ignore=["label"]).annotators == ("gpt", "llama")
    with pytest.raises(RealmError, match="no column is left"):
        Annotations.read(panel(tmp_path, "text,gold\na,x\n"), wide="rest")
    with pytest.raises(RealmError, match='`ignore=gpt`: only with `wide="rest"`'):
        Annotations.read(panel(tmp_path), wide=["gpt", "llama"], ignore=["gpt"])
    with pytest.raises(RealmError, match="`ignore=nobody`: there is no such column"):
        Annotations.read(panel(tmp_path), wide="rest", ignore=["nobody"])
    with pytest.raises(RealmError, match='`annotator="gpt"`: not with `wide`'):
        Annotations.read(panel(tmp_path), wide="rest", annotator="gpt")


def test_scores_are_refused_without_a_threshold_and_cut_with_one(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = [f"t{i},{draw.random():.4f},{draw.random():.4f},{draw.random():.4f}" for i in range(50)]
    path = panel(tmp_path, "\n".join(["text,a,b,c", *rows]) + "\n")
    with pytest.raises(RealmError, match=r"most cells of a, b, c .*If they are scores, .*`threshold`"):
        Annotations.read(path, wide="rest")
    coarse = "\n".join(["text,a,b,c", *(f"t{i},{i % 40},{i % 41},{i % 39}" for i in range(400))]) + "\n"
    with pytest.raises(RealmError, match="most cells of a, b, c"):
        Annotations.read(panel(tmp_path, coarse), wide="rest")
    path = panel(tmp_path, "\n".join(["text,a,b,c", *rows]) + "\n")
    table = Annotations.read(path, wide="rest", threshold=0.5)
    frame = pd.read_csv(path)
    assert table.label.reshape(50, 3).tolist() == (frame[["a", "b", "c"]] >= 0.5).astype(int).values.tolist()
    numbered = panel(tmp_path, "\n".join(["text,a,b,c,row", *(f"{row},{i}" for i, row in enumerate(rows))]) + "\n")
    with pytest.raises(RealmError, match="most cells of row are like"):
        Annotations.read(numbered, wide="rest", threshold=0.5)


def test_the_rest_of_a_wide_table_has_no_difficulty_among_its_judges() -> None:
    frame = pd.DataFrame({"text": list("abcd"), "ann": [1, 2, 1, 2], "bob": [1, 2, 2, 2], "difficulty": [1, 1, 2, 2]})
    with pytest.raises(RealmError, match="`ignore=difficulty`"):
        Annotations.from_pandas(frame, wide="rest")
    assert Annotations.from_pandas(frame, wide="rest", ignore="difficulty").annotators == ("ann", "bob")
