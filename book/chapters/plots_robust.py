"""Figures of the chapter on robust averaging: exponents, gains and windows by estimator, and what
clipping does.

Points are medians over seeds, bars and bands run from the least to the largest seed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import special

from book.chapters import robust
from lwcore.figures import COLOURS, MARKERS, SHADES, canvas, model_band, signed

_STYLES = {
    "mean": ("black", "-"),
    "clipped mean": (SHADES[2], "--"),
    "median": (SHADES[1], "-."),
    "median of means": (SHADES[0], ":"),
}
_GREYS = ("0.65", "0.45", "0.2")


def exponents(results: xr.Dataset, studies: Mapping[str, xr.Dataset]) -> Figure:
    """Draw the exponent p of every estimator and model; grey, that of stable noise of the fitted α
    treated in the same way."""
    figure, panels = canvas(len(studies), width=8.6, height=6.2, rows=2, sharey=True)
    for axes, (case, study) in zip(panels, studies.items(), strict=True):
        axes.axhline(2, color="black", lw=0.8, ls=":")
        for i, model in enumerate(study.model.values):
            _dots(
                axes,
                study.control.sel(model=model),
                i - 0.35,
                study.sizes["model"],
                "0.65",
                MARKERS[model],
            )
            _dots(
                axes,
                study.exponent.sel(model=model),
                i,
                study.sizes["model"],
                COLOURS[model],
                MARKERS[model],
                label=model,
            )
            axes.plot(
                _place(0, i, study.sizes["model"]),
                study.implied.sel(model=model).median(),
                "_",
                ms=9,
                mew=1.5,
                color="black",
            )
        axes.plot([], [], "_", ms=9, mew=1.5, color="black", label="α/(α − 1), fitted α")
        _name_estimators(axes, study, case)
    figure.supylabel("exponent p", fontsize=10)
    _legend(figure, panels[0])
    return signed(figure, results)


def largest(results: xr.Dataset, cases: list[str]) -> Figure:
    """Draw the largest number against the lag, medians over probes; dotted, the median of the
    largest of as many Gaussian numbers."""
    figure, panels = canvas(len(cases), width=8.6, height=3.6, sharey=True)
    gaussian = special.ndtri((1 + 0.5 ** (1 / results.sizes["sequence"])) / 2)
    for axes, case in zip(panels, cases, strict=True):
        found = robust.largest(robust.numbers(results, *robust.CASES[case])).median("probe")
        for model in found.model.values:
            model_band(axes, found.lag, found.sel(model=model), model)
        axes.axhline(gaussian, color="black", lw=0.8, ls=":", label="Gaussian numbers")
        axes.set(
            title=case.replace(", ", ",\n"), xscale="log", xlabel="lag ℓ (steps)", yscale="log"
        )
        axes.set_yticks(ticks := [3, 5, 10, 20, 30], labels=[str(tick) for tick in ticks])
        axes.minorticks_off()
    panels[0].set_ylabel("largest |x − mean|\n(standard deviations)")
    _legend(figure, panels[0])
    return signed(figure, results)


def gains(results: xr.Dataset, studies: Mapping[str, xr.Dataset]) -> Figure:
    """Draw for every estimator and model by which factor it needs fewer sequences than the mean;
    dashed, the median's for Gaussians."""
    figure, panels = canvas(len(studies), width=8.6, height=6.2, rows=2, sharey=True)
    for axes, (case, study) in zip(panels, studies.items(), strict=True):
        axes.axhline(1, color="black", lw=0.8, ls=":")
        axes.axhline(2 / np.pi, color="grey", lw=0.8, ls="--")
        gain = study.gain.isel(estimator=slice(1, None)).median(("probe", "lag"))
        for i, model in enumerate(study.model.values):
            _dots(
                axes,
                gain.sel(model=model),
                i,
                study.sizes["model"],
                COLOURS[model],
                MARKERS[model],
                label=model,
            )
        _name_estimators(axes, gain, case)
        axes.set(yscale="log", yticks=(ticks := [0.01, 0.03, 0.1, 0.3, 1, 3]), yticklabels=ticks)
        axes.minorticks_off()
    figure.supylabel("N of the mean / N", fontsize=10)
    _legend(figure, panels[0])
    return signed(figure, results)


