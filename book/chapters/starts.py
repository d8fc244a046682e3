"""Starts from given time scales: an intervention on the spectrum."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from lwcore.network import Network
from lwcore.signatures import require


@torch.no_grad()
def spread_gates(network: Network, time_scales: ArrayLike) -> None:
    """Biases of the gates with which neurons start from time scales τ, (H,) or one for all.

    They are set in place, and nothing else changes. A retention of exp(−1/τ) keeps 1/e of the state
    over τ steps. Log-uniform τ is the chrono initialisation of Tallec and Ollivier (2018) with its
    spacing made even. Every cell lets in what it does not keep; the LSTM, i = 1 − f.
    """
    cell, tau = network.cell, np.asarray(time_scales, float)
    require("time_scales", tau, tau > 0, "above 0")
    fits = tau.shape in ((), (cell.hidden_size,))
    require("shape of time_scales", tau.shape, fits, f"() or ({cell.hidden_size},)")
    own = "let_in" in cell.blocks and not cell.shared
    require("network.cell", type(cell).__name__, own, "of a kind with a gate for every neuron")
    # exp(−1/τ)/(1 − exp(−1/τ)) is the odds of keeping
    odds = np.broadcast_to(-np.log(np.expm1(1 / tau)), cell.hidden_size)
    kept = torch.from_numpy(odds.copy()).to(cell.bias)
    for block, bias in zip(cell.blocks, cell.bias.split(cell.rows), strict=True):
        if block in ("keep", "let_in"):
            bias.copy_(kept if block == "keep" else -kept)
