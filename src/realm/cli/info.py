"""`realm info`: the versions and surroundings that a question about a run needs."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from realm import __version__
from realm.cli.flags import AsJson

_PACKAGES = (
    "torch", "transformers", "tokenizers", "accelerate", "peft", "datasets", "safetensors", "numpy", "pandas",
    "pyarrow", "scipy",
)  # fmt: skip


def info(as_json: AsJson = False) -> None:
    """Show versions, device, cores and folders, to paste into a bug report."""
    from realm.models import store

    facts: dict[str, Any] = {"realm": __version__, "python": platform.python_version(), "platform": platform.platform()}
    facts |= {package: _version_of(package) for package in _PACKAGES}
    facts |= {
        "device": _device(),
        "cores": _cores(),
        "home": str(store.home()),
        "models": [model.name for model in store.models() if model.present],
        "offline": store.offline(),
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name.ljust(width)}  {_readable(value)}")


def _readable(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "not installed" if value is None else str(value)


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device() -> str | None:
    """Where training would run. A build of torch without CUDA says so in its version and need not be imported."""
    build = _version_of("torch")
    if build is None or build.endswith("+cpu"):
        return build and "cpu"
    import torch

    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.device_count()} x {torch.cuda.get_device_name()})"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
