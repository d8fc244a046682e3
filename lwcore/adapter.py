"""A reader's model as the core sees it: sequences, losses, and readings of what each lag gives.

The model runs as it is, in its own precision and layout, and is not changed. Of one recurrent
module a hook cuts the graph behind it, where the gradient of a loss ends; from there on everything
is read off a `lwcore.trace.Trace` in float64. Any other causal model is read by `lwcore.uses`.

`lwcore.diagnose` knows of a model what an `Adapter` says: `kind`, `shape` and `loss_name`, what it
refuses (`check`), readings of batches (`read`), and a loss as if nothing had been learned
(`forget`). Of files with weights and data nothing is executed.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as trees

from lwcore.cells import GRU, LSTM, Cell
from lwcore.gradient import first_loss, lag_vectors, transported
from lwcore.signatures import ArgumentError, Lags, checked, require
from lwcore.trace import Trace

Pair = tuple[Tensor, Tensor]
Function = Callable[..., Tensor]

ZEROS: dict[str, Any] = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
TRIED = 4  # sequences on which assumptions are tried
_AT_ONCE, _ENTRIES = 128, 2**21  # sequences at a time, and numbers in an array, at the most
_ROUNDING = "If it does, rounding grows in its states: try model.double()"
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over the steps
_CLASSES = {4: nn.LSTM, 3: nn.GRU, 1: nn.RNN}  # by blocks of H rows in weight_hh


class Layers(nn.Module):
    """A stack of PyTorch's recurrent layers as one step of one state, in float64.

    The state is all layers' side by side, (h¹, h², …), of an LSTM (h¹, c¹, h², c², …). Inside a
    step a layer reads what the one below has just written, so that one-step Jacobians hold all
    paths through time and layers. Of the outputs, h of all layers, the last H are the module's.
    """

    def __init__(self, module: Any) -> None:
        """A stack with the parameters of a module of one direction and without projections."""
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
        """One step through all layers, each by PyTorch's own function."""
        after: list[Tensor] = []
        x = x.reshape(-1, x.shape[-1])
        before = state.reshape(len(x), self.layers, self.parts, -1)
        for layer, past in enumerate(before.unbind(1)):
            names = (f"{kind}_{of}_l{layer}" for kind in ("weight", "bias") for of in ("ih", "hh"))
            weights = (getattr(self, name, None) for name in names)
            after += _many(self.cell(x, past.unbind(1) if self.parts > 1 else past[:, 0], *weights))
            x = after[-self.parts]
        return torch.cat(after, dim=-1).reshape(state.shape)


class Reading(Protocol):
    """What a batch of sequences says of lags."""

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        """Each lag's part of the gradient, summed over sequences and end points, as one vector."""

    def numbers(self, directions: Float[Tensor, "lags P"], lags: Lags) -> Float[Tensor, "2 lags B"]:
        """Each sequence's part of each lag along its direction, and the whole gradient along it."""


