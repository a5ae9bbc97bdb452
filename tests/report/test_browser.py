"""The report in a real browser: it sorts, searches and switches theme, runs nothing but itself and asks for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from realm.report.comparison_page import comparison_page
from realm.report.escaping import visible
from realm.report.run_page import write_report
from tests.report.conftest import HOSTILE_NAMES, HOSTILE_TEXTS
from tests.report.folders import crowd, write_run
from tests.report.test_comparison_page import write_with_methods

pytestmark = pytest.mark.slow

PATIENCE = 180_000
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine; `apt-get install chromium` brings one")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=PATIENCE)
        yield made
        made.close()


class Opened:
    """A page from disk, with every request it made and everything it complained of."""

    def __init__(self, browser: Any, path: Path, **how: Any) -> None:
        self.page = browser.new_context(viewport={"width": 1200, "height": 900}, **how).new_page()
        # A machine that is busy with the rest of the suite takes its time.
        self.page.set_default_timeout(PATIENCE)
        self.page.set_default_navigation_timeout(PATIENCE)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.refused: dict[str, str] = {}
        self.page.on("requestfailed", lambda request: self.refused.update({request.url: request.failure}))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(path.as_uri(), wait_until="load")
        self.address = path.as_uri()

    def column(self, place: int) -> list[str]:
        return self.page.locator(
            f"#annotators > tbody:visible > tr:first-child > :nth-child({place})"
        ).all_inner_texts()

    def check_quiet(self) -> None:
        assert self.complaints == []
        assert self.requests == [self.address]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seventy annotators of accuracies from poor to good."""
    table, log_probs = crowd(n_items=900, accuracies=tuple(0.3 + 0.65 * i / 69 for i in range(70)), per_item=5)
    return write_report(write_run(tmp_path_factory.mktemp("runs") / "many", table, log_probs))


def test_the_table_sorts_searches_filters_and_is_saved(browser: Any, many: Path, tmp_path: Path) -> None:
    opened = Opened(browser, many)
    page, count = opened.page, "[data-list=annotators] .count"
    people = pd.read_csv(many.parent / "expertise.csv").sort_values("accuracy", ascending=False)
    assert opened.column(1) == people["annotator"].tolist()[:50]
    assert page.inner_text(count) == "50 of 70 shown"
    page.click("button.more")
    assert opened.column(1) == people["annotator"].tolist() and page.is_hidden("button.more")

    page.click("[data-sort=n]")
    counts = [int(text) for text in opened.column(6)]
    assert counts == sorted(counts, reverse=True)
    assert page.get_attribute("th:has([data-sort=n])", "aria-sort") == "descending"
    page.click("[data-sort=n]")
    assert [int(text) for text in opened.column(6)] == counts[::-1]
    page.click("[data-sort=annotator]")
    assert opened.column(1)[:3] == ["worker-0", "worker-1", "worker-2"], "by name, numbers by size"

    page.fill("[data-list=annotators] [type=search]", "WORKER-3")
    assert opened.column(1) == ["worker-3", *(f"worker-{place}" for place in range(30, 40))]
    page.fill("[data-list=annotators] [type=search]", "")
    page.select_option("[data-list=annotators] [data-by=verdict]", "reliable")
    reliable = people[people["verdict"] == "reliable"].set_index("annotator")
    assert sorted(opened.column(1)) == sorted(reliable.index) and len(reliable) < 50
    with page.expect_download() as saved:
        page.click("[data-list=annotators] [data-save]")
    saved.value.save_as(tmp_path / "annotators.csv")
    rows = pd.read_csv(tmp_path / "annotators.csv").set_index("annotator")
    assert rows["accuracy"].tolist() == pytest.approx(reliable.loc[rows.index, "accuracy"].tolist(), abs=1e-4)
    opened.check_quiet()


def test_a_row_opens_by_keyboard_and_by_its_name_in_the_bad_news(browser: Any, many: Path) -> None:
    opened = Opened(browser, many)
    page = opened.page
    page.locator("#annotators summary").first.focus()
    page.keyboard.press("Enter")
    details = page.locator("tr.detail:visible")
    assert details.count() == 1
    text = details.inner_text()
    assert "Agreement with peers" in text and "Expertise (beta)" in text and "confident cleaned label" in text
    page.click("[data-sort=n]")
    page.keyboard.press("Tab")
    page.click("[data-sort=accuracy]")
    assert details.count() == 1, "a row that is open stays so when the table is sorted"
    page.locator("#annotators summary").first.click()
    assert details.count() == 0
    link = page.locator("[data-opens]").first
    link.click()
    assert details.count() == 1 and link.inner_text() in opened.column(1)
    opened.check_quiet()


