"""The loop with Label Studio: a project's annotations pulled as a table, a run's labels and queue pushed back.

    server = Server("http://localhost:8080", os.environ["LABEL_STUDIO_API_KEY"])
    project = Project.open(server, 3)
    write_table(pull(project), "labels.parquet")
    push(project, Run.open("runs/monday"))

Everything goes through Label Studio's REST API by the standard library alone: `label-studio-sdk` would bring 28
packages more (OpenCV, black, faker) and clashes with numpy 2.3 and later, for the eight addresses that are asked here.
"""

from realm.label_studio.client import Server
from realm.label_studio.project import Control, Project
from realm.label_studio.pull import pull
from realm.label_studio.push import Plan, push

__all__ = ["Control", "Plan", "Project", "Server", "pull", "push"]
