"""Claims of the companion on memory, and on how width and steps grow with length, sequences, error
and dimension."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
from scipy import optimize, stats
from torch import Tensor, nn

from book.chapters import elman_bridge as bridge
from book.chapters.elman_cutoff import memory
from book.chapters.elman_looseness import parts
from book.claims import companion_cases as cases
from book.claims.checks import Facts, measures
from book.claims.claim import Measured, exactly, over
from lwcore.elman.bounds import Problem, local_constants, theorem_1, theorem_2
from lwcore.elman.descent import risk_gradient
from lwcore.elman.kernel import limiting_kernel
from lwcore.elman.network import ACTIVATIONS, symmetric_initialisation


def _doubling(ratio: float) -> float:
    """What doubling the length does to log μ_T."""
    return memory(ratio, 4000) / memory(ratio, 2000)


@measures("short-memory-keeps-constants-bounded")
def _() -> Measured:
    ratios = (0.1, 0.5, 0.9, 0.99, 0.999)
    return exactly(
        math.exp(
            max(
                memory(z, length) + 3 * math.log1p(-z)
                for z in ratios
                for length in (1, 10, 1000, 100_000)
            )
        )
    )


@measures("long-memory-makes-constants-explode")
def _() -> tuple[Measured, Measured]:
    found = [_doubling(z) for z in (1.0, 1.05, 1.2, 2.0)]
    return exactly(min(found)), exactly(min(found[1:]))


@measures("cutoff-at-the-largest-slope")
def _() -> tuple[Measured, Measured]:
    slopes = {name: ACTIVATIONS[name].slope_bound for name in cases.SMOOTH}
    printed = min(
        _doubling(factor * slopes[name] ** 2)
        for name, factor in (("tanh", 2.0), ("logistic", 2.0), ("gaussian", 1.1))
    )
    return exactly(printed), exactly(_doubling(1.05) - _doubling(0.95))


@measures("cutoff-of-free-descent")
def _() -> tuple[Measured | Facts, ...]:
    target = 0.95 + math.sqrt(2 * 0.02)
    return (
        exactly(_doubling(target)),
        exactly(_doubling(0.95 + math.sqrt(2 * 0.0005))),
        {"target": target},
    )


@measures("gradients-explode-beyond-the-cutoff")
def _() -> tuple[Measured | Facts, ...]:
    growth, left = [], 0.0
    for name in cases.SMOOTH:
        for excess in (1.2, 1.5):
            alpha = excess / ACTIVATIONS[name].slope_bound
            for x in (
                np.eye(1, 40)[..., None],
                np.ones((1, 40, 1)),
                np.random.default_rng(5).uniform(-1, 1, (1, 40, 1)),
            ):
                rng, squares = np.random.default_rng(0), []
                for _ in range(9):
                    start = symmetric_initialisation(2000, 1, alpha, rng, name)
                    squares.append(
                        [
                            np.square(risk_gradient(start, x[:, :t], np.eye(t)[-1:])[1]).sum()
                            for t in (20, 40)
                        ]
                    )
                growth.append(float(np.log(np.median(squares, axis=0)) @ [-1, 1]) / 20)
                if (name, excess, x.sum()) == ("tanh", 1.5, 1):
                    left = math.exp(20 * growth[-1])
    impulse = np.eye(1, 20)[..., None]
    mean = [
        limiting_kernel(impulse, alpha=excess, tolerance=1e-3).value[0, 0] for excess in (1.2, 1.5)
    ]
    logistic = limiting_kernel(
        np.eye(1, 40)[..., None], alpha=4.8, activation="logistic", tolerance=1e-6
    ).value[0, 0]
    facts = {"left": left, "early": logistic[9], "late": logistic[39]}
    return (
        exactly(min(growth)),
        exactly(min(math.log(one[19] / one[9]) / 10 for one in mean)),
        facts,
    )


def _cost(
    problem: Problem, error: float = 0.01, excess: float = 0.0, as_printed: bool = True
) -> tuple[float, float]:
    """Logarithms of width and steps at which Theorem 1 promises the error, half of it each, for
    recurrent weights up to α + excess."""
    # the largest recurrent weight is held fixed while the width varies, as in Remark 5
    radii = max(problem.recurrent_bound, excess * 2**0.5), problem.input_bound
    early, late = parts(theorem_1(problem, 2, 1, radii, as_printed=as_printed))
    wanted = math.log(error / 2)
    return 2 * (late - wanted) + math.log(2), 2 * (early - wanted)


def _problem(activation: str, length: int) -> Problem:
    """A problem without recurrent transport, α = 0.5."""
    return Problem(activation, 0.5, length, 2, 0.0, 1.0, sequences=100)


@measures("width-and-steps-polynomial-below-the-cutoff")
def _() -> Measured:
    return over(
        ((b - a) / math.log(4))
        for n in cases.SMOOTH
        for a, b in zip(_cost(_problem(n, 1000)), _cost(_problem(n, 4000)), strict=True)
    )


@measures("width-and-steps-beyond-the-cutoff")
def _() -> Measured:
    found = []
    for name in cases.SMOOTH:
        excess = 1.1 / ACTIVATIONS[name].slope_bound - 0.5
        found += [
            b / a
            for a, b in zip(
                *(_cost(_problem(name, length), excess=excess) for length in (2000, 4000)),
                strict=True,
            )
        ]
    return over(found)


@measures("steps-free-of-length")
def _() -> tuple[Measured, Measured, Measured]:
    def exponent(name: str, grows: bool) -> float:
        ends = [
            _cost(_problem(name, length), 1e-5 * (length if grows else 1000))[1]
            for length in (1000, 4000)
        ]
        return (ends[1] - ends[0]) / math.log(4)

    fixed = over(exponent(name, False) for name in cases.SMOOTH)
    return fixed, fixed, over(exponent(name, True) for name in cases.SMOOTH)


@measures("radii-in-the-overview")
def _() -> tuple[Measured, Measured]:
    found = []
    for name in cases.SMOOTH:
        near, far = (
            np.array(parts(theorem_1(_problem(name, 5), 2, 1, (1e-9, radius))))
            for radius in (1e6, 1e8)
        )
        found += list((far - near) / math.log(100) - [1, 2])
    return over(found), over(np.array(found) - 1)


@measures("width-logarithmic-in-sequences")
def _() -> Measured:
    found = []
    for name in cases.SMOOTH:
        few, many = (dataclasses.replace(_problem(name, 5), sequences=n) for n in (10, 10**8))
        for widths in (
            [_cost(one)[0] for one in (few, many)],
            [theorem_2(one, 0.01).log_width for one in (few, many)],
        ):
            found.append(widths[1] - widths[0] - 2 * (many.log_union - few.log_union))
    return exactly(math.exp(max(found)))


@measures("logarithm-against-a-polynomial")
def _() -> tuple[Measured, Measured]:
    exponents, least = [], []
    for name in cases.SMOOTH:
        problems = [dataclasses.replace(_problem(name, 5), sequences=10**k) for k in range(1, 9)]
        least.append(_cost(problems[0])[0] / math.log(10))
        for widths in (
            [_cost(one)[0] for one in problems],
            [theorem_2(one, 0.01).log_width for one in problems],
        ):
            exponents.append(np.diff(widths).max() / math.log(10))
    return exactly(max(exponents)), exactly(min(least))


def _growth(cell: nn.LSTMCell | nn.RNNCell, spread: float, seed: int) -> float:
    """Log of the growth per step of a perturbation of the state, steps 101 to 300: white inputs,
    recurrent weights of spread/√H."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    with torch.no_grad():
        cell.weight_ih.copy_(draw(*cell.weight_ih.shape) / cell.input_size**0.5)
        cell.weight_hh.copy_(draw(*cell.weight_hh.shape) * spread / cell.hidden_size**0.5)
    long = isinstance(cell, nn.LSTMCell)

    def step(state: Tensor, x: Tensor) -> Tensor:
        return torch.cat(cell(x, state.chunk(2))) if long else cell(x, state)

    state, moved, total = (
        torch.zeros((1 + long) * cell.hidden_size, dtype=torch.float64),
        draw((1 + long) * cell.hidden_size),
        0.0,
    )
    for t in range(300):
        x = draw(cell.input_size)
        state, moved = torch.func.jvp(lambda before, x=x: step(before, x), (state,), (moved,))[:2]
        total += float(moved.norm().log()) if t >= 100 else 0
        moved = moved / moved.norm()
    return total / 200


