"""Figures from results; nothing else draws.

Every function takes a dataset as `lwcore.experiment.run` returns it and gives a figure. Lines are
medians over seeds (and directions, where there are several), bands run from the least to the
largest seed, or over the middle half of seeds × directions where a caption says so.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import seaborn as sns
import xarray as xr
from matplotlib.figure import Figure

from lwcore import inference
from lwcore.detection import rate_exponent
from lwcore.figures import (
    COLOURS,
    MARKERS,
    canvas,
    learned_lines,
    legend_above,
    model_band,
    panels,
    signed,
    window_lines,
)
from lwcore.inference import DEFINITIONS, LETTER, NOISES, OPTIMISER, config_of, probes
from lwcore.window import fit_decay


def training(results: xr.Dataset) -> Figure:
    """Draw the training loss of every model, a mean over 20 steps, against the variance of the
    target.

    Returns:
        The figure. Of a long run some 600 steps are drawn, evenly spaced, the first and the last
            among them: the axis has no more pixels.
    """
    figure, (axes,) = canvas(1, width=6.4)
    loss = results.loss.assign_coords(step=np.arange(1, results.sizes["step"] + 1))
    drawn = np.unique(np.linspace(0, loss.sizes["step"] - 1, 600).round().astype(int))
    smooth = loss.rolling(step=20, min_periods=1).mean().isel(step=drawn)
    for model in results.model.values:
        model_band(axes, smooth.step, smooth.sel(model=model), model, marker=False)
    axes.axhline(float(results.target_variance.mean()), color="grey", ls=":", lw=1)
    axes.annotate(
        "predicting zero",
        (0, float(results.target_variance.mean())),
        (4, -10),
        textcoords="offset points",
        color="grey",
        fontsize=8,
    )
    axes.set(xlabel="training step", ylabel="mean squared error", ylim=(0, None))
    axes.legend()
    return signed(figure, results)


def envelopes(results: xr.Dataset, order: str = "first") -> Figure:
    """Draw the envelope f(ℓ) on linear, semi-logarithmic and double-logarithmic axes, with fits:
    the paper's Figure 1."""
    figure, (linear, semilog, loglog) = canvas(3, width=8.6, height=3)
    f = results.envelope.sel(order=order)
    for model in results.model.values:
        for axes in (linear, semilog, loglog):
            model_band(axes, f.lag, f.sel(model=model), model)
        fitted = fit_decay(f.lag.values, f.sel(model=model).median("seed"))
        fine = np.geomspace(f.lag.values[0], f.lag.values[-1], 100)
        semilog.plot(
            fine, fitted.exponential.law.envelope(fine), color=COLOURS[model], ls="--", lw=1
        )
        loglog.plot(fine, fitted.power.law.envelope(fine), color=COLOURS[model], ls="--", lw=1)
    linear.set(xlabel="lag ℓ (steps)", ylabel="envelope f(ℓ)", title="linear")
    semilog.set(xlabel="lag ℓ (steps)", yscale="log", title="exponential fits, dashed")
    loglog.set(xlabel="lag ℓ (steps)", xscale="log", yscale="log", title="power fits, dashed")
    for axes in (semilog, loglog):
        axes.set_ylim(float(f.min()) / 3, float(f.max()) * 3)
    linear.legend()
    return signed(figure, results)


def orders(results: xr.Dataset) -> Figure:
    """Draw each model's envelope at every order of transport."""
    labels: Any = {"xlabel": "lag ℓ (steps)", "ylabel": "envelope f(ℓ)", "yscale": "log"}
    return signed(panels(results.envelope, "lag", style="order", col="model", **labels), results)


def windows(results: xr.Dataset, view: str = "zeroth") -> Figure:
    """Draw H_N against N, computed in three ways from the same statistic, and the null control: the
    paper's Figure 2.

    Args:
        results: A run.
        view: ``"zeroth"`` or ``"first"``.

    Returns:
        The figure: v2's estimate to the letter, the same with f counted once, and that inside the
            noise of the whole gradient.
    """
    figure, canvases = canvas(3, width=8.6, height=3.2, sharey=True)
    ways = {
        "v2 to the letter": LETTER,
        "f counted once": {"noise": "own"},
        "noise of the whole gradient": {"noise": "whole"},
    }
    for axes, (title, how) in zip(canvases, ways.items(), strict=True):
        window_lines(axes, probes(results, view), **how)
        axes.set_title(title)
    legend_above(figure, canvases[0])
    return signed(figure, results)


