"""A reader's network as the core sees it: a recurrence with a step, and loss gradients δ.

The network runs as it is, in its own precision and layout, and is not changed. A hook cuts the
graph behind the recurrent module, where the gradient of a loss ends; from there on everything is
read off a `lwcore.trace.Trace` in float64. Weights and data may come from files, of which nothing
is executed.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lwcore.arguments import one_of
from lwcore.cells import GRU, LSTM, Cell
from lwcore.trace import Trace

Pair = tuple[Tensor, Tensor]
Function = Callable[..., Tensor]

_TRIED = 4  # sequences on which assumptions are tried
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over the steps
_CLASSES = {4: nn.LSTM, 3: nn.GRU, 1: nn.RNN}  # by blocks of H rows in weight_hh


class Layers(nn.Module):
    """A stack of PyTorch's recurrent layers as one step of one state, in float64.

    The state is all layers' side by side, (h¹, h², …), of an LSTM (h¹, c¹, h², c², …). Inside a
    step a layer reads what the layer below has just written, so that one-step Jacobians hold all
    paths through time and layers. Outputs are `shown` of all layers; the last H are the module's.
    """

    def __init__(self, module: Any) -> None:
        """Take the parameters of a module of one direction and without projections."""
        super().__init__()
        for name, parameter in module.named_parameters():
            self.register_parameter(name, parameter)
        self.cell: Any = getattr(torch, f"{module.mode.lower()}_cell")
        self.layers, self.parts = module.num_layers, 2 if module.mode == "LSTM" else 1
        self.state_size = self.layers * self.parts * module.hidden_size
        places = torch.arange(self.state_size).unflatten(0, (self.layers, self.parts, -1))
        self.shown, self.carried = places[:, 0].flatten(), places[:, -1].flatten()
        family: Any = {"LSTM": LSTM, "GRU": GRU}.get(module.mode)
        if self.layers == 1 and family is not None:  # the same step, with its derivative
            self.closed_form = family.from_torch(module).requires_grad_(False).closed_form

    def step(self, x: Float[Tensor, "... D"], state: Float[Tensor, "... S"]) -> Tensor:
        """Take one step through all layers, each by PyTorch's own function."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        after: list[Tensor] = []
        x = x.reshape(-1, x.shape[-1])
        before = state.reshape(len(x), self.layers, self.parts, -1)
        for layer in range(self.layers):
            weights = [getattr(self, f"{name}_l{layer}", None) for name in names]
            past = before[:, layer].unbind(1)
            new = self.cell(x, past if self.parts > 1 else past[0], *weights)
            after += new if self.parts > 1 else [new]
            x = after[-self.parts]
        return torch.cat(after, dim=-1).reshape(state.shape)


