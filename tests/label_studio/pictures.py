"""Pictures of a project before and after a push, for docs/label-studio.md: `python -m tests.label_studio.pictures`.

Needs a Label Studio server (`make test-label-studio` sets it up) and Chromium.
"""

from __future__ import annotations

import tempfile
import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np

from realm.integrations.label_studio import Project, Server, pull, push
from realm.runs import Run
from tests.label_studio.real_server import PASSWORD, ROOT, Person, RealServer
from tests.report.folders import write_run
from tests.report.test_browser import CHROMIUM

PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 1180, "height": 560}
WAIT = 600_000
WIDTHS = {"id": 80, "text": 300, "predictions_model_versions": 240, "realm_ask": 190}
CONFIG = (
    '<View><Text name="text" value="$text"/><Choices name="sentiment" toName="text">'
    '<Choice value="negative"/><Choice value="positive"/></Choices></View>'
)
REVIEWS = {
    "A warm film with a heart of its own.": 1,
    "Two hours that I will not get back.": 0,
    "The cast is better than the script deserves.": 1,
    "Not one joke lands.": 0,
    "I left humming the score.": 1,
    "It tries so hard, and so long.": 0,
    "A quiet wonder.": 1,
    "The ending undoes all that went before.": 0,
    "Slow, but worth the patience.": 1,
    "Loud and empty.": 0,
    "Every frame is a painting.": 1,
    "My children fell asleep, and so did I.": 0,
}
PEOPLE = {"ann@example.org": 0.97, "bob@example.org": 0.85, "cy@example.org": 0.9, "dee@example.org": 0.55}
LABELS = ("negative", "positive")


def label(server: RealServer, boss: Person) -> int:
    """A project in which each review has two labels; returns its number."""
    invitation = boss.api("GET", "/api/invite")["invite_url"]
    for email in PEOPLE:
        Person(server).sign_up(email, invitation)
    numbers = {user["email"]: user["id"] for user in boss.api("GET", "/api/users/")}
    settings = {"title": "Film reviews", "label_config": CONFIG, "show_collab_predictions": False}
    project = int(boss.api("POST", "/api/projects/", settings)["id"])
    rng, tasks = np.random.default_rng(2), []
    for text, truth in REVIEWS.items():
        given = []
        for who in rng.choice(list(PEOPLE), 2, replace=False):
            answer = LABELS[truth if rng.random() < PEOPLE[who] else 1 - truth]
            value = {"from_name": "sentiment", "to_name": "text", "type": "choices", "value": {"choices": [answer]}}
            given.append({"completed_by": numbers[who], "result": [value], "lead_time": 4.0, "ground_truth": False})
        tasks.append({"data": {"text": text}, "annotations": given})
    boss.api("POST", f"/api/projects/{project}/import", tasks)
    return project


def view(boss: Person, project: int, columns: list[str], ordering: list[str]) -> int:
    """A tab of the Data Manager that shows these columns alone; returns its number."""
    there = [column["id"] for column in boss.api("GET", f"/api/dm/columns?project={project}")["columns"]]
    targets = {
        **{name: f"tasks:{name}" for name in there},
        **{n: f"tasks:data.{n}" for n in ("text", "realm_priority", "realm_ask")},
    }
    hidden = [target for name, target in targets.items() if name not in columns]
    widths = {targets[name]: WIDTHS.get(name, 150) for name in columns}
    data = {"title": "Tasks", "ordering": ordering, "hiddenColumns": {"explore": hidden, "labeling": hidden}}
    data |= {"columnsWidth": widths, "type": "list", "gridWidth": 4}
    return int(boss.api("POST", "/api/dm/views/", {"project": project, "data": data})["id"])


def take(page: Any, server: RealServer, project: int, tab: int, name: str) -> None:
    page.goto(f"{server.url}/projects/{project}/data?{urllib.parse.urlencode({'tab': tab})}", wait_until="load")
    page.get_by_text("A quiet wonder.").first.wait_for()
    page.wait_for_timeout(3000)  # columns settle after their content is there
    page.screenshot(path=PICTURES / name)


def main() -> None:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = RealServer(Path(folder))
        server.start()
        try:
            boss = Person(server).log_in("boss@example.org")
            key = boss.api("POST", "/api/token/", {})["token"]
            number = label(server, boss)
            arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=WAIT)
            page = browser.new_context(viewport=SIZE).new_page()
            page.set_default_timeout(WAIT)
            page.goto(f"{server.url}/user/login/", wait_until="load")
            page.fill("input[name=email]", "boss@example.org")
            page.fill("input[name=password]", PASSWORD)
            page.click("button[type=submit]")
            page.wait_for_url(f"{server.url}/")
            before = view(boss, number, ["id", "total_annotations", "total_predictions", "text"], [])
            take(page, server, number, before, "label-studio-before.png")
            project = Project.open(Server(server.url, key), number)
            annotations = pull(project)
            shares = np.where([REVIEWS[text] for text in annotations.texts.to_pylist()], 0.25, 0.75)
            run_folder = Path(folder) / "monday"
            run_folder.mkdir()
            write_run(run_folder, annotations, np.log(np.column_stack([shares, 1 - shares])))
            run = Run.open(run_folder, verify_model=False)
            push(project, run, run.relabel(6))
            columns = ["id", "text", "predictions_score", "predictions_model_versions", "realm_priority", "realm_ask"]
            after = view(boss, number, columns, ["tasks:data.realm_priority"])
            take(page, server, number, after, "label-studio-after.png")
            browser.close()
        finally:
            server.kill()


if __name__ == "__main__":
    main()
