"""Odd inputs for the commands that read data, each with what must come of it.

A try begins with a table that is known. It is written in an odd way: one that loses nothing, so that the command must
find exactly that table, or one that loses something, so that the command must refuse it. Whatever else comes out is a
silent wrong result. The same seed gives the same tries.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.outcomes import judged

Row = dict[str, Any]
TEXTS = (
    "plain", "comma, inside", 'a "quoted" word', "two\nlines", "tab\tinside", "=1+1", "'; DROP TABLE x; --",
    "🙂 emoji",
    "עברית", "\u202eright to left", "naïve café", "nul\x00byte", " leading", "trailing ", "#", "[]", "{}", "1.0",
    "null",
    "None", "<b>bold</b>", "a;b", "\\ud800", "ﬁ ligature", "e\u0301", "x" * 5000, "carriage\rreturn", "{0} %s",
    "\ufeffbom",
)  # fmt: skip
LABEL_SETS = (
    ("x", "y"), ("C#", "C", "Java"), ("yes", "no", "may be"), ("0", "1"), ("10", "9", "2"), ("a,b", "a"), ("=x", "+y"),
    ("Ja", "Nein"), ("真", "假"), ("True", "False"), ("#", "a"), ("a;b", "c|d"),
)  # fmt: skip
PEOPLE = ("ada", "bob", "cyd@example.org", "7", "Ünal", "=cmd()", "a b", "O'Neil", "x#y", "[dan]", "-", "..")


@dataclass
class Case:
    """The words of a command and what must come of it."""

    name: str
    words: list[str]
    refuse: bool = False
    truth: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    gold: dict[str, str] = field(default_factory=dict)
    output: Path | None = None


def known_table(generator: random.Random) -> list[Row]:
    """Rows of a table: every item by two annotators or more, every label given by somebody, gold for some."""
    labels = generator.choice(LABEL_SETS)
    people = generator.sample(PEOPLE, generator.randint(2, 6))
    texts = generator.sample(TEXTS, generator.randint(4, 9))
    rows: list[Row] = []
    for number, text in enumerate(texts):
        truth = labels[number % len(labels)]
        for place, who in enumerate(generator.sample(people, generator.randint(2, len(people)))):
            label = truth if place == 0 or generator.random() < 0.7 else generator.choice(labels)
            rows.append({"text": text, "annotator": who, "label": label, "gold": truth})
    return rows


# ---------------------------------------------------------------- ways of writing that lose nothing


def as_csv(rows: list[Row], delimiter: str = ",", end: str = "\r\n", quoting: int = csv.QUOTE_MINIMAL) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(rows[0])
    # csv does not quote a lone carriage return under every line end: quote all where there is one
    if any("\r" in str(value) for row in rows for value in row.values()):
        writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows(row.values() for row in rows)
    return file.getvalue().encode()


def as_lines(rows: list[Row], ascii: bool = False) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows).encode()


def as_parquet(rows: list[Row], dictionary: bool = False) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(rows)
    if dictionary:
        columns = [column.dictionary_encode() for column in table.columns]
        table = pa.table(dict(zip(table.column_names, columns, strict=True)))
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def as_zip(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def in_halves(content: bytes) -> bytes:
    """Two gzip members, one behind the other, which are one file."""
    return gzip.compress(content[: len(content) // 2]) + gzip.compress(content[len(content) // 2 :])


LOSSLESS: dict[str, tuple[str, Callable[[list[Row]], bytes]]] = {
    "csv": ("t.csv", as_csv),
    "newlines": ("t.csv", lambda rows: as_csv(rows, end="\n")),
    "semicolons": ("t.csv", lambda rows: as_csv(rows, ";")),
    "tabs": ("t.tsv", lambda rows: as_csv(rows, "\t")),
    "tabs in a csv": ("t.csv", lambda rows: as_csv(rows, "\t")),
    "all quoted": ("t.csv", lambda rows: as_csv(rows, quoting=csv.QUOTE_ALL)),
    "byte order mark": ("t.csv", lambda rows: b"\xef\xbb\xbf" + as_csv(rows)),
    "utf-16": ("t.csv", lambda rows: as_csv(rows).decode().encode("utf-16")),
    "utf-32": ("t.csv", lambda rows: as_csv(rows).decode().encode("utf-32")),
    "json in utf-16": ("t.json", lambda rows: json.dumps(rows, ensure_ascii=False).encode("utf-16")),
    "no last line end": ("t.csv", lambda rows: as_csv(rows).rstrip(b"\r\n")),
    "blank lines": ("t.csv", lambda rows: as_csv(rows) + b"\r\n\r\n"),
    "capital ending": ("T.CSV", as_csv),
    "no ending": ("t", as_csv),
    "gzip": ("t.csv.gz", lambda rows: gzip.compress(as_csv(rows))),
    "gzip by another name": ("t.csv", lambda rows: gzip.compress(as_csv(rows))),
    "gzip in two members": ("t.csv.gz", lambda rows: in_halves(as_csv(rows))),
    "json": ("t.json", lambda rows: json.dumps(rows).encode()),
    "json in columns": ("t.json", lambda rows: json.dumps({k: [r[k] for r in rows] for k in rows[0]}).encode()),
    "json lines": ("t.jsonl", as_lines),
    "json lines, escaped": ("t.ndjson", lambda rows: as_lines(rows, ascii=True)),
    "json lines with blanks": ("t.jsonl", lambda rows: as_lines(rows).replace(b"\n", b"\r\n \n")),
    "json lines, mark": ("t.jsonl", lambda rows: b"\xef\xbb\xbf" + as_lines(rows)),
    "json lines, fields in any order": (
        "t.jsonl",
        lambda rows: as_lines([dict(reversed(row.items())) if n % 2 else row for n, row in enumerate(rows)]),
    ),
    "json lines, gzip": ("t.jsonl.gz", lambda rows: gzip.compress(as_lines(rows))),
    "parquet": ("t.parquet", as_parquet),
    "parquet, dictionaries": ("t.parquet", lambda rows: as_parquet(rows, dictionary=True)),
    "zip": ("t.zip", lambda rows: as_zip({"t.csv": as_csv(rows)})),
    "zip, lzma": ("t.zip", lambda rows: as_zip({"t.csv": as_csv(rows)}, zipfile.ZIP_LZMA)),
    "zip, stored, with junk": (
        "t.ZIP",
        lambda rows: as_zip(
            {"deep/t.tsv": as_csv(rows, "\t"), "__MACOSX/._t.csv": b"junk", "readme.txt": b"read me"},
            zipfile.ZIP_STORED,
        ),
    ),
    "zip of two halves": (
        "t.zip",
        lambda rows: as_zip({"a.csv": as_csv(rows[: len(rows) // 2]), "b.csv": as_csv(rows[len(rows) // 2 :])}),
    ),
    "zip of a table in two forms": (
        "t.zip",
        lambda rows: as_zip({"a.parquet": as_parquet(rows[:3]), "b.jsonl": as_lines(rows[3:])}),
    ),
    "zip of parquet": ("t.zip", lambda rows: as_zip({"t.parquet": as_parquet(rows)})),
    "zip of json lines, gzip": ("t.zip", lambda rows: as_zip({"T.JSONL.GZ": gzip.compress(as_lines(rows))})),
}


def per_annotator(rows: list[Row], generator: random.Random) -> tuple[str, bytes]:
    """doccano's zip: a file for each annotator, in the one form or the other."""
    ids = {text: number for number, text in enumerate(dict.fromkeys(row["text"] for row in rows), 1)}
    files = {}
    for who in dict.fromkeys(row["annotator"] for row in rows):
        own = [
            {"id": ids[row["text"]], "text": row["text"], "label": [row["label"]]}
            for row in rows
            if row["annotator"] == who
        ]
        ending = generator.choice([".jsonl", ".JSONL", ".ndjson", ".json", ".jsonl.gz"])
        content = json.dumps(own).encode() if ending == ".json" else as_lines(own)
        files[f"export/{who}{ending}"] = gzip.compress(content) if ending.endswith("gz") else content
    return "export.zip", as_zip(files)


