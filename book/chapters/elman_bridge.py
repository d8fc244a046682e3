"""The diagonal Elman network seen with Livi's eyes: effective rates, envelope and window, beside
the companion's cut-off.

The one-step Jacobian ``∂H_t/∂H_{t−1} = diag(W_ii σ′(z_t))`` is diagonal, so the product over ℓ
steps is, too, and its diagonal is the effective rate of every neuron, with nothing left out: ``μ(ℓ,
i) = Π_{s<ℓ} W_ii σ′(z_{T−s})``. The companion bounds it by ``(α_m σ₁)^ℓ``. Rates are kept as
logarithms of their sizes. The letters and names of `lwcore.window` are used: f(ℓ) ``envelope``,
N(ℓ), H_N.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.detection import sample_complexity
from lwcore.elman.network import Activation, ElmanNetwork, scan
from lwcore.signatures import require
from lwcore.window import DecayLaw, learnability_window, regime_window

Array = NDArray[np.float64]

_GAUSSIAN = 2.0  # tail index of the noise
_BLOCK = 2048  # neurons whose rates are held at a time, to stay in the cache


def log_rates(network: ElmanNetwork, inputs: ArrayLike) -> Array:
    """Return ``log |∂H_T/∂H_{T−ℓ}|`` of every neuron, the size of its effective rate: the Jacobian
    product of C&E Eq. (2).

    Shape (n, T − 1, m), at ℓ = 1 … T − 1; −∞ where a slope is 0.
    """
    sequences = np.asarray(inputs, float)
    return _log_rates(network.parameters, sequences, network.sigma)


def _log_rates(parameters: Array, inputs: Array, activation: Activation) -> Array:
    """Return `log_rates` of an even number of neurons, shape (n, T − 1, neurons)."""
    factors = [
        np.abs(parameters[:, 0] * activation.slope_from(pre, state))
        for _, pre, state in scan(parameters, inputs, activation)
    ]
    newest_first = np.stack(factors[:0:-1], axis=1)
    with np.errstate(divide="ignore"):
        np.log(newest_first, out=newest_first)
    return np.cumsum(newest_first, axis=1, out=newest_first)


def log_envelope(network: ElmanNetwork, inputs: ArrayLike) -> Array:
    """Return the logarithm of the envelope for each neuron, ``f(ℓ)/m = mean_i |μ(ℓ, i)|``, averaged
    over sequences.

    At ℓ = 1 … T − 1, shape (T − 1,); never above ``ℓ log(α_m σ₁)`` with ``α_m = max |W_ii|``.
    """
    sequences = np.asarray(inputs, float)
    rows = network.parameters[: network.width // network.repeats]
    sums = []
    for start in range(0, len(rows), _BLOCK):
        rates = _log_rates(rows[start : start + _BLOCK], sequences, network.sigma)
        largest = np.maximum(rates.max(axis=(0, 2)), np.finfo(np.float64).min)
        with np.errstate(divide="ignore"):
            sums.append(largest + np.log(np.exp(rates - largest[:, None]).sum(axis=(0, 2))))
    return np.logaddexp.reduce(sums, axis=0) - math.log(len(sequences) * len(rows))


def _checked(log_f: ArrayLike) -> Array:
    """Refuse the logarithm of an envelope, shape (lags,), that is NaN or +∞ somewhere; −∞, an
    envelope of 0, is allowed."""
    values = np.asarray(log_f, float)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"log_f has shape {values.shape}: must be (lags,), of one or more.")
    require("log_f", values, values < np.inf, "finite or −∞")
    return values


def decay_rates(log_f: ArrayLike) -> Array:
    """Return the factor by which an envelope falls in one step, ``f(ℓ + 1)/f(ℓ)``, shape (lags,) ->
    (lags − 1,)."""
    return np.exp(np.diff(_checked(log_f)))


class WideLaw(NamedTuple):
    """A law for the envelope of wide tanh networks, and how far it can be off. See `wide_law`.

    Attributes:
        log_envelope: log f(ℓ)/m at each lag.
        log_excess: δ(ℓ), by which the logarithm of the true envelope lies above that, to leading
            order; at most that where it is large.
    """

    log_envelope: Array
    log_excess: Array


def wide_law(alpha: float, dimension: int, lags: Iterable[int]) -> WideLaw:
    """Return the law of the envelope of wide tanh networks, for inputs of norm 1 in random
    directions and α < 1.

    The rate ``Π W σ′(z)`` survives longest in neurons that hardly listen. While their
    pre-activation z stays in the linear part of tanh, ``σ′(z) ≈ exp(−z²)`` and z has the variance
    ``v = ‖u‖²/(d (1 − α²))``: a neuron's rate is about ``α^ℓ exp(−ℓ v)``. Its mean over ``u ~ N(0,
    I_d)`` is ``α^ℓ (1 + 2ℓ/(d (1 − α²)))^(−d/2)``, the companion's exponential times, at long lags,
    a power law of exponent d/2.

    The next order in v has three parts: ``log σ′(z) = −z² + z⁴/6``; tanh lowers the variance of z;
    and ``Σ z²`` varies between sequences. They multiply the rate by ``exp(ℓ c v²)``, ``c = (3 +
    5α²)/(2 (1 − α²)) − 2 (2 + 3α²)/((d + 2) (1 + α²))``, where the second fraction is the fourth
    cumulant of a coordinate of a random direction. The mean of v² over survivors is ``d (d + 2)/(d
    (1 − α²) + 2ℓ)²``, so that ``δ(ℓ) = c ℓ d (d + 2)/(d (1 − α²) + 2ℓ)²``. The law asks for δ ≪ 1,
    that is for ``ℓ ≫ d (d + 2)/(1 − α²)``, up to a factor near 1.
    """
    d, lag, left = dimension, np.array(lags, dtype=np.float64), 1 - alpha**2
    factor = (3 + 5 * alpha**2) / (2 * left) - 2 * (2 + 3 * alpha**2) / ((d + 2) * (1 + alpha**2))
    envelope = lag * math.log(alpha) - d / 2 * np.log1p(2 * lag / (d * left))
    return WideLaw(envelope, factor * lag * d * (d + 2) / (d * left + 2 * lag) ** 2)


def window(log_f: ArrayLike, n_sequences: ArrayLike) -> NDArray[np.int64]:
    """Read the window H_N off an envelope for one neuron, with signal and noise of the same size at
    every lag.

    Gaussian noise, error 0.1, alignment m̄ = scale σ: N(ℓ) hangs on the envelope alone, Livi's Eqs.
    (36) and (38).

    log f(ℓ)/m is given at ℓ = 1 … L, as from `log_envelope`; one window for each N.
    """
    f = np.exp(_checked(log_f))
    return learnability_window(
        range(1, f.size + 1), sample_complexity(f, 1.0, 1.0, _GAUSSIAN), n_sequences
    )


def predicted_window(law: DecayLaw, n_sequences: ArrayLike) -> Array:
    """Return the window that a law for f(ℓ)/m implies under the same signal and noise; the
    cut-off's is the exponential law of α_m σ₁."""
    return regime_window(law, n_sequences, 1.0, 1.0, _GAUSSIAN)


def cut_off_law(ratio: float) -> DecayLaw:
    """Return ``(α_m σ₁)^ℓ``, the companion's bound on f(ℓ)/m, as a decay law; the ratio is α_m σ₁ >
    0."""
    return DecayLaw("exponential", 1.0, ratio)
