"""Claims of the companion's Sections 3.1 and 3.2: the kernel of wide networks, the targets of
transport maps, and their norm."""

from __future__ import annotations

import numpy as np
from scipy import integrate, stats

from book.chapters.elman_spaces import class_kernel, least_norm, transport_norm
from book.claims import companion_cases as cases
from book.claims.checks import Facts, measures
from book.claims.claim import Measured, exactly
from lwcore.elman.kernel import (
    TransportMaps,
    finite_kernel,
    limiting_kernel,
    transport_target,
    transported,
)
from lwcore.elman.network import ACTIVATIONS, linear_model, symmetric_initialisation

ALPHA = 0.8
WIDTHS = np.array([100, 316, 1000, 3162, 10_000])


@measures("kernel-of-wide-networks")
def _() -> tuple[Measured | Facts, ...]:
    x, rng = cases.sequences(3, 4, 2, seed=1), np.random.default_rng(0)
    errors = np.empty((2, 8, len(WIDTHS)))
    limits = [
        limiting_kernel(x, alpha=ALPHA, as_printed=printed).value for printed in (True, False)
    ]
    for group in range(8):
        for k, width in enumerate(WIDTHS):
            found = np.stack(
                [
                    finite_kernel(symmetric_initialisation(int(width), 2, ALPHA, rng), x)
                    for _ in range(10)
                ]
            )
            errors[:, group, k] = [np.sqrt(np.square(found - limit).mean()) for limit in limits]
    slopes = integrate.quad(lambda u: np.cosh(u) ** -4 * stats.norm.pdf(u), -9, 9)[0]
    return cases.rate(WIDTHS, errors[0]), cases.rate(WIDTHS, errors[1]), {"slopes": slopes}


@measures("kernel-is-positive-semidefinite")
def _() -> Measured:
    x, least = np.random.default_rng(2).uniform(-1, 1, (4, 3)), []
    for name in cases.SMOOTH:
        for first in (0, 1):
            matrix = np.array([[_printed_kernel(a, b, name, first) for b in x] for a in x])
            symmetric, odd = (matrix + matrix.T) / 2, np.abs(matrix - matrix.T).max()
            least.append((np.linalg.eigvalsh(symmetric).min() - odd) / matrix.max())
    return exactly(min(least))


def _printed_kernel(x: cases.Array, other: cases.Array, activation: str, first: int) -> float:
    """The double sum of Proposition 2 at the last step, for inputs of one dimension, lags from the
    first on; SciPy's quadrature over u₀."""
    sigma = ACTIVATIONS[activation]

    def parts(w: float, u: float, inputs: cases.Array) -> cases.Array:
        """Return w^k I_{t−1} … I_{t−k−1} times the input and the state at t − k − 1, for every k:
        shape (lags, 2)."""
        state, states, slopes = 0.0, [], []
        for value in inputs:
            states.append(state)
            slopes.append(float(sigma.slope(w * state + u * value)))
            state = float(sigma.value(np.array(w * state + u * value)))
        factors = np.cumprod(slopes[::-1]) * w ** np.arange(len(inputs))
        return (factors[:, None] * np.column_stack([inputs, states])[::-1])[first:]

    def summand(u: float, w: float) -> float:
        return float((parts(w, u, x) @ parts(w, u, other).T).sum()) * stats.norm.pdf(u)

    return float(
        np.mean(
            [
                integrate.quad(summand, -9, 9, args=(w,), epsabs=1e-10, limit=200)[0]
                for w in (ALPHA, -ALPHA)
            ]
        )
    )


@measures("target-is-limit-of-linear-models")
def _() -> Measured:
    x, maps, rng = cases.sequences(3, 4, 2, seed=1), cases.turning_maps(), np.random.default_rng(0)
    target = transport_target(maps, x, alpha=ALPHA).value
    errors = np.empty((8, len(WIDTHS)))
    for group in range(8):
        for k, width in enumerate(WIDTHS):
            starts = [symmetric_initialisation(int(width), 2, ALPHA, rng) for _ in range(10)]
            models = np.stack(
                [linear_model(start, transported(start, maps).parameters, x) for start in starts]
            )
            errors[group, k] = np.sqrt(np.square(models - target).mean())
    return cases.rate(WIDTHS, errors)


