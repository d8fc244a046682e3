"""Input–target sequences whose dependencies on the past are known: the delayed regression.

The target at a step is a weighted sum of what the input was at a few delays, so it is known which
lags a gradient can hold a signal from, and how much of each a network has learned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import own_precision
from lwcore.signatures import FiniteReals, Int64Count, Lags, NotNegative, checked, require


class Sequences(NamedTuple):
    """Independent sequences: inputs (B, T, D) and scalar targets (B, T)."""

    inputs: Tensor
    targets: Tensor


@checked
def check(inputs: Float[Tensor, "B T D"], targets: Float[Tensor, "B T"]) -> None:
    """Refuse inputs and targets that do not belong together, are empty, or are not finite."""
    for name, values in (("inputs", inputs), ("targets", targets)):
        require(name, values, values.numel() > 0, "not empty")
        require(name, values, bool(values.isfinite().all()), "finite")


@checked
class DelayedRegression:
    """The task of the paper: the target is a noisy weighted sum of one input at several delays.

    Implements Eq. (40): ``y_t = Σ_k c_k uᵀ x_{t−ℓ_k} + ε_t`` with ``x_t`` standard Gaussian and
    ``ε_t ~ N(0, noise²)``. Terms that would reach back before the sequence began are absent.

    Attributes:
        length: T, the number of steps.
        lags: The delays ℓ_k, in steps.
        coefficients: c_k, one for each delay.
        noise: Standard deviation of ε_t.
        direction: u, (D,), of any length but 0: which component of the input counts. It is kept
            at unit length.
    """

    def __init__(
        self,
        length: Int64Count,
        lags: Lags,
        coefficients: FiniteReals,
        noise: NotNegative,
        direction: FiniteReals,
    ) -> None:
        """Keep the settings; those that do not fit each other are refused."""
        self.length = length
        self.lags = tuple(map(int, lags))
        self.noise = noise
        weights = np.asarray(coefficients, float)
        vector = np.asarray(direction, float)
        is_one_each = weights.shape == (len(self.lags),)
        require("lags", lags, self.lags[-1] < length, f"below the length, {length}")
        require("coefficients", coefficients, is_one_each, "one a lag")
        require("direction", direction, vector.ndim == 1 and vector.any(), "a non-zero vector")
        self.coefficients = tuple(weights.tolist())
        # Divided by its largest entry first, so that no square leaves the range of a float.
        vector = vector / np.abs(vector).max()
        self.direction = vector / np.linalg.norm(vector)


@checked
def sample(
    task: DelayedRegression,
    n_sequences: Int64Count,
    rng: np.random.Generator,
    dtype: torch.dtype = torch.float32,
) -> Sequences:
    """Draw independent sequences of a task, in float64, and round them to a type.

    Examples:
        >>> task = DelayedRegression(
        ...     length=100, lags=[3, 10], coefficients=[0.6, 0.4], noise=0.1, direction=[1, 0]
        ... )
        >>> inputs, targets = sample(task, 8, np.random.default_rng(0))
        >>> tuple(inputs.shape), tuple(targets.shape)
        ((8, 100, 2), (8, 100))
    """
    require("dtype", dtype, dtype.is_floating_point, "a floating type")
    inputs = rng.standard_normal((n_sequences, task.length, len(task.direction)))
    targets = task.noise * rng.standard_normal((n_sequences, task.length))
    component = inputs @ task.direction  # uᵀ x_t
    for lag, coefficient in zip(task.lags, task.coefficients, strict=True):
        targets[:, lag:] += coefficient * component[:, :-lag]
    # Drawn as doubles, so that sequences of two types are the same but for rounding.
    return Sequences(torch.from_numpy(inputs).to(dtype), torch.from_numpy(targets).to(dtype))


@checked
@own_precision
def recovered_coefficients(
    task: DelayedRegression,
    sequences: Sequences,
    predictions: Float[Tensor, "B T"],
    delays: Lags,
) -> Float[Tensor, " delays"]:
    """Return the regression coefficients of a prediction on ``uᵀ x_{t−ℓ}``: which delays it uses.

    A perfect predictor has c_k at the task's delays, and 0 elsewhere. Inputs are independent and of
    unit variance, so a coefficient is the mean of ``ŷ_t uᵀ x_{t−ℓ}``, over sequences and those
    steps that reach back far enough.
    """
    check(*sequences)
    inputs, targets = sequences
    is_one_each = predictions.shape == targets.shape == (len(targets), task.length)
    requirement = "one a step of the sequences, which are the task's"
    require("predictions", predictions, is_one_each, requirement)
    require("delays", delays, delays[-1] < task.length, f"below the length, {task.length}")
    component = inputs @ torch.from_numpy(task.direction).to(inputs)  # uᵀ x_t
    by_delay = []
    for delay in delays:
        products = predictions[:, delay:] * component[:, :-delay]
        by_delay.append(products.mean())
    return torch.stack(by_delay)
