"""Pictures of the report of a made-up table, for docs/report.md: `python -m tests.report.pictures`. Needs Chromium."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from realm.data import Annotations
from realm.report.run_page import write_table_report
from tests.report.test_browser import CHROMIUM, PATIENCE

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LABELS = ("negative", "mixed", "positive")
SKILLS = {
    "Ada": 0.96, "Bela": 0.94, "Chidi": 0.93, "Dana": 0.91, "Emil": 0.9, "Farah": 0.87, "Goran": 0.9, "Hana": 0.84,
    "Ines": 0.85, "Jonas": 0.8, "Kofi": 0.78, "Lena": 0.0, "Mara": 0.0, "Nils": 0.03,
}  # fmt: skip
"""How often each reads the text. Lena, Mara and Nils guess, Goran stops reading in the middle, Ines takes mixed for
negative."""
GUESSERS = {"Lena": (0.1, 0.8, 0.1), "Mara": (0.0, 0.0, 1.0), "Nils": (1 / 3, 1 / 3, 1 / 3)}
BUSY = 1.6
"""Guessers give so many more labels than the others: guessing is quick."""
OPINIONS = (
    ("tasted of nothing", "took an hour to come", "was cold again", "cost twice what it should"),
    ("was fine, no more", "began well and ended badly", "is good on some days", "depends on who cooks"),
    ("was the best in town", "came with a smile", "is worth the walk", "made our evening"),
)
THINGS = ("The soup", "Our waiter's pasta", "The fish of the day", "Lunch here", "The small menu", "Their coffee")


def table(n_items: int = 900, per_item: int = 4, seed: int = 3) -> pd.DataFrame:
    """Reviews of a restaurant, labelled over two weeks."""
    rng = np.random.default_rng(seed)
    names = list(SKILLS)
    shares = np.array([BUSY if name in GUESSERS else 1.0 for name in names])
    start = pd.Timestamp("2026-03-02 09:00")
    rows: list[dict[str, Any]] = []
    for item in range(n_items):
        truth = int(rng.choice(3, p=[0.35, 0.2, 0.45]))
        text = f"{THINGS[rng.integers(6)]} {OPINIONS[truth][rng.integers(4)]}. (table {item + 1})"
        hard = rng.random() < 0.02
        for who in rng.choice(len(names), size=per_item, replace=False, p=shares / shares.sum()):
            name = names[who]
            skill = 0.35 if name == "Goran" and item > 0.6 * n_items else SKILLS[name]
            label = truth if rng.random() < skill and not hard else int(rng.choice(3, p=GUESSERS.get(name)))
            if name == "Ines" and truth == 1 and rng.random() < 0.5:
                label = 0
            day = int(10 * item / n_items)
            moment = start + pd.Timedelta(days=day + 4 * (day > 4), seconds=int(rng.integers(8 * 3600)))
            rows.append(
                {
                    "item": f"r{item:03d}", "text": text, "annotator": name, "label": LABELS[label],
                    "created_at": moment.isoformat(), "lead_time": int(rng.gamma(4, 6)) + 3,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "reviews-march.csv"
        table().to_csv(file, index=False)
        annotations = Annotations.read(file, labels=list(LABELS), keep_rows=True)
        page_file = write_table_report(
            annotations, file, output=Path(folder) / "page.html", title="Restaurant reviews, March"
        )
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE)
        page = browser.new_context(
            viewport={"width": 1100, "height": 900}, color_scheme="light", reduced_motion="reduce"
        ).new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(page_file.as_uri())
        page.screenshot(path=PICTURES / "report.png")
        page.click("[data-opens=Lena]")
        row = page.locator("tr.detail:visible").bounding_box()
        top = page.evaluate("window.scrollY")
        clip = {"x": 40, "y": top + row["y"] - 88, "width": 1020, "height": row["height"] + 92}
        page.screenshot(path=PICTURES / "report-annotator.png", clip=clip, full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