@measures("lstm-avoids-explosion")
def _() -> tuple[Measured, Measured, Measured]:
    spreads, seeds = (0.5, 1.0, 2.0, 4.0, 8.0), range(3)
    lstm, plain = (
        kind(8, 64, bias=False, dtype=torch.float64) for kind in (nn.LSTMCell, nn.RNNCell)
    )
    found = {spread: [_growth(lstm, spread, seed) for seed in seeds] for spread in spreads}
    apart = [
        _growth(plain, spread, seed) - found[spread][seed]
        for spread in spreads[2:]
        for seed in seeds
    ]
    return (
        exactly(max(map(max, found.values()))),
        exactly(max(found[0.5] + found[1.0])),
        exactly(min(apart)),
    )


@measures("projection-saves-one-over-error")
def _() -> Measured:
    found = []
    for name in cases.SMOOTH:
        problem, errors = Problem(name, 0.5, 5, 2, 0.4, 0.6, sequences=10), (1e-9, 1e-10)
        free = np.array(
            [
                (plan.log_width, plan.log_steps)
                for plan in (theorem_2(problem, error) for error in errors)
            ]
        )
        held = np.array([(_width(problem, error), _cost(problem, error)[1]) for error in errors])
        found += list((np.diff(free, axis=0) - np.diff(held, axis=0))[0] / math.log(10))
    return over(found)


