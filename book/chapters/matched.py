"""The matched statistic at every end point, beside the gradient's part of which it is built.

End points of one sequence depend on each other, so that a sequence counts as one sample.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lwcore.gradient import alignment, immediate_sensitivity, total_transport
from lwcore.stats import Interval, bootstrap
from lwcore.trace import Direction, Trace
from lwcore.transport import Order, effective_rates


class LagTerms(NamedTuple):
    """Both sides of Eq. (27): rates μ with alignments a, and ``δ_tᵀ M_{t,ℓ} B_{t−ℓ} w``."""

    rates: Float[Tensor, "B ends lags H"]
    alignments: Float[Tensor, "B ends lags H"]
    transport: Float[Tensor, "B ends lags"]

    def of(
        self, sequences: slice = slice(None), lags: Sequence[int] | slice = slice(None)
    ) -> "LagTerms":
        """Terms of some sequences, and of lags by their places in the list."""
        return LagTerms(*(part[sequences][:, :, lags] for part in self))

    @property
    def signs(self) -> Float[Tensor, "lags H"]:
        """Signs ``sgn E[a]`` over these sequences: for the statistic of others."""
        return self.alignments.mean((0, 1)).sign()

    def statistic(self, signs: Tensor | float = 1.0) -> Float[Tensor, "B ends lags"]:
        """``T_{t,ℓ}`` of Eq. (28); without signs, the right side of Eq. (27)."""
        return (self.rates * self.alignments * signs).sum(-1)


def lag_terms(
    trace: Trace,
    loss_gradients: Float[Tensor, "B T H"],
    direction: Direction,
    lags: Sequence[int],
    order: Order = "exact",
) -> LagTerms:
    """Terms of Eq. (27) at every end point from which all lags fit into the sequence.

    For the LSTM the alignments are those of its cell state.
    """
    moved = immediate_sensitivity(trace, direction)
    ends = list(range(max(lags), trace.length))
    return LagTerms(
        rates=effective_rates(trace, lags, order, ends),
        alignments=alignment(loss_gradients, trace.carried(moved), lags, ends),
        transport=total_transport(trace, loss_gradients, moved, lags, ends),
    )


def effective_samples(series: Float[Tensor, "B ends lags"], rng: np.random.Generator) -> Interval:
    """Effective sample size of one sequence: the variance of one end point over that of a mean.

    As many as there are end points if they are independent, 1 if they all say the same; one number
    a lag, with the bootstrap's interval over whole sequences.
    """
    centred = (series - series.mean((0, 1))).numpy()
    squares = np.stack([(centred**2).mean(1), centred.mean(1) ** 2], axis=1)

    def ratio(drawn: NDArray[np.intp]) -> NDArray[np.float64]:
        of_one, of_mean = squares[drawn].mean(0)
        return np.asarray(of_one / of_mean)

    return bootstrap(ratio, len(squares), rng, draws=400)
