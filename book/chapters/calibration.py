"""How often a window is wrong: rules of detection held against numbers whose truth is known.

A rule errs in two ways. It sees a lag that is not there: its **false windows** are counted where
nothing is. It misses one that is: its **power** is counted where a signal of known strength stands.
What either should be follows from the rule's definition, its nominal rate.

Truth is known of numbers drawn from a law (`draw`), of a network's own numbers once the sign of
every sequence is drawn at random (`false_windows`, `false_detections`), and of networks whose error
is replaced by noise (`measure.observe`'s source ``"noise"``).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from lwcore.config import DiagnosticSettings
from lwcore.detection import detection_threshold, rate_exponent
from lwcore.inference import NOISES, RATES, RULES, detected, required, summary, window_of
from lwcore.signatures import require
from lwcore.stable import SymmetricStable

Array = NDArray[np.float64]

_AT_ONCE = 2**17  # numbers whose signs are drawn together, to stay in the cache
REST = 3.0  # scale of the rest of the gradient, in units of the lag's own part
# N over N(ℓ): six lags within the window, three beyond, one without a signal
PLANTED = (64.0, 16.0, 8.0, 4.0, 2.0, 1.2, 0.8, 0.5, 0.25, 0.0)


def draw(
    alpha: float,
    n_sequences: int,
    trials: int,
    rng: np.random.Generator,
    planted: ArrayLike = PLANTED,
    error: float = 0.1,
) -> xr.Dataset:
    """Draw what a network might give, one number a sequence and lag, with a signal of known
    strength at each lag.

    A lag's part is stable with scale 1, independent between lags and sequences, and shifted by Δ;
    the rest of the gradient is stable with scale `REST`. Δ is the shift whose N(ℓ), by Eqs. (34)
    and (37) with the mean's exponent and the noise of the whole gradient, is `n_sequences` over
    `planted`.

    Args:
        alpha: Tail index α in (1, 2].
        n_sequences: Number of sequences N, at least 20.
        trials: Number of independent draws.
        rng: Source of randomness.
        planted: N over N(ℓ) for the lags 1, 2, …, shape (lags,); 0 for no signal.
        error: ε in (0, 0.5), the chance of a wrong sign that N(ℓ) stands for.

    Returns:
        ``statistic`` and ``projection`` (trial, probe, lag, sequence), as `inference.summary` takes
        them.
    """
    strength = np.asarray(planted, float)
    require("planted", strength, strength >= 0, "0 or above")
    shape = (
        trials,
        1,
        strength.size,
        n_sequences,
    )
    law = SymmetricStable(alpha)
    # Δ falls as N(ℓ)^(−1/p): the threshold at N, times (N over N(ℓ))^(1/p).
    at_n = detection_threshold(n_sequences, 1.0, whole_scale(alpha), law.alpha, error)
    shift = at_n * strength ** (1 / rate_exponent(law.alpha))
    own = law.sample(shape, rng) + shift[:, None]
    dims = ("trial", "probe", "lag", "sequence")
    return xr.Dataset(
        {
            "statistic": (dims, own),
            "projection": (dims, own + REST * law.sample(shape, rng)),
        },
        coords={"lag": np.arange(1, strength.size + 1), "view": ("probe", ["gradient"])},
    )


def whole_scale(alpha: float) -> float:
    """Give the scale of the whole gradient in `draw`, in units of the lag's own part: scales of
    stable laws add up as ``σ^α``."""
    return (1 + REST**alpha) ** (1 / alpha)


def counts(numbers: xr.Dataset, settings: DiagnosticSettings, true_window: int = 0) -> xr.Dataset:
    """Count how often each rule sees each lag, and gives a window that is too long or too short, at
    N = as many sequences as there are.

    Args:
        numbers: ``statistic`` and ``projection`` (trial, probe, lag, sequence).
        settings: Error, and significance of the tested rule.
        true_window: The window H_N that the truth has, in steps; 0 where nothing is.

    Returns:
        Numbers of trials over rules, rates and noises: ``seen`` (…, probe, lag), ``too_long`` and
            ``too_short`` (…, view). A view's
        window is the longest lag that any of its probes sees. The attribute ``trials`` says of how
        many.
    """
    n, found = numbers.sizes["sequence"], summary(numbers)
    needed = [
        [
            required(found, rate=rate, noise=noise, rule="plug-in", error=settings.error)
            for noise in NOISES
        ]
        for rate in RATES
    ]
    plug_in = xr.concat([xr.concat(of_rate, "noise") for of_rate in needed], "rate").assign_coords(
        noise=list(NOISES), rate=list(RATES)
    )
    tested = plug_in.where(detected(found, settings.significance), np.inf)
    by_rule = xr.concat([tested, plug_in], "rule").assign_coords(rule=list(RULES))
    window = window_of(by_rule, n).groupby("view").max("probe")
    hits = {
        "seen": by_rule <= n,
        "too_long": window > true_window,
        "too_short": window < true_window,
    }
    return xr.Dataset({name: hit.sum("trial") for name, hit in hits.items()}).assign_attrs(
        trials=numbers.sizes["trial"]
    )


def nominal_power(
    alpha: float, planted: ArrayLike, noise: float = 1.0, error: float = 0.1
) -> Array:
    """Give the chance with which ``N(ℓ) ≤ N`` is read off the mean of N sequences, for a stable law
    whose α and scale are known.

    The mean has to reach q times the scale of the noise in question, q the law's ``1 − ε``
    quantile, and fluctuates with its own scale. So the chance is ``F_α(q r (x^(1/p) − 1))``, with x
    = N over N(ℓ), p the mean's exponent and r the ratio of the two scales. For r = 1 that is ε
    where there is no signal, and one half, not 1 − ε, where N is just N(ℓ).

    Args:
        alpha: Tail index α in (1, 2].
        planted: x, 0 or above, any shape.
        noise: r: 1 for the noise of the lag's own part, above 1 for that of the whole gradient.
        error: ε in (0, 0.5).

    Returns:
        Probabilities, of the same shape.

    Examples:
        >>> print(nominal_power(2.0, [0, 1, 4]).round(3))
        [0.1 0.5 0.9]
    """
    law = SymmetricStable(alpha)
    reach = -law.ppf(error) * noise
    strength = np.asarray(planted, float)
    require("planted", strength, strength >= 0, "0 or above")
    return np.asarray(law.cdf(reach * (strength ** (1 / rate_exponent(law.alpha)) - 1)))


def false_windows(
    numbers: xr.Dataset, settings: DiagnosticSettings, rng: np.random.Generator, draws: int = 200
) -> xr.Dataset:
    """Count the windows that are read off measured numbers when the sign of every sequence is drawn
    at random.

    That leaves no signal, and leaves everything else as it was: tails, dependence between lags and
    directions, number of sequences.

    Args:
        numbers: ``statistic`` and ``projection`` (probe, lag, sequence).
        settings: Error, and significance of the tested rule.
        rng: Source of the signs.
        draws: Number of draws.

    Returns:
        As `counts` gives it, for no true window.
    """
    signs = rng.choice([-1.0, 1.0], (draws, numbers.sizes["sequence"]))
    flipped = numbers[["statistic", "projection"]].astype(np.float64) * xr.DataArray(
        signs, dims=("trial", "sequence")
    )
    return counts(flipped.transpose("trial", ...), settings)
