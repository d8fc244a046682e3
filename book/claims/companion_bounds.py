"""Claims of the companion's Sections 3.3 and 4.1: wide networks near their targets; how a neuron's
state depends on its parameters."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch

from book.claims import companion_cases as cases
from book.claims.checks import Facts, measures
from book.claims.claim import Measured, exactly
from lwcore.elman.bounds import (
    Problem,
    approximation_bound,
    linearisation_bound,
    local_constants,
    log_mu,
    network_approximation_bound,
)
from lwcore.elman.kernel import TransportMaps, transport_target, transported, trapezoid
from lwcore.elman.network import (
    ElmanNetwork,
    hidden_gradients,
    linear_model,
    output_gradients,
    symmetric_initialisation,
)

ALPHA, LENGTH, STARTS = 0.8, 4, 400


@measures("linear-model-near-target")
def _() -> Measured:
    x, maps, worst = cases.sequences(1, LENGTH, 2, seed=0), cases.pushing_maps(), []
    for name in cases.SMOOTH:
        target = transport_target(maps, x, alpha=ALPHA, activation=name).value[0, -1]
        for width in (2, 50):
            rng, distances = np.random.default_rng(width), []
            for _ in range(STARTS):
                slopes = output_gradients(symmetric_initialisation(width, 2, ALPHA, rng, name), x)[
                    0, -1
                ]
                # of the linear model within ν̄_u = 1, ν̄_w = 0
                reach = np.linalg.norm(slopes[:, 1:], axis=1).sum() / width**0.5
                distances.append(max(0.0, abs(target) - reach))
            for failure in (0.05, 0.8):
                problem = Problem(name, ALPHA, LENGTH, 2, 0.0, 1.0, failure=failure)
                worst.append(
                    cases.failures(
                        int(
                            (np.array(distances) > approximation_bound(problem, width).value).sum()
                        ),
                        STARTS,
                        failure,
                    )
                )
    return max(worst, key=lambda one: one.high)


@measures("linear-model-at-transported-point")
def _() -> tuple[Measured | Facts, ...]:
    signs, x, rng = (
        TransportMaps(np.zeros_like, np.sign, 0.0, 1.0),
        np.ones((1, 1, 1)),
        np.random.default_rng(2),
    )
    starts = [symmetric_initialisation(2, 1, 0.5, rng, "logistic") for _ in range(4000)]
    # the target is 0
    away = np.array(
        [
            abs(linear_model(start, transported(start, signs).parameters, x).item())
            for start in starts
        ]
    )

    def failing(failure: float, as_printed: bool) -> Measured:
        bound = approximation_bound(
            Problem("logistic", 0.5, 1, 1, 0.0, 1.0, failure=failure), 2, as_printed=as_printed
        ).value
        return cases.failures(int((away > bound).sum()), len(away), failure)

    allowed = math.exp(-0.18)
    printed = failing(allowed, True)
    bound = approximation_bound(Problem("logistic", 0.5, 1, 1, 0.0, 1.0, failure=allowed), 2).value
    facts = {"bound": bound, "share": printed.value * allowed, "allowed": allowed}
    return (
        printed,
        max(
            (failing(failure, False) for failure in (0.05, 0.2, 0.5, 0.835)),
            key=lambda one: one.high,
        ),
        facts,
    )


@measures("linearisation-error-bound")
def _() -> Measured:
    worst = []
    for name in cases.SMOOTH:
        for place in cases.PLACES:
            size, length, dimension = place
            radii = 0.99 * size * 2**0.5, 1.0  # two neurons with α = 0.01 α_m
            problem = Problem(name, 0.01 * size, length, dimension, *radii)
            factor = (
                linearisation_bound(problem, 2).value * 2**0.5 / (radii[0] ** 2 + radii[1] ** 2)
            )
            worst.append(cases.largest(cases.curvature, name, place) / 2 / factor)
    return exactly(max(worst))


@measures("preactivation-is-not-linear")
def _() -> Measured:
    generator = torch.Generator().manual_seed(0)
    theta, x = (
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((200, 3), (200, 5, 2))
    )

    def hessian(step: int, recurrent: bool) -> torch.Tensor:
        leaf = theta.clone().requires_grad_()
        rows = leaf * torch.tensor([float(recurrent), 1, 1])
        value = rows[:, 0] * cases.states(rows, x[:, : step - 1], "tanh")[:, -1] + (
            rows[:, 1:] * x[:, step - 1]
        ).sum(1)
        (slope,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
        columns = slope.unbind(1) if recurrent else slope.unbind(1)[1:]
        parts = [
            torch.autograd.grad(column.sum(), leaf, retain_graph=True)[0] for column in columns
        ]
        return torch.stack(parts, dim=1).flatten(1).norm(dim=1) / slope.detach().norm(dim=1)

    least = min(float(hessian(step, True).median()) for step in range(2, 6))
    return exactly(least - max(float(hessian(step, False).max()) for step in range(2, 6)))


@measures("wide-network-near-target")
def _() -> Measured:
    return max(
        (
            cases.failures(int((_transported(name)[:, 0] > 1).sum()), STARTS, 0.2)
            for name in cases.SMOOTH
        ),
        key=lambda one: one.high,
    )


@measures("transported-network-stays-in-the-ball")
def _() -> Measured:
    found = [_transported(name) for name in cases.SMOOTH]
    return exactly(
        max(max(float(np.quantile(one[:, 0], 0.8)), float(one[:, 1].max())) for one in found)
    )


def _transported(activation: str) -> cases.Array:
    """Distance over the bound of Proposition 5 with δ = 0.2, and largest move over radius, of 400
    transported networks: shape (400, 2)."""
    x, width, maps = cases.sequences(3, LENGTH, 2, seed=0), 50, cases.turning_maps()
    problem = Problem(activation, ALPHA, LENGTH, 2, 0.4, 0.6, sequences=3, failure=0.2)
    bound, target = (
        network_approximation_bound(problem, width).value,
        transport_target(maps, x, alpha=ALPHA, activation=activation).value,
    )
    rng, found = np.random.default_rng(1), []
    for _ in range(STARTS):
        start = symmetric_initialisation(width, 2, ALPHA, rng, activation)
        end = transported(start, maps)
        moved = (end.parameters - start.parameters) * width**0.5
        found.append(
            [
                np.abs(end.outputs(x) - target).max() / bound,
                max(
                    np.abs(moved[:, 0]).max() / 0.4,
                    np.linalg.norm(moved[:, 1:], axis=1).max() / 0.6,
                ),
            ]
        )
    return np.array(found)


def _three(
    found: list[tuple[str, float, float]], some_names: tuple[str, ...] = ("tanh", "gaussian")
) -> tuple[Measured, Measured, Measured]:
    """Worst found over a constant: as printed for all activations, as printed for some, as repaired
    for all."""
    printed, some = (
        max(one[1] for one in found),
        max(one[1] for one in found if one[0] in some_names),
    )
    return exactly(printed), exactly(some), exactly(max(one[2] for one in found))


@measures("state-is-lipschitz")
def _() -> tuple[Measured, Measured, Measured]:
    return _three(cases.over_places(cases.slope, "log_lipschitz"))


@measures("state-is-smooth")
def _() -> Measured:
    return _three(cases.over_places(cases.curvature, "log_smoothness"))[0]


@measures("smoothness-grows-with-dimension-and-memory")
def _() -> Measured:
    def ratio(activation: str, bound: float, length: int, dimension: int) -> float:
        sums = sum(log_mu(bound * Problem(activation, 0.5, 1, 1, 1, 1).sigma.slope_bound, length))
        return (
            local_constants(activation, bound, length, dimension).log_smoothness
            - math.log(dimension)
            - sums
        )

    sizes = [
        (length, dimension) for length in (1, 2, 5, 30, 2000) for dimension in (1, 2, 30, 1000)
    ]
    return exactly(
        math.exp(
            max(
                ratio(n, b, *size) - ratio(n, b, 1, 1)
                for n in cases.SMOOTH
                for b in (0.1, 0.9, 1.0, 4.0, 6.0)
                for size in sizes
            )
        )
    )


@measures("product-is-lipschitz")
def _() -> Measured:
    return _three(cases.over_places(partial(cases.slope, product=True), "log_product_lipschitz"))[0]


@measures("product-is-smooth")
def _() -> tuple[Measured | Facts, ...]:
    at = (
        torch.tensor([[0.05, 4.0]], dtype=torch.float64),
        torch.tensor([[[1.0], [0.0]]], dtype=torch.float64),
    )
    facts = {
        "norm": float(cases.curvature(*at, "logistic", product=True)),
        "constant": math.exp(
            cases.constants((0.05, 2, 1), "logistic", as_printed=True).log_product_smoothness
        ),
    }
    return *_three(
        cases.over_places(partial(cases.curvature, product=True), "log_product_smoothness"),
        ("tanh",),
    ), facts


@measures("outputs-are-bounded")
def _() -> tuple[Measured, Measured, Measured]:
    radius, found = 0.05, []

    def output(parameters: torch.Tensor, inputs: torch.Tensor, activation: str) -> torch.Tensor:
        _, slope = cases.gradient(parameters, inputs, activation)
        move = radius / 2**0.5 * slope / slope.norm(dim=1, keepdim=True)
        ends = [
            cases.states(parameters + sign * move, inputs, activation)[:, -1] for sign in (1, -1)
        ]
        return (ends[0] - ends[1]).abs() / 2**0.5 / radius

    for name in cases.SMOOTH:
        for size, length, dimension in cases.PLACES:
            value = math.log(cases.largest(output, name, (size, length, dimension)))
            constants = [
                local_constants(name, size + radius, length, dimension, as_printed=printed)
                for printed in (True, False)
            ]
            printed, repaired = (math.exp(value - one.log_lipschitz) for one in constants)
            found.append((name, printed, repaired))
    return _three(found)


@measures("targets-are-bounded")
def _() -> Measured:
    x = np.concatenate(
        [
            np.random.default_rng(0).uniform(-1, 1, (40, 6, 1)),
            np.ones((1, 6, 1)),
            np.eye(1, 6)[..., None],
        ]
    )
    nodes, weights = trapezoid(1, 0.1)
    ratios = []
    for name in cases.SMOOTH:
        for alpha in (0.3, 0.8, 1.5):
            rows = np.concatenate(
                [np.column_stack([np.full(len(nodes), sign * alpha), nodes]) for sign in (1, -1)]
            )
            slopes = hidden_gradients(ElmanNetwork(rows, np.ones(len(rows)), name), x).reshape(
                len(x), 6, 2, -1, 2
            )
            # by v_w = ±ν̄_w, the best sign for each value of w₀
            largest_w = np.abs(slopes[..., 0] @ weights).mean(axis=2)
            # by v_u = ±ν̄_u, the best sign for each u₀
            largest_u = np.abs(slopes[..., 1].mean(axis=2)) @ weights
            for t in range(6):
                ratios += [
                    (nu_w * largest_w[:, t] + nu_u * largest_u[:, t]).max()
                    / math.exp(Problem(name, alpha, t + 1, 1, nu_w, nu_u).log_summand)
                    for nu_w, nu_u in ((0.4, 0.6), (0.0, 1.0), (1.0, 0.0))
                ]
    return exactly(max(ratios))
