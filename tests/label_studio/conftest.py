"""A project of 40 reviews, each labelled by two of three annotators, on a server in this process, and a run of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from realm.integrations.label_studio import Project, Server, pull
from realm.runs import Run
from tests.label_studio.fake_server import REFRESH_TOKEN, FakeLabelStudio, serving
from tests.report.folders import write_run

LABELS = ("negative", "positive")


def reviews() -> FakeLabelStudio:
    made, rng = FakeLabelStudio(), np.random.default_rng(0)
    for number in range(1, 41):
        truth = int(rng.integers(2))
        people = [(user, right) for user, right in ((1, 0.95), (2, 0.85), (3, 0.9)) if number % 3 != user - 1]
        given = {user: LABELS[truth if rng.random() < right else 1 - truth] for user, right in people}
        made.add_task(10 * number, f"review {number}", given)
    return made


@pytest.fixture
def fake() -> FakeLabelStudio:
    return reviews()


@pytest.fixture
def url(fake: FakeLabelStudio) -> Iterator[str]:
    with serving(fake) as address:
        yield address


@pytest.fixture
def waits() -> list[float]:
    """How long the client waited, each time."""
    return []


@pytest.fixture
def project(url: str, waits: list[float]) -> Project:
    return Project.open(Server(url, REFRESH_TOKEN, wait=waits.append), 3)


def finished_run(folder: Path, sharpness: float) -> Run:
    """A finished run on the project's annotations, its model being of some use."""
    with serving(reviews()) as address:
        annotations = pull(Project.open(Server(address, REFRESH_TOKEN), 3))
    folder.mkdir()
    ids = np.array([int(number) for number in annotations.item_ids.to_pylist()])
    shares = 0.5 + sharpness * np.where(ids % 20 == 0, 1, -1)
    return Run.open(write_run(folder, annotations, np.log(np.column_stack([shares, 1 - shares]))), verify_model=False)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished_run(tmp_path_factory.mktemp("runs") / "monday", 0.2)


@pytest.fixture(scope="session")
def tuesday(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return finished_run(tmp_path_factory.mktemp("runs") / "tuesday", -0.3)
