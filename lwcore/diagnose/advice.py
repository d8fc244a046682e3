"""What a reader of a diagnosis can change, and what its numbers say of each change."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lwcore.printing import Unit, printed
from lwcore.signatures import checked
from lwcore.stats import bootstrap

QUANTILE = 0.95  # of |projection|, where clipping is tried
DROPPED = 0.05  # of the detected lags' summed signal, what a cut may cost at the most
UNTOLD = "nothing was measured that would tell"


@checked
def advice(data: xr.Dataset) -> pd.DataFrame:
    """Four changes: what ``Diagnosis.data`` holds on each (``measured``), and what it ``says``.

    No change is tried. Intervals, of 95 %, take the lags that were detected as given.
    """
    ends = data.attrs.get("end_points", "unknown")
    rows = {
        "Gates that keep more": _gates(data),
        "Backpropagation cut short": _cut(data),
        "A loss at more steps": (f"end points of a sequence: {ends}, not told apart", UNTOLD),
        "Clipping by sequence": _clipping(data),
    }
    return pd.DataFrame(rows, ["measured", "says"]).T.rename_axis("change")


def _gates(data: xr.Dataset) -> tuple[str, str]:
    """Whether lags are hidden that, at best, would be shown if they arrived as the first one does.

    A lag's N(ℓ) would fall by (f(ℓ)/f(1))² if only its own signal grew. But the noise of the whole
    gradient grows with all that arrives, by how much was not measured: a gain is never promised.
    """
    if "envelope" not in data or not data.envelope[0] > 0:
        return "no envelope", UNTOLD
    lags, count, first = data.lag.values, data.attrs["n_sequences"], float(data.envelope[0])
    left, error = data.envelope.values / first, data.envelope_error.values / first
    lowest, seen = data.required_interval.values[0], data.detected.values.astype(bool)
    hidden = ~(seen & (data.required.values <= count))
    # where N(ℓ) may be that small as it is, more sequences tell, and no other gates
    gains = hidden & (left <= np.sqrt(count / lowest)) & (lowest > count)
    spread = np.hypot(error[-1], left[-1] * error[0])
    measured = f"of the envelope at lag {lags[0]}, {left[-1]:.2g} is left at lag {lags[-1]} "
    measured += f"(standard error {spread:.1g}); {hidden.sum()} of {len(lags)} lags are not shown"
    if not gains.any():
        return measured, "no gain: no lag is hidden because too little of it arrives"
    ends = "may help at {} lags, {} to {}".format(gains.sum(), *lags[gains][[0, -1]])
    return measured, f"{ends}, {(gains & seen).sum()} of them detected, unless noise grows as much"


def _cut(data: xr.Dataset) -> tuple[str, str]:
    """The shortest gradient, ended at a measured lag, that surely loses no more than `DROPPED`."""
    lags, seen = data.lag.values, data.detected.values.astype(bool)
    if not seen.any():
        return "no lag is detected", UNTOLD
    between = (lags[1:] + lags[:-1]) / 2  # a measured lag stands for those nearest to it
    parts = data.statistic.values * np.diff([lags[0] - 0.5, *between, lags[-1] + 0.5])[:, None]

    def beyond(drawn: np.ndarray) -> np.ndarray:
        means = parts[:, drawn].mean(-1)
        return (means.sum() - means.cumsum()) / means[seen].sum()

    found = bootstrap(beyond, parts.shape[-1], draws=500)
    place = int((found.high <= DROPPED).argmax())  # nothing that was measured is beyond the last
    enough = place < len(lags) - 1
    limit = printed(DROPPED, unit=Unit.SHARE)
    shown = place if enough else min(np.flatnonzero(seen)[-1], len(lags) - 2)
    share, low, high = (end[shown] for end in found)
    part = printed(share, low, high, unit=Unit.SHARE)
    measured = f"beyond lag {lags[shown]}: {part} of the signal"
    if enough:
        return measured, f"costs at most {limit} of the signal at lag {lags[place]}"
    return measured, f"no cut is known to cost at most {limit} of the signal"


def _clipping(data: xr.Dataset) -> tuple[str, str]:
    """How N(ℓ) of the detected lags changes if gradients of sequences are limited along w(ℓ)."""
    whole, part, seen = (data[name].values for name in ("projection", "statistic", "detected"))
    exponent, alpha = float(data.exponent.median()), float(data.tail_index.median())
    measured = f"exponent {exponent:.1f}" if exponent > 0 else "exponent that cannot be told"
    measured += f", tail index {alpha:.2f}"
    limit = np.quantile(np.abs(whole), QUANTILE, axis=-1, keepdims=True)
    chosen = seen.astype(bool) & (limit[:, 0] > 0)
    if not chosen.any():
        return f"{measured}; no lag is detected", UNTOLD
    whole, part, limit = whole[chosen], part[chosen], limit[chosen]
    # A lag's part of what is clipped: at the least what clipping leaves with it less that without
    # it; at the most, where other directions make the norm, the part times the sequence's weight.
    # By the latter alone, clipping would seem to help with Gaussian noise.
    clipped, weight = np.clip(whole, -limit, limit), limit / np.maximum(np.abs(whole), limit)
    parts = np.stack([clipped - np.clip(whole - part, -limit, limit), weight * part])

    def compared(drawn: np.ndarray) -> np.ndarray:
        kept = parts[..., drawn].mean(-1) / part[:, drawn].mean(-1)
        noise = clipped[:, drawn].std(-1) / whole[:, drawn].std(-1)
        return np.median([(kept / noise) ** 2, kept], axis=-1)

    found = bootstrap(compared, whole.shape[-1], draws=500)
    (low, left), (high, most) = found.low[:, 0], found.high[:, 1]
    measured += f"; at the {printed(QUANTILE, unit=Unit.SHARE)} quantile N(ℓ) is divided by "
    measured += f"{printed(low)} to {printed(high)}, and "
    measured += f"{100 * left:.0f} to {100 * most:.0f} % of the signal is left"
    neither = "costs" if high < 1 else "no effect that these sequences could show"
    return measured, "can help" if low > 1 else neither
