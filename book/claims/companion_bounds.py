"""Claims of the companion's Sections 3.3 and 4.1: wide networks near their targets; how a neuron's
state depends on its parameters."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch

from book.claims import companion_cases as cases
from book.claims.claim import (
    Chapter,
    Facts,
    Kind,
    Measured,
    as_mended,
    as_stated,
    at_least,
    at_most,
    exactly,
    rather,
    when,
)
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

chapter = Chapter("cayci", Kind.THEOREM)

ALPHA, LENGTH, STARTS = 0.8, 4, 400
_WORST = "largest {} found by search over the constant, three activations, recurrent weights up to 0.001 to 1.5, one to five steps"


@chapter.claim(
    "linear-model-near-target",
    "Proposition 3",
    "With probability 1 − δ the ball around the start holds a point at which the linear model "
    "differs from the target by at most a "
    "bound with √log(1/δ).",
    as_stated(
        "share of 400 starts without such a point, over δ; the worst of three activations, widths "
        "2 and 50, δ = 0.05 and 0.8",
        at_most(1),
    ),
    code="lwcore.elman.bounds.approximation_bound",
)
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


@chapter.claim(
    "linear-model-at-transported-point",
    "Proposition 3, proof",
    "The point that the proof takes, every neuron moved along the transport maps, meets the "
    "proposition's bound.",
    as_stated(
        "share of 4000 starts at which it fails over δ = 0.835, two logistic neurons, one step",
        at_most(1),
    ),
    as_mended(
        "the bound has √log(2/δ) in the place of √log(1/δ), as both sides of the distance count; "
        "the proof's last line has "
        "that and √2 more",
        "share of 4000 starts at which it fails over δ; the worst of δ = 0.05, 0.2, 0.5 and "
        "0.835, the same neurons",
        at_most(1),
    ),
    code=("lwcore.elman.bounds.approximation_bound", "lwcore.elman.kernel.transported"),
    counterexample="Logistic, m = 2, one step, X = 1, v_u the sign: the linear model is ±σ′(u) around the target 0; it is beyond the "
    "printed bound {bound:.2f} in a share of {share:.3f}, where {allowed:.3f} is allowed.",
    fair="The proof gives 2 √(2 log(2/δ)/m) times the size of a summand at the transported point, and √2 less by Hoeffding's inequality "
    "used to the full; for the best point of the ball the printed bound was met.",
)
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


@chapter.claim(
    "linearisation-error-bound",
    "Proposition 4",
    "Network and linear model differ by at most 2 (Λ²σ₂ + γσ₁)/√m times the squared displacement.",
    as_stated(
        "half the largest curvature of a state found by search, which is the largest error over "
        "squared displacement, over 2 (Λ²σ₂ + γσ₁); "
        "the worst of three activations and six sizes",
        at_most(1),
    ),
    code="lwcore.elman.bounds.linearisation_bound",
    slow=True,
)
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


@chapter.claim(
    "preactivation-is-not-linear",
    "Remark 3",
    "Because the same weights act at every step, what enters the activation is nonlinear in a "
    "neuron's parameters, unlike in a "
    "feedforward network.",
    as_stated(
        "median over 200 neurons of the Hessian's norm over the gradient's, of W H + U X in the "
        "neuron's parameters; the least "
        "of steps 2 to "
        "5, minus the largest where the recurrent weight stays 0",
        at_least(0.1),
    ),
    code="lwcore.elman.network.ElmanNetwork",
    kind=Kind.IDENTITY,
    seen="The first rule asked for 10⁻⁶ of the least Hessian among the 200, which one saturated neuron decided. A median of a "
    "tenth says that "
    "for half of the neurons a move of size 1 changes the slope by a tenth or more.",
)
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


@chapter.claim(
    "wide-network-near-target",
    "Proposition 5",
    "With probability 1 − δ one network in the ball is near the target at all steps of all "
    "sequences at once, the logarithm of "
    "their number being the price.",
    as_stated(
        "share of 400 starts at which the transported network fails, over δ = 0.2; the worst of "
        "three activations",
        at_most(1),
    ),
    code="lwcore.elman.bounds.network_approximation_bound",
)
def _() -> Measured:
    return max(
        (
            cases.failures(int((_transported(name)[:, 0] > 1).sum()), STARTS, 0.2)
            for name in cases.SMOOTH
        ),
        key=lambda one: one.high,
    )


@chapter.claim(
    "transported-network-stays-in-the-ball",
    "Remark 4",
    "Moving every neuron along the transport maps gives a network in the ball that has the "
    "distance from the target that "
    "Proposition 5 promises.",
    as_stated(
        "the larger of the largest move over its radius and of the distance from the target over "
        "the bound, in 80 of 100 starts, "
        "three activations",
        at_most(1 + 1e-9),
    ),
    code="lwcore.elman.kernel.transported",
)
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


@chapter.claim(
    "state-is-lipschitz",
    "Lemma 1, first part",
    "A neuron's state is Lipschitz in the neuron's parameters with the constant μ₀²(σ₀² + 1)σ₁².",
    as_stated(_WORST.format("slope"), at_most(1)),
    when(
        "for activations with σ₁² (σ₀² + 1) ≥ 1, as tanh and the Gaussian",
        "the same for these two",
        at_most(1),
    ),
    rather(
        "the constant is its root, μ₀ σ₁ √(σ₀² + 1), for every activation",
        "the same with the root",
        at_most(1),
    ),
    code="lwcore.elman.bounds.local_constants",
    counterexample=(
        "Logistic, one step, X = 1, u = 0: the slope is 1/4, above the printed "
        "constant 1/8 and below its root."
    ),
    fair=(
        "The proof bounds the square of the slope by the printed constant; the state is "
        "Lipschitz with its root."
    ),
    slow=True,
    seen="A small recurrent bound was added to the search after trial numbers.",
)
def _() -> tuple[Measured, Measured, Measured]:
    return _three(cases.over_places(cases.slope, "log_lipschitz"))


@chapter.claim(
    "state-is-smooth",
    "Lemma 1, second part; Eq. (31)",
    "A neuron's state is smooth in the neuron's parameters with the constant β written out in the "
    "appendix.",
    as_stated(
        _WORST.format("curvature") + "; α = α_m/100 where the printed formula has α", at_most(1)
    ),
    code="lwcore.elman.bounds.local_constants",
    slow=True,
)
def _() -> Measured:
    return _three(cases.over_places(cases.curvature, "log_smoothness"))[0]


@chapter.claim(
    "smoothness-grows-with-dimension-and-memory",
    "Lemma 1, second part",
    "The constant β is at most of the order of the dimension times the product of the two memory "
    "sums.",
    as_stated(
        "largest β/(d μ₀ μ₁) over its value at one step and one dimension, up to 2000 steps and "
        "1000 dimensions, below, at and "
        "beyond the cut-off",
        at_most(1 + 1e-9),
    ),
    code=("lwcore.elman.bounds.local_constants", "lwcore.elman.bounds.log_mu"),
    kind=Kind.IDENTITY,
)
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


@chapter.claim(
    "product-is-lipschitz",
    "Lemma 2, first part",
    "The recurrent weight times the state is Lipschitz in the neuron's parameters with the "
    "constant √2 (σ₀ + 1 + α_m L).",
    as_stated(_WORST.format("slope"), at_most(1)),
    code="lwcore.elman.bounds.local_constants",
    slow=True,
)
def _() -> Measured:
    return _three(cases.over_places(partial(cases.slope, product=True), "log_product_lipschitz"))[0]


@chapter.claim(
    "product-is-smooth",
    "Lemma 2, second part",
    "The recurrent weight times the state is smooth in the neuron's parameters with the constant "
    "√2 (L + α_m β).",
    as_stated(_WORST.format("curvature"), at_most(1)),
    when(
        "for activations with σ₁² (σ₀² + 1) ≥ 2, as tanh, whose √2 L is above twice its root",
        "the same for tanh",
        at_most(1),
    ),
    rather(
        "the constant is 2 L + α_m β, with the root for L, for every activation",
        "the same with this constant",
        at_most(1),
    ),
    code="lwcore.elman.bounds.local_constants",
    counterexample="Logistic, two steps, X = (1, 0), W = 0.05, u = 4: the Hessian's norm is {norm:.2f}, the printed "
    "constant {constant:.2f}.",
    fair=(
        "The mixed derivative, recurrent weight with itself, counts twice: 2 L in the place "
        "of √2 L, and L the root of the printed one."
    ),
    slow=True,
    seen='A small recurrent bound was added to the search after trial numbers. The condition was "for tanh and the Gaussian", the part in '
    "which nothing was found; it is now one that follows from the constants and leaves the "
    "Gaussian out.",
)
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


@chapter.claim(
    "outputs-are-bounded",
    "Proposition 6, first part",
    "Within the radii every output is at most the Lipschitz constant L of a state times the norm "
    "of the radii.",
    as_stated(
        "largest output of two neurons moved apart by 0.05, found by search, over the bound; "
        "three activations, six sizes",
        at_most(1),
    ),
    when(
        "for activations with σ₁² (σ₀² + 1) ≥ 1, as tanh and the Gaussian",
        "the same for these two",
        at_most(1),
    ),
    rather(
        "it is at most that with the root of the printed L, for every activation",
        "the same with the root",
        at_most(1),
    ),
    code="lwcore.elman.bounds.log_output_bound",
    counterexample="Logistic, m = 2, one step, X = 1, both neurons at u = 0 and moved apart: the output is nearly ‖ρ‖/4, the "
    "printed bound ‖ρ‖/8.",
    fair="The bound holds with a Lipschitz constant of the state, the root of the printed one.",
    slow=True,
)
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


@chapter.claim(
    "targets-are-bounded",
    "Proposition 6, second part; Eq. (9)",
    "Every target of the class is at most σ₁ μ₀(ασ₁) (ν̄_u + σ₀ ν̄_w) in size.",
    as_stated(
        "largest size of any target of the class over the bound, 42 sequences, one to six steps, "
        "α = 0.3, 0.8 and 1.5, three activations",
        at_most(1),
    ),
    code="lwcore.elman.bounds.Problem",
)
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
