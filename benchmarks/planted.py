"""Calibration of the rules of detection, on numbers whose truth is known."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from lwcore.detection import detection_threshold, rate_exponent
from lwcore.experiment.config import DiagnosticSettings
from lwcore.inference import (
    DETECTORS,
    NOISES,
    RULES,
    detected,
    required,
    signal_and_noise,
    window_of,
)
from lwcore.stable import SymmetricStable

REST = 3.0  # scale of the rest of the gradient, in units of the lag's own part
PLANTED = (64.0, 16.0, 8.0, 4.0, 2.0, 1.2, 0.8, 0.5, 0.25, 0.0)  # N over N(ℓ)


def whole_scale(alpha: float) -> float:
    """Return the scale of the whole gradient in `draw`: stable laws' scales add up as ``σ^α``."""
    return float((1 + REST**alpha) ** (1 / alpha))


def draw(
    alpha: float, n: int, trials: int, rng: np.random.Generator, planted: ArrayLike = PLANTED
) -> xr.Dataset:
    """Draw stable numbers, one a sequence and lag, with a signal of known strength at each lag.

    A lag's part has scale 1, is independent between lags and sequences, and shifted by Δ; the rest
    of the gradient has scale `REST`. At Δ, by Eqs. (34) and (37) with the mean's exponent and the
    noise of the whole gradient, N over N(ℓ) is what is planted.

    Args:
        n: Number of sequences N.
        planted: N over N(ℓ) at each lag.
    """
    strength = np.asarray(planted, float)
    threshold = detection_threshold(n, 1.0, whole_scale(alpha), alpha, 0.1)
    shift = threshold * strength ** (1 / rate_exponent(alpha))  # Δ
    law = SymmetricStable(alpha)
    shape = (trials, 1, strength.size, n)
    own = law.sample(shape, rng) + shift[:, None]
    whole = own + REST * law.sample(shape, rng)
    dims = ("trial", "probe", "lag", "sequence")
    coords = {"lag": np.arange(1, strength.size + 1), "view": ("probe", ["gradient"])}
    return xr.Dataset({"statistic": (dims, own), "projection": (dims, whole)}, coords)


def counts(numbers: xr.Dataset, settings: DiagnosticSettings, true_window: int = 0) -> xr.Dataset:
    """Count the trials in which each rule sees each lag, and gives a window too long or too short.

    Windows are those of as many sequences as there are, and of a view the longest of its probes.
    Counts of lags are over (…, probe, lag), of windows over (…, view).

    Args:
        numbers: As `draw` gives them.
        settings: Error and significance of the rules.
        true_window: The longest lag that these sequences can show.
    """
    n = numbers.sizes["sequence"]
    kept = signal_and_noise(numbers)
    options: dict[str, Any] = {"rule": "plug-in", "error": settings.error}
    by_rate = []
    for detector in DETECTORS:
        by_noise = [required(kept, detector=detector, noise=noise, **options) for noise in NOISES]
        by_rate.append(xr.concat(by_noise, "noise"))
    plug_in = xr.concat(by_rate, "rate").assign_coords(noise=list(NOISES), rate=list(DETECTORS))
    tested = plug_in.where(detected(kept, settings.significance), np.inf)
    needed = xr.concat([tested, plug_in], "rule").assign_coords(rule=list(RULES))
    window = window_of(needed, n).groupby("view").max("probe")
    trials = {
        "seen": needed <= n,
        "too_long": window > true_window,
        "too_short": window < true_window,
    }
    return xr.Dataset(trials).sum("trial")
