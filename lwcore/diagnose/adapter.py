"""A reader's network as the core sees it: its recurrent module as one step of one state, a trace, and each sequence's loss gradient δ.

The network is run as it is, in its own precision and layout, and never changed. A hook cuts the graph behind the recurrent module, so
that the gradient of a loss stops at its outputs; from there on everything is read off a `lwcore.trace.Trace` in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from lwcore.cells import GRU, LSTM, Cell
from lwcore.trace import Trace

Pair = tuple[Tensor, Tensor]
Function = Callable[..., Tensor]

_TRIED = 4  # sequences on which it is tried whether the network treats them one by one
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}  # rounding adds up over the steps


class Layers(nn.Module):
    """PyTorch's recurrent layers as one step of one state, in float64, with the parameters' own names.

    The state is all layers' side by side, (h¹, h², …), of an LSTM (h¹, c¹, h², c², …). Inside a step a layer reads what the layer below
    has just written, so that one-step Jacobians hold all paths through time and layers. Outputs are `shown` of all layers; the last H are
    the module's.
    """

    def __init__(self, module: Any) -> None:
        """Copy the weights of a module of one direction and without projections."""
        super().__init__()
        module = copy.deepcopy(module).cpu().double().requires_grad_(False)
        for name, parameter in module.named_parameters():
            self.register_parameter(name, parameter)
        self.mode, self.layers, self.hidden_size = module.mode, module.num_layers, module.hidden_size
        parts = 2 if self.mode == "LSTM" else 1
        places = torch.arange(self.layers * parts * self.hidden_size).unflatten(0, (self.layers, parts, -1))
        self.state_size, self.shown, self.carried = places.numel(), places[:, 0].flatten(), places[:, -1].flatten()
        if self.layers == 1 and self.mode in ("LSTM", "GRU"):  # the same function of the state, with its derivative in closed form
            cell = LSTM.from_torch(module) if self.mode == "LSTM" else GRU.from_torch(module)
            self.closed_form = cell.requires_grad_(False).closed_form

    def step(self, x: Float[Tensor, "... D"], kept: Float[Tensor, "... S"], seen: Float[Tensor, "... S"] | None = None) -> Tensor:
        """Take one step through all layers, as PyTorch documents it."""
        after = []
        states = (state.chunk(self.layers, dim=-1) for state in (kept, kept if seen is None else seen))
        for layer, (own, past) in enumerate(zip(*states, strict=True)):
            after.append(self._layer_step(layer, x, own, past[..., : self.hidden_size]))
            x = after[-1][..., : self.hidden_size]
        return torch.cat(after, dim=-1)

    def _layer_step(self, layer: int, x: Tensor, own: Tensor, h: Tensor) -> Tensor:
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
        w_ih, b_ih, w_hh, b_hh = (getattr(self, f"{name}_l{layer}", cast(Tensor, None)) for name in names)
        drive, recurrent = functional.linear(x, w_ih, b_ih), functional.linear(h, w_hh, b_hh)
        if self.mode == "LSTM":
            i, f, g, o = (drive + recurrent).chunk(4, dim=-1)
            c = torch.sigmoid(f) * own[..., self.hidden_size :] + torch.sigmoid(i) * torch.tanh(g)
            return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)
        if self.mode == "GRU":
            (r, z, g), (r_past, z_past, g_past) = drive.chunk(3, dim=-1), recurrent.chunk(3, dim=-1)
            keep = torch.sigmoid(z + z_past)  # PyTorch's z keeps, the paper's lets in
            return (1 - keep) * torch.tanh(g + torch.sigmoid(r + r_past) * g_past) + keep * own
        return torch.tanh(drive + recurrent) if self.mode == "RNN_TANH" else torch.relu(drive + recurrent)


class Subject:
    """A network, its head and its loss: its recurrent `module` of some `kind`, that as a `recurrence`, and how a batch is read."""

    def __init__(self, model: nn.Module, head: Function | None, loss: Function | None, batch: Pair) -> None:
        """Find the recurrent module, and learn from a batch which axis counts the sequences in inputs, targets and predictions."""
        self.model, self.head, self.module = model, head, _recurrent(model)
        if head is not None and self.module is not model:
            raise ValueError(f"head: the {type(model).__name__} has its own; must be None unless model is a recurrent module itself.")
        self.kind, self.weight = type(self.module).__name__, next(self.module.parameters())
        cell = isinstance(self.module, Cell)
        self.recurrence: Any = copy.deepcopy(self.module).cpu().double().requires_grad_(False) if cell else Layers(self.module)
        self.batch_first = bool(getattr(self.module, "batch_first", True))
        self.loss = loss or (functional.mse_loss if batch[1].is_floating_point() else functional.cross_entropy)
        self.loss_name = getattr(self.loss, "__name__", type(self.loss).__name__)
        self.constant: Pair | None = None
        self.axes = 0, 0, 0
        predictions, read, *_ = self.hear(batch[0])
        self.read_as = sequences, length, _ = read.shape  # the first batch's sequences, their steps, and the width of a step

        def axis(name: str, tensor: Tensor) -> int:
            fits = [at for at, size in enumerate(tensor.shape[:2]) if size == sequences]
            if not fits:
                raise ValueError(
                    f"{name} have shape {tuple(tensor.shape)}: neither of the first two axes counts the {sequences} sequences, of {length} "
                    f"steps, that the {self.kind} reads with batch_first={self.batch_first}. Are axes swapped, or is a head missing?"
                )
            return fits[-1] if sequences == length and not self.batch_first else fits[0]

        self.axes = axis("inputs", batch[0]), axis("targets", batch[1]), axis("predictions", predictions)

    def doubt(self, targets: Tensor, batch_size: int | None) -> str | None:
        """Say why sequences and steps may be swapped: `batch_first` alone tells them apart, and sequences are the fewer.

        Where the loader says how many sequences a batch holds, that decides.
        """
        sequences, length, _ = self.read_as
        layout = (sequences, length) if self.batch_first else (length, sequences)
        if tuple(targets.shape[:2]) != layout or sequences in (length, batch_size) or not (length > sequences or length == batch_size):
            return None
        return (
            f"inputs are read as {sequences} sequences of {length} steps, for the {self.kind} has batch_first={self.batch_first}. If it is "
            "the other way round, make it with the other batch_first, or transpose inputs and targets."
        )

    def front(self, batch: Pair) -> Pair:
        """Bring a batch's axis of sequences to the front."""
        inputs, targets = (tensor.to(self.weight.device).movedim(axis, 0) for tensor, axis in zip(batch, self.axes, strict=False))
        return inputs, targets

    def hear(self, inputs: Tensor) -> tuple[Tensor, Float[Tensor, "B T D"], Float[Tensor, "B S"], list[Tensor]]:
        """Run the network.

        Returns predictions; what the recurrent module was given and its first state, in float64; and its outputs and last states, at which
        the predictions' graph ends. Inputs and predictions have sequences in front.
        """
        calls: list[tuple[Any, Any, list[Tensor]]] = []

        def listen(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], returned: Any) -> Any:
            read, state, *_ = *given, *named.values(), None
            if not isinstance(read, Tensor) or read.ndim != 3:
                raise TypeError(
                    f"inputs of the {self.kind} are a {type(read).__name__}: must be a tensor of three axes, equally long sequences."
                )
            outputs, last = returned if isinstance(returned, tuple) else (returned, ())
            leaves = [part.detach().requires_grad_() for part in (outputs, *(last if isinstance(last, tuple) else (last,)))]
            calls.append((read, state, leaves))
            if not isinstance(returned, tuple):
                return leaves[0]
            return leaves[0], tuple(leaves[1:]) if isinstance(last, tuple) else leaves[1]

        hook = self.module.register_forward_hook(listen, with_kwargs=True)
        try:
            with torch.enable_grad():
                taken = inputs.to(self.weight.device, self.weight.dtype if inputs.is_floating_point() else None)
                predictions = self.model(taken.movedim(0, self.axes[0]))
                if self.module is self.model:
                    predictions = calls[0][2][0] if self.head is None else self.head(calls[0][2][0])
        finally:
            hook.remove()
        if len(calls) != 1:
            raise ValueError(f"model calls its {self.kind} {len(calls)} times in a pass: must be once, on whole sequences.")
        read, state, leaves = calls[0]
        ours = (read if self.batch_first else read.transpose(0, 1)).detach().cpu().double()
        initial = ours.new_zeros(len(ours), self.recurrence.state_size)
        if state is not None:
            parts = [part.detach().cpu().double() for part in (state if isinstance(state, tuple | list) else (state,))]
            layers = [part if part.ndim == 3 else part.unsqueeze(0) for part in parts]  # (layers, B, H), of a cell (B, H)
            initial = torch.stack(layers, dim=1).permute(2, 0, 1, 3).flatten(1)
        return predictions.movedim(self.axes[2], 0), ours, initial, leaves

    def _loss(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """Give the loss of sequences in front, handed over in the reader's own layout."""
        return self.loss(predictions.movedim(0, self.axes[2]), targets.movedim(0, self.axes[1])).sum()

    def _losses(self, predictions: Tensor, targets: Tensor) -> Float[Tensor, " B"]:
        """Give every sequence's loss: that of a batch which holds it alone."""
        return torch.stack([self._loss(*one) for one in zip(predictions.split(1), targets.split(1), strict=True)])

    def _pulls(self, constant: Tensor, targets: Tensor) -> Tensor:
        """Give each sequence's loss gradient in the prediction, where that is a constant."""
        same = constant.expand(len(targets), *constant.shape[1:]).clone().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(self._losses(same, targets).sum(), same)[0]

    def set_constant(self, parts: Sequence[Pair]) -> None:
        """Take the network's mean prediction for its prediction from now on, as if nothing had been learned yet.

        Loss gradients are centred, too, which makes the constant the best one: for squared error and cross-entropy exactly.
        """
        mean = torch.cat([self.hear(inputs)[0].detach() for inputs, _ in parts]).mean(0, keepdim=True)
        self.constant = mean, torch.cat([self._pulls(mean, targets) for _, targets in parts]).mean(0, keepdim=True)

    def read(self, inputs: Tensor, targets: Tensor) -> tuple[Trace, Float[Tensor, "B T S"]]:
        """Trace sequences, and give each one's loss gradient in the recurrent states, ``δ_t = ∂E/∂s_t`` with the states held apart."""
        predictions, read, initial, leaves = self.hear(inputs)
        with torch.enable_grad():
            if self.constant is None:
                total = self._losses(predictions, targets).sum()
            else:
                mean, centre = self.constant
                total = (predictions * (self._pulls(mean, targets) - centre)).sum()
            if not total.requires_grad:
                raise ValueError("loss: does not depend on the recurrent module's outputs.")
            found = torch.autograd.grad(total, leaves, allow_unused=True)
        trace = Trace.of(self.recurrence, read, initial)
        delta, places = torch.zeros_like(trace.states), torch.arange(self.recurrence.state_size)
        shown, carried = places[self.recurrence.shown], places[self.recurrence.carried]
        of_outputs, *of_last = (None if part is None else part.detach().cpu().double() for part in found)
        if of_outputs is not None:
            delta[..., shown[-of_outputs.shape[-1] :]] = of_outputs if self.batch_first else of_outputs.transpose(0, 1)
        for last, where in zip(of_last, (shown, carried), strict=False):  # the last states h, c of every layer
            if last is not None:
                delta[:, -1, where] += last.transpose(0, 1).flatten(1)
        return trace, delta

    def check(self, inputs: Tensor, targets: Tensor) -> None:
        """Try on four sequences whether what is said of one depends on the others, and whether the module's step is the one we know."""
        inputs, targets, tolerance = inputs[:_TRIED], targets[:_TRIED], _TOLERANCE.get(self.weight.dtype, 0.05)
        together, read, initial, leaves = self.hear(inputs)
        alone = torch.cat([self.hear(one)[0] for one in inputs.split(1)])
        if not torch.allclose(alone, together, tolerance, tolerance):  # NaN fails, too
            raise ValueError(
                "model: predicts otherwise for a sequence alone than among others, or NaN; must treat sequences one by one and make no "
                "random draws (call model.eval() first). If it does neither, rounding grows in its states: try model.double()."
            )
        # No absolute tolerance: the loss of a well-trained network is small, and so is what its sequences might share.
        losses, joint = self._losses(together, targets).detach(), self._loss(together, targets).detach()
        scale = torch.maximum(joint.abs(), losses.abs().max())
        if not any(abs(joint - whole) <= tolerance * scale for whole in (losses.sum(), losses.mean())):
            raise ValueError(
                f"loss: of {len(losses)} sequences together it is {joint:.6g}, but one by one they sum to {losses.sum():.6g} and average "
                f"{losses.mean():.6g}; must be their sum or mean (with weights: the sum). Are predictions {tuple(together.shape)} and "
                f"targets {tuple(targets.shape)} broadcast?"
            )
        outputs, ours = leaves[0].detach().cpu().double(), Trace.of(self.recurrence, read, initial).outputs
        if not torch.allclose(
            outputs if self.batch_first else outputs.transpose(0, 1), ours[..., -outputs.shape[-1] :], tolerance, tolerance
        ):
            raise ValueError(
                f"model: its {self.kind} does not compute what that class documents; must be no subclass that computes otherwise. If it is "
                "none, rounding grows in its states: try model.double()."
            )


def _recurrent(model: nn.Module) -> nn.Module:
    """Find the one recurrent module of a network; refuse what cannot be diagnosed."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}: must be a torch.nn.Module.")
    kinds = nn.LSTM | nn.GRU | nn.RNN | Cell
    found = {"": model} if isinstance(model, kinds) else {name: part for name, part in model.named_modules() if isinstance(part, kinds)}
    if len(found) != 1:
        raise ValueError(
            f"model (a {type(model).__name__}) has {len(found)} recurrent modules ({', '.join(found) or 'none'}): must have one "
            "torch.nn.LSTM, GRU or RNN, or one cell of lwcore.cells; or hand over the module itself with its head."
        )
    for name, part in model.named_modules():
        drops = (isinstance(part, nn.RNNBase) and part.dropout > 0) or (isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0)
        if part.training and (drops or isinstance(part, nn.modules.batchnorm._BatchNorm)):
            raise ValueError(f"model: dropout or batch statistics are at work in {name or type(part).__name__}; call model.eval() first.")
    (module,) = found.values()
    if getattr(module, "bidirectional", False) or getattr(module, "proj_size", 0):
        found_in = f"bidirectional={module.bidirectional} and proj_size={module.proj_size}"
        raise ValueError(f"model: its {type(module).__name__} has {found_in}; must have one direction of time and no projection.")
    return module
