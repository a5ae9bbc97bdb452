"""A lower bound is a version that a test run has seen: `make test-lowest` runs on exactly these versions."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.contracts.modules import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pinned(name: str) -> dict[str, Version]:
    """The versions of a constraints file by package."""
    pins = (line.split("==") for line in (ROOT / name).read_text().splitlines())
    return {canonicalize_name(package): Version(version) for package, version in pins}


def lower_bounds(requirements: list[str]) -> dict[str, Version]:
    """The lower bound of every requirement by package; each must have one."""
    bounds = {}
    for requirement in map(Requirement, requirements):
        if requirement.name != PROJECT["name"]:
            (version,) = [clause.version for clause in requirement.specifier if clause.operator == ">="]
            bounds[canonicalize_name(requirement.name)] = Version(version)
    return bounds


def test_the_lower_bounds_are_the_versions_that_the_lowest_run_has() -> None:
    extras = PROJECT["optional-dependencies"]
    bounds = lower_bounds([*PROJECT["dependencies"], *extras["ray"], *extras["test"]])
    lowest = pinned("constraints-lowest.txt")
    assert bounds == {package: lowest[package] for package in bounds}
    assert len(bounds) > 15


def test_the_lower_bounds_of_developers_tools_are_the_versions_that_ci_has() -> None:
    bounds = lower_bounds(PROJECT["optional-dependencies"]["dev"])
    versions = pinned("constraints.txt")
    assert bounds == {package: versions[package] for package in bounds}


def test_the_lowest_versions_are_nowhere_above_those_of_ci() -> None:
    lowest, versions = pinned("constraints-lowest.txt"), pinned("constraints.txt")
    higher = {package for package in lowest.keys() & versions.keys() if lowest[package] > versions[package]}
    assert not higher, "what passes with a later version says nothing of the lowest"
