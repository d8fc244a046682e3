"""Figure of the chapter on calibration: how often a lag of known strength is seen."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from book.chapters.calibration import PLANTED, nominal_power, whole_scale
from lwcore.detection import rate_exponent
from lwcore.figures import SHADES, canvas, done
from lwcore.stats import binomial


def power(recorded: xr.Dataset, n_sequences: int, rate: str = "mean") -> Figure:
    """Draw the chance that a lag is seen against N over N(ℓ), for both rules and both noises,
    beside what the law says.

    Args:
        recorded: ``calibration.nc``.
        n_sequences: Number of sequences N of a draw, one of those recorded.
        rate: One of `inference.RATES`.

    Returns:
        The figure: a panel for each α.
    """
    alphas = recorded.alpha.values
    figure, panels = canvas(len(alphas), height=3.2, sharey=True)
    strength, curve = np.array(PLANTED), np.geomspace(0.1, 2e3, 200)
    for axes, alpha in zip(panels, alphas, strict=True):
        whole = whole_scale(alpha)
        for (noise, ratio), colour in zip(
            {"whole": whole, "own": 1.0}.items(), SHADES, strict=False
        ):
            # N(ℓ) in the lag's own noise is smaller by the ratio of scales to the mean's exponent.
            x = strength * (whole / ratio) ** rate_exponent(alpha)
            axes.plot(
                curve,
                nominal_power(alpha, curve, ratio),
                color=colour,
                lw=1,
                label=f"by the law, {noise}",
            )
            for rule, fill in (("plug-in", colour), ("tested", "none")):
                chosen = recorded.seen.sel(truth="planted", rule=rule, rate=rate, noise=noise)
                hits = chosen.sel(alpha=alpha, n_sequences=n_sequences).values.ravel()[x > 0]
                trials = recorded.attrs["trials"]
                axes.vlines(x[x > 0], *binomial(hits, trials)[1:], color=colour, lw=0.8)
                axes.plot(
                    x[x > 0],
                    hits / trials,
                    "o",
                    ms=4,
                    color=colour,
                    mfc=fill,
                    label=f"{rule}, {noise}",
                )
        axes.axvline(1, color="grey", lw=0.8, ls=":")
        axes.set(xscale="log", xlim=(0.1, 2e3), xlabel="N over N(ℓ)", title=f"α = {alpha:g}")
    panels[0].set(ylabel="chance that the lag is seen", ylim=(-0.02, 1.02))
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=6,
        fontsize=7,
        columnspacing=1.0,
    )
    signature = (
        f"calibration: N = {n_sequences}, {recorded.attrs['trials']} draws a point; "
        f"revision {recorded.attrs['revision']}"
    )
    figure.supxlabel(signature, x=0.005, ha="left", fontsize=7, color="grey")
    return done(figure)
