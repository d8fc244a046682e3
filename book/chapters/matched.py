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

from lwcore.gradient import (
    alignment,
    factorise,
    immediate_sensitivity,
    matched_statistic,
    total_transport,
)
from lwcore.stats import Interval, bootstrap
from lwcore.trace import Direction, Trace
from lwcore.transport import Order, effective_rates

Array = NDArray[np.float64]
_DRAWS = 400


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
        return matched_statistic(rates, aligned, signs).unflatten(0, self.rates.shape[:2])


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

    slope: Interval
    cosine: Interval
    explained: Interval


def agreement(terms: LagTerms, rng: np.random.Generator) -> Agreement:
    """Compare the two sides of Eq. (27), lag by lag."""
    x, y = terms.transport, terms.statistic()
    moments = torch.stack([x * y, x.square(), y.square()], dim=1).mean(2).numpy()

    def compare(mean: Array) -> Array:
        xy, xx, yy = np.moveaxis(mean, -2, 0)
        return np.stack([xy / xx, xy / np.sqrt(xx * yy), (2 * xy - yy) / xx], axis=-2)

    return Agreement(
        *(Interval(*parts) for parts in zip(*over_sequences(compare, moments, rng), strict=True))
    )


def factorisation_ratio(
    terms: LagTerms, signs: Float[Tensor, "lags H"], rng: np.random.Generator
) -> Interval:
    """Measure ``E T/(f m̄)`` at each lag, 1 where Eq. (29) holds, with signs from other sequences;
    its sides are `gradient.factorise`'s."""
    statistic = terms.statistic(signs).mean(1)
    means = [statistic.unsqueeze(-1), terms.rates.abs().mean(1), terms.alignments.mean(1)]
    hidden = signs.shape[-1]

    def ratio(mean: Array) -> Array:
        # f m̄ is a function of means alone: those of each replicate stand in for a lag's rates
        parts = torch.from_numpy(mean).split([1, hidden, hidden], dim=-1)
        _, rates, aligned = (part.reshape(1, 1, -1, part.shape[-1]) for part in parts)
        sides = factorise(rates, aligned, signs.expand(parts[1].shape).reshape(-1, hidden))
        return mean[..., 0] / (sides.envelope * sides.alignment).numpy().reshape(mean.shape[:-1])

    return over_sequences(ratio, torch.cat(means, dim=-1).numpy(), rng)


def own_sign_means(terms: LagTerms, n_sequences: int) -> Float[Tensor, "groups lags"]:
    """Average the statistic over groups of N sequences, each with the signs of the group itself:
    the mistake to avoid.

    A remainder of B/N is left out.
    """
    n = n_sequences
    groups = [terms.of(slice(i, i + n)) for i in range(0, len(terms.rates) - n + 1, n)]
    return torch.stack([group.statistic(group.signs).mean((0, 1)) for group in groups])


def own_sign_bias(terms: LagTerms, n_sequences: int) -> Float[Tensor, " lags"]:
    """Predict the mean of `own_sign_means` where every alignment is noise of mean zero, for N large
    enough that averages are Gaussian.

    For Gaussian X, Y of mean 0, ``E[sgn(X) Y] = cov(X, Y)/sd(X) · √(2/π)``; with X the average over
    N sequences of ``a^{(q)}`` and Y of ``μ^{(q)} a^{(q)}`` this falls as 1/√N, as the noise itself
    does. Covariances are taken from the terms.
    """
    if len(terms.rates) < 2:
        raise ValueError(
            f"terms holds {len(terms.rates)} sequence(s): must hold at least 2, for a covariance."
        )
    aligned, added = terms.alignments.mean(1), (terms.rates * terms.alignments).mean(1)
    covariance = ((aligned - aligned.mean(0)) * (added - added.mean(0))).sum(0) / (len(aligned) - 1)
    return (covariance / aligned.std(0)).sum(-1) * math.sqrt(2 / (math.pi * n_sequences))


def effective_samples(series: Float[Tensor, "B ends lags"], rng: np.random.Generator) -> Interval:
    """Measure how many independent samples the end points of one sequence are worth: the variance
    of one over that of a sequence's mean.

    As many as there are end points if they are independent, 1 if they all say the same; one number
    a lag.
    """
    centred = (series - series.mean((0, 1))).numpy()
    squares = np.stack([(centred**2).mean(1), centred.mean(1) ** 2], axis=1)
    return over_sequences(lambda mean: mean[..., 0, :] / mean[..., 1, :], squares, rng)


def over_sequences(
    statistic: Callable[[Array], Array], samples: Array, rng: np.random.Generator
) -> Interval:
    """Give a function of means over sequences, of samples with one entry a sequence, its bootstrap
    interval."""
    return bootstrap(lambda drawn: statistic(samples[drawn].mean(0)), len(samples), rng, _DRAWS)
