"""Weights and data from files, without executing anything that stands in them."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lwcore.arguments import one_of
from lwcore.diagnose.losses import no_classes

_KINDS = {4: "lstm", 3: "gru", 1: "rnn"}  # blocks of H rows in weight_hh
_BEGINNINGS = b"PK\x03\x04", b"\x80"  # of what torch.save writes: an archive, and in earlier times a pickle
NONLINEARITIES = ("tanh", "relu")


class Net(nn.Module):
    """A recurrent module with a linear readout, as a checkpoint's shapes tell.

    Attributes:
        recurrent: `torch.nn.LSTM`, `GRU` or `RNN`, batch first.
        readout: Linear, or nothing.
        every_step: Predict at every step, not only behind the last.
    """

    def __init__(self, recurrent: nn.Module, readout: nn.Module, every_step: bool) -> None:
        """Put the parts together."""
        super().__init__()
        self.recurrent, self.readout, self.every_step = recurrent, readout, every_step

    def forward(self, inputs: Tensor) -> Tensor:
        """Predict from inputs (B, T, D)."""
        outputs, _ = self.recurrent(inputs)
        return self.readout(outputs if self.every_step else outputs[:, -1])


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a state dictionary.

    Args:
        path: A file of ``torch.save(net.state_dict(), path)``, also with the state dictionary one level down, under any name; or a
            ``.safetensors`` file, which needs the package of that name.

    Returns:
        Tensors by name.

    Raises:
        FileNotFoundError: If there is no such file.
        ImportError: If safetensors is needed and missing.
        ValueError: If it is anything but tensors: pickled code is refused, not run.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"checkpoint = {str(path)!r}: there is no such file.")
    if file.suffix == ".safetensors":
        try:
            from safetensors import SafetensorError
            from safetensors.torch import load_file
        except ImportError:
            raise ImportError("Reading .safetensors needs a package: pip install safetensors") from None
        try:
            return load_file(file)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"checkpoint = {str(path)!r}: not a safetensors file ({error}).") from None
    with file.open("rb") as opened:
        known = opened.read(4).startswith(_BEGINNINGS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an unusual pickle, which is about to be refused
            held = torch.load(file, weights_only=True, map_location="cpu")
    except Exception as error:  # torch.load raises what it likes
        if not known:
            raise ValueError(
                f"checkpoint = {str(path)!r}: not a file of weights; must be one that torch.save(net.state_dict(), path) has written, or a "
                ".safetensors file."
            ) from None
        if not isinstance(error, pickle.UnpicklingError):
            raise ValueError(f"checkpoint = {str(path)!r}: not a file of weights ({error}).") from None
        asked = re.search(r"GLOBAL (\S+)", str(error))
        why = f"it asks to run {asked[1]}" if asked else "it holds more than weights"
        raise ValueError(
            f"checkpoint = {str(path)!r}: refused, {why}. Only weights are read, and nothing in a file is run; "
            "store them with torch.save(net.state_dict(), path)."
        ) from None
    return _tensors(held, path)


def _tensors(held: object, path: str | Path) -> dict[str, Tensor]:
    """Find the state dictionary: what was stored, or the one entry of it that is one."""
    candidates = [held, *(held.values() if isinstance(held, dict) else ())]
    for candidate in candidates:
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
) -> Net:
    """Rebuild a network from the names and shapes of its weights.

    Args:
        weights: Tensors by name.
        recurrent: Name of the recurrent module, the part before ``weight_hh_l0``; needed where there are several.
        readout: Name of the linear readout; needed where several fit, of which the others are then left out. ``"none"`` for none.
        nonlinearity: What an `nn.RNN` applies: the shapes do not say.
        every_step: Predict at every step, not only behind the last.

    Returns:
        The network, in evaluation mode.

    Raises:
        ValueError: If the weights do not tell which network it is, if there are some that neither the recurrent module nor a linear
            readout has a use for, or if the network cannot be diagnosed.
    """
    one_of("nonlinearity", nonlinearity, NONLINEARITIES)
    names = sorted(name.removesuffix("weight_hh_l0").rstrip(".") for name in weights if re.search(r"(^|\.)weight_hh_l0$", name))
    prefix = _chosen("recurrent", recurrent, names)
    own = {
        name.removeprefix(prefix).lstrip("."): value for name, value in weights.items() if name.startswith(f"{prefix}." if prefix else "")
    }
    own = {name: value for name, value in own.items() if re.match(r"(weight|bias)_(ih|hh|hr)_l\d+(_reverse)?$", name)}
    rows, hidden = own["weight_hh_l0"].shape
    kind = _KINDS.get(rows // hidden) if rows % hidden == 0 else None
    for sign, what in (
        ("_reverse", "is bidirectional, and a lag needs one direction of time"),
        ("_hr_", "projects its outputs (proj_size)"),
    ):
        if any(sign in name for name in own):
            raise ValueError(f"recurrent = {prefix!r}: it {what}; not supported.")
    if kind is None:
        raise ValueError(
            f"recurrent = {prefix!r}: weight_hh_l0 has shape {(rows, hidden)}; must be 4 (LSTM), 3 (GRU) or 1 (RNN) times H by H."
        )
    layers = 1 + max(int(name.rsplit("_l", 1)[1]) for name in own)
    options = {"num_layers": layers, "bias": "bias_ih_l0" in own, "batch_first": True, "dtype": own["weight_hh_l0"].dtype}
    width = own["weight_ih_l0"].shape[1]
    module: nn.Module
    if kind == "rnn":
        module = nn.RNN(width, hidden, nonlinearity=nonlinearity, **options)
    else:
        module = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](width, hidden, **options)
    try:
        module.load_state_dict(own)
    except RuntimeError as error:
        raise ValueError(f"recurrent = {prefix!r}: its weights do not fit together ({error}).") from None
    fitting = sorted(
        name.removesuffix(".weight")
        for name, value in weights.items()
        if name.endswith(".weight") and value.ndim == 2 and value.shape[1] == hidden
    )
    known = {f"{prefix}.{name}" if prefix else name for name in own} | {f"{name}.{part}" for name in fitting for part in ("weight", "bias")}
    if strange := sorted(set(weights) - known):
        named = ", ".join(map(repr, strange[:4])) + ", …" * (len(strange) > 4)
        raise ValueError(
            f"checkpoint also holds {named}, for which a recurrent module and a linear readout have no use; a network with more parts is "
            "diagnosed in Python, by lwcore.diagnose.diagnose."
        )
    net = Net(module, _readout(weights, readout, fitting, hidden), every_step)
    return net.eval()


def _readout(weights: dict[str, Tensor], chosen: str | None, fitting: list[str], hidden: int) -> nn.Module:
    """Rebuild the linear readout: the matrix that takes as many inputs as there are neurons."""
    if chosen == "none" or (chosen is None and not fitting):
        return nn.Identity()
    name = _chosen("readout", chosen, fitting)
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    linear = nn.Linear(hidden, len(weight), bias=bias is not None, dtype=weight.dtype)
    linear.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}))
    return linear


def _chosen(what: str, chosen: str | None, names: list[str]) -> str:
    """Take the only name there is, or the one that was asked for."""
    if chosen is None and len(names) == 1:
        return names[0]
    if chosen is None or chosen not in names:
        raise ValueError(f"{what} = {chosen!r}: must be one of {', '.join(map(repr, names)) or 'none that fits'}.")
    return chosen


def loss_of(predictions: Tensor, targets: Tensor) -> Tensor:
    """Compare predictions with targets: cross-entropy where targets are integers, classes, the squared error where not; means.

    Args:
        predictions: Shape (B, K) or (B, T, K).
        targets: Shape (B) or (B, T) for classes, otherwise that of the predictions, or without an axis K of one.

    Returns:
        The loss, a scalar.

    Raises:
        ValueError: If the shapes do not fit.
    """
    if not targets.is_floating_point():
        predictions = predictions.movedim(-1, 1)
        if said := no_classes(predictions, targets):
            raise ValueError(f"{said} See --every-step, --readout.")
        return nn.functional.cross_entropy(predictions, targets)
    if predictions.numel() != targets.numel():
        raise ValueError(
            f"targets: {tuple(targets.shape)} do not fit predictions of {tuple(predictions.shape)}; see --every-step, --readout."
        )
    return nn.functional.mse_loss(predictions.reshape(targets.shape), targets)


def load_data(path: str | Path) -> tuple[Tensor, Tensor]:
    """Read inputs and targets.

    Args:
        path: A file of ``numpy.savez(path, inputs=…, targets=…)``: inputs (B, T, D) or (B, T), one number a step; targets with B in front.

    Returns:
        Inputs (B, T, D) and targets.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it does not hold these two arrays of numbers.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"data = {str(path)!r}: there is no such file.")
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in ("inputs", "targets")}
    except (KeyError, ValueError, OSError, AttributeError, TypeError) as error:
        raise ValueError(f"data = {str(path)!r}: must be an .npz file with plain arrays 'inputs' and 'targets' ({error}).") from None
    inputs, targets = arrays["inputs"], arrays["targets"]
    if (
        inputs.ndim not in (2, 3)
        or inputs.dtype.kind not in "iuf"
        or targets.dtype.kind not in "iuf"
        or targets.shape[:1] != inputs.shape[:1]
    ):
        shapes = f"{inputs.shape} ({inputs.dtype}) and {targets.shape} ({targets.dtype})"
        raise ValueError(f"data = {str(path)!r}: inputs and targets are {shapes}; must be numbers, (B, T, D) or (B, T), and B in front.")
    inputs = inputs.astype(np.float64).reshape(*inputs.shape[:2], -1)
    whole = targets.dtype.kind in "iu"
    return torch.from_numpy(inputs), torch.from_numpy(targets.astype(np.int64 if whole else np.float64))
