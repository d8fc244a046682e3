"""A figure of envelopes beside the mixtures of exponentials that their spectra make."""

from __future__ import annotations

import xarray as xr
from matplotlib.figure import Figure

from book.chapters.mixtures import local_slopes, mixtures
from lwcore.figures import COLOURS, ORDER_STYLES, band, canvas, legend_above, signed


def reconstructions(results: xr.Dataset) -> Figure:
    """Draw envelopes and the mixtures of exponentials that their own spectra make, and the local
    slopes of both below."""
    models = list(results.model.values)
    figure, panels = canvas(2 * len(models), width=8.6, height=5, rows=2, sharex=True, sharey="row")
    at = xr.DataArray(local_slopes(results.lag, 1.0 / results.lag)[0], dims="lag")
    for order, faint in (("zeroth", 0.45), ("exact", 1.0)):
        curves = {
            "measured": results.envelope.sel(order=order),
            "mixture": mixtures(results, order, own_weights=True),
        }
        for (name, curve), style in zip(
            curves.items(), (ORDER_STYLES["exact"], ORDER_STYLES["zeroth"]), strict=True
        ):
            for model, above, below in zip(models, panels, panels[len(models) :], strict=False):
                one = curve.sel(model=model).transpose("seed", "lag")
                slopes = xr.DataArray(
                    [local_slopes(one.lag, f)[1] for f in one.values], dims=("seed", "lag")
                )
                for axes, x, y in ((above, one.lag, one), (below, at, slopes)):
                    band(axes, x, y, color=COLOURS[model], ls=style, lw=1.6, alpha=faint)
            panels[0].plot([], [], color="grey", ls=style, alpha=faint, label=f"{order}, {name}")
    for above, below, model in zip(panels, panels[len(models) :], models, strict=False):
        above.set(xscale="log", yscale="log", title=model)
        below.set(xscale="log", xlabel="lag ℓ (steps)", ylim=(-8, 3))
        below.axhline(0, color="grey", lw=0.4)
        for lag in results.task_lag.values:
            below.axvline(lag, color="grey", lw=0.4)
    panels[0].set(
        ylabel="envelope f(ℓ)", ylim=(float(results.envelope.sel(order="exact").min()) / 30, None)
    )
    panels[len(models)].set_ylabel("slope, d log f/d log ℓ")
    legend_above(figure, panels[0])
    return signed(figure, results)