class Adapter:
    """A reader's model with its head and loss, as the core sees it; what reads lags is a subclass.

    A batch shows which axis counts the sequences in inputs, targets and predictions; inside,
    sequences stand in front. `shape` is that batch's: sequences, steps, width of a step.
    """

    shape: tuple[int, ...]
    order = "the model reads sequences first"  # of axes
    batch_first = True

    def __init__(
        self, model: nn.Module, batch: Pair, head: Function | None = None, loss: Any = None
    ) -> None:
        """Find the axes."""
        self.model, self.head, self.kind = model, head, type(model).__name__
        training = any(part.training for part in model.modules())  # random draws, batch statistics
        require("model.training", training, not training, "False: call model.eval() first")
        weight = next(model.parameters(), None)
        require("model", self.kind, weight is not None, "one with parameters")
        self.weight: Any = weight
        numbers = batch[1].is_floating_point()
        usual = "mse_loss" if numbers else "cross_entropy"
        self.loss = loss or (nn.MSELoss() if numbers else nn.CrossEntropyLoss())
        self.loss_name = getattr(loss, "__name__", type(loss).__name__) if loss else usual
        self.axes = {"inputs": 0, "targets": 0, "predictions": 0}
        predictions = self._prepared(batch[0])
        for name, tensor in zip(self.axes, (*batch, predictions), strict=True):
            self.axes[name] = self._axis(name, tensor)

    def _prepared(self, inputs: Tensor) -> Tensor:
        """Predictions for a first batch, which says what its `shape` is."""
        raise NotImplementedError

    def read(self, inputs: Tensor, targets: Tensor) -> Reading:
        """What a batch of sequences says of lags."""
        raise NotImplementedError

    def fit(self, entries: int) -> None:
        """Read so many sequences at once that their arrays, of so many numbers each, stay small."""
        self.at_once = max(1, min(_AT_ONCE, _ENTRIES // max(entries, 1)))

    def _axis(self, name: str, tensor: Tensor) -> int:
        """The axis that counts the sequences."""
        sequences, length, _ = self.shape
        fits = [axis for axis, size in enumerate(tensor.shape[:2]) if size == sequences]
        words = f"{sequences} in one, the sequences, for {self.order}, of {length} steps (are axes "
        words += "swapped?)"
        require(f"first axes of {name}", tuple(tensor.shape[:2]), bool(fits), words)
        return fits[-1] if sequences == length and not self.batch_first else fits[0]

    def sequences_first(self, inputs: Tensor, targets: Tensor) -> Pair:
        """A batch with its axis of sequences in front."""
        inputs, targets = inputs.to(self.weight.device), targets.to(self.weight.device)
        return inputs.movedim(self.axes["inputs"], 0), targets.movedim(self.axes["targets"], 0)

    def predictions(self, inputs: Tensor) -> Tensor:
        """What the model predicts, through the head if there is one, sequences in front."""
        with torch.enable_grad():
            dtype = self.weight.dtype if inputs.is_floating_point() else None
            given = inputs.to(self.weight.device, dtype).movedim(0, self.axes["inputs"])
            found = self.model(given)
            if self.head is not None:
                found = self.head(_many(found)[0])
        return _many(found)[0].movedim(self.axes["predictions"], 0)

    def losses(self, predictions: Tensor, targets: Tensor, at_once: int = 1) -> Tensor:
        """The losses of batches of so many sequences, in the reader's own layout."""
        found, wanted = self.axes["predictions"], self.axes["targets"]
        guesses = predictions.movedim(0, found).split(at_once, found)
        truths = targets.movedim(0, wanted).split(at_once, wanted)
        return torch.stack([self.loss(*pair).sum() for pair in zip(guesses, truths, strict=True)])

    def forget(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Pulls on the best constant prediction, targets from now on: as if nothing were learned.

        They are loss gradients at the mean prediction, centred, which makes the constant the best
        one: for squared error and cross-entropy exactly. The loss is now a product with them.
        """
        predictions = torch.cat([self.predictions(some).detach() for some in inputs.split(64)])
        constant = predictions.mean(0, keepdim=True).expand_as(predictions).clone().requires_grad_()
        gradients = torch.autograd.grad(self.losses(constant, targets).sum(), constant)[0]
        self.loss, self.axes["targets"] = torch.mul, self.axes["predictions"]
        return gradients - gradients.mean(0)

    def aside(self, _: Tensor) -> str:
        """What in the model the lags do not count."""
        return ""

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse sequences that are not treated one by one."""
        ignored = targets.eq(getattr(self.loss, "ignore_index", torch.nan)).any()
        if ignored and getattr(self.loss, "reduction", "") == "mean":
            self.loss = copy.copy(self.loss)  # over unequal counts: the mean of no sequence
            self.loss.reduction = "sum"
        inputs, targets = inputs[:TRIED], targets[:TRIED]
        tolerance = _TOLERANCE.get(self.weight.dtype, 0.05)
        together = self.predictions(inputs)
        alone = torch.cat([self.predictions(one) for one in inputs.split(1)])
        words = "one that predicts for a sequence alone as among others, no NaN, without random "
        words += f"draws (call model.eval() first). {_ROUNDING}"
        close = torch.allclose(alone, together, rtol=tolerance, atol=tolerance)  # no NaN is
        require("model", type(self.model).__name__, close, words)
        losses = self.losses(together, targets).detach()
        joint = self.losses(together, targets, len(targets)).detach()
        total, mean, largest = losses.sum(), losses.mean(), losses.abs().max()  # may be tiny
        fits = [(joint - one).abs() <= tolerance * largest for one in (total, mean)]
        shapes = f"are predictions {tuple(together.shape)} and targets {tuple(targets.shape)}"
        words = f"the sum of what {len(losses)} sequences have alone, {total:.6g}, or the mean, "
        words += f"{mean:.6g} (if weighted: the sum; {shapes} broadcast?)"
        require(f"loss ({self.loss_name})", float(joint), any(fits), words)


class RecurrentReading(NamedTuple):
    """What a batch of sequences says of lags: its trace, and ``δ_t = ∂E/∂s_t``, states apart."""

    trace: Trace
    delta: Tensor  # (B, T, S)

    @property
    def first(self) -> int:
        """The first step with a loss; −1 if there is none."""
        return first_loss(self.delta) if self.delta.any() else -1

    def lag_vectors(self, lags: Lags) -> Float[Tensor, "lags P"]:
        """Each lag's part of the gradient, by `lwcore.gradient.lag_vectors`."""
        return lag_vectors(self.trace, self.delta, lags)

    def numbers(self, directions: Float[Tensor, "lags P"], lags: Lags) -> Float[Tensor, "2 lags B"]:
        """Each sequence's part of each lag, and whole gradient, along the lag's direction."""
        first, length = max(self.first, 0), self.trace.length
        parts = transported(self.trace, self.delta, lags, first)
        along = [
            self.trace.gathered_each(rows, slice(max(first, lag) - lag, length - lag)) @ w
            for w, (lag, rows) in zip(directions, parts, strict=True)
        ]
        adjoint = self.trace.backpropagate(self.delta)
        whole = directions @ self.trace.gathered_each(adjoint).mT
        return torch.stack([torch.stack(along), whole])


@checked
class Recurrent(Adapter):
    """A network with one recurrent module: a `recurrence` for the core, and, by `read`, its traces.

    The module is called once in a pass. Of its calls are kept what it read, the state it started
    from, and what it gave, as leaves, where the predictions' graph ends.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Pair,
        head: Function | None = None,
        loss: Any = None,
        module: nn.Module | None = None,
    ) -> None:
        """Find the recurrent module, unless it is named, and the axes."""
        if module is None:
            parts = recurrent_modules(model)
            words = "one nn.LSTM, GRU, RNN or cell"
            require("recurrent modules of model", [*parts], len(parts) == 1, words)
            (module,) = parts.values()
        self.module: Any = module
        plain = not any(getattr(module, n, 0) for n in ("bidirectional", "proj_size"))
        words = "of one direction of time and without projections"
        require("recurrent module", module, plain, words)
        self.batch_first = bool(getattr(module, "batch_first", True))
        self.called = type(module).__name__
        self.order = f"the {self.called} has batch_first={self.batch_first}"
        super().__init__(model, batch, head, loss)
        units = torch.arange(self.recurrence.state_size)[self.recurrence.carried]
        self.kind = f"{self.called}, {units.numel()} neurons"

    def _prepared(self, inputs: Tensor) -> Tensor:
        own = self.head is None or self.module is self.model
        require("head", self.head, own, "None unless model is a recurrent module itself")
        predictions, calls = self._called(inputs)
        copied: Any = copy.deepcopy(self.module).cpu().double().requires_grad_(False)
        self.recurrence = self._recurrence(copied, calls)
        self.shape = tuple(self._taken(calls)[0].shape)
        parameters = sum(parameter.numel() for parameter in self.recurrence.parameters())
        self.fit(max(self.shape[1] * self.recurrence.state_size, parameters))
        return predictions

    def _called(self, inputs: Tensor) -> tuple[Tensor, list[Call]]:
        """Predictions, and the module's calls."""
        calls: list[Call] = []

        def cut(module: Any, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
            read, state, *_ = *given, *named.values(), None
            calls.append(Call(read, state, _leaves(returned)))
            return calls[-1].leaves

        hook = self.module.register_forward_hook(cut, with_kwargs=True)
        try:
            return self.predictions(inputs), calls
        finally:
            hook.remove()

    def _recurrence(self, copied: Any, _: list[Call]) -> Any:
        """The module as the core's own, from its copy in float64."""
        return Layers(copied) if isinstance(copied, nn.RNNBase) else copied

    def _taken(self, calls: list[Call]) -> tuple[Tensor, Tensor, Tensor]:
        """What the module read, (B, T, D), its first state, (B, S), and outputs, in float64."""
        require(f"calls of the {self.called}", len(calls), len(calls) == 1, "one in a pass")
        read, state, leaves = calls[0]
        plain = isinstance(read, Tensor) and read.ndim == 3
        words = "a tensor of three axes, equally long sequences"
        require(f"inputs of the {self.called}", type(read).__name__, plain, words)
        ours = self._steps_second(read).cpu().double()
        initial = ours.new_zeros(len(ours), self.recurrence.state_size)
        if state is not None:  # parts of (layers, B, H), of a cell (B, H)
            parts = [part if part.ndim == 3 else part.unsqueeze(0) for part in _many(state)]
            initial = torch.stack(parts, dim=1).permute(2, 0, 1, 3).flatten(1).detach().to(ours)
        return ours, initial, self._steps_second(_many(leaves)[0]).cpu().double()

    def _in_states(self, calls: list[Call], found: Sequence[Tensor]) -> Tensor:
        """Gradients in the leaves of calls as gradients in states, (B, T, S)."""
        outputs, *last = found
        steps, places = self._steps_second(outputs), torch.arange(self.recurrence.state_size)
        shown, carried = places[self.recurrence.shown], places[self.recurrence.carried]
        delta = steps.new_zeros(*steps.shape[:2], self.recurrence.state_size)
        delta[..., shown[-outputs.shape[-1] :]] = steps
        for part, where in zip(last, (shown, carried), strict=False):  # h, c of every layer
            delta[:, -1, where] += part.transpose(0, 1).flatten(1)
        return delta

    def _steps_second(self, part: Tensor) -> Tensor:
        """What the module read or gave, sequences in front, without a graph."""
        return (part if self.batch_first else part.transpose(0, 1)).detach()

    def read(self, inputs: Tensor, targets: Tensor) -> RecurrentReading:
        """The trace of sequences, and each one's δ."""
        predictions, calls = self._called(inputs)
        read, initial, _ = self._taken(calls)
        with torch.enable_grad():
            total = self.losses(predictions, targets).sum()
            words = "one of what the recurrent module gives"
            require("loss", self.loss_name, total.requires_grad, words)
            leaves = [leaf for call in calls for leaf in flat(call.leaves)]
            found = torch.autograd.grad(total, leaves, **ZEROS)
        trace = Trace.of(self.recurrence, read, initial)
        delta = self._in_states(calls, [part.cpu().double() for part in found])
        return RecurrentReading(trace, delta)

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Refuse sequences that are not treated one by one, and a step that is not its class's.

        Its outputs are those of the module, and all lags together are autograd's gradient, up to
        the rounding of the model's own precision.
        """
        super().check(inputs, targets)
        inputs, targets = inputs[:TRIED], targets[:TRIED]
        outputs = self._taken(self._called(inputs)[1])[-1]
        trace, delta = self.read(inputs, targets)
        tolerance = _TOLERANCE.get(self.weight.dtype, 0.05)
        ours = trace.outputs[..., -outputs.shape[-1] :]
        close = torch.allclose(outputs, ours, rtol=tolerance, atol=tolerance)
        words = f"one that computes what that class documents. {_ROUNDING}"
        require("model", self.called, close, words)
        own = list(self.module.parameters())
        with followed(own):
            total = self.losses(self.predictions(inputs), targets).sum()
            wanted = torch.autograd.grad(total, own, **ZEROS)
        whole = torch.cat([part.cpu().double().flatten() for part in wanted])
        error = (trace.gathered_each(trace.backpropagate(delta)).sum(0) - whole).norm()
        told = f"all lags together differ by {error / whole.norm():.1g} from autograd's gradient"
        words = f"one whose states pass from step to step unchanged. {_ROUNDING}"
        require("model", told, bool(error <= tolerance * whole.norm()), words)

    def aside(self, inputs: Tensor) -> str:
        """Whether what comes before the module, or behind it, looks back in time itself."""
        inputs, length = inputs[:TRIED], self.shape[1]
        predictions, calls = self._called(inputs)
        fits = [axis for axis, size in enumerate(predictions.shape) if axis and size == length]
        last = predictions.select(fits[0], -1) if fits else predictions
        leaves = [leaf for call in calls for leaf in flat(call.leaves)]
        weights = torch.randn(last.shape, generator=torch.Generator().manual_seed(0)).to(last)
        behind = self._in_states(calls, torch.autograd.grad(last, leaves, weights, **ZEROS))
        found = ["behind"] if behind[:, :-1].any() else []
        if inputs.shape[1] == length:  # or nothing is known of its steps
            others = self._called(changed(inputs, slice(length // 2, length // 2 + 1)))[1]
            moved = self._taken(others)[0] != self._taken(calls)[0]
            found += ["before"] if moved[:, length // 2 + 1 :].any() else []
        parts = f"What comes {' and '.join(found)} the {self.called} looks back in time itself"
        return f"{parts}, which its lags do not count." if found else ""


def recurrent_modules(model: nn.Module) -> dict[str, Any]:
    """PyTorch's recurrent layers and cells of `lwcore.cells` in a model, by name."""
    parts = model.named_modules()
    return {name: part for name, part in parts if isinstance(part, nn.RNNBase | Cell)}


class Call(NamedTuple):
    """A call of a module: what it read, the state it started from, and what it gave."""

    read: Any
    state: Any
    leaves: Any


def changed(inputs: Tensor, steps: slice) -> Tensor:
    """Inputs that are others at some steps, of the same kind."""
    generator, other = torch.Generator().manual_seed(1), inputs.clone()
    shape = other[:, steps].shape
    if inputs.is_floating_point():
        noise = torch.randn(shape, generator=generator).to(inputs)
        other[:, steps] += noise * inputs.std().clamp(min=0.1)
    else:
        draws = torch.randint(inputs.numel(), shape, generator=generator)
        other[:, steps] = inputs.flatten()[draws.to(inputs.device)]
    return other


def _leaves(given: Any) -> Any:
    """The same tensors, where a graph begins."""
    return trees.tree_map_only(
        Tensor,
        lambda part: part.detach().requires_grad_(part.is_floating_point()),
        given,
    )


def flat(given: Any) -> list[Any]:
    """The tensors in what a module takes or gives."""
    return [part for part in trees.tree_leaves(given) if isinstance(part, Tensor)]


@contextmanager
def followed(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Gradients reach all these parameters for a while, frozen ones, too."""
    before = [(part, part.requires_grad) for part in parameters]
    try:
        for part, _ in before:
            part.requires_grad_()
        yield
    finally:
        for part, needed in before:
            part.requires_grad_(needed)


def _many(part: Any) -> tuple[Tensor, ...]:
    """One or several tensors as several."""
    return part if isinstance(part, tuple) else (part,)


def gathered(make: Callable[[Pair], Adapter], batches: Any, sequences: int) -> tuple[Adapter, Pair]:
    """An adapter made for a first batch, and its sequences, from pairs, or from one pair.

    A warning is given where only `batch_first` tells sequences from steps, and may be wrong: where
    a loader's batches are as large as the steps are many, or, without a loader, where there are
    fewer sequences than steps.
    """
    arrays, size = Tensor | np.ndarray, getattr(batches, "batch_size", None)
    if isinstance(batches, tuple | list) and len(batches) == 2 and isinstance(batches[0], arrays):
        batches = [batches]
    network: Any = None
    parts: list[Pair] = []
    for place, batch in enumerate(batches):
        pair = isinstance(batch, tuple | list) and [isinstance(part, arrays) for part in batch]
        words = "a pair of tensors, inputs and targets"
        require(f"batches[{place}]", type(batch).__name__, pair == [True, True], words)
        given, wanted = (torch.as_tensor(part).detach() for part in batch)
        finite = bool(given.isfinite().all() and wanted.isfinite().all())
        require(f"batches[{place}]", "NaN or infinite somewhere", finite, "finite")
        network = network or make((given, wanted))
        parts.append(network.sequences_first(given, wanted))
        if sum(len(x) for x, _ in parts) >= sequences:
            break
    require("batches", batches, bool(parts), "one pair or more")
    shapes = {(tuple(x.shape[1:]), tuple(y.shape[1:])) for x, y in parts}
    require("shapes in batches", shapes, len(shapes) == 1, "one for all: equally long sequences")
    count, length, _ = network.shape
    swapped = length == size != count if size else length > count
    if swapped and parts[0][1].shape[1:2] == (length,):
        read = f"inputs are read as {count} sequences of {length} steps, for {network.order}"
        warnings.warn(f"{read}. Is that so?", stacklevel=3)
    inputs, targets = (torch.cat(some)[:sequences] for some in zip(*parts, strict=True))
    return network, (inputs, targets)


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

    def head(outputs: Tensor) -> Tensor:
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
    except (FileNotFoundError, IsADirectoryError):
        raise
    except Exception as error:  # PyTorch raises what it likes
        raise ArgumentError(f"{words}, as of torch.save(net.state_dict(), path).") from error
    for weights in [held, *(held.values() if isinstance(held, dict) else ())]:
        if isinstance(weights, dict) and any(str(n).endswith("weight_hh_l0") for n in weights):
            return {str(n): part for n, part in weights.items() if isinstance(part, Tensor)}
    raise ArgumentError(f"{words} (weight_hh_l0).")


def rebuild(
    weights: dict[str, Tensor], nonlinearity: str = "tanh"
) -> tuple[nn.Module, Tensor, Tensor | None]:
    """A recurrent module from its weights, and weight and bias of its readout, or the identity."""
    prefix = next(n for n in weights if n.endswith("weight_hh_l0")).removesuffix("weight_hh_l0")
    short = {name.removeprefix(prefix): part for name, part in weights.items()}
    own = {name: part for name, part in short.items() if name.startswith(("weight_", "bias_"))}
    left = [name for name in short if name not in own]
    readout = {name.rpartition(".")[-1]: short[name] for name in left}
    rows, hidden = own["weight_hh_l0"].shape
    kind = _CLASSES.get(rows // hidden, nn.RNN)
    options: dict[str, Any] = {"nonlinearity": nonlinearity} if kind is nn.RNN else {}
    options |= {"num_layers": sum(name.startswith("weight_hh") for name in own)}
    options |= {"bias": "bias_ih_l0" in own, "batch_first": True}
    module = kind(own["weight_ih_l0"].shape[1], hidden, **options).to(own["weight_hh_l0"].dtype)
    weight = readout.get("weight", torch.eye(hidden, dtype=own["weight_hh_l0"].dtype))
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
    numbers = inputs.dtype.kind in "iuf" and targets.dtype.kind in "iuf"
    fit = inputs.ndim in (2, 3) and numbers and targets.shape[:1] == inputs.shape[:1]
    shown = f"{inputs.shape} ({inputs.dtype}) and {targets.shape} ({targets.dtype})"
    words = "numbers, (B, T, D) or (B, T), and B in front"
    require("inputs and targets of data", shown, fit, words)
    inputs = inputs.astype(np.float64).reshape(*inputs.shape[:2], -1)
    kept = np.float64 if targets.dtype.kind == "f" else np.int64
    return torch.from_numpy(inputs), torch.from_numpy(targets.astype(kept))
