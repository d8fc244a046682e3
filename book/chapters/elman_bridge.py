"""The envelope of the diagonal Elman network, and its law for wide tanh networks.

The one-step Jacobian ``∂H_t/∂H_{t−1} = diag(W_ii σ′(z_t))`` is diagonal, so the product over ℓ
steps is, too, and its diagonal is the effective rate of every neuron, with nothing left out: ``μ(ℓ,
i) = Π_{s<ℓ} W_ii σ′(z_{T−s})``. The companion bounds it by ``(α_m σ₁)^ℓ``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.elman.network import ElmanNetwork, scan

Array = NDArray[np.float64]

_BLOCK = 2048  # neurons whose rates are held at a time, to stay in the cache


def log_envelope(network: ElmanNetwork, inputs: ArrayLike) -> Array:
    """Logarithm of the envelope for each neuron, ``f(ℓ)/m = mean_i |μ(ℓ, i)|``, averaged over
    sequences, (n, T, d), at ℓ = 1 … T − 1."""
    rows, means = network.parameters[: network.width // network.repeats], []
    blocks = np.split(rows, range(_BLOCK, len(rows), _BLOCK))
    for block in blocks:
        factors = [
            np.abs(block[:, 0] * network.sigma.slope_from(pre, state))
            for _, pre, state in scan(block, np.asarray(inputs, float), network.sigma)
        ]
        with np.errstate(divide="ignore"):
            rates = np.cumsum(np.log(np.stack(factors[:0:-1], axis=1)), axis=1)
            largest = np.maximum(rates.max(axis=(0, 2)), np.finfo(np.float64).min)
            mean = np.exp(rates - largest[:, None]).mean(axis=(0, 2))
            means.append(largest + np.log(mean * (len(block) / len(rows))))
    return np.logaddexp.reduce(means, axis=0)


def wide_law(alpha: float, dimension: int, lags: Iterable[int]) -> tuple[Array, Array]:
    """Law log f(ℓ)/m of the envelope of wide tanh networks, and the excess δ(ℓ) of the true one,
    at most that where it is large; for inputs of norm 1 in random directions and α < 1.

    Neurons that hardly listen survive longest; while their pre-activation stays in the linear part
    of tanh, the mean over ``u ~ N(0, I_d)`` is ``α^ℓ (1 + 2ℓ/(d (1 − α²)))^(−d/2)``. To the next
    order rates have a factor ``exp(ℓ c v²)``, v the variance of the pre-activation. In c the second
    fraction is the fourth cumulant of a coordinate of a random direction.
    """
    d, lag, left = dimension, np.array(lags, dtype=np.float64), 1 - alpha**2
    factor = (3 + 5 * alpha**2) / (2 * left) - 2 * (2 + 3 * alpha**2) / ((d + 2) * (1 + alpha**2))
    law = lag * math.log(alpha) - d / 2 * np.log1p(2 * lag / (d * left))
    return law, factor * lag * d * (d + 2) / (d * left + 2 * lag) ** 2
