"""Does clipping raise the tail index? Section 5.5 (iv), in each sense that sentence can have.

Every sequence's number is clipped to ±C, C the quantile of ``|x|`` that leaves a given share of the
numbers as they are. What is left is bounded, so it has a variance, lies in the Gaussian's domain of
attraction, and its mean concentrates with p = 2: at every C, whatever α was. That is one sense.
Others are the α that an estimator reads off the clipped numbers, the information in one of them,
and the sequences needed.

Training usually clips something else: the norm of the *averaged* gradient. That multiplies an
average by a positive number; its sign stays.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import integrate

from book.chapters.resampling import ONE_NUMBER, concentration, resampled, spread
from book.chapters.robust import CASES, numbers
from lwcore import stable
from lwcore.inference import detected, probes
from lwcore.signatures import require
from lwcore.stable import SymmetricStable
from lwcore.stable.fits import Method

Array = NDArray[np.float64]

SHARES = (1.0, 0.99, 0.95, 0.9, 0.75, 0.5)  # of the numbers that clipping leaves as they are
FITS: tuple[Method, ...] = ("mcculloch", "ecf")


def clip(values: ArrayLike, share: float) -> Array:
    """Clip numbers to ±C, C the quantile of their ``|x|`` at a share.

    Args:
        values: Shape (..., sequences).
        share: Share of the numbers left as they are, in (0, 1].

    Returns:
        The clipped numbers, of the same shape.
    """
    x = np.atleast_1d(np.asarray(values, float))
    reach = np.quantile(np.abs(x), share, axis=-1, keepdims=True)
    return np.clip(x, -reach, reach)


def effects(
    samples: ArrayLike,
    noise: str,
    rng: np.random.Generator,
    shares: tuple[float, ...] = SHARES,
    error: float = 0.1,
) -> xr.Dataset:
    """Measure what clipping does to numbers: to α, to the exponent, to the signal and to the
    sequences needed.

    Args:
        samples: One number a sequence, shape (..., sequences); all but the last dimension are taken
            together.
        noise: ``"own"``: the numbers carry their own signal, their mean. ``"whole"``: they are
            noise, centred here, in which a small shift is to be seen, of which clipping lets the
            share of numbers within ±C through.
        rng: Source of randomness.
        shares: Shares of the numbers left as they are, in (0, 1].
        error: ε in (0, 0.5).

    Returns:
        Over ``share``, medians over the samples' columns: fitted ``alpha`` by ``fit``; ``exponent``
        p; ``kept``, the mean (or shift) after clipping over that before; ``gain``, sequences needed
        without clipping over those needed with it, at N = 128 and with the bias left out.
    """
    values = np.atleast_1d(np.asarray(samples, float))
    x = values.reshape(-1, values.shape[-1])
    if noise == "whole":
        x = x - x.mean(-1, keepdims=True)
    rows, seed = [], int(rng.integers(2**32))
    for share in shares:
        clipped = clip(x, share)
        kept = clipped.mean(-1) / x.mean(-1) if noise == "own" else np.full(len(x), share)
        # the same resamples at every share, so that their ratio is sharp
        again = np.random.default_rng(seed)
        width = spread(resampled(clipped, ONE_NUMBER, again, ("mean",))[:, 0], error)
        rows.append(
            {
                "alpha": (
                    ("fit",),
                    [np.median(stable.fit(clipped.T, method).alpha) for method in FITS],
                ),
                "exponent": ((), -1 / np.median(concentration(clipped, rng, ("mean",), error))),
                "kept": ((), np.median(kept)),
                "signal_to_noise": (("column",), kept / width),
            }
        )
    found = xr.concat([xr.Dataset(row) for row in rows], "share").assign_coords(
        share=list(shares), fit=list(FITS)
    )
    found["gain"] = ((found.signal_to_noise / found.signal_to_noise.isel(share=0)) ** 2).median(
        "column"
    )
    return found.drop_vars("signal_to_noise")


def effects_on_run(results: xr.Dataset, case: str, rng: np.random.Generator) -> xr.Dataset:
    """Measure `effects` for every network of a run, in one of `robust.CASES`; of a lag's own
    numbers, at the lags detected only.

    Args:
        results: A run with ``keep_numbers``.
        case: Name of the case.
        rng: Source of randomness.

    Returns:
        The variables of `effects` by model and seed; NaN for a network in which no lag was
        detected.
    """
    view, noise = CASES[case]
    samples, shown = numbers(results, view, noise), detected(probes(results, view, "error"))

    def of_network(model: str, seed: int) -> xr.Dataset:
        columns = samples.sel(model=model, seed=seed).values
        columns = (
            columns[shown.sel(model=model, seed=seed).transpose("probe", "lag").values]
            if noise == "own"
            else columns
        )
        return effects(columns, noise, rng) if columns.size else xr.Dataset()

    by_model = [
        xr.concat([of_network(m, s) for s in results.seed.values], results.seed)
        for m in results.model.values
    ]
    return xr.concat(by_model, results.model)


def information(alpha: float, shares: ArrayLike = SHARES) -> pd.DataFrame:
    """Compute what one clipped number of a stable law says on a small shift, and what its mean uses
    of that.

    Args:
        alpha: Tail index in (1, 2].
        shares: Shares of the numbers left as they are, in (0, 1]; 1 is no clipping.

    Returns:
        For each share, in units of 1/σ²: the Fisher information in the clipped number, and the part
        that a mean of clipped numbers uses, (shift kept)²/variance, 0 where there is no variance.
        By the data-processing inequality the first can only fall.
    """
    law = SymmetricStable(alpha)
    share = np.asarray(shares, float)
    require("shares", share, (share > 0) & (share <= 1), "in (0, 1]")
    rows = {}
    for s in share.tolist():
        if s == 1:
            rows[s] = (law.fisher_information(), 0.5 if law.alpha == 2 else 0.0)
            continue
        reach = float(law.ppf((1 + s) / 2))
        inner, second = (
            2 * integrate.fixed_quad(f, 0, reach, n=400)[0]
            for f in (lambda x: law.score(x) ** 2 * law.pdf(x), lambda x: x**2 * law.pdf(x))
        )
        # two atoms of mass (1 − s)/2, which a shift feeds at the rate p(C)
        at_ends = 4 * float(law.pdf(reach)) ** 2 / (1 - s)
        rows[s] = (inner + at_ends, s**2 / (second + reach**2 * (1 - s)))
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["in the clipped number", "used by their mean"]
    ).rename_axis("share kept")
