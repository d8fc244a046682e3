"""The matched statistic examined: how good Eq. (27) is, whether Eq. (29) holds, what signs do that
were taken from the same sequences.

The equations themselves are those of `lwcore.gradient`; here are estimates with intervals. End
points of one sequence depend on each other, so that a sequence counts as one sample: intervals come
from the bootstrap over whole sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lwcore.arguments import finite_array, generator, instance_of, integer_in
from lwcore.gradient import (
    alignment,
    factorise,
    immediate_sensitivity,
    matched_statistic,
    total_transport,
)
from lwcore.tensors import floating
from lwcore.trace import Direction, Trace
from lwcore.transport import Order, effective_rates

Array = NDArray[np.float64]
_REPLICATES, _LEVEL = 400, 0.95


class Estimate(NamedTuple):
    """An array of numbers, each with the ends of a 95 % interval from the bootstrap over
    sequences."""

    value: Array
    low: Array
    high: Array

    def words(self, digits: int = 2) -> list[str]:
        """Write each number with its interval, ``"0.52 (0.49 to 0.55)"``, in the order of the
        flattened array."""
        ends = zip(*map(np.ravel, self), strict=True)
        return [
            f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
            for value, low, high in ends
        ]


class LagTerms(NamedTuple):
    """The two sides of Eq. (27) for every sequence, end point and lag: rates μ with alignments a,
    and ``δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``."""

    rates: Float[Tensor, "B ends lags H"]
    alignments: Float[Tensor, "B ends lags H"]
    transport: Float[Tensor, "B ends lags"]

    def of(
        self, sequences: slice = slice(None), lags: Sequence[int] | slice = slice(None)
    ) -> LagTerms:
        """Choose sequences, and lags by their places in the list."""
        return LagTerms(*(part[sequences][:, :, lags] for part in self))

    @property
    def signs(self) -> Float[Tensor, "lags H"]:
        """``sgn E[a]`` over these sequences: for the statistic of others."""
        return self.alignments.mean((0, 1)).sign()

    def statistic(
        self, signs: Float[Tensor, "lags H"] | None = None
    ) -> Float[Tensor, "B ends lags"]:
        """Give Eq. (28)'s ``T_{t,ℓ}`` at every end point, with signs from other sequences; without
        signs, the right side of Eq. (27)."""
        if signs is None:
            signs = torch.ones_like(self.rates[0, 0])
        # every end point by itself
        rates, aligned = (part.flatten(0, 1).unsqueeze(1) for part in (self.rates, self.alignments))
        return matched_statistic(rates, aligned, floating("signs", signs)).unflatten(
            0, self.rates.shape[:2]
        )


def lag_terms(
    trace: Trace,
    loss_gradients: Float[Tensor, "B T H"],
    direction: Direction,
    lags: Sequence[int],
    order: Order = "exact",
) -> LagTerms:
    """Compute both sides of Eq. (27) at every end point from which all lags fit into the sequence,
    with rates of an order.

    For the LSTM the alignments are those of its cell state.
    """
    moved = immediate_sensitivity(trace, direction)
    ends = list(range(max(lags), trace.length))
    return LagTerms(
        rates=effective_rates(trace, lags, order, ends),
        alignments=alignment(loss_gradients, trace.carried(moved), lags, ends),
        transport=total_transport(trace, loss_gradients, moved, lags, ends),
    )


class Agreement(NamedTuple):
    """How well the right side y of Eq. (27) stands in for its left side x, each lag by itself; ⟨·⟩
    is the mean over sequences and ends.

    Attributes:
        slope: ``⟨xy⟩/⟨x²⟩``, the share of the left side that the right side gives on average.
        cosine: ``⟨xy⟩/√(⟨x²⟩⟨y²⟩)``, their correlation about zero.
        explained: ``1 − ⟨(x − y)²⟩/⟨x²⟩``, the share of the mean square that the right side
            accounts for; below 0 where it does more harm than a constant zero.
    """

    slope: Estimate
    cosine: Estimate
    explained: Estimate


def agreement(terms: LagTerms, rng: np.random.Generator) -> Agreement:
    """Compare the two sides of Eq. (27), lag by lag."""
    x, y = instance_of("terms", terms, LagTerms).transport, terms.statistic()
    moments = torch.stack([x * y, x.square(), y.square()], dim=1).mean(2).numpy()

    def compare(mean: Array) -> Array:
        xy, xx, yy = np.moveaxis(mean, -2, 0)
        return np.stack([xy / xx, xy / np.sqrt(xx * yy), (2 * xy - yy) / xx], axis=-2)

    return Agreement(
        *(Estimate(*parts) for parts in zip(*bootstrap(compare, moments, rng), strict=True))
    )


def factorisation_ratio(
    terms: LagTerms, signs: Float[Tensor, "lags H"], rng: np.random.Generator
) -> Estimate:
    """Measure ``E T/(f m̄)`` at each lag, 1 where Eq. (29) holds, with signs from other sequences;
    its sides are `gradient.factorise`'s."""
    statistic = instance_of("terms", terms, LagTerms).statistic(signs).mean(1)
    means = [statistic.unsqueeze(-1), terms.rates.abs().mean(1), terms.alignments.mean(1)]
    hidden = signs.shape[-1]

    def ratio(mean: Array) -> Array:
        # f m̄ is a function of means alone: those of each replicate stand in for a lag's rates
        parts = torch.from_numpy(mean).split([1, hidden, hidden], dim=-1)
        _, rates, aligned = (part.reshape(1, 1, -1, part.shape[-1]) for part in parts)
        sides = factorise(rates, aligned, signs.expand(parts[1].shape).reshape(-1, hidden))
        return mean[..., 0] / (sides.envelope * sides.alignment).numpy().reshape(mean.shape[:-1])

    return bootstrap(ratio, torch.cat(means, dim=-1).numpy(), rng)