class Adapter:
    """A network with its head and loss: a `recurrence` for the core, and, by `read`, traces and δ.

    A batch shows which axis counts the sequences in inputs, targets and predictions; inside,
    sequences stand in front. `shape` is that batch's, as the module reads it: sequences, steps,
    width of a step.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Pair,
        head: Function | None = None,
        loss: Function | None = None,
    ) -> None:
        """Find the recurrent module and the axes."""
        self.model, self.head, self.module = model, head, _recurrent(model)
        if head is not None and self.module is not model:
            raise ValueError("head: must be None unless model is a recurrent module itself.")
        self.kind, self.weight = type(self.module).__name__, next(self.module.parameters())
        copied: Any = copy.deepcopy(self.module).cpu().double().requires_grad_(False)
        self.recurrence = Layers(copied) if isinstance(copied, nn.RNNBase) else copied
        self.batch_first = bool(getattr(self.module, "batch_first", True))
        numbers = batch[1].is_floating_point()
        self.loss = loss or (functional.mse_loss if numbers else functional.cross_entropy)
        self.loss_name = getattr(self.loss, "__name__", type(self.loss).__name__)
        self.axes = {"inputs": 0, "targets": 0, "predictions": 0}
        predictions, read, *_ = self._forward(batch[0])
        self.shape = read.shape
        for name, tensor in zip(self.axes, (*batch, predictions), strict=True):
            self.axes[name] = self._axis(name, tensor)

    def _axis(self, name: str, tensor: Tensor) -> int:
        """Find the axis that counts the sequences."""
        sequences, length, _ = self.shape
        fits = [axis for axis, size in enumerate(tensor.shape[:2]) if size == sequences]
        if not fits:
            read = f"the {sequences} sequences, of {length} steps, that the {self.kind} reads"
            raise ValueError(
                f"{name} have shape {tuple(tensor.shape)}: one of the first two axes must count "
                f"{read} with batch_first={self.batch_first}. Are axes swapped?"
            )
        return fits[-1] if sequences == length and not self.batch_first else fits[0]

    def warn_of_swapped_axes(self, targets: Tensor, batch_size: int | None) -> None:
        """Warn where only `batch_first` tells sequences and steps apart, and sequences are fewer.

        Where the loader says how many sequences a batch holds, that decides.
        """
        count, length, _ = self.shape
        layout = (count, length) if self.batch_first else (length, count)
        clear = count in (length, batch_size) or not (length > count or length == batch_size)
        if not clear and tuple(targets.shape[:2]) == layout:
            read = f"inputs are read as {count} sequences of {length} steps, for the {self.kind}"
            warnings.warn(f"{read} has batch_first={self.batch_first}. Is that so?", stacklevel=3)

    def sequences_first(self, batch: Pair) -> Pair:
        """Bring a batch's axis of sequences to the front."""
        inputs, targets = (part.to(self.weight.device) for part in batch)
        return inputs.movedim(self.axes["inputs"], 0), targets.movedim(self.axes["targets"], 0)

    def _forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """Run the network.

        Gives predictions; what the recurrent module was given, (B, T, D), and its first state, (B,
        S), in float64; and its outputs and last states, at which the predictions' graph ends.
        """
        calls: list[tuple[Any, ...]] = []

        def leaf(part: Any) -> Any:
            many = isinstance(part, tuple)
            return tuple(map(leaf, part)) if many else part.detach().requires_grad_()

        def cut(module: Any, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
            read, state, *_ = *given, *named.values(), None
            if not isinstance(read, Tensor) or read.ndim != 3:
                kind = f"inputs of the {self.kind} are a {type(read).__name__}"
                raise TypeError(f"{kind}: must be a tensor of three axes, equally long sequences.")
            calls.append((read, state, leaf(returned)))
            return calls[-1][2]

        hook = self.module.register_forward_hook(cut, with_kwargs=True)
        try:
            with torch.enable_grad():
                dtype = self.weight.dtype if inputs.is_floating_point() else None
                given = inputs.to(self.weight.device, dtype).movedim(0, self.axes["inputs"])
                predictions = self.model(given)
                if self.module is self.model:
                    outputs = predictions[0] if isinstance(predictions, tuple) else predictions
                    predictions = outputs if self.head is None else self.head(outputs)
        finally:
            hook.remove()
        if len(calls) != 1:
            times = f"{len(calls)} times: must be once a pass"
            raise ValueError(f"model calls its {self.kind} {times}.")
        read, state, leaves = calls[0]
        outputs, last = leaves if isinstance(leaves, tuple) else (leaves, ())
        ours = (read if self.batch_first else read.transpose(0, 1)).detach().cpu().double()
        initial = ours.new_zeros(len(ours), self.recurrence.state_size)
        if state is not None:  # parts of (layers, B, H), of a cell (B, H)
            parts = [part if part.ndim == 3 else part.unsqueeze(0) for part in _many(state)]
            initial = torch.stack(parts, dim=1).permute(2, 0, 1, 3).flatten(1).detach().to(ours)
        predictions = predictions.movedim(self.axes["predictions"], 0)
        return predictions, ours, initial, [outputs, *_many(last)]

    def _loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Give the loss, in the reader's own layout."""
        predictions = predictions.movedim(0, self.axes["predictions"])
        return self.loss(predictions, targets.movedim(0, self.axes["targets"])).sum()

    def _losses(self, predictions: Tensor, targets: Tensor) -> Float[Tensor, " B"]:
        """Give every sequence's loss: that of a batch which holds it alone."""
        each = zip(predictions.split(1), targets.split(1), strict=True)
        return torch.stack([self._loss(*one) for one in each])

    def forget(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Take the best constant prediction for the network's, as if nothing had been learned yet.

        Gives what stands in the targets' place from now on: each sequence's loss gradient at the
        mean prediction, centred, which makes the constant the best one: for squared error and
        cross-entropy exactly. The loss is then their product with the prediction.
        """
        predictions = torch.cat([self._forward(some)[0].detach() for some in inputs.split(64)])
        constant = predictions.mean(0, keepdim=True).expand_as(predictions).clone().requires_grad_()
        gradients = torch.autograd.grad(self._losses(constant, targets).sum(), constant)[0]
        self.loss, self.axes["targets"] = torch.mul, self.axes["predictions"]
        return gradients - gradients.mean(0)

    def read(self, inputs: Tensor, targets: Tensor) -> tuple[Trace, Float[Tensor, "B T S"]]:
        """Trace sequences, and give each one's ``δ_t = ∂E/∂s_t``, with the states held apart."""
        predictions, read, initial, leaves = self._forward(inputs)
        with torch.enable_grad():
            total = self._losses(predictions, targets).sum()
            if not total.requires_grad:
                raise ValueError("loss: does not depend on the recurrent module's outputs.")
            found = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        outputs, *last = (part.detach().cpu().double() for part in found)
        trace = Trace.of(self.recurrence, read, initial)
        places = torch.arange(self.recurrence.state_size)
        shown, carried = places[self.recurrence.shown], places[self.recurrence.carried]
        delta = torch.zeros_like(trace.states)
        outputs = outputs if self.batch_first else outputs.transpose(0, 1)
        delta[..., shown[-outputs.shape[-1] :]] = outputs
        for part, where in zip(last, (shown, carried), strict=False):  # h, c of every layer
            delta[:, -1, where] += part.transpose(0, 1).flatten(1)
        return trace, delta

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Try whether sequences are treated one by one, and the module's step is known."""
        inputs, targets = inputs[:_TRIED], targets[:_TRIED]
        tolerance = _TOLERANCE.get(self.weight.dtype, 0.05)
        rounding = "If it does, rounding grows in its states: try model.double()."
        together, read, initial, leaves = self._forward(inputs)
        alone = torch.cat([self._forward(one)[0] for one in inputs.split(1)])
        if not torch.allclose(alone, together, tolerance, tolerance):  # NaN fails, too
            raise ValueError(
                "model: predicts otherwise for a sequence alone than among others, or NaN; must "
                f"treat them one by one, without random draws (call model.eval() first). {rounding}"
            )
        losses = self._losses(together, targets).detach()
        joint, total, mean = self._loss(together, targets).detach(), losses.sum(), losses.mean()
        largest = torch.maximum(joint.abs(), losses.abs().max())  # may be tiny
        if not min(abs(joint - total), abs(joint - mean)) <= tolerance * largest:
            shapes = f"predictions {tuple(together.shape)} and targets {tuple(targets.shape)}"
            raise ValueError(
                f"loss: of {len(losses)} sequences together it is {joint:.6g}; must be the sum of "
                f"what they have alone, {total:.6g}, or the mean, {mean:.6g} (if weighted: the "
                "sum). "
                f"Are {shapes} broadcast?"
            )
        outputs = leaves[0].detach() if self.batch_first else leaves[0].detach().transpose(0, 1)
        ours = Trace.of(self.recurrence, read, initial).outputs[..., -outputs.shape[-1] :]
        if not torch.allclose(outputs.cpu().double(), ours, tolerance, tolerance):
            what = "must compute what that class documents"
            raise ValueError(f"model: its {self.kind} {what}. {rounding}")


def _many(part: Any) -> tuple[Tensor, ...]:
    """Give one or several tensors as several."""
    return part if isinstance(part, tuple) else (part,)


def _recurrent(model: nn.Module) -> nn.Module:
    """Find the one recurrent module of a network; refuse what cannot be diagnosed."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}: must be a torch.nn.Module.")
    parts = [("", model)] if isinstance(model, nn.RNNBase | Cell) else model.named_modules()
    found = {name: part for name, part in parts if isinstance(part, nn.RNNBase | Cell)}
    if len(found) != 1:
        count = f"{len(found)} recurrent modules ({', '.join(found) or 'none'})"
        raise ValueError(f"model has {count}: must have one nn.LSTM, GRU or RNN, or be one.")
    random = nn.modules.dropout._DropoutNd | nn.modules.batchnorm._BatchNorm
    for name, part in model.named_modules():
        drops = isinstance(part, random) or (isinstance(part, nn.RNNBase) and part.dropout > 0)
        if part.training and drops:
            what = f"dropout or batch statistics in {name or type(part).__name__}"
            raise ValueError(f"model: {what}; call model.eval() first.")
    (module,) = found.values()
    if getattr(module, "bidirectional", False) or getattr(module, "proj_size", 0):
        given = f"bidirectional={module.bidirectional} and proj_size={module.proj_size}"
        raise ValueError(f"model has {given}; must have one direction of time and no projection.")
    return module


def from_files(
    checkpoint: str | Path,
    data: str | Path,
    nonlinearity: str = "tanh",
) -> tuple[nn.Module, Function, Pair]:
    """A recurrent module, batch first, its readout as a head, and a batch; nothing is executed.

    Weights are a state dictionary of ``torch.save``, also one level down, or ``.safetensors``;
    their names and shapes say all but what an `nn.RNN` applies, its `nonlinearity`. An ``.npz``
    file has ``inputs``, (B, T, D) or (B, T), and ``targets``, B in front; by their shape they are
    of every step, or of the last.
    """
    inputs, targets = load_data(data)
    module, weight, bias = rebuild(load_weights(checkpoint), nonlinearity)
    steps = slice(None) if targets.shape[1:2] == inputs.shape[1:2] else -1

    def head(outputs: Tensor) -> Tensor:
        predictions = functional.linear(outputs[:, steps], weight, bias)
        if targets.is_floating_point():
            return predictions.reshape(len(outputs), *targets.shape[1:])
        return predictions.movedim(-1, 1)

    return module, head, (inputs, targets)


def load_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a state dictionary; pickled code is refused."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"checkpoint = {str(path)!r}: there is no such file.")
    try:
        if Path(path).suffix == ".safetensors":
            from safetensors.torch import load_file

            held: Any = load_file(path)
        else:
            held = torch.load(path, weights_only=True, map_location="cpu")
    except ImportError:
        raise
    except Exception as error:  # the two readers raise what they like
        needs = "must hold weights alone, as of torch.save(net.state_dict(), path)"
        raise ValueError(f"checkpoint = {str(path)!r}: {needs}.") from error
    for weights in [held, *(held.values() if isinstance(held, dict) else ())]:
        named = {str(n): w for n, w in weights.items()} if isinstance(weights, dict) else {}
        if any(name.endswith("weight_hh_l0") for name in named):
            return {name: part for name, part in named.items() if isinstance(part, Tensor)}
    raise ValueError(f"checkpoint = {str(path)!r}: must hold a recurrent module (weight_hh_l0).")


def rebuild(
    weights: dict[str, Tensor],
    nonlinearity: str = "tanh",
) -> tuple[nn.Module, Tensor, Tensor | None]:
    """Rebuild a recurrent module, and weight and bias of its readout: the identity if none."""
    one_of("nonlinearity", nonlinearity, ("tanh", "relu"))
    first, own_names = "weight_hh_l0", r"(weight|bias)_(ih|hh)_l\d+"
    prefix, *others = (name.removesuffix(first) for name in weights if name.endswith(first))
    own = {name.removeprefix(prefix): weights[name] for name in weights if name.startswith(prefix)}
    own = {name: part for name, part in own.items() if re.fullmatch(own_names, name)}
    left = [name.rpartition(".") for name in weights if name.removeprefix(prefix) not in own]
    readout = {part: weights[name + dot + part] for name, dot, part in left}
    rows, hidden = own[first].shape
    weight = readout.pop("weight", torch.eye(hidden, dtype=own[first].dtype))
    bias, kind = readout.pop("bias", None), _CLASSES.get(rows // hidden)
    one = not others and not readout and len({name for name, *_ in left}) <= 1
    if not one or kind is None or weight.shape[1:] != (hidden,):
        raise ValueError(
            f"checkpoint holds {', '.join(weights)}: must hold one recurrent module of one "
            "direction, without projections, and at most a linear readout; use Python for others."
        )
    options: dict[str, Any] = {"nonlinearity": nonlinearity} if kind is nn.RNN else {}
    options["num_layers"] = 1 + max(int(name.rpartition("_l")[2]) for name in own)
    options |= {"bias": "bias_ih_l0" in own, "batch_first": True, "dtype": own[first].dtype}
    module = kind(own["weight_ih_l0"].shape[1], hidden, **options)
    module.load_state_dict(own)
    return module, weight, bias


def load_data(path: str | Path) -> Pair:
    """Read inputs, with an axis for their width, and targets; pickled arrays are refused."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"data = {str(path)!r}: there is no such file.")
    try:
        with np.load(path, allow_pickle=False) as held:
            inputs, targets = held["inputs"], held["targets"]
    except (KeyError, ValueError, OSError, AttributeError, TypeError) as error:
        needs = "must be an .npz file with plain arrays 'inputs' and 'targets'"
        raise ValueError(f"data = {str(path)!r}: {needs} ({error}).") from None
    numbers = inputs.dtype.kind in "iuf" and targets.dtype.kind in "iuf"
    if inputs.ndim not in (2, 3) or not numbers or targets.shape[:1] != inputs.shape[:1]:
        shapes = f"{inputs.shape} ({inputs.dtype}) and {targets.shape} ({targets.dtype})"
        needs = "must be numbers, (B, T, D) or (B, T), and B in front"
        raise ValueError(f"data = {str(path)!r}: inputs and targets are {shapes}; {needs}.")
    inputs = inputs.astype(np.float64).reshape(*inputs.shape[:2], -1)
    kept = np.float64 if targets.dtype.kind == "f" else np.int64
    return torch.from_numpy(inputs), torch.from_numpy(targets.astype(kept))
