"""What follows from each sequence's numbers: N(ℓ) with its interval, and what is detected."""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import NDArray

from lwcore.diagnose.contract import Array
from lwcore.inference import described, sequences_needed, significant
from lwcore.signatures import checked

ERROR = 0.1  # chance of a wrong sign from N(ℓ) sequences
SIGNIFICANCE = 0.01  # chance that any lag is detected where there is none
LEVEL = 0.95  # coverage of all intervals
SIGN_DRAWS = 1000  # draws of all sequences' signs, to see how often nothing shows something
_RESAMPLES = 1000  # of the bootstrap


def inferred(measured: xr.Dataset, seed: int) -> xr.Dataset:
    """Return what was measured, with N(ℓ), its intervals, and what is detected.

    Args:
        measured: `statistic` and `projection` (lag, sequence) and `error_size` (sequence).
    """
    statistic = measured.statistic.values
    projection = measured.projection.values
    error_size = measured.error_size.values
    rng = np.random.default_rng(seed)
    bands = ratio_bands(statistic, projection, rng)
    scale, index = 1 / np.sqrt(2), 2.0  # the stable law of noise with the variance 1
    most, needed, least = sequences_needed(bands, scale, index, error=ERROR)
    n_false = count_false(statistic, error_size, rng)
    seen = detected(statistic, error_size)
    mean = statistic.mean(-1)
    found = {
        "signal": ("lag", mean, "mean of the lag's part"),
        "detected": ("lag", seen, "mean above zero at the family-wise level"),
        "required": ("lag", needed, "sequences N(ℓ) needed, in the noise of the whole gradient"),
        "required_interval": (("bound", "lag"), [least, most], "interval of N(ℓ), for all lags"),
        "false_windows": ([], n_false, f"of {SIGN_DRAWS} draws of signs, those that show any lag"),
    }
    return measured.merge(described(found)).assign_coords(bound=["low", "high"])


@checked
def detected(
    statistic: Float[Array, "lags sequences"], error_size: Float[Array, " sequences"]
) -> NDArray[np.bool_]:
    """Test which lags' means are above zero: t-tests, and Holm's procedure over all lags.

    The noise is that of the numbers, or that of numbers whose sequences all had an error of the
    usual size, if it is larger. Where few sequences have large errors, as where events are rare,
    half of the sequences may miss them. The others' small numbers lie close together then, and
    their spread says too little about the noise.

    In 72 conditions of `benchmarks.false_alarms`, padded, masked, weighted, heavy or rare, a lag is
    detected in 0 to 2.5 % of 200 draws without one, in 0.1 % of all for ``source="target"`` and in
    0.7 % for ``"error"``. The exception is 5 % [2, 9] for ``"error"`` where one step in 30 has an
    event and 40 sequences are read.

    Args:
        error_size: Of each sequence, the length of the gradient of its loss in its predictions.
    """
    return _detected(statistic, error_size, np.ones((1, len(error_size))))[0]


def count_false(statistic: Array, error_size: Array, rng: np.random.Generator) -> int:
    """Count the draws of each sequence's sign in which a lag is detected: all of them are false."""
    signs = rng.choice([-1.0, 1.0], (SIGN_DRAWS, len(error_size)))
    return int(_detected(statistic, error_size, signs).any(1).sum())


def _detected(statistic: Array, error_size: Array, signs: Array) -> NDArray[np.bool_]:
    """Test the lags' means with each row of signs: (rows, lags)."""
    count = len(error_size)
    usual = np.linalg.norm(error_size) / np.sqrt(np.count_nonzero(error_size) or 1)
    to_usual = np.divide(usual, error_size, out=np.zeros(count), where=error_size > 0)
    numbers = statistic / _largest(statistic)
    variance = np.zeros((len(signs), len(statistic)))
    for own in (numbers, numbers * to_usual):
        mean = signs @ own.T / count
        variance = np.maximum(variance, np.mean(own**2, -1) - mean**2)  # no sign changes a square
    mean = signs @ numbers.T / count
    error = np.sqrt(variance / (count - 1))
    return significant(mean[:, None], error[:, None], count, SIGNIFICANCE)[:, 0]


def _largest(numbers: Array) -> Array:
    """Return the size of the largest number of each lag, by which squares of none vanish."""
    largest = np.abs(numbers).max(-1, keepdims=True)
    return np.where(largest > 0, largest, 1.0)


@checked
def ratio_bands(
    statistic: Float[Array, "lags sequences"],
    projection: Float[Array, "lags sequences"],
    rng: np.random.Generator,
) -> Float[Array, "3 lags"]:
    """Return a band around every lag's signal-to-noise ratio: low, the ratio itself, high.

    By the bootstrap over sequences: standard errors times a quantile of the largest deviation of
    any lag, so that all true ratios lie inside with a chance of about 95 %. In simulations these
    held 93 to 98 % of the time for Gaussian and Student-t(5) numbers, 81 to 88 % for log-normal
    ones. That is along the directions found: of 1000 draws of 200 sequences from four networks 92
    to 96 % had all true ratios inside, and 17 to 82 % those along the mean gradients of all
    sequences there are.
    """
    unit = _largest(np.hstack([statistic, projection]))
    signal = (statistic / unit).T
    whole = (projection / unit).T
    centred = whole - whole.mean(0)
    count = len(signal)

    def ratio(weights: Array) -> Array:
        mean = weights @ signal
        variance = (weights @ centred**2 - (weights @ centred) ** 2) * count / (count - 1)
        noise = np.sqrt(np.maximum(variance, 0.0))
        return np.divide(mean, noise, where=variance > 0, out=np.zeros_like(mean))

    equal = np.full(count, 1 / count)
    plain = ratio(equal[None])[0]
    resampled = ratio(rng.multinomial(count, equal, size=_RESAMPLES) / count)
    deviations = resampled - plain
    error = deviations.std(0)
    in_errors = np.abs(deviations / np.where(error > 0, error, np.inf))
    half = np.quantile(in_errors.max(-1), LEVEL) * error
    return np.stack([plain - half, plain, plain + half])
