"""Clipping of every sequence's number to ±C, and what becomes of the tail index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from book.chapters.resampling import ONE_NUMBER, concentration, resampled, spread
from book.chapters.robust import CASES, numbers
from lwcore import stable
from lwcore.inference import detected, probes
from lwcore.stable.fits import Method

Array = NDArray[np.float64]

FITS: tuple[Method, ...] = ("mcculloch", "ecf")
SHARES = (1.0, 0.99, 0.95, 0.9, 0.75, 0.5)  # of the numbers that clipping leaves as they are


def clip(values: Array, share: float) -> Array:
    """Numbers clipped to ±C, C the quantile of ``|x|`` at a share, along the last axis."""
    reach = np.quantile(np.abs(values), share, axis=-1, keepdims=True)
    return np.clip(values, -reach, reach)


def effects(
    samples: ArrayLike, noise: str, rng: np.random.Generator, shares: Sequence[float] = SHARES
) -> xr.Dataset:
    """Effects of clipping on α, the exponent, the signal and the sequences needed, by share.

    Numbers, (..., sequences), carry their own signal, their mean; or they are noise (``"whole"``),
    centred here, of whose small shift clipping leaves the share. Medians over columns: ``alpha`` by
    ``fit``; ``exponent`` p of the mean; ``kept``, the signal after clipping over that before;
    ``gain``, sequences needed without clipping over those with it, at N = 128 and without bias.
    """
    values = np.asarray(samples, float)
    x = values.reshape(-1, values.shape[-1])
    if noise == "whole":
        x = x - x.mean(-1, keepdims=True)
    rows, signal_to_noise, seed = [], [], int(rng.integers(2**32))
    for share in shares:
        clipped = clip(x, share)
        kept = clipped.mean(-1) / x.mean(-1) if noise == "own" else np.full(len(x), share)
        # the same resamples at every share, so that their ratio is sharp
        again = np.random.default_rng(seed)
        signal_to_noise.append(
            kept / spread(resampled(clipped, ONE_NUMBER, again, ("mean",))[:, 0])
        )
        found = {
            "alpha": ("fit", [np.median(stable.fit(clipped.T, fit).alpha) for fit in FITS]),
            "exponent": -1 / np.median(concentration(clipped, rng, ("mean",))),
            "kept": np.median(kept),
            "gain": np.median((signal_to_noise[-1] / signal_to_noise[0]) ** 2),
        }
        rows.append(xr.Dataset(found))
    return xr.concat(rows, "share").assign_coords(share=list(shares), fit=list(FITS))


def effects_on_run(
    results: xr.Dataset, case: str, rng: np.random.Generator, shares: Sequence[float] = SHARES
) -> xr.Dataset:
    """Effects of clipping by model and seed; of a lag's own numbers, at lags detected only."""
    view, noise = CASES[case]
    dims = ("model", "seed", "probe", "lag")
    samples = numbers(results, view, noise).transpose(*dims, "sequence")
    shown = detected(probes(results, view, "error")).transpose(*dims)

    def of_network(model: str, seed: int) -> xr.Dataset:
        at = {"model": model, "seed": seed}
        columns = samples.sel(at).values
        columns = columns[shown.sel(at).values] if noise == "own" else columns
        return effects(columns, noise, rng, shares) if columns.size else xr.Dataset()

    models, seeds = results.model, results.seed
    by_model = [xr.concat([of_network(m, s) for s in seeds.values], seeds) for m in models.values]
    return xr.concat(by_model, models)
