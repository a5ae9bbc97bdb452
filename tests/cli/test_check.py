"""`realm check`, as a person types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from realm.data import Annotations
from tests.tiny import crowd

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"


@pytest.mark.shared
def test_sentpolarity(realm_cli, shared_data: Path) -> None:
    folder = shared_data / "sentpolarity"
    code, out, err = realm_cli("check", folder / "annotations.csv", "--test", folder / "test.csv", "--json")
    facts = json.loads(out)
    assert (code, err) == (0, "")
    assert (facts["items"], facts["annotators"], facts["annotations"]) == (4999, 203, 27746)
    assert facts["label_balance"] == {"default": {"negative": 12918, "positive": 14828}}
    assert facts["krippendorff_alpha"]["default"] == pytest.approx(0.4276, abs=1e-4)
    assert facts["dropped"] == {}
    assert {method["name"]: method["applies"] for method in facts["methods"]}["dawid-skene"] == "yes"
    assert "text leak" not in {finding["code"] for finding in facts["findings"]}


@pytest.mark.shared
def test_cebab(realm_cli, shared_data: Path) -> None:
    code, out, _ = realm_cli("check", shared_data / "cebab_aspects" / "annotations.csv")
    assert code == 0
    facts = {"items: 10,053", "annotators: 175", "annotations: 50,305", "items with gold: 2,883"}
    assert facts <= set(out.splitlines())


def test_warnings_come_first_and_one_line_has_all_labels_and_one_all_methods(realm_cli) -> None:
    code, out, _ = realm_cli("check", EXPORTS / "label_studio.json", "--multi", "drop")
    lines = out.splitlines()
    levels = [line.split(":")[0] for line in lines]
    assert code == 0 and levels[0] == "warning" and "note" not in levels[: levels.index("items")]
    assert levels.count("labels") == levels.count("methods that apply") == 1
    assert "format: label-studio" in lines
    assert "1 x cancelled annotation (was_cancelled or skipped) (row 1)" in lines
    assert "note: " in out
    assert lines[-1].startswith("Next: realm train ") and "--multi drop --output runs/label_studio" in lines[-1]


def test_all_faults_are_named_at_once_with_the_command_line_that_mends_them(realm_cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("review,who,label\na,x,p\nb,x,\nc,y,q\nd,y,p|q\nd,x,p\n")
    flags = ("--text", "review", "--annotator", "who")
    code, out, err = realm_cli("check", path, *flags)
    assert code == 2 and err.startswith(f"error: {path}, row") and err.count("error: ") == 2 and "items: 3" in out
    mended = f"realm train {path} --text review --annotator who --multi first --missing drop --output runs/t"
    assert out.splitlines()[-1] == f"Next: {mended}"
    code, out, _ = realm_cli("check", path, *flags, "--json")
    facts = json.loads(out)
    assert code == 2 and not facts["usable"] and len(facts["errors"]) == 2
    assert any('`missing="drop"`' in error for error in facts["errors"]) and facts["error"] == facts["errors"][0]


def test_a_remedy_that_does_not_mend_it_is_not_told_twice(realm_cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("body,who,queue,when\na,x,p,1\nb,y,q,2\n")
    code, _, err = realm_cli("check", tmp_path / "t.csv")
    assert code == 2 and err.count("error: ") == 1 and "there is no column 'text'" in err


def test_a_setting_without_a_flag_is_named_as_what_the_config_must_hold(realm_cli, tmp_path: Path) -> None:
    row = '{},x,1,"[""1"", ""0"", ""2""]"\n'
    (tmp_path / "t.csv").write_text("text,annotator,label,options\n" + row.format("a") + row.format("b"))
    code, out, err = realm_cli("check", tmp_path / "t.csv")
    assert code == 2 and "can be read as" in err
    assert "--config realm.yaml" in out and "(realm.yaml: label_form: index)" in out


def test_the_corrected_table_is_written_and_read_back_without_flags(realm_cli, tmp_path: Path) -> None:
    table = crowd(20, (0.9, 0.8, 0.5)).to_pandas().rename(columns={"annotator": "who"})
    table.loc[3, "label"] = table.loc[3, "label"].upper()
    table.to_csv(tmp_path / "t.csv", index=False)
    flags = ("--annotator", "who", "--exclude", "w2", "--write", tmp_path / "clean.parquet")
    code, out, err = realm_cli("check", tmp_path / "t.csv", *flags)
    assert code == 0 and "40 annotations of 20 items in" in err, err
    assert out.splitlines()[-1] == f"Next: realm train {tmp_path / 'clean.parquet'} --output runs/clean"
    clean = Annotations.read(tmp_path / "clean.parquet")
    assert clean.annotators == ("w0", "w1") and len(clean.tasks[0].labels) == 4
    assert realm_cli("check", tmp_path / "t.csv", *flags)[0] == 2, "it is there already"
    code, _, err = realm_cli("check", tmp_path / "t.csv", "--annotator", "who", "--write", tmp_path / "t.csv")
    assert code == 2 and "the command reads this file" in err


def test_nothing_is_written_of_a_table_with_a_fault(realm_cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,annotator,label\na,x,p\nb,x,\nc,y,q\n")
    assert realm_cli("check", tmp_path / "t.csv", "--write", tmp_path / "clean.csv")[0] == 2
    assert not (tmp_path / "clean.csv").exists()


def test_text_from_the_data_cannot_write_to_the_terminal(realm_cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,annotator,label\n" + "".join(f"t{k},w{k % 2},\x1b[2Jx{k % 2}\n" for k in range(40)))
    _, out, _ = realm_cli("check", path)
    assert "\x1b" not in out and "⟨U+001B⟩[2Jx0" in out


def test_columns_are_named_by_flags_or_a_config_file(realm_cli, tmp_path: Path) -> None:
    path, config = tmp_path / "t.csv", tmp_path / "c.yaml"
    path.write_text("review,worker,answer,when\na,w,x,2024-01-01\na,v,y,2024-01-02\nb,w,y,2024-01-03\n")
    flags = ["--text", "review", "--annotator", "worker", "--label", "answer"]
    assert realm_cli("check", path, *flags)[0] == 0
    config.write_text("text: review\nannotator: worker\nlabel: answer\ncreated-at: when\n")
    code, out, _ = realm_cli("check", path, "--config", config)
    assert code == 0 and "labelled: " in out, "a setting that has no flag"
    code, _, err = realm_cli("check", path)
    assert code == 2
    assert "there is no column 'text'. The columns are: review, worker, answer" in err
    config.write_text("created: when\n")
    code, _, err = realm_cli("check", path, *flags, "--config", config)
    assert code == 2 and "there is no flag or setting `created`. Did you mean `created_at`?" in err


def test_the_labels_of_a_test_table_are_compared(realm_cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,annotator,label\na,v,good\nb,v,bad\na,w,good\nc,w,mixed\n")
    (tmp_path / "test.csv").write_text("text,gold\na,ｇood\nx,bad\nb,Bad\ny,awful\n")
    words = ("check", tmp_path / "t.csv", "--test", tmp_path / "test.csv")
    code, out, _ = realm_cli(*words, "--json")
    findings = {finding["code"]: finding for finding in json.loads(out)["findings"]}
    assert code == 0 and findings["labels only in test"]["about"] == ["awful"]
    assert findings["labels not in test"]["about"] == ["mixed"] and findings["test spelling"]["about"] == ["ｇood"]
    assert "`map_labels`" in findings["test spelling"]["remedy"] and "text leak" in findings
    (tmp_path / "map.yaml").write_text("ｇood: good\nawful: bad\nmixed: bad\n")
    code, out, _ = realm_cli(*words, "--map-labels", tmp_path / "map.yaml")
    assert code == 0 and "of the test table" not in out and "spells" not in out
    (tmp_path / "test.csv").write_text("text\na\n")
    code, out, err = realm_cli(*words)
    assert code == 0 and "1 of 1 test items are in the table too" in out
    assert "labels of the test table are not compared" in err
    (tmp_path / "test.csv").write_text("nothing\na\n")
    assert realm_cli(*words)[0] == 2


def test_an_error_about_a_file_whose_name_is_not_utf8_is_still_json(realm_cli, tmp_path: Path) -> None:
    code, out, _ = realm_cli("check", os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv"), "--json")
    assert code == 2 and "there is no such file" in json.loads(out)["error"]
    out.encode("utf-8")


def test_several_files_are_one_table(realm_cli, tmp_path: Path) -> None:
    table = crowd(40, (0.9, 0.9, 0.8, 0.5)).to_pandas().drop(columns=["item", "task"])
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    table[:70].to_csv(one, index=False)
    table[70:].to_csv(two, index=False)
    code, out, _ = realm_cli("check", one, two, "--exclude", "w3", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["annotators"] == 3 and facts["dropped"]["annotator excluded: w3"] == 40
    for command in ("aggregate", "judges"):
        code, out, err = realm_cli(command, one, two, "--exclude", "w3", "--json")
        assert code == 0 and len(json.loads(out)["annotators" if command == "aggregate" else "judges"]) == 3, err
    for words, message in (
        (("--exclude", "w33"), '`exclude="w33"`: there is no such annotator. Did you mean `w3`'),
        (("--map-labels", tmp_path / "absent.csv"), "`map_labels`: "),
        (("--encoding", "klingon"), '`encoding="klingon"`: there is no such encoding'),
        ((one,), "given twice"),
    ):
        code, _, err = realm_cli("check", one, two, *words)
        assert code == 2 and message in " ".join(err.split()), err


def test_pandas_reads_what_a_pipe_gets(realm_cli, tmp_path: Path) -> None:
    crowd(12).to_pandas().to_csv(tmp_path / "t.csv", index=False)
    _, out, _ = realm_cli("aggregate", tmp_path / "t.csv")
    (tmp_path / "out.csv").write_text(out)
    assert len(pd.read_csv(tmp_path / "out.csv")) == 12
