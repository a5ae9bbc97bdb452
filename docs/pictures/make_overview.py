"""Draws overview.svg, the picture of the README, from what a demo left in its folder:

    realm demo --output runs/demo
    python docs/pictures/make_overview.py runs/demo docs/pictures/overview.svg

Who said what on the left: the first message of each annotator, as it lies in the table. What came out on the right: the
accuracy of each annotator with its 95% interval beside the share of their labels that is right, and how often the model
is right on new messages. Nothing in it is chosen or typed by hand.
"""

from __future__ import annotations

import csv
import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from realm import Run

COLOURS = {"reliable": "#0072b2", "middling": "#56b4e9", "not enough evidence": "#777777"}
"""Of Okabe and Ito, which people with colour blindness can tell apart; every other verdict is vermilion."""
WARNING = "#d55e00"
METHODS = {"noisy": "every label, as it is", "realm": "every label, and who gave it", "oracle": "the true labels"}
STYLE = (
    "text{font-size:13px;fill:#1c2733}.h{font-size:16px;font-weight:600}.s{font-size:12px;fill:#4a5560}"
    ".t{font-size:12px}.arrow{fill:none;stroke:#1c2733;stroke-width:1.5}.b{font-weight:600}.box{fill:#f7f8fa;stroke:#c9d0d8}.line{stroke:#c9d0d8}"
)


def overview(
    rows: list[dict[str, str]], cleaned: dict[str, tuple[str, float]], experiment: dict[str, Any], n: int
) -> str:
    """The picture: the rows shown, the cleaned label of each item, what the demo recorded, how many items there are."""
    figures = {method: 100 * experiment["figures"][method]["accuracy"] for method in METHODS}
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 450" role="img" aria-labelledby="t d" '
        'font-family="system-ui, sans-serif">',
        '<title id="t">Who said what, and what REALM makes of it</title>',
        f'<desc id="d">{escape(_description(experiment, figures, n))}</desc>',
        f'<style>{STYLE}</style><rect width="1000" height="450" fill="#ffffff"/>',
        *_table(rows, cleaned, n),
        *_annotators(experiment["annotators"]),
        *_model(figures),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _description(experiment: dict[str, Any], figures: dict[str, float], n: int) -> str:
    people = "; ".join(
        f"{each['annotator']} {each['learned']:.0%}, {each['verdict']}" for each in experiment["annotators"]
    )
    models = "; ".join(f"{method} {figure:.1f}%" for method, figure in figures.items())
    return f"{n} messages with one label each. Estimated accuracy: {people}. Right on new messages: {models}."


def _table(rows: list[dict[str, str]], cleaned: dict[str, tuple[str, float]], n: int) -> list[str]:
    parts = [
        '<text class="h" x="16" y="30">In: who said what</text>',
        f'<text class="s" x="16" y="50">{n} messages, one label each; the first of each annotator</text>',
        '<text class="h" x="418" y="30">Out: labels</text>',
        '<text class="s" x="418" y="50">the most probable</text>',
    ]
    for number, row in enumerate(rows):
        y = 62 + 63 * number
        label, confidence = cleaned[row["item"]]
        parts += [
            f'<rect class="box" x="16" y="{y}" width="362" height="55" rx="6"/>',
            f'<text class="t" x="26" y="{y + 22}">{escape(_shortened(row["text"], 54))}</text>',
            f'<text class="s" x="26" y="{y + 43}">{escape(row["annotator"])}: '
            f'<tspan class="b">{escape(row["label"])}</tspan></text>',
            f'<path class="arrow" d="M386,{y + 27} h20 m-6,-5 l6,5 l-6,5"/>',
            f'<text class="b" x="418" y="{y + 24}">{escape(label)}</text>',
            f'<text class="s" x="418" y="{y + 42}">confidence {confidence:.0%}</text>',
        ]
    return parts


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


def _annotators(annotators: list[dict[str, Any]]) -> list[str]:
    left, width = 640, 200

    def at(share: float) -> float:
        return left + width * share

    parts = [
        '<text class="h" x="580" y="30">Out: whom to trust</text>',
        '<text class="s" x="580" y="50">accuracy with 95% interval; ◇ is the true share of right labels</text>',
    ]
    for number, each in enumerate(annotators):
        y, colour = 76 + 27 * number, COLOURS.get(each["verdict"], WARNING)
        x = at(each["true"])
        parts += [
            f'<text class="b" x="580" y="{y + 4}">{escape(each["annotator"])}</text>',
            f'<path class="line" d="M{left},{y} h{width}"/>',
            f'<path d="M{at(each["low"]):.1f},{y} H{at(each["high"]):.1f}" stroke="{colour}" stroke-width="5"/>',
            f'<circle cx="{at(each["learned"]):.1f}" cy="{y}" r="6" fill="{colour}"/>',
            f'<path d="M{x:.1f},{y - 6} l6,6 l-6,6 l-6,-6 z" fill="#ffffff" stroke="#1c2733" stroke-width="1.5"/>',
            f'<text class="s" x="{left + width + 14}" y="{y + 4}">{escape(each["verdict"])}</text>',
        ]
    bottom = 76 + 27 * len(annotators)
    parts += [f'<text class="s" x="{at(share) - 10:.0f}" y="{bottom}">{share:.0%}</text>' for share in (0.0, 0.5, 1.0)]
    return parts


def _model(figures: dict[str, float]) -> list[str]:
    top, left, width = 292, 798, 132
    parts = [
        f'<text class="h" x="580" y="{top}">Out: a fine-tuned model</text>',
        f'<text class="s" x="580" y="{top + 20}">right on new messages, when trained on</text>',
    ]
    for number, (method, figure) in enumerate(figures.items()):
        y, colour = top + 36 + 32 * number, {"realm": "#0072b2"}.get(method, "#9aa5b1")
        weight = ' class="b"' if method == "realm" else ""
        parts += [
            f'<text{weight} x="580" y="{y + 15}">{METHODS[method]}</text>',
            f'<rect x="{left}" y="{y}" width="{width * figure / 100:.1f}" height="20" rx="3" fill="{colour}"/>',
            f'<text{weight} x="{left + width + 8}" y="{y + 15}">{figure:.1f}%</text>',
        ]
    return parts


def main(folder: Path, picture: Path) -> None:
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    first: dict[str, dict[str, str]] = {}
    for row in table:
        first.setdefault(row["annotator"], row)
    labels = Run.open(folder / "run").labels.set_index("item")
    cleaned = {item: (labels.label[item], float(labels.confidence[item])) for item in labels.index}
    experiment = json.loads((folder / "demo.json").read_text(encoding="utf-8"))["experiments"][0]
    rows = [first[name] for name in sorted(first)]
    picture.write_text(overview(rows, cleaned, experiment, len(table)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