def test_on_a_telephone_every_column_stays_in_sight(browser: Any, many: Path) -> None:
    opened = Opened(browser, many)
    opened.page.set_viewport_size({"width": 390, "height": 844})
    opened.page.locator("#annotators summary").first.click()
    right_ends = opened.page.evaluate(
        "Array.from(document.querySelectorAll('.stack td, .stack th, .card, .alarms li, svg.wide'))"
        ".filter(e => e.offsetParent !== null || e.tagName === 'svg')"
        ".map(e => e.getBoundingClientRect()).filter(box => box.width > 0).map(box => box.right)"
    )
    assert len(right_ends) > 100 and max(right_ends) <= 390
    assert opened.page.locator("td.verdict:visible").count() == 50


def test_without_javascript_all_rows_stand_and_open(browser: Any, many: Path) -> None:
    opened = Opened(browser, many, java_script_enabled=False)
    assert len(opened.column(1)) == 70 and opened.page.is_hidden("[data-list=annotators]")
    opened.page.locator("#annotators summary").first.click()
    assert opened.page.locator("tr.detail:visible").count() == 1


def test_hostile_names_and_texts_show_as_text(browser: Any, hostile_run: Path) -> None:
    opened = Opened(browser, write_report(hostile_run))
    page = opened.page
    assert page.title() == "hostile · annotator report"
    assert set(opened.column(1)) == {" ".join(visible(name).split()) for name in HOSTILE_NAMES}
    shown = page.locator(".items .text").all_text_contents()
    assert {visible(text) for text in HOSTILE_TEXTS} <= set(shown)
    for button in page.locator("#annotators summary").all()[:4]:
        button.click()
    assert page.locator("main b:not(.facts b):not(.card b), main img, main script").count() == 0
    page.fill("[data-list=annotators] [type=search]", "<script>")
    assert set(opened.column(1)) == {HOSTILE_NAMES[0]}
    page.select_option("[data-list=annotators] [data-by=task]", label="task-1")
    assert opened.column(2) == ["task-1"]
    opened.check_quiet()


def test_lists_of_items_are_ordered_filtered_and_saved(browser: Any, many: Path, tmp_path: Path) -> None:
    opened = Opened(browser, many)
    page = opened.page
    tools, entries = "[data-list=queue-list]", page.locator("#queue-list > li:visible")

    def confidences() -> list[float]:
        return [float(entry.get_attribute("data-confidence") or "nan") for entry in entries.all()]

    page.select_option(f"{tools} [data-order]", "-confidence")
    assert confidences() == sorted(confidences(), reverse=True) and len(set(confidences())) > 2
    page.select_option(f"{tools} [data-order]", "confidence")
    assert confidences() == sorted(confidences())
    everything = entries.count()
    page.select_option(f"{tools} [data-by=label]", "yes")
    assert {entry.get_attribute("data-label") for entry in entries.all()} == {"yes"}
    assert 0 < entries.count() < everything
    assert page.inner_text(f"{tools} .count") == f"{entries.count()} of {everything} shown"
    with page.expect_download() as saved:
        page.click(f"{tools} [data-save]")
    saved.value.save_as(tmp_path / "saved.csv")
    rows = pd.read_csv(tmp_path / "saved.csv")
    labels = pd.read_csv(many.parent / "labels.csv").set_index("item")
    assert len(rows) == entries.count() and (rows["label"] == "yes").all()
    assert rows["confidence"].tolist() == pytest.approx(labels.loc[rows["item"], "confidence"].tolist(), abs=1e-4)
    assert rows["ask"].str.startswith("worker-").all()


