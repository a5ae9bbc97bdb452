"""Answering items beside `generate` and the `transformers` pipeline: the same file in, the same answers out.

    python -m benchmarks.predict            # about ten minutes on one core
    python -m benchmarks.predict --quick    # a tiny model, seconds, no targets

From a CSV file to a CSV file, tokenising and writing included. `generate, tuned` asks for one token, in batches sorted
by length, and reads the logits of the answers. The pipeline comes at its defaults (a row at a time, up to 256 new
tokens), except that it does not sample and begins with an answer; and once more asked for one token. Then a file of
1,000,000 rows through a tiny model, with the memory held along the way.
"""

from __future__ import annotations

import csv
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import _material, _sides
from benchmarks._sides import Result, Setup, Targets, median, peak_of

SIDES = ("realm", "generate, tuned", "pipeline, one token", "pipeline, defaults")
ROUNDS = 5
ITEMS, DEFAULT_ITEMS = 48, 2
BATCH_TOKENS = 1024
ROWS = 1_000_000


def serve(side: str, setup: Setup, pipe: Connection) -> None:
    """`answer` reads the file and gives the answers of its first items, as many as this side takes in a round."""
    from realm.scorers import load_scorer

    _sides.quiet()
    table = _material.crowd(4, 1)
    scorer: Any = load_scorer(setup.model, table.items).eval()
    source = Path(setup.folder) / "items.csv"

    def realm_answers() -> list[str]:
        from realm.data.readers.streaming import stream_rows
        from realm.runs.spreadsheet import csv_in_parts
        from realm.scorers.scoring import predict_chunks

        output = Path(setup.folder) / "answers.csv"
        with csv_in_parts(output) as write:
            for frame in predict_chunks(scorer, (chunk.items for chunk in stream_rows(source, tasks=table.tasks))):
                write(frame)
        return list(pd.read_csv(output)["label"])

    jobs = {
        "realm": realm_answers,
        "generate, tuned": lambda: generated(scorer, source),
        "pipeline, one token": lambda: piped(scorer, source, ITEMS, max_new_tokens=1),
        "pipeline, defaults": lambda: piped(scorer, source, DEFAULT_ITEMS),
    }
    _sides.answer(pipe, {"answer": jobs[side]})


def prompts(scorer: Any, source: Path) -> list[str]:
    """The prompts REALM asks, with what the answers share behind them."""
    from realm.scorers.prompts import render

    shared = scorer.tokenizer.decode(scorer.answers[0].prefix)
    with source.open(encoding="utf-8", newline="") as file:
        return [render(scorer.style, row["text"], None, _material.LABELS) + shared for row in csv.DictReader(file)]