def _width(problem: Problem, error: float) -> float:
    """Log of the least width at which the terms of Theorem 1 that shrink with it make half the
    error, α_m = α + ρ_w/√m included."""

    def above(log_width: float) -> float:
        width = 2 * round(math.exp(log_width) / 2)
        return parts(theorem_1(problem, width, 1))[1] - math.log(error / 2)

    return float(optimize.brentq(above, math.log(10), 200.0, xtol=1e-9))


@measures("bounds-sharp-in-dimension")
def _() -> tuple[Measured, Measured]:
    apart, ratios = [], []
    for name in cases.SMOOTH:
        few, many = (dataclasses.replace(_problem(name, 5), dimension=d) for d in (10**4, 10**6))
        printed, repaired = (
            _cost(many, as_printed=way)[0] - _cost(few, as_printed=way)[0] for way in (True, False)
        )
        apart.append((printed - repaired) / math.log(100))
        for dimension in (1, 4, 8):
            place = 0.8, 3, dimension
            free = local_constants(name, 0.8, 3, 1, as_printed=False).log_smoothness
            ratios.append(cases.largest(cases.curvature, name, place, starts=16) / math.exp(free))
    return over(apart), exactly(max(ratios))


def _mean_rate(alpha: float, dimension: int, lags: list[int]) -> cases.Array:
    """Log of f(ℓ)/m over infinitely many tanh neurons and 1,500 sequences: an integral over ‖u‖,
    each with scalar recurrences."""
    rng, sizes = np.random.default_rng(7), np.exp(np.linspace(-12, 2.2, 160))
    state, log_rates = np.zeros((160, 1500)), np.zeros((len(lags), 160, 1500))
    for left in range(lags[-1] + 60, 0, -1):
        steps = rng.standard_normal((1500, dimension))
        state = np.tanh(
            alpha * state + sizes[:, None] * (steps[:, 0] / np.linalg.norm(steps, axis=1))
        )
        log_rates[[left <= lag for lag in lags]] += np.log1p(-np.minimum(state**2, 1 - 1e-15))
    weights = stats.chi(dimension).pdf(sizes) * sizes * (14.2 / 159)
    return np.log(np.exp(log_rates).mean(axis=2) @ weights) + np.array(lags) * math.log(alpha)


@measures("envelope-of-wide-networks")
def _() -> tuple[Measured, Measured, Measured]:
    lags, apart, limits = [10, 40, 160, 400], [], []
    for dimension in (1, 3, 4, 8):
        for alpha in (0.3, 0.7, 0.9):
            law = bridge.wide_law(alpha, dimension, lags)
            apart.append(_mean_rate(alpha, dimension, lags) - law.log_envelope)
            limits.append(law.log_excess)
    off, excess = np.array(apart), np.array(limits)
    return (
        exactly(np.abs(off).max()),
        exactly(np.abs(off[excess <= 0.2]).max()),
        exactly((off - excess).max()),
    )