def own_sign_means(terms: LagTerms, n_sequences: int) -> Float[Tensor, "groups lags"]:
    """Average the statistic over groups of N sequences, each with the signs of the group itself:
    the mistake to avoid.

    A remainder of B/N is left out.
    """
    count = len(instance_of("terms", terms, LagTerms).rates)
    size = integer_in("n_sequences", n_sequences, 1, count)
    groups = [terms.of(slice(first, first + size)) for first in range(0, count - size + 1, size)]
    return torch.stack([group.statistic(group.signs).mean((0, 1)) for group in groups])


def own_sign_bias(terms: LagTerms, n_sequences: int) -> Float[Tensor, " lags"]:
    """Predict the mean of `own_sign_means` where every alignment is noise of mean zero, for N large
    enough that averages are Gaussian.

    For Gaussian X, Y of mean 0, ``E[sgn(X) Y] = cov(X, Y)/sd(X) · √(2/π)``; with X the average over
    N sequences of ``a^{(q)}`` and Y of ``μ^{(q)} a^{(q)}`` this falls as 1/√N, as the noise itself
    does. Covariances are taken from the terms.
    """
    instance_of("terms", terms, LagTerms)
    size = integer_in("n_sequences", n_sequences, 1)
    if len(terms.rates) < 2:
        raise ValueError(
            f"terms holds {len(terms.rates)} sequence(s): must hold at least 2, for a covariance."
        )
    aligned, added = terms.alignments.mean(1), (terms.rates * terms.alignments).mean(1)
    covariance = ((aligned - aligned.mean(0)) * (added - added.mean(0))).sum(0) / (len(aligned) - 1)
    return (covariance / aligned.std(0)).sum(-1) * math.sqrt(2 / (math.pi * size))


def effective_samples(series: Float[Tensor, "B ends lags"], rng: np.random.Generator) -> Estimate:
    """Measure how many independent samples the end points of one sequence are worth: the variance
    of one over that of a sequence's mean.

    As many as there are end points if they are independent, 1 if they all say the same; one number
    a lag.
    """
    generator("rng", rng)
    floating("series", series, (None, None, None), "B, ends, lags")
    centred = (series - series.mean((0, 1))).numpy()
    squares = np.stack([(centred**2).mean(1), centred.mean(1) ** 2], axis=1)
    return bootstrap(lambda mean: mean[..., 0, :] / mean[..., 1, :], squares, rng)


def bootstrap(
    statistic: Callable[[Array], Array], samples: Array, rng: np.random.Generator
) -> Estimate:
    """Give a function of means an interval by drawing sequences again, with replacement: the middle
    95 % of 400 redrawn ones.

    Samples hold one entry a sequence, ``(B, *shape)``; the function maps means over sequences,
    ``(..., *shape)``, and keeps leading axes.
    """
    generator("rng", rng)
    samples = finite_array("samples", samples)
    count = len(samples)
    drawn = (
        rng.integers(count, size=(_REPLICATES, count)) + count * np.arange(_REPLICATES)[:, None]
    )  # each replicate's places behind the last's
    # four times as fast as multinomial draws
    weights = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape) / count
    redrawn = statistic(
        (weights @ samples.reshape(count, -1)).reshape(_REPLICATES, *samples.shape[1:])
    )
    low, high = np.quantile(redrawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return Estimate(statistic(samples.mean(0)), low, high)
