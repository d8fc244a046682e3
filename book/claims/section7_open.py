"""Claims on the open questions of Section 7, and on adaptive optimisers in later versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import xarray as xr

from book.chapters import modes
from book.chapters.spectra import (
    split_envelope,
    width,
)
from book.claims import cases
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, exactly, over
from book.claims.recorded import BUDGET, EXPANSIONS, GATED, lead, log, numbers, windows
from lwcore.course import base_rates
from lwcore.inference import LETTER, OPTIMISER
from lwcore.network import Network


@measures("gru-lstm-broad-spectra")
def _(runs: Runs) -> tuple[Measured, Facts]:
    ratio = 10 ** width(runs["small"].time_scale)
    found = ratio.sel(model=["GRU", "LSTM"], order=["zeroth", "exact"])
    exact = {
        "gated": found.sel(order="exact").min(),
        "shared": ratio.sel(model="SharedGate", order="exact").max(),
    }
    return over(numbers(found)), {name: float(one) for name, one in exact.items()}


@measures("gru-lstm-one-mode")
def _(runs: Runs) -> Measured:
    tau = (
        runs["small"]
        .time_scale.sel(model=["GRU", "LSTM"], order=["zeroth", "exact"])
        .stack(case=("model", "order", "seed"))
    )
    spectra = np.log(tau).transpose("case", "unit").values
    return exactly(min(modes.mode_test(one[np.isfinite(one)]).p_value for one in spectra))


@measures("gru-lstm-windows")
def _(runs: Runs) -> tuple[Measured, Measured]:
    def ahead(**how: Any) -> Measured:
        window = [windows(runs["small"], order, **how).sel(budget=BUDGET) for order in EXPANSIONS]
        return over(numbers(*(lead(each, model) for model in ("GRU", "LSTM") for each in window)))

    return ahead(), ahead(**LETTER)


@measures("gru-lstm-windows-of-the-gradient")
def _(runs: Runs) -> Measured:
    window = windows(runs["small"], "gradient", **OPTIMISER).sel(budget=BUDGET)
    return over(numbers(*(lead(window, model) for model in ("GRU", "LSTM"))))


def _stepped(
    optimizer: type[torch.optim.Adam] | type[torch.optim.SGD],
) -> tuple[Network, torch.optim.Optimizer, list[torch.Tensor]]:
    """A small GRU after three steps of an optimiser, and where its parameters were before the last
    one."""
    network = Network(cases.cell("GRU"))
    made = optimizer(network.parameters(), lr=0.01)
    inputs, targets, before = cases.draw(8, 12, 3), cases.draw(8, 12, seed=2), []
    for _ in range(3):
        before = [parameter.detach().clone() for parameter in network.parameters()]
        made.zero_grad()
        (
            (network.readout(network.cell.unrolled(inputs)).squeeze(-1) - targets) ** 2
        ).mean().backward()
        made.step()
    return network, made, before


@measures("base-rates-are-adams-steps")
def _() -> Measured:
    network, optimizer, before = _stepped(torch.optim.Adam)
    factors = []
    for (name, parameter), was in zip(network.named_parameters(), before, strict=True):
        if name in ("cell.weight_ih", "cell.weight_hh", "cell.bias"):
            smoothed = optimizer.state[parameter]["exp_avg"] / (1 - 0.9**3)
            factors.append(
                ((was - parameter.detach()) / (0.01 * smoothed)).reshape(len(parameter), -1)
            )
    true = torch.cat(factors, 1).mean(1).unflatten(0, (-1, network.cell.hidden_size)).mean(0)
    return exactly(cases.relative(base_rates(network, optimizer.state_dict()), true))


@measures("gates-and-optimiser-shape-the-envelope")
def _(runs: Runs) -> Measured:
    run = runs["small"].sel(model=GATED)
    split = split_envelope(run.rate.sel(order="zeroth"), run.base_rate)
    whole, gates = (log(each.sel(lag=1) / each.sel(lag=64)) for each in (split.f, split.f_gates))
    return over(numbers(abs(whole / gates - 1)))


@measures("no-adaptive-part-under-sgd")
def _(runs: Runs) -> Measured:
    network, optimizer, _ = _stepped(torch.optim.SGD)
    (rate,) = set(base_rates(network, optimizer.state_dict()).tolist())
    rates = runs["paper-v2"].rate.sel(model="DiagGate", order="exact")
    split = split_envelope(rates, xr.full_like(rates.isel(lag=0, drop=True), rate))
    return exactly(float(abs(split.f_adapt / split.f).max()))