def optimiser(results: xr.Dataset) -> Figure:
    """Draw H_N for the lag's part of the gradient itself inside the noise of the whole gradient:
    what an optimiser meets.

    Returns:
        The figure: along random directions, and along the lag's own mean gradient.
    """
    figure, canvases = canvas(2, width=7.6, sharey=True)
    for axes, (view, title) in zip(
        canvases,
        (("whole", "along random directions"), ("gradient", "along the lag's own gradient")),
        strict=True,
    ):
        window_lines(axes, probes(results, view), **OPTIMISER)
        axes.set_title(title)
    legend_above(figure, canvases[0])
    return signed(figure, results)


def definitions(results: xr.Dataset, view: str = "zeroth") -> Figure:
    """Draw H_N against N by both definitions of the window and of the noise.

    Args:
        results: A run.
        view: One of its views.

    Returns:
        The figure: columns for the definitions, rows for the noise; f counted once, sample
            variance.
    """
    figure, canvases = canvas(4, width=7.6, height=5.8, rows=2, sharey=True)
    cases = itertools.product(NOISES, DEFINITIONS)
    titles = {
        "supremum": "supremum: longest lag seen",
        "first_passage": "first passage: all lags up to it",
    }
    for axes, (noise, definition) in zip(canvases, cases, strict=True):
        how: Any = {"noise": noise, "definition": definition, "rate": "variance"}
        window_lines(axes, probes(results, view), **how)
        inside = f"noise of the {'lag' if noise == 'own' else 'whole gradient'}"
        axes.set_title(f"{titles[definition]}\n{inside}" if noise == "own" else inside, fontsize=10)
    legend_above(figure, canvases[0])
    return signed(figure, results)


def scaling(results: xr.Dataset, model: str = "DiagGate", view: str = "zeroth") -> Figure:
    """Draw H_N against the power of N that the fitted power law of the envelope predicts: the
    paper's Figure 3.

    Args:
        results: A run.
        model: The model.
        view: ``"zeroth"`` or ``"first"``.

    Returns:
        The figure; a straight line through the points would confirm H_N ∝ N^{1/(pβ)}.
    """
    one = results.sel(model=model)
    beta = fit_decay(one.lag.values, one.envelope.sel(order=view).median("seed")).power.law.decay
    figure, canvases = canvas(2, width=7.6, sharey=True)
    for axes, (title, how) in zip(
        canvases,
        {"v2 to the letter": LETTER, "f counted once": {"rate": "mean"}}.items(),
        strict=True,
    ):
        own = probes(one, view, "error")
        power = 1 / (rate_exponent(float(own.alpha.sel(noise="own").median()), how["rate"]) * beta)
        found = inference.windows(own, **how)
        model_band(axes, found.budget**power, found, model, quartiles=True)
        axes.set(
            xlabel=f"$N^{{{power:.2f}}}$   (N = {int(found.budget[0])} to {int(found.budget[-1])})",
            title=title,
        )
    canvases[0].set(
        ylabel="learnability window $H_N$ (steps)", ylim=(-1, float(results.lag[-1]) * 1.06)
    )
    return signed(figure, results)


