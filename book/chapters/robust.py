"""Who averages, and what it costs: the estimators of `aggregation` on the numbers measured at real
gradients.

A lag shows in the mean of one number a sequence. Told is the *sign* of that mean, with error ε,
from N sequences. Two noises, as in `inference`:

* ``"own"``: the numbers are the lag's own part of the gradient, as they are. An estimator looks for
  its own location (the median, say), which need not be the mean, nor have its sign; then no number
  of sequences will do.
* ``"whole"``: the whole gradient along the same direction, centred, moved by plus or minus the
  lag's mean with equal chances. Where the noise is not symmetric an estimator has a bias b, which
  helps one sign and hurts the other; a mean below ``|b|`` is never told.

The vote of signs, ``sgn Σ sgn(x)``, decides as the median does: more than half of the numbers lie
on the median's side of zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.optimize.elementwise import find_root

from book.chapters.resampling import ESTIMATORS, ONE_NUMBER, concentration, resampled, spread
from lwcore.inference import config_of, detected, probes, window_of
from lwcore.signatures import require
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

_CONTROLS = 10  # sets of stable numbers for each network
CASES = {
    "the paper's statistic": ("zeroth", "own"),
    "the lag's part of the gradient": ("whole", "own"),
    "inside the whole gradient": ("whole", "whole"),
    "inside it, along the lag's own gradient": ("gradient", "whole"),
}


def numbers(results: xr.Dataset, view: str, noise: str) -> xr.DataArray:
    """Take one number a sequence out of a run that kept them.

    Args:
        results: A run with ``keep_numbers``.
        view: One of its views, see `measure`.
        noise: ``"own"`` or ``"whole"``.

    Returns:
        Shape (model, seed, probe, lag, sequence). Of the whole gradient along a random direction,
        which is the same at all lags, one.
    """
    chosen = probes(results, view)
    if "statistic" not in results:
        raise ValueError(
            "results: has no variable 'statistic'; run with diagnostics.keep_numbers = true."
        )
    if noise == "own":
        return chosen.statistic.astype(np.float64)
    whole = chosen.projection.astype(np.float64)
    return whole if view == "gradient" else whole.isel(lag=[0])


def largest(samples: xr.DataArray) -> xr.DataArray:
    """Return how far the farthest number lies from the mean of all sequences, in their standard
    deviations."""
    return abs(samples - samples.mean("sequence")).max("sequence") / samples.std("sequence")


def sequences_for_sign(
    shift: ArrayLike, bias: ArrayLike, deviation: ArrayLike, error: float
) -> Array:
    """Return the N from which a shift by +Δ or −Δ, with equal chances, is given the wrong sign with
    probability ε.

    The estimate is Gaussian about ±Δ + b with standard deviation s/√N, so that N solves
    ``Φ(−(Δ − b)√N/s) + Φ(−(Δ + b)√N/s) = 2ε``; without bias it is ``(s z/Δ)²``, z the (1 −
    ε)-quantile.

    Args:
        shift: Δ ≥ 0.
        bias: b.
        deviation: s, at least 0; 0 stands for numbers that carry nothing.
        error: ε in (0, 0.5).

    Returns:
        Numbers N, infinite where ``Δ ≤ |b|``.
    """
    z = special.ndtri(1 - error)
    given = {"shift": shift, "bias": bias, "deviation": deviation}
    delta, b, s = np.broadcast_arrays(*(np.asarray(value, float) for name, value in given.items()))
    for name, value in (("shift", delta), ("deviation", s)):
        require(name, value, ~(value < 0), "0 or more")
    can = (s > 0) & (delta > np.abs(b))
    easy, hard = ((delta + side * np.abs(b))[can] / s[can] for side in (1, -1))
    found = find_root(
        lambda root, easy, hard: (
            special.ndtr(-easy * root) + special.ndtr(-hard * root) - 2 * error
        ),
        # a little wider, so that without bias the root is not an end
        (z / easy * 0.99, z / hard * 1.01),
        args=(easy, hard),
    )
    needed = np.full(delta.shape, np.inf)
    needed[can] = found.x**2
    return needed


def studies(
    results: xr.Dataset, rng: np.random.Generator, error: float = 0.1
) -> dict[str, xr.Dataset]:
    """Compare the estimators in every case of `CASES`; the keys are their names."""
    return {name: study(results, view, noise, rng, error) for name, (view, noise) in CASES.items()}


def study(
    results: xr.Dataset, view: str, noise: str, rng: np.random.Generator, error: float = 0.1
) -> xr.Dataset:
    """Compare the estimators on a run's numbers in one view and inside one noise.

    Judged are only lags whose mean the run's test declares above zero: of the others, the sign to
    be told is not known. And no N beyond the number of sequences measured is asked for: there a
    bias is no larger than the error with which it is known.

    Args:
        results: A run with ``keep_numbers``.
        view: One of its views.
        noise: ``"own"`` or ``"whole"``.
        rng: Source of randomness.
        error: ε in (0, 0.5).

    Returns:
        For every network (model, seed): the fitted ``alpha``, the exponent p ``implied`` by it, and
        by ``estimator`` the ``exponent`` measured and the ``control``, measured in the same way on
        sets of as many stable numbers of that α (medians over probes and every fifth lag, and over
        10 sets); so also the `largest` number and its ``largest_control``. For every probe and lag,
        by estimator: ``bias``, location less mean, and ``bias_error``, its standard error, both in
        standard deviations of one number; ``required`` N, NaN for lags not judged; ``gain``, the
        mean's N over the estimator's. By ``budget``, the ``window`` in steps.
    """
    samples, looked_at = numbers(results, view, noise), probes(results, view, "error")
    n = samples.sizes["sequence"]
    # at 1 means do not concentrate at all
    alpha = looked_at.alpha.sel(noise=noise, drop=True).median("probe").fillna(1.0).clip(1.01, 2)
    # from the longest lag down; enough for an exponent
    few = samples.isel(lag=slice(None, None, -5)).stack(column=("probe", "lag"))
    control = xr.apply_ufunc(
        lambda one: SymmetricStable(float(one)).sample((_CONTROLS, n), rng),
        alpha,
        output_core_dims=[["column", "sequence"]],
        vectorize=True,
    )
    exponent, on_stable = (
        -1 / _over_sequences(lambda x: concentration(x, rng, error=error), data).median("column")
        for data in (few, control)
    )

    def locate(x: Array) -> Array:
        estimates = resampled(x, ONE_NUMBER, rng)
        # from the mean of the same resample: what the two share is no bias
        away = estimates - estimates[..., :1, :]
        return np.stack(
            [
                away.mean(-1),
                away.std(-1) * (ONE_NUMBER / n) ** 0.5,
                spread(estimates, error) * ONE_NUMBER**0.5,
            ],
            -1,
        )

    located = _over_sequences(locate, samples, "quantity").drop_vars("lag")
    located = located.isel(
        lag=[0] * results.sizes["lag"] if samples.sizes["lag"] == 1 else slice(None)
    ).assign_coords(lag=results.lag)
    bias, bias_error, deviation = (located.isel(quantity=i) for i in range(3))
    shift = looked_at.statistic.astype(np.float64).mean("sequence")
    if noise == "whole":
        needed = xr.apply_ufunc(
            lambda delta, b, s: sequences_for_sign(delta, b, s, error), abs(shift), bias, deviation
        )
    else:
        seen = (shift + bias) * np.sign(shift)
        needed = xr.where(seen > 0, (special.ndtri(1 - error) * deviation / seen) ** 2, np.inf)
    needed = needed.where(detected(looked_at))
    judged = needed.where(needed.sel(estimator="mean", drop=True) <= n)
    unit = deviation.sel(estimator="mean", drop=True)
    variables = {
        "alpha": alpha,
        "implied": alpha / (alpha - 1),
        "exponent": exponent,
        "control": on_stable,
        "largest": largest(few).median("column"),
        "largest_control": largest(control).median("column"),
        "bias": bias / unit,
        "bias_error": bias_error / unit,
        "required": judged,
        "gain": judged.sel(estimator="mean", drop=True) / judged,
        "window": window_of(
            needed.fillna(np.inf),
            [budget for budget in config_of(results).diagnostics.budgets if budget <= n],
        ),
    }
    return xr.Dataset(variables)


def _over_sequences(
    function: Callable[[Array], Array], samples: xr.DataArray, *more: str
) -> xr.DataArray:
    """Apply a function along the sequences that gives one value, or several, for each estimator."""
    found = xr.apply_ufunc(
        function, samples, input_core_dims=[["sequence"]], output_core_dims=[["estimator", *more]]
    )
    return found.assign_coords(estimator=list(ESTIMATORS))