def windows(results: xr.Dataset, studies: Mapping[str, xr.Dataset], cases: list[str]) -> Figure:
    """Draw H_N against N for every estimator, a panel for each model and case; medians over seeds ×
    probes, and the mean's middle half."""
    figure, panels = canvas(
        len(cases) * results.sizes["model"],
        width=8.6,
        height=2.6 * len(cases),
        rows=len(cases),
        sharey=True,
    )
    pairs = [(case, model) for case in cases for model in results.model.values]
    for axes, (case, model) in zip(panels, pairs, strict=True):
        window = studies[case].window.sel(model=model)
        low, high = (
            window.sel(estimator="mean").quantile(q, ("seed", "probe")) for q in (0.25, 0.75)
        )
        axes.fill_between(window.budget, low, high, color="black", alpha=0.12, lw=0)
        for name, (colour, style) in _STYLES.items():
            axes.plot(
                window.budget,
                window.sel(estimator=name).median(("seed", "probe")),
                color=colour,
                ls=style,
                label=name,
            )
        axes.set(
            xscale="log",
            title=model if case == cases[0] else "",
            ylim=(-1, float(results.lag[-1]) * 1.06),
        )
        if case == cases[-1]:
            axes.set_xlabel("sequences N")
        if model == results.model.values[0]:
            axes.set_ylabel(f"{case}\n$H_N$ (steps)", fontsize=8)
    _legend(figure, panels[0])
    return signed(figure, results)


def clipping(
    results: xr.Dataset, simulated: Mapping[float, xr.Dataset], measured: xr.Dataset
) -> Figure:
    """Draw against the share of numbers clipped what becomes of the fitted α, of the exponent p,
    and of the sequences needed.

    Args:
        results: The run that was measured, to name it.
        simulated: `clipping.effects` on stable noise, by its α.
        measured: `clipping.effects_on_run`.

    Returns:
        The figure; α by McCulloch's quantiles with full, by the characteristic function with dashed
        lines.
    """
    figure, (fitted, exponent, gain) = canvas(3, width=8.6, height=3.8)
    cut = 1 - measured.share
    for (alpha, data), grey in zip(simulated.items(), _GREYS, strict=False):
        fitted.plot(cut, data.alpha.sel(fit="mcculloch"), color=grey)
        fitted.plot(cut, data.alpha.sel(fit="ecf"), color=grey, ls="--")
        exponent.plot(cut, data.exponent, color=grey, label=f"stable, α = {alpha}")
        gain.plot(cut, data.gain, color=grey)
    for model in measured.model.values:
        one, colour, marker = measured.sel(model=model), COLOURS[model], MARKERS[model]
        model_band(fitted, cut, one.alpha.sel(fit="mcculloch"), model)
        fitted.plot(
            cut, one.alpha.sel(fit="ecf").median("seed"), ls="--", color=colour, marker=marker, ms=4
        )
        model_band(exponent, cut, one.exponent, model)
        model_band(gain, cut, one.gain, model)
    fitted.set(ylabel="fitted α")
    exponent.set(
        ylabel="exponent p of the mean",
        yscale="log",
        yticks=(ticks := [2, 3, 4, 6, 8]),
        yticklabels=ticks,
    )
    gain.set(
        ylabel="N unclipped / N clipped",
        yscale="log",
        yticks=(ticks := [1, 2, 5, 10, 20]),
        yticklabels=ticks,
    )
    for axes in (fitted, exponent, gain):
        axes.set_xscale("symlog", linthresh=0.01)
        axes.set_xticks([0, 0.01, 0.1, 0.5], ["0", "0.01", "0.1", "0.5"])
        axes.minorticks_off()
        axes.set_xlabel("share of numbers clipped")
    _legend(figure, exponent)
    return signed(figure, results)


def _legend(figure: Figure, axes: Axes) -> None:
    """Name the lines of all panels once, above them: below stands the name of the run."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i].startswith("α"))
    figure.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside upper center",
        ncols=4,
        columnspacing=1.2,
    )


def _dots(
    axes: Axes,
    values: xr.DataArray,
    i: float,
    of: int,
    colour: str,
    marker: str,
    label: str | None = None,
) -> None:
    """Draw medians over seeds with their range, one for each estimator, beside those of other
    models."""
    middle = values.median("seed")
    ends = np.abs(np.stack([values.min("seed"), values.max("seed")]) - middle.values)
    places = [_place(j, i, of) for j in range(values.sizes["estimator"])]
    axes.errorbar(
        places, middle, ends, fmt=marker, ms=4, capsize=2, lw=1, color=colour, label=label
    )


def _place(estimator: int, model: float, of: int) -> float:
    """Abscissa of a model's point for an estimator."""
    return estimator + 0.14 * (model - (of - 1) / 2)


def _name_estimators(axes: Axes, study: xr.Dataset | xr.DataArray, title: str) -> None:
    """Write the estimators below their places."""
    names = [name.replace(" ", "\n", 1) for name in study.estimator.values]
    axes.set(xticks=range(len(names)), xticklabels=names, title=title)
