"""Goodness of fit: do the samples look like draws of the stable law fitted to them?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lwcore.arguments import finite_array, generator, instance_of, integer_in
from lwcore.stable.fits import LOWEST_ALPHA, METHODS, StableFit, characteristic_function
from lwcore.stable.law import SymmetricStable
from lwcore.stable.standard import Array

_STEP, _POINTS = 0.2, 20  # frequencies up to 4 over the scale, where the weight has fallen to 2 %
_BLOCK = 1 << 20  # bootstrap draws at a time


@dataclass(frozen=True)
class GoodnessOfFit:
    """How far samples are from a stable law fitted to them; arrays, by column, when these were 2-D.

    Attributes:
        distance: n times the weighted squared distance of the characteristic functions; about 1 for
            stable samples whatever their number n, growing as n for others. NaN without a fit.
        p_value: Probability of at least this distance if the samples are stable, by parametric
            bootstrap; NaN likewise.
        replicates: Number of bootstrap samples: no `p_value` is below ``1/(replicates + 1)``.
    """

    distance: float | Array
    p_value: float | Array
    replicates: int


def goodness_of_fit(
    samples: ArrayLike, fitted: StableFit, rng: np.random.Generator, replicates: int = 199
) -> GoodnessOfFit:
    """Compare the empirical characteristic function φ̂ of samples with that of their fit.

    The distance is ``n ∫ |φ̂(u) − exp(−|u|^alpha)|² exp(−u²/4) du`` over the real line, the samples
    in units of the fit. Since the law was fitted to the same samples, it is smaller than for a law
    known beforehand; so each bootstrap sample, drawn from the fitted law, is itself fitted by the
    same method before its distance is taken.
    """
    data = finite_array("samples", samples, ndim=(1, 2))
    instance_of("fitted", fitted, StableFit)
    generator("rng", rng)
    if np.shape(fitted.alpha) != data.shape[1:]:
        fits = np.shape(fitted.alpha)
        raise ValueError(f"samples has shape {data.shape}: must have the {fits} columns fitted.")
    integer_in("replicates", replicates, 19)
    columns = data.reshape(len(data), -1)
    alpha, scale, loc = map(np.atleast_1d, (fitted.alpha, fitted.scale, fitted.loc))
    distance, p_value = np.full((2, alpha.size), np.nan)
    for c in np.flatnonzero(~np.isnan(alpha)):
        distance[c] = _distance((columns[:, [c]] - loc[c]) / scale[c], alpha[[c]]).item()
        bootstrap = _bootstrap(SymmetricStable(alpha[c]), len(data), replicates, fitted.method, rng)
        farther = ~(bootstrap < distance[c])  # one without a fit counts against rejection
        p_value[c] = (1 + np.sum(farther)) / (replicates + 1)
    if data.ndim == 1:
        return GoodnessOfFit(distance.item(), p_value.item(), replicates)
    return GoodnessOfFit(distance, p_value, replicates)


def _distance(standardised: Array, alpha: Array) -> Array:
    """Return the distance for each column of samples, shape (samples, columns)."""
    u = _STEP * np.arange(1, _POINTS + 1)[:, None]
    gap = np.abs(characteristic_function(standardised, _STEP, _POINTS) - np.exp(-(u**alpha))) ** 2
    return len(standardised) * 2 * _STEP * np.sum(np.exp(-(u**2) / 4) * gap, axis=0)


def _bootstrap(
    law: SymmetricStable, count: int, replicates: int, method: str, rng: np.random.Generator
) -> Array:
    """Return the distances of samples of a law of unit scale, each from its own fit."""
    distances = []
    at_once = max(1, _BLOCK // count)
    for done in range(0, replicates, at_once):
        draws = law.sample((count, min(at_once, replicates - done)), rng)
        found = METHODS[method](draws, 0.0)
        alpha = np.clip(found.alpha, LOWEST_ALPHA, 2)
        distances.append(_distance((draws - found.loc) / found.scale, alpha))
    return np.concatenate(distances)