def spectra(results: xr.Dataset) -> Figure:
    """Draw kernel densities of the neurons' time scales τ, at zeroth order and exactly: the paper's
    Figure 4.

    Returns:
        The figure. Neurons of all seeds are pooled; those whose rates do not decay are left out and
        counted in the title.
    """
    shown = [o for o in ("zeroth", "exact") if o in results.order.values]
    figure, canvases = canvas(len(shown), width=7.6, sharex=True)
    for axes, order in zip(canvases, shown, strict=True):
        infinite = 0
        for model in results.model.values:
            tau = results.time_scale.sel(model=model, order=order).values.ravel()
            infinite += int((~np.isfinite(tau)).sum())
            tau = tau[np.isfinite(tau)]
            if np.ptp(tau, axis=0) < 1e-6 * tau.mean() or _one_value_a_seed(results, model, order):
                for value in np.unique(tau.round(6)):
                    axes.axvline(
                        value,
                        color=COLOURS[model],
                        lw=1.5,
                        label=model if value == np.unique(tau.round(6))[0] else None,
                    )
            else:
                shape: dict[str, Any] = {"log_scale": True, "cut": 0, "fill": True}
                sns.kdeplot(x=tau, ax=axes, color=COLOURS[model], label=model, **shape)
        axes.set(
            xlabel="time scale τ (steps)",
            ylabel="density over log τ",
            xscale="log",
            title=f"{order} order" if order != "exact" else "exact diagonal",
        )
        if infinite:
            axes.set_title(f"{axes.get_title()}; {infinite} neurons without decay")
    canvases[0].legend()
    return signed(figure, results)


def cancellation(results: xr.Dataset, view: str = "zeroth") -> Figure:
    """Draw the noise scale of each lag's statistic against the envelope there, on
    double-logarithmic axes.

    Args:
        results: A run.
        view: ``"zeroth"`` or ``"first"``.

    Returns:
        The figure; on a line of slope 1 the ratio of scale to envelope is the same at every lag,
        and f cancels from N(ℓ).
    """
    figure, (axes,) = canvas(1, width=5.4)
    for model in results.model.values:
        one = probes(results.sel(model=model), view, "error").sel(noise="own")
        f, sigma = (a.values.ravel() for a in xr.broadcast(one.envelope.sel(order=view), one.scale))
        slope, offset = np.polyfit(np.log(f), np.log(sigma), 1)
        ends = np.array([f.min(), f.max()])
        axes.plot(f, sigma, MARKERS[model], ms=3, color=COLOURS[model], alpha=0.4)
        axes.plot(
            ends,
            np.exp(offset) * ends**slope,
            color=COLOURS[model],
            label=f"{model}: slope {slope:.2f}",
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="envelope f(ℓ)",
        ylabel="noise scale σ(ℓ) of the statistic",
    )
    axes.legend()
    return signed(figure, results)


def null_control(results: xr.Dataset) -> Figure:
    """Draw the share of null controls whose window is not empty, by rule, over all probes; noise of
    the lag."""
    figure, (axes,) = canvas(1, width=5.4)
    words = {
        "plug-in": ("o-", "black", "every positive mean counts"),
        "tested": ("s-", "tab:green", "the mean is above zero"),
    }
    for rule, (style, colour, meaning) in words.items():
        null = inference.windows(results.sel(source="noise"), rule=rule)
        axes.plot(
            null.budget,
            (null > 0).mean(("model", "seed", "probe")),
            style,
            color=colour,
            label=f"{rule}: {meaning}",
        )
    measured = config_of(results).diagnostics.sequences // 2
    axes.axvline(measured, color="grey", ls=":", lw=1)
    axes.annotate(
        "sequences measured",
        (measured, 0.55),
        (4, 0),
        textcoords="offset points",
        color="grey",
        fontsize=8,
    )
    axes.set(
        xscale="log",
        xlabel="number of sequences N",
        ylabel="share of null controls with a window",
        ylim=(-0.03, 1.03),
    )
    legend_above(figure, axes)
    return signed(figure, results)


def learned(results: xr.Dataset) -> Figure:
    """Draw the coefficient of every delayed input in the networks' output beside the planted
    ones."""
    figure, (axes,) = canvas(1, width=6.4)
    learned_lines(axes, results)
    axes.set(xlabel="delay (steps)", ylabel="coefficient in the output")
    axes.legend()
    return signed(figure, results)


def _one_value_a_seed(results: xr.Dataset, model: str, order: str) -> bool:
    """Say whether all neurons of each network share one time scale, so that a density would be a
    spike."""
    tau = results.time_scale.sel(model=model, order=order)
    tau = tau.where(np.isfinite(tau))  # a neuron without decay says nothing of the others
    return bool((tau.std("unit") < 1e-6 * tau.mean("unit")).all())
