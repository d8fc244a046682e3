"""The matched statistic examined: how good Eq. (27) is, whether Eq. (29) holds, what signs do that were taken from the same sequences.

End points of one sequence depend on each other, so that a sequence counts as one sample: intervals come from the bootstrap over whole
sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lwcore.arguments import finite_array, generator, instance_of, integer_in
from lwcore.bptt import alignment, immediate_sensitivity, total_transport
from lwcore.cells import Trace
from lwcore.tensors import floating
from lwcore.transport import default_ends, effective_rates

Array = NDArray[np.float64]
_REPLICATES, _LEVEL = 400, 0.95


@dataclass(frozen=True)
class Estimate:
    """An array of numbers, each with a 95 % interval from the bootstrap over sequences.

    Attributes:
        value: The estimates.
        low: Lower ends.
        high: Upper ends.
    """

    value: Array
    low: Array
    high: Array

    def words(self, digits: int = 2) -> list[str]:
        """Write each number with its interval.

        Args:
            digits: Digits after the point.

        Returns:
            ``"0.52 (0.49 to 0.55)"`` and so on, in the order of the flattened array.
        """
        ends = zip(*(np.ravel(part) for part in (self.value, self.low, self.high)), strict=True)
        return [f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})" for value, low, high in ends]


class LagTerms(NamedTuple):
    """The two sides of Eq. (27) for every sequence, end point and lag.

    Attributes:
        rates: μ, shape (B, ends, lags, H).
        alignments: a, shape (B, ends, lags, H).
        transport: ``δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``, the left side, shape (B, ends, lags).
    """

    rates: Tensor
    alignments: Tensor
    transport: Tensor

    def of(self, sequences: slice = slice(None), lags: Sequence[int] | slice = slice(None)) -> LagTerms:
        """Choose sequences and lags.

        Args:
            sequences: Which sequences.
            lags: Places in the list of lags.

        Returns:
            Their terms.
        """
        return LagTerms(*(part[sequences][:, :, lags] for part in self))

    @property
    def signs(self) -> Tensor:
        """``sgn E[a]`` over these sequences, shape (lags, H): for the statistic of others."""
        return self.alignments.mean((0, 1)).sign()

    def statistic(self, signs: Tensor | None = None) -> Tensor:
        """Compute ``T_{t,ℓ}`` at every end point. Implements Eq. (28).

        Args:
            signs: ``sgn m_q``, shape (lags, H), from other sequences than these; 1 if None, which is the right side of Eq. (27).

        Returns:
            Shape (B, ends, lags).
        """
        if signs is not None:
            floating("signs", signs, tuple(self.rates.shape[2:]), "lags, H")
        added = self.rates * self.alignments
        return (added if signs is None else added * signs).sum(-1)


def lag_terms(trace: Trace, loss_gradients: Tensor, direction: dict[str, Tensor], lags: Sequence[int], order: str = "exact") -> LagTerms:
    """Compute both sides at every end point from which all lags fit into the sequence. Implements Eq. (27).

    Args:
        trace: A scan of B sequences.
        loss_gradients: δ, shape (B, T, H).
        direction: w, a tensor for each named parameter of the cell.
        lags: Lags, strictly increasing, each in 1..T−1.
        order: Order of the rates on the right side.

    Returns:
        The terms; for the LSTM the alignments are those of its cell state.
    """
    ends, moved = default_ends(trace, lags), immediate_sensitivity(trace, direction)
    return LagTerms(
        rates=effective_rates(trace, lags, order, ends),
        alignments=alignment(loss_gradients, trace.carried(moved), lags, ends),
        transport=total_transport(trace, loss_gradients, moved, lags, ends),
    )


@dataclass(frozen=True)
class Agreement:
    """How well the right side y of Eq. (27) stands in for its left side x, each lag by itself; ⟨·⟩ is the mean over sequences and ends.

    Attributes:
        slope: ``⟨xy⟩/⟨x²⟩``, the share of the left side that the right side gives on average.
        cosine: ``⟨xy⟩/√(⟨x²⟩⟨y²⟩)``, their correlation about zero.
        explained: ``1 − ⟨(x − y)²⟩/⟨x²⟩``, the share of the mean square that the right side accounts for; below 0 where it does more harm
            than a constant zero.
    """

    slope: Estimate
    cosine: Estimate
    explained: Estimate


def agreement(terms: LagTerms, rng: np.random.Generator) -> Agreement:
    """Compare the two sides of Eq. (27).

    Args:
        terms: Both sides.
        rng: Source of the bootstrap.

    Returns:
        Slope, cosine and explained share, one a lag.
    """
    instance_of("terms", terms, LagTerms)
    generator("rng", rng)
    x, y = terms.transport, terms.statistic()
    moments = torch.stack([x * y, x.square(), y.square()], dim=1).mean(2).numpy()

    def compare(mean: Array) -> Array:
        xy, xx, yy = np.moveaxis(mean, -2, 0)
        return np.stack([xy / xx, xy / np.sqrt(xx * yy), (2 * xy - yy) / xx], axis=-2)

    drawn = bootstrap(compare, moments, rng)
    return Agreement(*(Estimate(drawn.value[i], drawn.low[i], drawn.high[i]) for i in range(3)))


@dataclass(frozen=True)
class Factorisation:
    """Both sides of Eq. (29), one a lag.

    Attributes:
        mean: E T, the left side.
        envelope: f.
        alignment: m̄ of Eq. (30), weighted with the mean absolute rates.
        ratio: ``E T/(f m̄)``, 1 where Eq. (29) holds.
    """

    mean: Array
    envelope: Array
    alignment: Array
    ratio: Estimate


def factorisation(terms: LagTerms, signs: Tensor, rng: np.random.Generator) -> Factorisation:
    """Measure both sides of ``E T = f m̄``. Implements Eqs. (29) and (30).

    Args:
        terms: Rates and alignments.
        signs: ``sgn m_q``, shape (lags, H), from other sequences.
        rng: Source of the bootstrap.

    Returns:
        The two sides and their ratio.
    """
    instance_of("terms", terms, LagTerms)
    floating("signs", signs, tuple(terms.rates.shape[2:]), "lags, H")
    generator("rng", rng)
    rates, aligned = terms.rates.abs().mean(1), (terms.alignments * signs).mean(1)
    measured = terms.statistic(signs).mean(1)
    parts = torch.cat([measured.unsqueeze(-1), rates, aligned], dim=-1).numpy()
    hidden = rates.shape[-1]

    def ratio(mean: Array) -> Array:
        return mean[..., 0] / (mean[..., 1 : hidden + 1] * mean[..., hidden + 1 :]).sum(-1)

    f = rates.mean(0)
    factor = (f * aligned.mean(0)).sum(-1) / f.sum(-1)
    return Factorisation(measured.mean(0).numpy(), f.sum(-1).numpy(), factor.numpy(), bootstrap(ratio, parts, rng))


def own_sign_means(terms: LagTerms, n_sequences: int) -> Tensor:
    """Average the statistic over groups of N sequences, each with the signs of the group itself: the mistake to avoid.

    Args:
        terms: Rates and alignments of B sequences.
        n_sequences: N, from 1 to B; a remainder of B/N is left out.

    Returns:
        One mean a group and lag, shape (B // N, lags).
    """
    instance_of("terms", terms, LagTerms)
    size = integer_in("n_sequences", n_sequences, 1, len(terms.rates))
    groups = len(terms.rates) // size
    per_sequence = torch.stack([terms.alignments.mean(1), (terms.rates * terms.alignments).mean(1)])
    aligned, added = per_sequence[:, : groups * size].unflatten(1, (groups, size)).mean(2)
    return (aligned.sign() * added).sum(-1)


def own_sign_bias(terms: LagTerms, n_sequences: int) -> Tensor:
    """Predict the mean of `own_sign_means` where every alignment is noise of mean zero, for N large enough that averages are Gaussian.

    For Gaussian X, Y of mean 0, ``E[sgn(X) Y] = cov(X, Y)/sd(X) · √(2/π)``; with X the average over N sequences of ``a^{(q)}`` and Y of
    ``μ^{(q)} a^{(q)}`` this falls as 1/√N, as the noise itself does.

    Args:
        terms: Rates and alignments of at least two sequences, from which the covariances are taken.
        n_sequences: N, at least 1.

    Returns:
        The mean of pure noise, shape (lags,).

    Raises:
        ValueError: If there is only one sequence, which has no covariance.
    """
    instance_of("terms", terms, LagTerms)
    size = integer_in("n_sequences", n_sequences, 1)
    if len(terms.rates) < 2:
        raise ValueError(f"terms holds {len(terms.rates)} sequence(s): must hold at least 2, for a covariance.")
    aligned, added = terms.alignments.mean(1), (terms.rates * terms.alignments).mean(1)
    deviation = aligned.std(0)
    covariance = ((aligned - aligned.mean(0)) * (added - added.mean(0))).sum(0) / (len(aligned) - 1)
    return (covariance / deviation).sum(-1) * math.sqrt(2 / (math.pi * size))


def effective_samples(series: Tensor, rng: np.random.Generator) -> Estimate:
    """Measure how many independent samples the end points of one sequence are worth: the variance of one over that of a sequence's mean.

    Args:
        series: A number for each sequence and end point, shape (B, ends, lags).
        rng: Source of the bootstrap.

    Returns:
        As many as there are end points if they are independent, 1 if they all say the same; one a lag.
    """
    generator("rng", rng)
    floating("series", series, (None, None, None), "B, ends, lags")
    centred = (series - series.mean((0, 1))).numpy()
    squares = np.stack([(centred**2).mean(1), centred.mean(1) ** 2], axis=1)
    return bootstrap(lambda mean: mean[..., 0, :] / mean[..., 1, :], squares, rng)


def bootstrap(statistic: Callable[[Array], Array], samples: Array, rng: np.random.Generator) -> Estimate:
    """Give a function of means an interval by drawing sequences again, with replacement.

    Args:
        statistic: Maps means over sequences, ``(..., *shape)``, to an array; leading axes are kept.
        samples: One entry a sequence, shape ``(B, *shape)``.
        rng: Source of the draws.

    Returns:
        The statistic of the sample, with the middle 95 % of 400 redrawn ones.
    """
    generator("rng", rng)
    samples = finite_array("samples", samples)
    count = len(samples)
    drawn = (
        rng.integers(count, size=(_REPLICATES, count)) + count * np.arange(_REPLICATES)[:, None]
    )  # each replicate's places behind the last's
    weights = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape) / count  # four times as fast as multinomial draws
    redrawn = statistic((weights @ samples.reshape(count, -1)).reshape(_REPLICATES, *samples.shape[1:]))
    low, high = np.quantile(redrawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return Estimate(statistic(samples.mean(0)), low, high)
