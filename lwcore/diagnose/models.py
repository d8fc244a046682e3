"""What a reader's model must be, so that the uses of its parameters can be seen in each pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from lwcore.ambient import placed
from lwcore.diagnose.data import Axes
from lwcore.diagnose.tensors import few, in_order
from lwcore.signatures import require

OPERATORS = "torch.cond, while_loop, map and scan"  # of which eager passes lose the gradient
_OPERATOR_NAMES = ("cond", "while_loop", "map_impl", "scan")


def refuse_unmade(model: nn.Module) -> None:
    """Refuse a model whose parameters hold no numbers, or none that can be learned."""
    unmade = []
    for name, part in model.named_parameters():
        if is_lazy(part) or part.is_meta:
            unmade.append(name)
    require(
        "parameters",
        ", ".join(unmade[:6]),
        not unmade,
        "made: run a lazy model once on a batch, and load the weights of one on the device meta",
    )
    is_trainable = not any(part.is_inference() for part in model.parameters())
    require(
        "model",
        type(model).__name__,
        is_trainable,
        "one that was made outside of torch.inference_mode()",
    )


def refuse_unreadable(model: nn.Module) -> None:
    """Refuse a model in training mode, and parts whose uses cannot be seen."""
    scripted = []
    quantised = []
    for part in model.modules():
        kind = type(part)
        # in training mode there are random draws, and statistics that change
        words = "False: call model.eval() first. Of torch.export, give the model before the export"
        require("model.training", part.training, not part.training, words)
        if isinstance(part, torch.jit.ScriptModule):
            scripted.append(kind.__name__)
        if ".nn.quantized" in kind.__module__:
            quantised.append(kind.__name__)
    require(
        "model",
        ", ".join(scripted),
        not scripted,
        "as it was before scripting or tracing: uses of its parameters cannot be seen",
    )
    require(
        "model",
        few(quantised),
        not quantised,
        "as it was before it was quantised: whole numbers carry no gradients",
    )


def made_of_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors with a gradient that modules hold, as attributes or in dictionaries.

    Those in lists are left out: hooks gather activations there.
    """
    found = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            entries = value if isinstance(value, dict) else {"": value}
            for entry, part in entries.items():
                if isinstance(part, Tensor) and part.grad_fn is not None:
                    found[".".join(filter(None, (name, key, str(entry))))] = part
    return found


class NoOperators(TorchFunctionMode):
    """Refuses operators of PyTorch's that are not followed where nothing is compiled."""

    def __torch_function__(
        self, function: Any, _: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one of PyTorch's functions."""
        if isinstance(function, HigherOrderOperator):
            is_followed = function.name() not in _OPERATOR_NAMES
            require(
                "model",
                f"{function.name()}()",
                is_followed,
                f"one without {OPERATORS}: write loops and conditions of Python, to measure",
            )
        return function(*args, **(kwargs or {}))


def _as_accepted(model: nn.Module, inputs: Tensor, axes: Axes) -> Tensor:
    """Return inputs as they are if the model takes them so, else in the type of most parameters.

    Data of NumPy's are often float64 where a model is float32; flags may be of no number's type.
    """
    sizes = sizes_by_type(model)
    real_types = [dtype for dtype in sizes if not dtype.is_complex]
    is_real = inputs.is_floating_point() or inputs.dtype == torch.bool
    if not is_real or not real_types:
        return inputs
    device = next(model.parameters()).device
    two = in_order(axes.inputs_back(placed(inputs[:2], device)))
    try:
        with torch.enable_grad():  # and puts back what the model may leave
            model(two)
    except Exception:  # if it is not the type, the model says so when it is run in earnest
        return inputs.to(max(real_types, key=lambda dtype: sizes[dtype]))
    return inputs


def sizes_by_type(model: nn.Module) -> dict[torch.dtype, int]:
    """Return how many numbers the parameters of each type have."""
    sizes: dict[torch.dtype, int] = {}
    for part in model.parameters():
        if part.is_floating_point() or part.is_complex():
            sizes[part.dtype] = sizes.get(part.dtype, 0) + part.numel()
    return sizes


def coarsest_type(model: nn.Module) -> torch.dtype:
    """Return the type of the model's parameters that has the fewest digits."""
    coarsest = torch.float64 if sizes_by_type(model) else torch.float32
    for dtype in sizes_by_type(model):
        real = dtype.to_real()
        if torch.finfo(real).eps > torch.finfo(coarsest).eps:
            coarsest = real
    return coarsest
