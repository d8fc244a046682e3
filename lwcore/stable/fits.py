"""Estimation of the tail index, scale and location of a symmetric α-stable law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from lwcore.arguments import finite_array, one_of, real_in
from lwcore.stable import ecf, hill, likelihood, mcculloch
from lwcore.stable.standard import Array

METHODS = {"mcculloch": mcculloch.estimate, "ecf": ecf.estimate, "hill": hill.estimate, "mle": likelihood.estimate}
_FEWEST_SAMPLES = 200  # ten beyond each outer quantile; below that no asymptotic interval can be trusted


@dataclass(frozen=True)
class StableFit:
    """A symmetric stable law fitted to samples; every field but `method` is an array, one entry per column, when the samples were 2-D.

    Attributes:
        alpha: Estimated tail index, in [0.51, 2] but for Hill's, which knows no bounds; NaN where there is none.
        scale: Estimated scale σ_α, in the units of the data.
        loc: Estimated location, in the units of the data.
        alpha_interval: Lower and upper end of the confidence interval for `alpha`, within the same range.
        method: Name of the estimator.
        reliable: Whether the estimate can be taken at face value.
        reason: Why it cannot; empty where it can.
    """

    alpha: float | Array
    scale: float | Array
    loc: float | Array
    alpha_interval: tuple[float, float] | tuple[Array, Array]
    method: str
    reliable: bool | NDArray[np.bool_]
    reason: str | NDArray[np.str_]


def fit(samples: ArrayLike, method: str = "mcculloch", confidence: float = 0.95) -> StableFit:
    """Estimate tail index, scale and location of a symmetric stable law.

    No result depends on the unit of the data. How to choose:

    * ``"mcculloch"``, from five sample quantiles: quick, and blind to whatever happens between and beyond them;
    * ``"ecf"``, from the characteristic function: nearly as sharp as the likelihood, at once for all columns;
    * ``"mle"``, by maximum likelihood: the sharpest, milliseconds a column;
    * ``"hill"``, from the largest deviations alone: the only one that says something about the tail itself, and the least sharp. Trust it
      for ``alpha`` up to 1.4 or so.

    All but Hill's presume that the law is stable: a product of two Gaussians also gets an ``alpha`` below 2. Ask `goodness_of_fit`.

    Args:
        samples: Independent draws, shape (samples,) or (samples, columns), at least 2; each column is fitted on its own.
        method: The estimator.
        confidence: Coverage of the interval, in (0, 1).

    Returns:
        The fit. It is marked unreliable where there are fewer than 200 samples, where the interquartile range is zero, where `alpha` is
        held at an end of [0.51, 2] because the data lie beyond, and where Hill's k largest deviations are not in the tail.

    Raises:
        TypeError: If `samples` does not hold real numbers.
        ValueError: If `samples` has NaN or infinite entries or a wrong shape, or another argument is not allowed.

    Examples:
        >>> from lwcore.stable import SymmetricStable
        >>> samples = SymmetricStable(alpha=1.5, scale=2.0).sample(20_000, np.random.default_rng(0))
        >>> found = fit(samples, method="ecf")
        >>> low, high = found.alpha_interval
        >>> print(f"alpha = {found.alpha:.2f} ({low:.2f} to {high:.2f}), scale = {found.scale:.2f}, reliable: {found.reliable}")
        alpha = 1.48 (1.46 to 1.50), scale = 1.97, reliable: True
    """
    data = finite_array("samples", samples, ndim=(1, 2))
    if len(data) < 2:
        raise ValueError(f"samples has shape {data.shape}: must have at least 2 samples.")
    one_of("method", method, METHODS)
    margin = special.ndtri((1 + real_in("confidence", confidence, "(0, 1)")) / 2)

    count = len(data)
    found = METHODS[method](data.reshape(count, -1), margin)
    few = (np.full(found.alpha.size, count < _FEWEST_SAMPLES), [f"{count} samples, fewer than {_FEWEST_SAMPLES}"] * found.alpha.size)
    doubts = [few, *found.doubts]
    reason = ["; ".join(text[column] for raised, text in doubts if raised[column]) for column in range(found.alpha.size)]
    if data.ndim == 1:
        alpha, scale, loc, low, high = (array.item() for array in found[:5])
        (why,) = reason
        return StableFit(alpha, scale, loc, (low, high), method, not why, why)
    ends = (found.low, found.high)
    return StableFit(found.alpha, found.scale, found.loc, ends, method, np.array([not text for text in reason]), np.array(reason))
