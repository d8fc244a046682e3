"""State dictionaries from elsewhere: refused if they are not of the module that is to have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn, optim

from lwcore.signatures import ArgumentError

_SHOWN = 4  # differences that an error names
# What an optimiser keeps for each parameter, of its shape, and a setting that no other kind has.
_MOMENTS = {optim.AdamW: ("exp_avg", "exp_avg_sq"), optim.SGD: ()}
_OWN_SETTING = {optim.AdamW: "betas", optim.SGD: "momentum"}


def require_state(
    name: str, module: nn.Module, state: Any, *, strict: bool = True, same_type: bool = False
) -> None:
    """Refuse a state dictionary that is not one of a module: other names, shapes or types.

    Args:
        name: The argument that an error names.
        strict: Whether all names must be there, and no others.
        same_type: Whether numbers must have the module's precision too, so that none is rounded.

    Raises:
        ArgumentError: With what differs, parameter by parameter.
    """
    kind = _kind_of(module)
    if not isinstance(state, Mapping):
        raise ArgumentError(
            f"{name} = {state!r:.200}: must be a state dictionary of {kind}, as state_dict() gives."
        )
    differences = _differences(module, state, strict, same_type)
    if differences:
        shown = "; ".join(differences[:_SHOWN])
        n_more = len(differences) - _SHOWN
        rest = f"; and {n_more} more" if n_more > 0 else ""
        raise ArgumentError(f"{name} is not a state of {kind}: {shown}{rest}.")


def require_optimizer_state(name: str, optimizer: optim.Optimizer, state: Any) -> None:
    """Refuse the state of an optimiser of another kind, or for other parameters.

    Raises:
        ArgumentError: With what differs.
    """
    difference = _difference_of_optimizers(optimizer, state)
    if difference:
        kind = type(optimizer).__name__
        raise ArgumentError(f"{name} is not a state of {kind} for this network: {difference}.")


def _kind_of(module: nn.Module) -> str:
    """Return the class of a module, and of the cell in it."""
    cell = getattr(module, "cell", None)
    kind = type(module).__name__
    return kind if cell is None else f"{kind} of {type(cell).__name__}"


def _differences(
    module: nn.Module, state: Mapping[Any, Any], strict: bool, same_type: bool
) -> list[str]:
    """Return what of a state dictionary is not as in a module."""
    wanted_state = module.state_dict()
    differences = []
    if strict:
        for key in wanted_state:
            if key not in state:
                differences.append(f"{key} is missing")
        for key in state:
            if key not in wanted_state:
                differences.append(f"it has no {key}")
    for key, wanted in wanted_state.items():
        # What is no tensor is a subclass's own affair.
        if key in state and isinstance(wanted, Tensor):
            difference = _difference_of_tensors(wanted, state[key], same_type)
            if difference:
                differences.append(f"{key} {difference}")
    return differences


def _difference_of_tensors(wanted: Tensor, given: Any, same_type: bool) -> str:
    """Return how a value differs from the parameter that it is for; nothing if it fits."""
    if not isinstance(given, Tensor):
        return f"is {given!r:.50} and must be a tensor"
    if given.shape != wanted.shape:
        return f"has shape {tuple(given.shape)} and must have {tuple(wanted.shape)}"
    if given.layout != wanted.layout or given.is_meta != wanted.is_meta:
        return "must hold its numbers, and as the module does: not sparse, and not on meta"
    if same_type and given.dtype != wanted.dtype:
        return f"is of {given.dtype} and must be of {wanted.dtype}"
    if not given.dtype.is_floating_point:
        return f"is of {given.dtype} and must be of a floating type"
    return ""


def _difference_of_optimizers(optimizer: optim.Optimizer, state: Any) -> str:
    """Return what of a state dictionary is not as in an optimiser; nothing if all is.

    Before the first step an optimiser keeps nothing; for a parameter that is not trained, never.
    """
    if not isinstance(state, Mapping) or not {"state", "param_groups"} <= set(state):
        return "it has no state and param_groups"
    kept = state["state"]
    groups = state["param_groups"]
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], Mapping):
        return "it must have one group of parameters"
    needed = {"params", "lr", _OWN_SETTING[type(optimizer)]}
    if not needed <= set(groups[0]):
        return f"its settings must have {', '.join(sorted(needed))}"
    (own_group,) = optimizer.param_groups
    parameters = own_group["params"]
    if list(groups[0]["params"]) != list(range(len(parameters))):
        return f"it must be for {len(parameters)} parameters"
    if not isinstance(kept, Mapping):
        return "what it keeps must be a dictionary"
    moments = _MOMENTS[type(optimizer)]
    if not kept or not moments:
        return ""
    for number, parameter in enumerate(parameters):
        if number not in kept and not parameter.requires_grad:
            continue
        of_parameter = kept.get(number, {})
        for moment in moments:
            given = of_parameter.get(moment)
            if not isinstance(given, Tensor) or given.shape != parameter.shape:
                return f"{moment} of parameter {number} must have shape {tuple(parameter.shape)}"
        if "step" not in of_parameter:
            return f"the number of steps of parameter {number} is missing"
    return ""
