"""Claims about Lemma 5.1 and the sentences of its proof: do rates and envelope never rise with the
lag?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from book.claims import cases, recurrences
from book.claims.checks import measures
from book.claims.claim import Measured, exactly, over, share
from lwcore.cells import ConstGate
from lwcore.trace import Trace
from lwcore.transport import Order, effective_rates, envelope, reset_rates

LAGS, END = list(range(1, 40)), 39


def _traces() -> Iterator[tuple[str, Trace]]:
    """Six random cells of each of the five kinds, of eight neurons, scanned for forty steps."""
    for family in recurrences.PAPER:
        for seed in range(6):
            yield (
                family,
                cases.scan(cases.cell(family, seed, hidden_size=8), length=40, seed=100 + seed),
            )


def _rates(trace: Trace, order: Order) -> Tensor:
    """Rates at every lag, shape (B, lags, H)."""
    return effective_rates(trace, LAGS, order, [END])[:, 0]


def _without_input(gate: float, weights: list[list[float]]) -> Trace:
    """Scan a constant gate without input: its state stays 0, so that all slopes are 1."""
    cell = ConstGate(1, len(weights), gate_init=gate, dtype=torch.float64)
    cell.weight_hh.data = torch.tensor(weights, dtype=torch.float64)
    return cell.trace(torch.zeros(1, END + 1, 1, dtype=torch.float64))


@measures("zeroth-order-never-rises")
def _() -> Measured:
    wrong = 0
    for family, trace in _traces():
        rates = _rates(trace, "zeroth")
        if family == "GRU":
            rates = rates + reset_rates(trace, LAGS, [END])[:, 0]
        wrong += int((rates.diff(dim=1) > 0).sum() + (rates < 0).sum())
    return exactly(wrong)


@measures("first-order-factors-lie-between-0-and-1")
def _() -> tuple[Measured, Measured, Measured]:
    outside, of_gates, agree = [], [], []
    for family, trace in _traces():
        mixing = trace.neurons.mixing[:, 1:]
        outside.append(_outside(mixing))
        gates = trace.gates
        of_gates += [
            _outside(gate)
            for gate in (gates.keep, gates.let_in, gates.reset, gates.show)
            if gate is not None
        ]
        if family == "ConstGate":
            agree.append(
                float(
                    (mixing.sign() == trace.parameters["weight_hh"].diagonal().sign())
                    .double()
                    .mean()
                )
            )
    return over(outside), exactly(max(of_gates)), exactly(min(agree))


def _outside(values: Tensor) -> float:
    """Share of values outside [0, 1]."""
    return float(((values < 0) | (values > 1)).double().mean())


@measures("first-order-sum-never-rises")
def _() -> tuple[Measured, Measured]:
    late = []
    for gate in (0.03, 0.06, 0.1, 0.185, 0.34, 0.4):
        trace = _without_input(gate, [[1.0]])
        correction = (_rates(trace, "first") - _rates(trace, "zeroth"))[0, :, 0]
        late.append(LAGS[int(correction.argmax())] + 1 / math.log1p(-gate))
        if gate == 0.1:
            ratio = float(correction[1] / correction[0])
    return exactly(ratio), over(late)


@measures("first-order-rates-never-rise")
def _() -> tuple[Measured, Measured]:
    rise = float(_rates(_without_input(0.1, [[-1.0]]), "first").abs().diff(dim=1).max())
    largest = []
    for family, trace in _traces():
        neurons = trace.neurons
        if family != "LSTM":
            met = ((neurons.mixing >= 0) & (neurons.mixing <= 1 - neurons.retention))[:, 1:].all(1)
            largest += _rates(trace, "first").abs().diff(dim=1).amax(1)[met].tolist()
    return exactly(rise), exactly(max(largest))


@measures("envelope-never-rises")
def _(runs: Any) -> tuple[Measured, Measured, Measured]:
    f = envelope(effective_rates(_without_input(0.1, [[-1.0]]), LAGS, "first", [END]))[9:]
    rises, networks = _rising(runs, "first")
    return (
        exactly(float((f[1:] / f[:-1]).max())),
        exactly(_rising(runs, "zeroth")[0]),
        share(networks - rises, networks),
    )


def _rising(runs: Any, order: str, factor: float = 1) -> tuple[int, int]:
    """Count the recorded networks, of all of them, whose envelope rises by more than a factor
    between neighbouring lags."""
    recorded = [runs[name].envelope.sel(order=order) for name in ("small", "paper-v2")]
    rises = [(f.shift(lag=-1) > factor * f).any("lag") for f in recorded]
    return sum(int(one.sum()) for one in rises), sum(one.size for one in rises)


@measures("exact-envelope-rises")
def _(runs: Any) -> tuple[Measured, Measured]:
    growth = []
    for seed in range(6):
        cell = cases.cell("ConstGate", seed, hidden_size=8)
        trace = cases.scan(cell, length=40)
        jacobians = trace.jacobian(slice(None)).dense()
        if float(torch.linalg.matrix_norm(jacobians, 2).max()) > 1:
            # it is one, for orthogonal weights
            raise ValueError(f"ConstGate of seed {seed} is no contraction.")
        product, norms = torch.eye(8, dtype=torch.float64), []
        for t in range(END, 0, -1):
            product = product @ jacobians[:, t]
            norms.append(torch.linalg.matrix_norm(product))
        growth.append(float((torch.stack(norms[1:]) / torch.stack(norms[:-1])).max()))
    return exactly(_rising(runs, "exact", 1.05)[0]), exactly(max(growth))
