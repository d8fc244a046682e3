"""What an adaptive optimiser makes of the global learning rate: the base rate of each neuron, and
the envelope split in two.

Later versions of the paper write ``f(ℓ) = f_gates(ℓ) + f_adapt(ℓ)``. ``f_gates = μ Σ_q |Γ^(q)|`` is
the transport by gates, the envelope as it is elsewhere in this package; with base rates ``Λ^(q)``
of the neurons in the place of μ it is ``Σ_q |Λ^(q) Γ^(q)|``, and ``f_adapt`` is the difference. All
rates here are per unit of global learning rate, μ = 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xarray as xr

from lwcore.arguments import instance_of
from lwcore.labelled import array_with

if TYPE_CHECKING:  # what only reads results needs no PyTorch
    from torch import Tensor

    from lwcore.network import Network


def base_rates(network: Network, optimizer: dict[str, Any]) -> Tensor:
    """Read each neuron's base rate off an optimiser: Λ is the mean of ``1/(√v̂ + ϵ)`` over the
    weights and biases of its rows.

    v̂ is Adam's bias-corrected second moment. A row that all neurons share, SharedGate's gate,
    belongs to none of them, and neither does the layer normalisation.

    Args:
        network: The network.
        optimizer: State dictionary of the optimiser that trained it, of all its parameters in their
            order.

    Returns:
        Λ, per unit of global learning rate, shape (H,), float64; 1 for an optimiser without second
        moments.

    Raises:
        ValueError: If it is no state of an optimiser with one group of parameters.
    """
    import torch

    from lwcore.network import Network

    instance_of("network", network, Network)
    if (
        not isinstance(optimizer, dict)
        or not {"param_groups", "state"} <= set(optimizer)
        or len(optimizer["param_groups"]) != 1
    ):
        keys = list(optimizer) if isinstance(optimizer, dict) else type(optimizer).__name__
        raise ValueError(
            f"optimizer holds {keys}: must be the state dictionary of an optimiser, with one "
            "group of parameters."
        )
    hidden = network.cell.hidden_size
    (group,) = optimizer["param_groups"]
    parts = []
    for index, (name, parameter) in enumerate(network.named_parameters()):
        if name not in ("cell.weight_ih", "cell.weight_hh", "cell.bias"):
            continue
        state = optimizer["state"].get(index, {})
        if "exp_avg_sq" not in state:
            return torch.ones(hidden, dtype=torch.float64)
        corrected = state["exp_avg_sq"].double() / (1 - group["betas"][1] ** float(state["step"]))
        parts.append((1 / (corrected.sqrt() + group["eps"])).reshape(len(parameter), -1))
    rows = torch.cat(parts, dim=1).mean(1)
    own = len(rows) // hidden * hidden
    return rows[-own:].unflatten(0, (-1, hidden)).mean(0).cpu()


def split_envelope(rate: xr.DataArray, base_rate: xr.DataArray) -> xr.Dataset:
    """Split the envelope into what gates carry and what the optimiser's base rates add.

    Args:
        rate: Mean absolute effective rates, over ``unit`` and any other dimensions.
        base_rate: Λ over ``unit``, as from `base_rates`.

    Returns:
        ``f_gates``, ``f_adapt`` and their sum ``f``.
    """
    array_with("rate", rate, "unit")
    array_with("base_rate", base_rate, "unit")
    gates = rate.sum("unit")
    whole = (base_rate * rate).sum("unit")
    return xr.Dataset({"f_gates": gates, "f_adapt": whole - gates, "f": whole})