# ---------------------------------------------------------------- tables that must be refused


def _without(*names: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [{key: value for key, value in row.items() if key not in names} for row in rows]


def _put(name: str, value: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [*rows[:-1], {**rows[-1], name: value}]


def _renamed(old: str, new: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [{new if key == old else key: value for key, value in row.items()} for row in rows]


def _swapped(rows: list[Row]) -> list[Row]:
    """Many annotators over two labels, and the one taken for the other."""
    return [
        {"text": f"t{item}", "annotator": ("x", "y")[(item + who) % 5 == 0], "label": f"w{who}"}
        for item in range(20)
        for who in range(item % 7, item % 7 + 12)
    ]


def _merged(rows: list[Row]) -> list[Row]:
    """One hypothesis under two premises, which only the id tells apart."""
    return [
        {
            "pair_id": f"p{pair}",
            "text": f"t{pair % 5}",
            "annotator": who,
            "label": "xy"[pair // 5],
            "gold": "xy"[pair // 5],
        }
        for pair in range(10)
        for who in ("ada", "bob")
    ]


def _two_texts(rows: list[Row]) -> list[Row]:
    return [{"item": "1", **row} for row in rows]


WRONG_TABLES: dict[str, Callable[[list[Row]], list[Row]]] = {
    "no text": _without("text"),
    "no annotator": _without("annotator"),
    "no label": _without("label"),
    "annotator by another name": _renamed("annotator", "who"),
    "label by another name": _renamed("label", "Label "),
    "a blank text": _put("text", " "),
    "a blank annotator": _put("annotator", ""),
    "a blank label": _put("label", ""),
    "a label nan": _put("label", "nan"),
    "gold that nobody gave": _put("gold", "never heard of"),
    "one class": lambda rows: [{**row, "label": "x", "gold": "x"} for row in rows],
    "a weight below 0": lambda rows: [{**row, "weight": "-1"} for row in rows],
    "a weight that is none": lambda rows: [{**row, "weight": "inf"} for row in rows],
    "one id, two texts": _two_texts,
    "annotator and label swapped": _swapped,
    "merged by text": _merged,
}
PACKED_ANNOTATOR = "zip, annotator by another name"
WRONG_BYTES: dict[str, tuple[str, Callable[[list[Row]], bytes]]] = {
    "empty": ("t.csv", lambda rows: b""),
    "blank": ("t.jsonl", lambda rows: b" \n\n"),
    "a header alone": ("t.csv", lambda rows: as_csv(rows).split(b"\r\n")[0] + b"\r\n"),
    "utf-16 without a mark": ("t.csv", lambda rows: b"t\0e\0x\0t\0\n\0" + as_csv(rows).decode().encode("utf-16-le")),
    "latin-1": ("t.csv", lambda rows: "text,annotator,label\ncafé,w,x\nb,w,y\n".encode("latin-1")),
    "a row too long": ("t.csv", lambda rows: as_csv(rows) + b"a,b,c,d,e\r\n"),
    "a row too short": ("t.csv", lambda rows: as_csv(rows) + b"a,b\r\n"),
    "an open quote": ("t.csv", lambda rows: as_csv(rows) + b'"a,b,x,x\r\n'),
    "a column twice": ("t.csv", lambda rows: as_csv(rows).replace(b"gold", b"label", 1)),
    "gzip, cut": ("t.csv.gz", lambda rows: gzip.compress(as_csv(rows))[:-9]),
    "gzip, junk behind": ("t.csv.gz", lambda rows: gzip.compress(as_csv(rows)) + b"junk"),
    "zip, cut": ("t.zip", lambda rows: as_zip({"t.csv": as_csv(rows)})[:-30]),
    "zip, damaged": ("t.zip", lambda rows: _damaged(as_zip({"t.csv": as_csv(rows)}, zipfile.ZIP_LZMA))),
    "zip of unlike tables": (
        "t.zip",
        lambda rows: as_zip({"a.csv": as_csv(rows), "b.csv": as_csv(rows).replace(b"text", b"sentence", 1)}),
    ),
    "zip of a zip": ("t.zip", lambda rows: as_zip({"t.csv": as_zip({"t.csv": as_csv(rows)})})),
    PACKED_ANNOTATOR: (
        "t.zip",
        lambda rows: as_zip({"t.csv": as_csv(_renamed("annotator", "who")(rows))}),
    ),
    "json, cut": ("t.json", lambda rows: json.dumps(rows).encode()[:-5]),
    "json lines, cut": ("t.jsonl", lambda rows: as_lines(rows)[:-9]),
    "json, a number": ("t.json", lambda rows: b"7"),
    "json, numbers": ("t.json", lambda rows: b"[1, 2]"),
    "json, deep": ("t.json", lambda rows: b"[" * 50_000),
    "json, a deep field": (
        "t.jsonl",
        lambda rows: as_lines([{**rows[0], "text": 7}]).replace(b"7", b"[" * 900 + b"]" * 900),
    ),
    "json, half a character in a name": ("t.jsonl", lambda rows: as_lines(rows).replace(b'"text"', b'"te\\udc00xt"')),
    "json, half a character beside": ("t.json", lambda rows: json.dumps([{**r, "z\ud800": 1} for r in rows]).encode()),
    "json, half a character deep": (
        "t.json",
        lambda rows: json.dumps([{**r, "z": {"\ud83d": 1}} for r in rows]).encode(),
    ),
    "json, half a character in a value": (
        "t.jsonl",
        lambda rows: as_lines([{**rows[0], "text": "\ud800"}, *rows], ascii=True),
    ),
    "json, a number without end": ("t.json", lambda rows: b"[" + b"9" * 10_000 + b"]"),
    "parquet, cut": ("t.parquet", lambda rows: as_parquet(rows)[:-20]),
    "parquet, no more than its name": ("t.parquet", lambda rows: b"PAR1PAR1"),
    "a spreadsheet": ("t.csv", lambda rows: as_zip({"xl/workbook.xml": b"<workbook/>"})),
    "a zip without a table": ("t.zip", lambda rows: as_zip({"readme.txt": b"read me"})),
    "a pickle": ("t.json", lambda rows: b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os."),
}
WRONG_FLAGS: dict[str, tuple[str, ...]] = {
    "a column that is not there": ("--label", "nosuch"),
    "a format that is none": ("--format", "nosuch"),
    "another tool's format": ("--format", "prodigy"),
    "a platform's format": ("--format", "mturk"),
    "labels without those given": ("--labels", "p,q"),
    "labels twice": ("--labels", "x,x"),
    "wide columns that are not there": ("--wide", "u,v"),
    "a word that is none": ("--missing", "perhaps"),
    "gigabytes that are none": ("--max-unpacked-gb", "nan"),
    "an encoding that is none": ("--encoding", "nosuch"),
    "an annotator who is not there": ("--exclude", "no such annotator"),
    "a label map that is not there": ("--map-labels", "nosuch.csv"),
    "a config that is not there": ("--config", "nosuch.yaml"),
    "a flag that is none": ("--nosuch",),
    "one column for two roles": ("--text", "label,annotator"),
}
WRONG_SIMULATIONS: dict[str, tuple[str, ...]] = {
    "no pool": ("--pool", ""),
    "a pool that is none": ("--pool", "graded:x"),
    "a pool of none": ("--pool", "graded:0"),
    "a pool without end": ("--pool", "one-reliable:1000000000"),
    "a pool of a hundred thousand": ("--pool", "graded:100000"),
    "an accuracy above 1": ("--pool", "1.5,0.5"),
    "an accuracy that is none": ("--pool", "nan,0.5"),
    "nobody per item": ("--per-item", "0"),
    "more per item than there are": ("--per-item", "99"),
    "a seed below 0": ("--seed", "-1"),
    "a noise that is none": ("--noise", "loud"),
}


def _damaged(content: bytes) -> bytes:
    middle = content.index(b"t.csv") + 20
    return content[:middle] + bytes(byte ^ 0x5A for byte in content[middle : middle + 20]) + content[middle + 20 :]


# ---------------------------------------------------------------- tries


def make_case(seed: int, folder: Path) -> Case:
    """The try of a seed, with its files in the folder."""
    generator = random.Random(seed)
    rows = known_table(generator)
    command = generator.choice(["check", "write", "aggregate", "simulate"])
    kind = generator.choices(["lossless", "table", "bytes", "flags", "doccano"], [10, 4, 6, 3, 2])[0]
    if command == "simulate" and kind in ("table", "doccano"):
        kind = "lossless"
    folder.mkdir(parents=True, exist_ok=True)
    case = Case(kind, ["check" if command == "write" else command])
    flags: list[str] = []
    if kind == "doccano":
        name, content = per_annotator(rows, generator)
        rows = [{**row, "gold": ""} for row in rows]
    elif kind == "bytes":
        case.name, (name, write) = pick(generator, WRONG_BYTES)
        content, case.refuse = write(rows), True
        if case.name == PACKED_ANNOTATOR and command == "simulate":  # which reads no annotators
            command = case.words[0] = "check"
    else:
        form, (name, write) = pick(generator, LOSSLESS)
        case.name = form
        if kind == "table":
            case.name, change = pick(generator, WRONG_TABLES)
            # a column that holds nothing but text is needed where blanks are to be told from nulls
            rows, case.refuse = change(rows), True
        elif kind == "flags":
            wrong = WRONG_SIMULATIONS if command == "simulate" and generator.random() < 0.7 else WRONG_FLAGS
            case.name, words = pick(generator, wrong)
            if command == "simulate" and wrong is WRONG_FLAGS and words[0] in ("--label", "--wide", "--exclude"):
                words = ("--gold", "nosuch")
            flags, case.refuse = list(words), True
        else:
            rows, flags = _decorated(rows, generator)
        content = write(rows)
    if generator.random() < 0.15 and kind == "lossless" and not name.lower().endswith(".zip") and "." in name:
        (folder / "sub").mkdir()
        (folder / "sub" / name).write_bytes(content)
        path = folder / "sub"
    else:
        path = folder / name
        path.write_bytes(content)
    case.words += [str(path), *flags]
    if command in ("write", "simulate"):
        case.output = folder / generator.choice(["out.csv", "out.parquet"])
        case.words += ["--write" if command == "write" else "--output", str(case.output)]
    if command in ("check", "aggregate", "simulate"):
        case.words.append("--json")
    if command == "aggregate":
        case.words += ["--method", "majority"]
    if not case.refuse:
        keys = [
            flags[flags.index(f"--{key}") + 1] if f"--{key}" in flags else key for key in ("text", "annotator", "label")
        ]
        case.truth = Counter(tuple(row[key] for key in keys) for row in rows)  # type: ignore[misc]
        case.gold = {row[keys[0]]: row["gold"] for row in rows}
    return case


def _decorated(rows: list[Row], generator: random.Random) -> tuple[list[Row], list[str]]:
    """Columns by other names, more columns, and rows in another order; none of it changes what is said."""
    flags: list[str] = []
    for role, other in (("text", "review"), ("annotator", "worker id"), ("label", "Étiquette")):
        if generator.random() < 0.25:
            rows, flags = _renamed(role, other)(rows), [*flags, f"--{role}", other]
    if generator.random() < 0.3:
        rows = [{**row, "note": f"n{number % 3}", "": "x"} for number, row in enumerate(rows)]
    if generator.random() < 0.3:
        rows = generator.sample(rows, len(rows))
    return rows, flags


def pick(generator: random.Random, choices: dict[str, Any]) -> tuple[str, Any]:
    """One of the choices, with its name."""
    name = generator.choice(sorted(choices))
    return name, choices[name]


# ---------------------------------------------------------------- judging


def judge(case: Case, code: int, out: str, error: str) -> tuple[str, str]:
    """The outcome of a try, and what is wrong with it where it is a bad one."""
    said = error or out  # `check --json` says on standard output what is wrong
    return judged(code, out, said, output=case.output, refuse=case.refuse, complaint=partial(_complaint, case, out))


def _complaint(case: Case, out: str) -> str:
    command = case.words[0]
    texts = {text for text, _, _ in case.truth}
    if command == "check" and case.output is None:
        report = json.loads(out)
        found = (report["items"], report["annotators"], report["annotations"])
        expected = (len(texts), len({who for _, who, _ in case.truth}), len(case.truth))
        return "" if found == expected else f"{found} items, annotators, annotations in place of {expected}"
    if command == "aggregate":
        votes: dict[str, Counter[str]] = {text: Counter() for text in texts}
        for text, _, label in case.truth:
            votes[text][label] += 1
        for entry in json.loads(out)["labels"]:
            best = votes[entry["text"]].most_common()
            if entry["label"] not in [label for label, count in best if count == best[0][1]]:
                return f"{entry['text']!r} is {entry['label']!r} of {best}"
        return ""
    assert case.output is not None
    rows = _written(case.output)
    if command == "simulate":
        gold = {row["text"]: row["gold"] for row in rows}
        return "" if gold == case.gold else f"gold {gold} in place of {case.gold}"
    found_rows = {(row["text"], row["annotator"], row["label"]) for row in rows}
    lost, made = set(case.truth) - found_rows, found_rows - set(case.truth)
    return f"lost {lost}, made {made}" if lost or made else ""


def _written(path: Path) -> list[Row]:
    """The rows of a table that a command wrote, read by nothing of ours."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    import pyarrow.parquet as pq

    return list(pq.read_table(path).to_pylist())
