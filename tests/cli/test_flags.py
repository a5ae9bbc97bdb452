"""`--config`: a YAML file with any of a command's flags, under the names that are typed."""

from __future__ import annotations

from pathlib import Path


def test_a_config_that_is_a_folder(realm_cli, tmp_path: Path) -> None:
    code, _, error = realm_cli("check", tmp_path / "t.csv", "--config", tmp_path)
    assert code == 2
    assert "cannot be read" in " ".join(error.split())
