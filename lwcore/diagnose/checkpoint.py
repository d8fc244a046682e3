"""Weights and data from files, without executing anything that stands in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lwcore.arguments import one_of

_KINDS = {4: nn.LSTM, 3: nn.GRU, 1: nn.RNN}  # by blocks of H rows in weight_hh


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a state dictionary: a file of ``torch.save(net.state_dict(), path)``, also one level down, or a ``.safetensors`` file.

    Anything but tensors is refused: pickled code is not run.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"checkpoint = {str(path)!r}: there is no such file.")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            held = load_file(file)
        else:
            held = torch.load(file, weights_only=True, map_location="cpu")
    except ImportError:
        raise ImportError("Reading .safetensors needs a package: pip install safetensors") from None
    except Exception as error:  # the two readers raise what they like
        asked = re.search(r"GLOBAL (\S+)", str(error))
        why = f"refused, it asks to run {asked[1]}" if asked else f"not a file of weights ({str(error).partition(chr(10))[0]})"
        raise ValueError(
            f"checkpoint = {str(path)!r}: {why}. Only weights are read, and nothing in a file is run; "
            "store them with torch.save(net.state_dict(), path)."
        ) from None
    for candidate in [held, *(held.values() if isinstance(held, dict) else ())]:
        if isinstance(candidate, dict) and any(str(name).endswith("weight_hh_l0") for name in candidate):
            return {str(name): value for name, value in candidate.items() if isinstance(value, Tensor)}
    raise ValueError(f"checkpoint = {str(path)!r}: holds no state dictionary with a recurrent module of PyTorch (weight_hh_l0).")


def network(
    weights: dict[str, Tensor],
    recurrent: str | None = None,
    readout: str | None = None,
    nonlinearity: str = "tanh",
    *,
    every_step: bool = False,
) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """Rebuild a recurrent module, batch first, and its head, a linear readout, from the names and shapes of their weights.

    `recurrent` is the part of a name before ``weight_hh_l0``, needed where there are several; so is the name of the linear `readout`,
    ``"none"`` for none. `nonlinearity` is what an `nn.RNN` applies: the shapes do not say. The head reads every step, or the last.
    """
    one_of("nonlinearity", nonlinearity, ("tanh", "relu"))
    prefix = _chosen("recurrent", recurrent, [name.removesuffix("weight_hh_l0") for name in weights if name.endswith("weight_hh_l0")])
    own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    own = {name: value for name, value in own.items() if re.fullmatch(r"(weight|bias)_(ih|hh)_l\d+", name)}
    rows, hidden = own["weight_hh_l0"].shape
    fitting = [name.removesuffix(".weight") for name, value in weights.items() if name.endswith(".weight") and value.shape[1:] == (hidden,)]
    known = {prefix + name for name in own} | {f"{name}.{part}" for name in fitting for part in ("weight", "bias")}
    if (kind := _KINDS.get(rows // hidden)) is None or (strange := sorted(set(weights) - known)):
        found = f"weight_hh_l0 of shape {(rows, hidden)}" if kind is None else ", ".join(map(repr, strange))
        raise ValueError(
            f"checkpoint holds {found}, for which a recurrent module of one direction without projections and a linear readout have no "
            "use; a network with more parts is diagnosed in Python, by lwcore.diagnose.diagnose."
        )
    layers = 1 + max(int(name.rpartition("_l")[2]) for name in own)
    options: dict[str, Any] = {"nonlinearity": nonlinearity} if kind is nn.RNN else {}
    options |= {"num_layers": layers, "bias": "bias_ih_l0" in own, "batch_first": True, "dtype": own["weight_hh_l0"].dtype}
    module = kind(own["weight_ih_l0"].shape[1], hidden, **options)
    try:
        module.load_state_dict(own)
    except RuntimeError as error:
        raise ValueError(f"recurrent = {prefix!r}: its weights do not fit together ({error}).") from None
    weight, bias = torch.eye(hidden, dtype=module.weight_hh_l0.dtype), None
    if readout != "none" and (readout or fitting):
        name = _chosen("readout", readout, fitting)
        weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    return module, lambda outputs: nn.functional.linear(outputs if every_step else outputs[:, -1], weight, bias)


def _chosen(what: str, chosen: str | None, names: list[str]) -> str:
    """Take the only name there is, or the one that was asked for, with or without the dot behind it."""
    fits = [name for name in names if chosen is None or name.rstrip(".") == chosen]
    if len(fits) != 1:
        raise ValueError(
            f"{what} = {chosen!r}: must be one of {', '.join(repr(name.rstrip('.')) for name in sorted(names)) or 'none that fits'}."
        )
    return fits[0]


def loss_of(predictions: Tensor, targets: Tensor) -> Tensor:
    """Compare predictions (B, K) or (B, T, K) with targets: cross-entropy where these are integers, classes, else the squared error."""
    if not targets.is_floating_point():
        return nn.functional.cross_entropy(predictions.movedim(-1, 1), targets)
    return nn.functional.mse_loss(predictions.reshape(targets.shape), targets)


def load_data(path: str | Path) -> tuple[Tensor, Tensor]:
    """Read an ``.npz`` file: inputs (B, T, D) or (B, T), one number a step, and targets with B in front."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"data = {str(path)!r}: there is no such file.")
    try:
        with np.load(path, allow_pickle=False) as held:
            inputs, targets = (held[name] for name in ("inputs", "targets"))
    except (KeyError, ValueError, OSError, AttributeError, TypeError) as error:
        raise ValueError(f"data = {str(path)!r}: must be an .npz file with plain arrays 'inputs' and 'targets' ({error}).") from None
    numbers = inputs.dtype.kind in "iuf" and targets.dtype.kind in "iuf"
    if inputs.ndim not in (2, 3) or not numbers or targets.shape[:1] != inputs.shape[:1]:
        shapes = f"{inputs.shape} ({inputs.dtype}) and {targets.shape} ({targets.dtype})"
        raise ValueError(f"data = {str(path)!r}: inputs and targets are {shapes}; must be numbers, (B, T, D) or (B, T), and B in front.")
    inputs = inputs.astype(np.float64).reshape(*inputs.shape[:2], -1)
    return torch.from_numpy(inputs), torch.from_numpy(targets.astype(np.int64 if targets.dtype.kind in "iu" else np.float64))
