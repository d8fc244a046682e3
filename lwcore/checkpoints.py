"""Checkpoints: how far training has come, in files that are whole, or named and set aside."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lwcore import results
from lwcore.train import Progress

Snapshots = dict[int, dict[str, Any]]


def write(path: Path, states: Sequence[Progress], snapshots: Sequence[Snapshots]) -> None:
    """Store where some networks are in their training, atomically and under a checksum.

    Args:
        path: Where.
        states: The progress of each network.
        snapshots: Of each, its state dictionaries on the way, by the number of steps taken.
    """
    whole = io.BytesIO()  # in memory first: a full disk is then an OSError, whatever the format
    torch.save([dict(vars(state)) | {"snapshots": kept} for state, kept in zip(states, snapshots, strict=True)], whole)
    results.write_atomically(path, lambda part: part.write_bytes(results.sealed(whole.getvalue())))


def read(path: Path) -> tuple[list[Progress], list[Snapshots]]:
    """Read a checkpoint. Its checksum is verified before anything else, and no pickled code is ever executed.

    Args:
        path: A file that `write` wrote.

    Returns:
        Progress and snapshots of each network.

    Raises:
        ValueError: If it is damaged, or no checkpoint.
    """
    try:
        states = torch.load(io.BytesIO(results.unsealed(path.read_bytes())), weights_only=True, map_location="cpu")
        names = [field.name for field in dataclasses.fields(Progress)]
        return [Progress(**{name: state[name] for name in names}) for state in states], [state["snapshots"] for state in states]
    except Exception as error:  # torch.load raises what it likes
        raise ValueError(f"checkpoint {path} cannot be read ({error}).") from error


def latest(path: Path) -> tuple[list[Progress], list[Snapshots]] | None:
    """Read a checkpoint if there is one; what cannot be read is set aside with a warning.

    Args:
        path: Where it would be.

    Returns:
        As for `read`; None where training has to start anew.
    """
    if not path.exists():
        return None
    try:
        return read(path)
    except ValueError as error:
        results.set_aside(path, str(error))
        return None
