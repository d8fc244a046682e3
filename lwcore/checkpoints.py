"""Checkpoints: how far training has come, in files that are whole, or named and set aside."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import torch

from lwcore import results
from lwcore.train import Progress

Snapshots = dict[int, dict[str, Any]]


def write(path: Path, state: Progress, snapshots: Snapshots) -> None:
    """Store where a network is in its training, atomically and under a checksum, with its state dictionaries on the way, by step."""
    whole = io.BytesIO()  # in memory first: a full disk is then an OSError, whatever the format
    torch.save(dict(vars(state)) | {"snapshots": snapshots}, whole)
    results.write_atomically(path, lambda part: part.write_bytes(results.sealed(whole.getvalue())))


def read(path: Path) -> tuple[Progress, Snapshots]:
    """Read a checkpoint. Its checksum is verified before anything else, and no pickled code is ever executed."""
    try:
        state = torch.load(io.BytesIO(results.unsealed(path.read_bytes())), weights_only=True, map_location="cpu")
        return Progress(**{field.name: state[field.name] for field in dataclasses.fields(Progress)}), state["snapshots"]
    except Exception as error:  # torch.load raises what it likes
        raise ValueError(f"checkpoint {path} cannot be read ({error}).") from error


def latest(path: Path) -> tuple[Progress, Snapshots] | None:
    """Read a checkpoint if there is one; what cannot be read is set aside with a warning, and training starts anew."""
    if not path.exists():
        return None
    try:
        return read(path)
    except ValueError as error:
        results.set_aside(path, str(error))
        return None
