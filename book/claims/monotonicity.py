"""Claims about Lemma 5.1 and the sentences of its proof: do rates and envelope never rise with the
lag?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from book.claims import cases, recurrences
from book.claims.claim import (
    Chapter,
    Kind,
    Measured,
    as_stated,
    at_least,
    at_most,
    exactly,
    over,
    rather,
    share,
    when,
    within,
)
from lwcore.cells import ConstGate
from lwcore.trace import Trace
from lwcore.transport import Order, effective_rates, envelope, reset_rates

chapter = Chapter("livi", Kind.THEOREM)

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


@chapter.claim(
    "zeroth-order-never-rises",
    "Lemma 5.1, proof at zeroth order",
    "At zeroth order every rate is a sum of products of numbers between 0 and 1, of which a "
    "longer lag has more: it is not negative and "
    "never rises.",
    as_stated(
        "rates that rise from one lag to the next or are negative, thirty cells of all five "
        "kinds, lags 1 to 39, the GRU with all terms "
        "of Eq. (26)",
        at_most(0),
    ),
    code="lwcore.transport.effective_rates",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    wrong = 0
    for family, trace in _traces():
        rates = _rates(trace, "zeroth")
        if family == "GRU":
            rates = rates + reset_rates(trace, LAGS, [END])[:, 0]
        wrong += int((rates.diff(dim=1) > 0).sum() + (rates < 0).sum())
    return exactly(wrong)


@chapter.claim(
    "first-order-factors-lie-between-0-and-1",
    "Lemma 5.1, proof at first order",
    "Every factor in the first-order correction lies between 0 and 1, because gates and slopes do.",
    as_stated(
        "share of its new factors, diag R, outside [0, 1], median over thirty cells of all five "
        "kinds (range)",
        at_most(0),
    ),
    rather("gates and retentions do", "share of gates and retentions outside [0, 1]", at_most(0)),
    rather(
        "a new factor has the sign of the recurrent weight in it",
        "share of ConstGate's new factors with the sign of w_qq",
        at_least(1),
    ),
    code="lwcore.trace.Neurons",
    counterexample=(
        "ConstGate with one neuron and recurrent weight w < 0: the new factor is s d w < 0."
    ),
    fair=(
        "Every gate and slope in the first-order correction lies between 0 and 1; the "
        "recurrent weights there have any sign and size."
    ),
)
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


@chapter.claim(
    "first-order-sum-never-rises",
    "Lemma 5.1, proof at first order",
    "The first-order correction is a sum over ever more steps, but as each of its products "
    "shrinks with the lag, so does the sum.",
    as_stated(
        "the correction at lag 2 over that at lag 1, ConstGate with one neuron, s = 0.1, w = 1, "
        "no input",
        at_most(1),
    ),
    rather(
        "with positive mixing the sum grows for as many steps as the gate's memory is long",
        "lag of its largest value less −1/log(1 − s), in steps, median over s from 0.03 to 0.4 "
        "(range)",
        within(-1, 1),
    ),
    code="lwcore.transport.effective_rates",
    counterexample=(
        "ConstGate with one neuron, w = 1, no input: ζ_ℓ = ℓ s (1 − s)^(ℓ−1), "
        "which rises from s to 2 s (1 − s) if s < ½."
    ),
    fair=(
        "Each product in the first-order correction shrinks with the lag, while their number "
        "grows; the sum rises first and then falls."
    ),
)
def _() -> tuple[Measured, Measured]:
    late = []
    for gate in (0.03, 0.06, 0.1, 0.185, 0.34, 0.4):
        trace = _without_input(gate, [[1.0]])
        correction = (_rates(trace, "first") - _rates(trace, "zeroth"))[0, :, 0]
        late.append(LAGS[int(correction.argmax())] + 1 / math.log1p(-gate))
        if gate == 0.1:
            ratio = float(correction[1] / correction[0])
    return exactly(ratio), over(late)


@chapter.claim(
    "first-order-rates-are-not-negative",
    "Lemma 5.1",
    "Effective rates are not negative, with the first-order correction as without it.",
    as_stated(
        "share of negative first-order rates at the lag that has most, after training, median "
        "over 25 recorded networks (range)",
        at_most(0),
    ),
    when("at zeroth order", "the same, zeroth order", at_most(0)),
    code="lwcore.transport.effective_rates",
    counterexample=(
        "ConstGate with one neuron, no input: μ_ℓ = (1 − s)^ℓ (1 + ℓ s w/(1 − s)), "
        "negative for w < 0 and ℓ > (1 − s)/(s |w|)."
    ),
    fair="At zeroth order effective rates are not negative.",
)
def _(runs: Any) -> tuple[Measured, Measured]:
    most = runs["small"].negative.max("lag")
    return over(most.sel(order="first").values.ravel()), over(
        most.sel(order="zeroth").values.ravel()
    )


@chapter.claim(
    "first-order-rates-never-rise",
    "Lemma 5.1",
    "With gates and slopes between 0 and 1, no neuron's effective rate rises with the lag, "
    "first-order correction included.",
    as_stated(
        "largest rise of |μ| from one lag to the next, over |μ| at lag 0: ConstGate with one "
        "neuron, s = 0.1, w = −1, no input",
        at_most(0),
    ),
    when(
        "where the mixing on the diagonal is positive and at most what the gate replaces, 0 ≤ "
        "R_qq ≤ 1 − A_qq",
        "largest such rise among all rates with that property at every step, cells of the four "
        "kinds whose state is h",
        at_most(1e-15),
    ),
    code="lwcore.transport.effective_rates",
    counterexample=(
        "ConstGate with one neuron, s = 0.1, w = −1, no input: |μ_ℓ| = 0.9^ℓ |1 − "
        "ℓ/9| is 0 at lag 9 and 0.039 at lag 10."
    ),
    fair=(
        "At zeroth order no rate rises; at first order none where the diagonal of the mixing "
        "is between 0 and what the gate replaces."
    ),
)
def _() -> tuple[Measured, Measured]:
    rise = float(_rates(_without_input(0.1, [[-1.0]]), "first").abs().diff(dim=1).max())
    largest = []
    for family, trace in _traces():
        neurons = trace.neurons
        if family != "LSTM":
            met = ((neurons.mixing >= 0) & (neurons.mixing <= 1 - neurons.retention))[:, 1:].all(1)
            largest += _rates(trace, "first").abs().diff(dim=1).amax(1)[met].tolist()
    return exactly(rise), exactly(max(largest))


@chapter.claim(
    "envelope-never-rises",
    "Lemma 5.1; §6, goal (i)",
    "The envelope, as a sum of rates that do not rise with the lag, does not rise either, "
    "first-order correction included.",
    as_stated(
        "largest factor by which f grows from one lag to the next: ConstGate with one neuron, s = "
        "0.1, w = −1, behind its zero at lag 9",
        at_most(1),
    ),
    when(
        "at zeroth order",
        "trained networks whose f rises between neighbouring lags, of 34 recorded",
        at_most(0),
    ),
    rather(
        "at first order it falls in most trained networks",
        "share of the 34 recorded networks whose f never rises",
        at_least(0.5),
    ),
    code="lwcore.transport.envelope",
    counterexample="ConstGate with one neuron, s = 0.1, w = −1, no input: f(ℓ) = 0.9^ℓ |1 − ℓ/9|.",
    fair=(
        "At zeroth order the envelope does not rise with the lag; at first order it falls in "
        "most networks, and need not."
    ),
)
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


@chapter.claim(
    "exact-envelope-rises",
    "Lemma 5.1, asked of the transport that the rates stand for",
    "The envelope of the exact transport may rise with the lag.",
    as_stated(
        "trained networks whose exact f rises by more than a twentieth between neighbouring lags, "
        "of 34 recorded",
        at_least(1),
    ),
    rather(
        "the norm of the whole transport does not rise while every one-step Jacobian is a "
        "contraction",
        "largest factor by which ‖M‖_F grows from one lag to the next in six ConstGates whose "
        "‖J‖₂ ≤ 1 at every step",
        at_most(1),
    ),
    code="lwcore.transport.effective_rates",
    paper="ours",
    kind=Kind.NETWORK,
)
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
