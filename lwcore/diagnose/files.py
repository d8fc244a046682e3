"""Weights and data of a reader's network from files, of which nothing is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lwcore.diagnose.adapter import Function
from lwcore.diagnose.data import Pair
from lwcore.signatures import ArgumentError, checked, require

_FIRST = "weight_hh_l0"
_CLASSES = {4: nn.LSTM, 3: nn.GRU, 1: nn.RNN}  # by blocks of H rows in weight_hh


@checked
def from_files(
    checkpoint: str | Path, data: str | Path, nonlinearity: Literal["tanh", "relu"] = "tanh"
) -> tuple[nn.Module, Function, Pair]:
    """A recurrent module, batch first, its readout as a head, and a batch, from files.

    Weights are a state dictionary of ``torch.save``, also one level down; their names and shapes
    say all but what an `nn.RNN` applies, its `nonlinearity`. An ``.npz`` file has ``inputs``, (B,
    T, D) or (B, T), and ``targets``, B in front; by their shape they are of every step, or of the
    last.
    """
    inputs, targets = load_data(data)
    module, weight, bias = rebuild(load_weights(checkpoint), nonlinearity)
    steps = slice(None) if targets.shape[1:2] == inputs.shape[1:2] else -1

    def head(given: tuple[Tensor, Any]) -> Tensor:
        outputs = given[0] if isinstance(given, tuple) else given
        predictions = functional.linear(outputs[:, steps], weight, bias)
        if targets.is_floating_point():
            return predictions.reshape(len(outputs), *targets.shape[1:])
        return predictions.movedim(-1, 1)

    return module.eval(), head, (inputs, targets)


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """A state dictionary from a file; pickled code is refused."""
    words = f"checkpoint = {str(path)!r}: must hold weights alone, of one nn.LSTM, GRU or RNN"
    try:
        held = torch.load(path, weights_only=True, map_location="cpu")
    except OSError:
        raise
    except Exception as error:  # PyTorch raises what it likes
        raise ArgumentError(f"{words}, as of torch.save(net.state_dict(), path).") from error
    for weights in [held, *(held.values() if isinstance(held, dict) else ())]:
        if isinstance(weights, dict) and any(str(name).endswith(_FIRST) for name in weights):
            return {str(name): part for name, part in weights.items() if isinstance(part, Tensor)}
    raise ArgumentError(f"{words} ({_FIRST}).")


def rebuild(
    weights: dict[str, Tensor], nonlinearity: str = "tanh"
) -> tuple[nn.Module, Tensor, Tensor | None]:
    """A recurrent module from its weights, and weight and bias of its readout, or the identity."""
    prefix = next(n for n in weights if n.endswith(_FIRST)).removesuffix(_FIRST)
    short = {name.removeprefix(prefix): part for name, part in weights.items()}
    own = {name: part for name, part in short.items() if name.startswith(("weight_", "bias_"))}
    left = [name for name in short if name not in own]
    readout = {name.rpartition(".")[-1]: short[name] for name in left}
    (rows, hidden), dtype = own[_FIRST].shape, own[_FIRST].dtype
    kind = _CLASSES.get(rows // hidden, nn.RNN)
    options: dict[str, Any] = {"nonlinearity": nonlinearity} if kind is nn.RNN else {}
    options |= {"bias": "bias_ih_l0" in own, "batch_first": True, "dtype": dtype}
    layers = sum(name.startswith("weight_hh") for name in own)
    # made without parameters, which would be drawn from PyTorch's own generator
    module = kind(own["weight_ih_l0"].shape[1], hidden, layers, device="meta", **options)
    module = module.to_empty(device="cpu")
    weight = readout.get("weight", torch.eye(hidden, dtype=dtype))
    known, given = ({n: p.shape for n, p in of.items()} for of in (module.state_dict(), own))
    linear = len(readout) == len(left) and readout.keys() <= {"weight", "bias"}
    words = "weights of one recurrent module of one direction, without projections, and at most "
    words += "of a linear readout (use Python for others)"
    fits = known == given and linear and weight.shape[1:] == (hidden,)
    require("checkpoint", ", ".join(weights), fits, words)
    module.load_state_dict(own)
    return module, weight, readout.get("bias")


def load_data(path: str | Path) -> Pair:
    """Inputs, with an axis for their width, and targets, from a file; pickles are refused."""
    try:
        with np.load(path, allow_pickle=False) as held:
            inputs, targets = held["inputs"], held["targets"]
    except (KeyError, ValueError, EOFError, AttributeError, TypeError) as error:
        words = "must be an .npz file with plain arrays 'inputs' and 'targets'"
        raise ArgumentError(f"data = {str(path)!r}: {words} ({error}).") from None
    fit = inputs.ndim in (2, 3) and targets.shape[:1] == inputs.shape[:1]
    fit &= inputs.dtype.kind in "iuf" and targets.dtype.kind in "iuf"
    shown = f"{inputs.shape} ({inputs.dtype}) and {targets.shape} ({targets.dtype})"
    words = "numbers, (B, T, D) or (B, T), and B in front"
    require("inputs and targets of data", shown, fit, words)
    inputs = inputs.astype(np.float64).reshape(*inputs.shape[:2], -1)
    kept = np.float64 if targets.dtype.kind == "f" else np.int64
    return torch.from_numpy(inputs), torch.from_numpy(targets.astype(kept))