def generated(scorer: Any, source: Path) -> list[str]:
    """One-token `generate`, in batches sorted by length."""
    import torch

    tokenizer, backbone = scorer.tokenizer, scorer.backbone
    rows = tokenizer(prompts(scorer, source))["input_ids"]
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    answers = torch.tensor(scorer.answers[0].tokens)
    labels = [""] * len(rows)
    start = 0
    while start < len(order):
        batch = order[start : start + max(1, BATCH_TOKENS // len(rows[order[start]]))]
        start += len(batch)
        padded = tokenizer.pad({"input_ids": [rows[i] for i in batch]}, padding_side="left", return_tensors="pt")
        with torch.no_grad():
            output = backbone.generate(
                **padded, max_new_tokens=1, do_sample=False, output_logits=True, return_dict_in_generate=True,
                pad_token_id=tokenizer.pad_token_id,
            )  # fmt: skip
        for index, option in zip(batch, output.logits[0][:, answers].argmax(1).tolist(), strict=True):
            labels[index] = _material.LABELS[option]
    write(source, labels)
    return labels


def piped(scorer: Any, source: Path, items: int, **settings: Any) -> list[str]:
    """The text-generation pipeline, a row at a time; its first token must be an answer, what follows is its own."""
    from transformers import pipeline

    generate = pipeline("text-generation", model=scorer.backbone, tokenizer=scorer.tokenizer)
    tokens = list(scorer.answers[0].tokens)
    begins = [scorer.tokenizer.decode([token]) for token in tokens]
    labels = []
    for text in prompts(scorer, source)[:items]:
        settings["logits_processor"] = [answers_first(tokens)]
        (output,) = generate(text, do_sample=False, return_full_text=False, **settings)
        continuation = output["generated_text"].strip()
        labels += [
            label
            for label, start in zip(_material.LABELS, begins, strict=True)
            if continuation.startswith(start.strip())
        ]
    write(source, labels)
    return labels


def answers_first(tokens: list[int]) -> Any:
    """Leaves the first token no choice but among these."""
    called: list[bool] = []

    def process(ids: Any, scores: Any) -> Any:
        if called:
            return scores
        called.append(True)
        allowed = scores.new_full(scores.shape, -float("inf"))
        allowed[:, tokens] = scores[:, tokens]
        return allowed

    return process


def write(source: Path, labels: list[str]) -> None:
    pd.DataFrame({"label": labels}).to_csv(source.with_name("rival.csv"), index=False)


def beside_the_rivals(setup: Setup, targets: Targets) -> None:
    rounds = 2 if targets.quick else ROUNDS
    texts, _ = _material.sentences(ITEMS, seed=3)
    frame = pd.DataFrame({"item": [f"i{i}" for i in range(ITEMS)], "text": texts})
    frame.to_csv(Path(setup.folder) / "items.csv", index=False)
    with _sides.sides(serve, SIDES, setup) as pipes:
        timings = _sides.take_turns(pipes, "answer", rounds)
    labels = timings["realm"][0].value
    assert len(labels) == ITEMS and timings["generate, tuned"][0].value == labels, "generate answers otherwise"
    rows = [row(side, timings, labels, targets) for side in SIDES]
    columns = ["side", "items a round", "items/s", "realm is faster", "target", "same answers", "peak, MB"]
    _sides.show("Items per second of processor, medians of five rounds taken in turn", columns, rows)


def row(side: str, timings: dict[str, list[Result]], labels: list[str], targets: Targets) -> list[Any]:
    """One row of the table."""
    answers = timings[side][0].value
    assert answers and answers == labels[: len(answers)], f"{side} answers otherwise"
    speed = len(answers) / median(timings[side])
    ratio = ITEMS / median(timings["realm"]) / speed
    target = {"generate, tuned": 1.0, "pipeline, defaults": 5.0}.get(side)
    target_text = "" if target is None else targets.hold(f"predict, against {side}", ratio, target)
    faster = "" if side == "realm" else f"{ratio:.2f}x"
    same = "" if side == "realm" else f"all {len(answers)}"
    return [side, len(answers), f"{speed:.2f}", faster, target_text, same, peak_of(timings[side])]


# ------------------------------------------------------------------------------------------------ a long file


def a_long_file(folder: Path, rows: int) -> None:
    """Answer a file of many rows with a tiny model; the memory held after each tenth of it."""
    from realm.data.readers.streaming import stream_rows
    from realm.runs.spreadsheet import csv_in_parts
    from realm.scorers import load_scorer
    from realm.scorers.scoring import predict_chunks

    _sides.quiet()
    table = _material.crowd(4, 1)
    scorer = load_scorer(_material.save_encoder(folder / "encoder"), table.items)
    source = folder / "long.csv"
    texts, _ = _material.sentences(1000, seed=4)
    with source.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["item", "text"])
        lines.writerows((f"i{index}", f"{' '.join(texts[index % 1000].split()[:6])} {index}") for index in range(rows))
    memory, n_rows, seconds = [], 0, time.process_time()
    with csv_in_parts(folder / "long-answers.csv") as write_part:
        for frame in predict_chunks(scorer, (chunk.items for chunk in stream_rows(source, tasks=table.tasks))):
            write_part(frame)
            n_rows += len(frame)
            memory.append(_sides.resident())
    seconds = time.process_time() - seconds
    assert n_rows == rows
    # The allocators settle over the first parts.
    settled, last = max(memory[: max(len(memory) // 4, 1)]), max(memory)
    size = source.stat().st_size / 1e6
    figures = [f"{rows:,}", f"{size:.0f}", len(memory), f"{seconds:.0f}", f"{rows / seconds:,.0f}"]
    figures += [f"{settled / _sides.MEGABYTE:,.0f}", f"{last / _sides.MEGABYTE:,.0f}"]
    columns = ["rows", "file, MB", "parts", "s", "rows/s", "held in the first quarter, MB", "held at most, MB"]
    _sides.show("A long file through a tiny encoder", columns, [figures])
    assert last < settled + 50 * _sides.MEGABYTE, "memory grows with the rows"


def main() -> None:
    """Print both tables; fail where a target is missed or an answer differs."""
    targets = _sides.start(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        model = _material.save_causal(Path(folder) / "model") if targets.quick else "smollm2-135m"
        beside_the_rivals(Setup(model, folder), targets)
        a_long_file(Path(folder), 20_000 if targets.quick else ROWS)
    targets.finish()


if __name__ == "__main__":
    main()