@measures("transport-class-is-the-kernels-space")
def _() -> tuple[Measured | Facts, ...]:
    x, traces, least = np.random.default_rng(1).uniform(-1, 1, (6, 4, 1)), [], []
    for name in cases.SMOOTH:
        narrow, full = (
            kernel(x, alpha=ALPHA, activation=name).value
            for kernel in (class_kernel, limiting_kernel)
        )
        traces.append(np.trace(narrow) / np.trace(full))
        least += [
            np.linalg.eigvalsh(full[..., t] - narrow[..., t])[0]
            / np.linalg.eigvalsh(full[..., t])[-1]
            for t in range(1, 4)
        ]
    shares = np.array(traces)
    at_ones = {
        name: kernel(np.ones((1, 2, 1)), alpha=ALPHA).value[0, 0, -1]
        for name, kernel in (("narrow", class_kernel), ("full", limiting_kernel))
    }
    return (
        exactly(shares[:, 1:].min()),
        exactly(shares[np.abs(shares[:, 0] - 1).argmax(), 0]),
        exactly(min(least)),
        at_ones,
    )


@measures("norm-of-a-target")
def _() -> tuple[Measured, Measured]:
    idle = TransportMaps(lambda w: 0.5 * np.sign(w), np.zeros_like, 0.5, 0.0)
    x, ratios = cases.sequences(6, 3, 2, seed=3), []
    for name in cases.SMOOTH:
        kernel = limiting_kernel(x, alpha=ALPHA, activation=name).value
        for maps in (
            *_features_as_maps(name, x[:, 0]),
            cases.turning_maps(),
            cases.turning_maps(1.0, 0.1),
            cases.pushing_maps(),
        ):
            values, size = (
                transport_target(maps, x, alpha=ALPHA, activation=name).value,
                float(transport_norm(maps, 2, alpha=ALPHA).value),
            )
            ratios += [least_norm(kernel[..., t], values[:, t]) / size for t in range(3)]
    first = (
        limiting_kernel(x, alpha=ALPHA).value[..., 0],
        transport_target(idle, x, alpha=ALPHA).value[:, 0],
    )
    return exactly(float(transport_norm(idle, 2, alpha=ALPHA).value) - least_norm(*first)), exactly(
        max(ratios)
    )


def _features_as_maps(activation: str, inputs: cases.Array) -> list[TransportMaps]:
    """Combinations of the first step's features, v_u(u) = Σ_j a_j σ′(u·X_j) X_j: the maps of least
    size for what they make."""
    sigma, rng = ACTIVATIONS[activation], np.random.default_rng(0)

    def combined(weights: cases.Array) -> TransportMaps:
        return TransportMaps(
            np.zeros_like,
            lambda u: (sigma.slope(u @ inputs.T) * weights) @ inputs,
            0.0,
            float(np.abs(weights).sum()),
        )

    return [combined(rng.standard_normal(len(inputs))) for _ in range(4)]


@measures("norm-of-the-target-class")
def _() -> Measured:
    ratios = []
    for name in cases.SMOOTH:
        for size, number in ((1.0, 6), (0.01, 1)):
            x = size * cases.sequences(number, 4, 2, seed=4)
            kernel = limiting_kernel(x, alpha=ALPHA, activation=name).value
            for maps in (cases.turning_maps(), cases.turning_maps(1.0, 0.1), cases.pushing_maps()):
                values = transport_target(maps, x, alpha=ALPHA, activation=name).value
                bound = np.hypot(maps.recurrent_bound, maps.input_bound)
                ratios += [least_norm(kernel[..., t], values[:, t]) / bound for t in range(4)]
    return exactly(max(ratios))


@measures("kernel-is-universal")
def _() -> tuple[Measured, Measured]:
    worst: dict[bool, list[float]] = {False: [], True: []}
    for steps in (1, 2):
        half = np.random.default_rng(0).uniform(-1, 1, (21, steps))
        plain = np.concatenate([half, -half])[..., None]
        wanted = [
            f(plain[:, at, 0])
            for at in (0, -1)
            for f in (np.ones_like, lambda z: np.cos(2 * z), lambda z: np.sin(2 * z))
        ]
        for constant in worst:
            x = np.concatenate([plain, np.ones_like(plain)], axis=2) / 2**0.5 if constant else plain
            for name in cases.SMOOTH:
                sizes, directions = np.linalg.eigh(
                    limiting_kernel(x, alpha=ALPHA, activation=name, tolerance=1e-10).value[..., -1]
                )
                seen = directions[:, sizes > 1e-9 * sizes.max()]
                worst[constant] += [1 - np.square(seen.T @ f).sum() / (f @ f) for f in wanted]
    return exactly(max(worst[False])), exactly(max(worst[True]))
