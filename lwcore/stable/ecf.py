"""Regression on the empirical characteristic function: Koutrouvelis's (1980) estimator with the weights of Koutrouvelis (1981)."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lwcore.stable import mcculloch
from lwcore.stable.estimates import LOWEST_ALPHA, Estimates, accepted
from lwcore.stable.standard import Array

_STEP, _POINTS = 0.1, 12  # frequencies 0.1, 0.2, …, 1.2 over the scale: beyond that |φ|² of a few hundred samples is mostly noise
_STEEPEST = 1.95  # above it the weights would cancel among themselves to no use: at alpha = 2 the small frequencies tell all the same
_UNRESOLVED = 1e8  # in scales: so far out the phase hangs on the last digits of the data
_BLOCK = 1 << 15  # samples at a time: half a megabyte of powers, whatever the size of the data


def estimate(data: Array, margin: float) -> Estimates:
    """Fit every column by a straight line through its empirical characteristic function φ̂.

    For a symmetric stable law ``log(−log |φ(u)|²) = log 2 + alpha·(log scale + log u)``. McCulloch's fit puts the data into units of the
    scale, where the frequencies are fixed; the line is fitted by generalised least squares with the asymptotic covariance of φ̂, taken at
    McCulloch's ``alpha`` and then twice at the one just found. ``|φ̂|²`` is first rid of its bias, ``(1 − |φ|²)/n``. The phase of φ̂,
    likewise weighted, gives the location. The interval holds every ``alpha`` from which the slope is within `margin` of its own standard
    errors.

    Args:
        data: Samples, shape (samples, columns).
        margin: Half-width of the interval in standard errors.

    Returns:
        The estimates, with ``alpha`` held within [LOWEST_ALPHA, 2].
    """
    first = mcculloch.estimate(data, margin)
    n, columns = data.shape
    with np.errstate(divide="ignore", invalid="ignore"):  # a scale of 0 makes everything NaN from here on
        phi = characteristic_function((data - first.loc) / first.scale, _STEP, _POINTS)
        power = (n * np.abs(phi) ** 2 - 1) / (n - 1)
        level = np.log(-np.log(power))
    table = _table()
    slope = first.alpha
    for _ in range(3):
        slope = np.einsum("kc,kc->c", table.at(table.slope, slope), level)
    alpha = np.clip(slope, LOWEST_ALPHA, 2)
    intercept = np.einsum("kc,kc->c", table.at(table.intercept, alpha), level)
    scale = first.scale * np.exp((intercept - np.log(2)) / slope)
    phase = np.einsum("kc,kc->c", table.at(table.phase, alpha), np.angle(phi))
    low, high = accepted(table.alphas, table.alphas, margin * table.spread / np.sqrt(n), slope)

    lost = np.isnan(slope)
    doubts = [
        (np.isnan(first.alpha), ["interquartile range is zero"] * columns),
        (lost & ~np.isnan(first.alpha), ["the characteristic function is lost in its noise"] * columns),
        (slope > 2, [f"slope {s:.4g} is above the Gaussian's: alpha is held at 2" for s in slope]),
        (low == 2, ["tails significantly lighter than any stable law's"] * columns),
        (slope < LOWEST_ALPHA, [f"slope {s:.4g} is below {LOWEST_ALPHA}, at which alpha is held" for s in slope]),
    ]
    return Estimates(alpha, np.where(lost, first.scale, scale), first.loc + first.scale * np.where(lost, 0, phase), low, high, doubts)


def characteristic_function(samples: Array, step: float, points: int) -> NDArray[np.complex128]:
    """Return the mean of ``exp(i u x)`` over the samples at ``u = step, 2·step, …``.

    Samples beyond 1e8, whose phase is rounding error, count as 0, the mean over all phases.

    Args:
        samples: Standardised samples x, shape (samples, columns).
        step: Distance between frequencies.
        points: How many of them.

    Returns:
        Shape (points, columns).
    """
    n, columns = samples.shape
    total = np.zeros((points, columns), dtype=np.complex128)
    rows = max(1, _BLOCK // columns)
    for start in range(0, n, rows):
        x = samples[start : start + rows]
        turn = np.empty(x.shape, dtype=np.complex128)
        np.cos(step * x, out=turn.real)
        np.sin(step * x, out=turn.imag)
        turn[np.abs(x) > _UNRESOLVED] = 0
        power = turn.copy()
        for k in range(points):
            total[k] += power.sum(axis=0)
            power *= turn
    return total / n


class _Table(NamedTuple):
    """Weights of the regressions and the standard error of the slope, by alpha; interpolated weights keep the constraints they satisfy."""

    alphas: Array  # increasing
    slope: Array  # weights of the levels, shape (alphas, points)
    intercept: Array
    phase: Array
    spread: Array  # sqrt(n) times the standard error of the slope

    def at(self, weights: Array, alpha: Array) -> Array:
        """Interpolate weights, to shape (points, columns)."""
        place = np.clip((alpha - self.alphas[0]) / (self.alphas[1] - self.alphas[0]), 0, len(self.alphas) - 1 - 1e-9)
        i = np.nan_to_num(place).astype(int)
        return (weights[i] + (place - i)[:, None] * (weights[i + 1] - weights[i])).T


@functools.cache
def _table() -> _Table:
    alphas = np.linspace(LOWEST_ALPHA, 2, 400)
    u = _STEP * np.arange(1.0, _POINTS + 1)
    design = np.stack([np.log(u), np.ones(_POINTS)], axis=1)
    slope, intercept, phase = np.empty((3, alphas.size, _POINTS))
    spread = np.empty(alphas.size)
    for i, a in enumerate(alphas):
        b = min(a, _STEEPEST)
        plain, odd = _covariance(u, float(b))
        by_line = np.linalg.solve(plain, design)
        slope[i], intercept[i] = np.linalg.solve(design.T @ by_line, by_line.T)
        by_phase = np.linalg.solve(odd, u)
        phase[i] = by_phase / (u @ by_phase)
        spread[i] = np.sqrt(slope[i] @ _covariance(u, float(a))[0] @ slope[i])
    return _Table(alphas, slope, intercept, phase, spread)


def _covariance(u: Array, alpha: float) -> tuple[Array, Array]:
    """Return n times the covariances of the levels and of the phases at the frequencies `u`, for unit scale."""
    phi = np.exp(-(u**alpha))
    plus, minus = (np.exp(-(np.abs(u[:, None] + sign * u) ** alpha)) for sign in (1, -1))
    level = 1 / (phi * u**alpha)  # minus the derivative of log(−log φ²) in the real part of φ̂; the phase's in the imaginary part is 1/φ
    real, imaginary = (plus + minus) / 2 - np.outer(phi, phi), (minus - plus) / 2
    return real * np.outer(level, level), imaginary / np.outer(phi, phi)