def test_cells_that_a_spreadsheet_would_run_are_guarded(browser: Any, tmp_path: Path) -> None:
    names = ["=1+1", "@sum", "-2+3", "+5", "'=x", 'qu"ote, comma']
    table, log_probs = crowd(n_items=120, names=names, accuracies=(0.9,) * 6, texts=["=HYPERLINK(1)", "-1\nnext"] * 60)
    opened = Opened(browser, write_report(write_run(tmp_path / "run", table, log_probs)))
    for button, file in (
        ("[data-list=annotators] [data-save]", "a.csv"),
        ("[data-list=queue-list] [data-save]", "q.csv"),
    ):
        with opened.page.expect_download() as saved:
            opened.page.click(button)
        saved.value.save_as(tmp_path / file)
    written = set(pd.read_csv(tmp_path / "a.csv", dtype=str)["annotator"])
    assert written == {"'=1+1", "'@sum", "'-2+3", "+5", "''=x", 'qu"ote, comma'}
    assert set(pd.read_csv(tmp_path / "q.csv", dtype=str)["text"]) <= {"'=HYPERLINK(1)", "'-1\nnext"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_and_the_switch(browser: Any, many: Path, scheme: str) -> None:
    opened = Opened(browser, many, color_scheme=scheme)

    def brightness() -> float:
        colour = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(float(part) for part in colour.strip("rgb()").split(",")) / 765

    assert (brightness() > 0.5) == (scheme == "light")
    opened.page.click("#theme")
    assert (brightness() > 0.5) == (scheme == "dark")
    assert opened.page.inner_text("#theme") == ("Light" if scheme == "light" else "Dark")
    opened.page.click("#theme")
    assert (brightness() > 0.5) == (scheme == "light")
    # On paper it is always light.
    opened.page.emulate_media(media="print")
    assert brightness() > 0.5
    opened.check_quiet()


def test_what_is_smuggled_in_is_not_run(browser: Any, hostile_run: Path, tmp_path: Path) -> None:
    """Were something ever left unescaped, the page's policy still lets nothing run or leave."""
    source = write_report(hostile_run, output=tmp_path / "clean.html").read_text(encoding="utf-8")
    smuggled = (
        "<script>document.title = 'owned'</script><img src='https://example.org/x.png' onerror='document.title=1'>"
    )
    (tmp_path / "smuggled.html").write_text(source.replace("<main", smuggled + "<main"), encoding="utf-8")
    opened = Opened(browser, tmp_path / "smuggled.html")
    assert opened.page.title() == "hostile · annotator report"
    assert len(opened.complaints) >= 2 and all("Content Security Policy" in text for text in opened.complaints)
    assert opened.refused == {"https://example.org/x.png": "csp"}


PAYLOADS = [
    "<svg onload=document.title='owned'>", "<iframe src=https://example.org/f></iframe>", "<img src=//example.org/i>",
    "<meta http-equiv=refresh content='0;url=https://example.org/m'>", "<base href=https://example.org/>",
    "<link rel=stylesheet href=https://example.org/l.css>", "<style>@import url(https://example.org/s.css)</style>",
    "<a href=javascript:document.title='owned' autofocus onfocus=document.title='owned'>x</a>",
    "</script><script src=https://example.org/s.js></script>", "<!--<script>document.title='owned'//-->",
    "\"><video><source onerror=document.title='owned'></video>", "' onmouseover='document.title=1",
    "`${document.title=1}`",
    "</style><script>document.title='owned'</script>", "]]><script>document.title='owned'</script>",
    "</title><script>document.title='owned'</script>", "</textarea><details open ontoggle=document.title='owned'>",
    "{{constructor.constructor('document.title=1')()}}", "<math><mtext></mtext><script>document.title='owned'</script>",
    "<object data=https://example.org/o></object><embed src=https://example.org/e>", "\u2028;document.title='owned';//",
]  # fmt: skip
"""What would run or ask for something, were it put into a page, an attribute, a style or a script as it stands."""


@pytest.mark.parametrize("place", ["annotators", "labels", "texts", "methods"])
def test_no_payload_runs_or_asks_for_anything_wherever_it_stands(browser: Any, place: str, tmp_path: Path) -> None:
    if place == "methods":
        path = comparison_page(write_with_methods(tmp_path / "compared", PAYLOADS))
    else:
        given: dict[str, Any] = {
            "annotators": {"names": PAYLOADS, "accuracies": (0.8,) * len(PAYLOADS)},
            "labels": {"labels": tuple(PAYLOADS)},
            "texts": {"texts": PAYLOADS * 10},
        }[place]
        table, log_probs = crowd(n_items=200, **given)
        path = write_report(write_run(tmp_path / "run", table, log_probs))
    opened = Opened(browser, path)
    title = opened.page.title()
    for details in opened.page.locator("details").all():
        details.evaluate("element => element.open = true")
    opened.page.mouse.move(400, 400)
    opened.page.keyboard.press("Tab")
    opened.page.click("#theme")
    assert opened.page.title() == title and "owned" not in title
    foreign = "iframe, object, embed, img, video, base, math, link, main style, main script, main [onload]"
    assert opened.page.locator(foreign).count() == 0
    assert PAYLOADS[0] in opened.page.content().replace("&lt;", "<").replace("&gt;", ">")
    opened.check_quiet()
