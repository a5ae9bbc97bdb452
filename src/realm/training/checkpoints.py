"""Checkpoints of a run in progress: whole or absent, verified before they are read."""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from realm.errors import RealmError
from realm.training.files import verify_manifest

logger = logging.getLogger(__name__)

TRAINED = "trained.safetensors"
CHANNEL = "channel.safetensors"
TRAJECTORY = "trajectory.safetensors"


def trained_state(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that train, by name; a tensor that is shared appears once."""
    return {n: p.detach().contiguous() for n, p in module.named_parameters() if p.requires_grad}


def save_trained(module: nn.Module, path: Path) -> None:
    save_file({name: value.cpu() for name, value in trained_state(module).items()}, path)


def load_trained(module: nn.Module, path: Path) -> None:
    """Put saved parameters back; anything missing or left over means another model or other flags."""
    saved = load_file(path)
    wanted = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if odd := sorted(set(saved) ^ set(wanted)):
        raise RealmError(f"{path} belongs to another model or other flags: {odd[0]} is in only one of them.")
    with torch.no_grad():
        for name, parameter in wanted.items():
            if parameter.shape != saved[name].shape:
                raise RealmError(f"{path} belongs to another table or model: {name} has another shape.")
            parameter.copy_(saved[name])


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders, the newest first."""
    found = [path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted(found, key=lambda path: -int(path.name.split("-")[1]))


def newest_whole(folder: Path) -> Path | None:
    """The newest checkpoint whose manifest verifies; damaged ones are passed over, saying so."""
    found = checkpoints(folder)
    for path in found:
        try:
            verify_manifest(path)
            return path
        except RealmError as error:
            logger.warning("passing over a damaged checkpoint: %s", error)
    if found:
        raise RealmError(f"{folder}: no checkpoint is whole; start again with --overwrite.")
    return None


def rotate(folder: Path, keep: int | None) -> None:
    """Remove all but the newest `keep` checkpoints, and what an interrupted save left behind."""
    for path in checkpoints(folder)[keep:] if keep else []:
        shutil.rmtree(path, ignore_errors=True)
