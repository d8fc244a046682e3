"""Input–target sequences whose dependencies on the past are known: the delayed regression of Eq.
(40)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lwcore.arguments import finite_array, generator, instance_of, integer_in, lag_list, real_in
from lwcore.tensors import finite


class Sequences(NamedTuple):
    """Independent sequences: `inputs` of shape (sequences, time, input) and scalar `targets` of
    shape (sequences, time)."""

    inputs: Tensor
    targets: Tensor

    def check(self) -> None:
        """Check that inputs and targets belong together and are finite.

        Raises:
            ValueError: If they do not, or are not.
        """
        for name, values in self._asdict().items():
            finite(f"sequences: {name}", values)
        if (
            self.inputs.ndim != 3
            or self.targets.shape != self.inputs.shape[:2]
            or self.targets.numel() == 0
        ):
            raise ValueError(
                f"sequences: inputs {tuple(self.inputs.shape)} and targets "
                f"{tuple(self.targets.shape)} do not fit: "
                "must be (S, T, D) and (S, T), none of them 0."
            )


@dataclass(frozen=True, eq=False)
class DelayedRegression:
    """The target is a noisy weighted sum of one input component at several delays.

    Implements Eq. (40): ``y_t = Σ_k c_k uᵀ x_{t−ℓ_k} + ε_t`` with ``x_t`` standard Gaussian and
    ``ε_t ~ N(0, noise²)``. Terms that would reach back before the sequence began are absent.

    Attributes:
        length: Number of time steps T.
        lags: Delays ℓ_k in steps, strictly increasing, each in 1..T−1.
        coefficients: Weights c_k, one a lag.
        noise: Standard deviation of ε_t, at least 0.
        direction: The unit vector u, shape (input size D,).
    """

    length: int
    lags: tuple[int, ...]
    coefficients: tuple[float, ...]
    noise: float
    direction: NDArray[np.float64]

    def __init__(
        self,
        length: int,
        lags: Iterable[int],
        coefficients: ArrayLike,
        noise: float,
        direction: ArrayLike,
    ) -> None:
        """Check the pieces and normalise the direction.

        Args:
            length: Number of time steps T, at least 2.
            lags: Delays ℓ_k in steps, strictly increasing, each in 1..T−1.
            coefficients: Weights c_k, one a lag.
            noise: Standard deviation of ε_t, at least 0.
            direction: Any non-zero vector of shape (D,); it is scaled to unit length.

        Raises:
            ValueError: If a piece is out of range, or there is not one coefficient a lag.
        """
        steps = integer_in("length", length, 2)
        delays = tuple(lag_list("lags", lags, steps))
        weights = finite_array("coefficients", coefficients, ndim=1)
        if len(weights) != len(delays):
            raise ValueError(
                f"coefficients: {len(weights)} given for {len(delays)} lags; there must be one a "
                "lag."
            )
        vector = finite_array("direction", direction, ndim=1)
        largest = float(np.abs(vector).max())
        if largest == 0:
            raise ValueError("direction = 0: must be a non-zero vector.")
        vector = vector / largest  # first, so that no square leaves the range of a float
        object.__setattr__(self, "length", steps)
        object.__setattr__(self, "lags", delays)
        object.__setattr__(self, "coefficients", tuple(weights.tolist()))
        object.__setattr__(self, "noise", real_in("noise", noise, "[0, inf)"))
        object.__setattr__(self, "direction", vector / np.linalg.norm(vector))


def sample(
    task: DelayedRegression,
    n_sequences: int,
    rng: np.random.Generator,
    dtype: torch.dtype = torch.float32,
) -> Sequences:
    """Draw independent sequences of a task, Eq. (40).

    Args:
        task: The task.
        n_sequences: How many, at least 1.
        rng: Source of the inputs and of the noise.
        dtype: Floating type of the tensors; the draw itself is float64, so both types hold the same
            sequences.

    Returns:
        Inputs (n_sequences, T, D) and targets (n_sequences, T).

    Raises:
        ValueError: If there are no sequences to draw or `dtype` is not a floating type.

    Examples:
        >>> task = DelayedRegression(length=100, lags=[3, 10], coefficients=[0.6, 0.4], noise=0.1, direction=[1, 0])
        >>> inputs, targets = sample(task, 8, np.random.default_rng(0))
        >>> tuple(inputs.shape), tuple(targets.shape)
        ((8, 100, 2), (8, 100))
    """
    instance_of("task", task, DelayedRegression)
    generator("rng", rng)
    if not instance_of("dtype", dtype, torch.dtype).is_floating_point:
        raise ValueError(f"dtype = {dtype}: must be a floating type.")
    shape = (integer_in("n_sequences", n_sequences, 1), task.length)
    inputs = rng.standard_normal((*shape, len(task.direction)))
    targets = task.noise * rng.standard_normal(shape)
    component = inputs @ task.direction
    for lag, coefficient in zip(task.lags, task.coefficients, strict=True):
        targets[:, lag:] += coefficient * component[:, :-lag]
    return Sequences(torch.from_numpy(inputs).to(dtype), torch.from_numpy(targets).to(dtype))


def recovered_coefficients(
    task: DelayedRegression, sequences: Sequences, predictions: Tensor, delays: Iterable[int]
) -> Tensor:
    """Measure which delays a predictor uses: the coefficient of ``uᵀ x_{t−ℓ}`` in its output.

    Inputs are independent and of unit variance, so the regression coefficient is the mean product.
    A perfect predictor gives c_k at the task lags and 0 elsewhere.

    Args:
        task: The task.
        sequences: Sequences of it.
        predictions: ŷ, shape (sequences, T).
        delays: Delays ℓ, strictly increasing, each in 1..T−1.

    Returns:
        One coefficient a delay, shape (number of delays,), averaged over sequences and the steps
        that reach back far enough.
    """
    inputs, _ = instance_of("sequences", sequences, Sequences)
    instance_of("task", task, DelayedRegression)
    finite("sequences: inputs", inputs, (None, task.length, len(task.direction)), "S, T, D")
    finite("predictions", predictions, tuple(inputs.shape[:2]), "S, T")
    component = sequences.inputs @ torch.from_numpy(task.direction).to(sequences.inputs)
    return torch.stack(
        [
            (predictions[:, lag:] * component[:, :-lag]).mean()
            for lag in lag_list("delays", delays, task.length)
        ]
    )
