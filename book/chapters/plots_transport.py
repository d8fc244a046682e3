"""Figures of transport: its product as a polynomial, and how far each order of the rates holds.

Measured errors come as `orders.compare_orders` gives them. Lines are medians over networks, bands
run from the least to the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from lwcore.figures import COLOURS, MARKERS, ORDER_STYLES, SHADES, band, canvas, done
from lwcore.window import mixture_envelope

_MARKS = "osD^v"


def polynomial(
    epsilons: Sequence[float],
    left_out: Mapping[str, NDArray[np.float64]],
    terms: Mapping[int, ArrayLike],
) -> Figure:
    """Draw what first order leaves out against ε, by cell, and the size of every term of the
    polynomial at ε = 1, by lag.

    Args:
        epsilons: Values of ε.
        left_out: For each cell, remainders of shape (number of ε, sequences).
        terms: For each lag, ``‖P_k‖/‖P_0‖`` for k = 0, 1, ….

    Returns:
        The figure.
    """
    figure, (remainder, size) = canvas(2)
    for (name, values), colour, marker in zip(left_out.items(), SHADES, _MARKS, strict=False):
        remainder.plot(
            epsilons, np.median(values, axis=1), marker=marker, ms=4, color=colour, label=name
        )
    guide = np.array([epsilons[0], epsilons[-1]])
    first = np.median(next(iter(left_out.values()))[0])
    remainder.plot(
        guide, 6 * first * (guide / guide[0]) ** 2, color="black", ls=":", label="slope 2"
    )
    remainder.axvline(1, color="grey", lw=1)
    remainder.annotate(
        "the network",
        (1, first),
        (-4, 0),
        textcoords="offset points",
        ha="right",
        color="grey",
        fontsize=8,
    )
    remainder.set(
        xlabel="ε", ylabel="remainder of first order / ‖P(0)‖", xscale="log", yscale="log"
    )
    for (lag, sizes), colour, marker in zip(terms.items(), SHADES, _MARKS, strict=False):
        size.plot(
            np.arange(np.size(sizes)),
            np.asarray(sizes),
            marker=marker,
            ms=4,
            color=colour,
            label=f"lag {lag}",
        )
    size.axvspan(-0.5, 1.5, color="grey", alpha=0.15, lw=0)
    size.annotate(
        "kept by\nfirst order",
        (1.7, 0.03),
        ha="left",
        va="bottom",
        fontsize=8,
        xycoords=("data", "axes fraction"),
    )
    size.set(
        xlabel="power k of R",
        ylabel="size of the term, ‖$P_k$‖ / ‖$P_0$‖",
        yscale="log",
        ylim=(1e-4, None),
    )
    return done(figure, remainder, size)


def errors_by_cell(surveys: Mapping[str, xr.Dataset]) -> Figure:
    """Draw the error of zeroth and of first order against the lag, a panel a cell, a colour a
    setting; bands are the range over seeds."""
    models = next(iter(surveys.values())).model.values
    figure, (*panels, words) = canvas(6, rows=2, height=5.4, sharex=True, sharey=True)
    for axes, model in zip(panels, models, strict=True):
        for (_, measured), colour in zip(surveys.items(), SHADES, strict=False):
            for order in ("zeroth", "first"):
                band(
                    axes,
                    measured.lag,
                    measured.error.sel(model=model, order=order),
                    color=colour,
                    ls=ORDER_STYLES[order],
                )
        axes.axhline(0.1, color="grey", lw=0.8)
        axes.set(title=model, ylim=(0, 1.25))
        axes.xaxis.set_tick_params(labelbottom=True)
    panels[0].set_ylabel("error of the rates")
    panels[3].set_ylabel("error of the rates")
    for axes in panels[2:]:
        axes.set_xlabel("lag ℓ (steps)")
    words.axis("off")
    handles = [Line2D([], [], color=colour) for _, colour in zip(surveys, SHADES, strict=False)]
    handles += [
        Line2D([], [], color="grey", ls=ORDER_STYLES[order]) for order in ("zeroth", "first")
    ]
    words.legend(handles, [*surveys, "zeroth order", "first order"], loc="center left")
    return done(figure)


def coupling(surveys: Mapping[str, xr.Dataset]) -> Figure:
    """Draw the error of first order against the lag in units of 1/coupling, and the share of the
    transport off the diagonal."""
    figure, (collapsed, share) = canvas(2)
    for index, measured in enumerate(surveys.values()):
        trained = index == len(surveys) - 1
        for model in measured.model.values:
            of = measured.sel(model=model)
            style = {
                "color": COLOURS[model],
                "ls": "-" if trained else "--",
                "lw": 1,
                "marker": MARKERS[model] if trained else None,
                "ms": 3,
            }
            error = of.error.sel(order="first").median("seed")
            x = of.lag.values * float(of.coupling.median("seed"))
            # at the first lags it is exactly zero
            collapsed.plot(x, error.where(error > 1e-9), **style)
            if index in (1, len(surveys) - 1):
                share.plot(
                    of.lag,
                    of.off_diagonal.median("seed"),
                    **style,
                    label=model if trained else None,
                )
    collapsed.axhline(0.1, color="grey", lw=0.8)
    collapsed.set(
        xlabel="lag × ‖R‖/‖A‖",
        ylabel="error of first-order rates",
        xscale="log",
        yscale="log",
        ylim=(1e-3, 1.5),
        xlim=(0.05, None),
    )
    share.set(xlabel="lag ℓ (steps)", ylabel="off-diagonal share of the transport", ylim=(0, 1.03))
    return done(figure, share)


def rising(
    lags: Sequence[int],
    one: Mapping[float, tuple[ArrayLike, ArrayLike, ArrayLike]],
    two: Mapping[str, ArrayLike],
) -> Figure:
    """Draw counterexamples to Lemma 5.1: one neuron at first order, and two that rotate, exactly.

    Args:
        lags: Lags.
        one: For each recurrent weight, ``|μ|`` at first order by the code, by the closed form, and
            exactly; each of shape (lags,).
        two: By order, ``|μ|`` of one neuron of the pair, shape (lags,).

    Returns:
        The figure.
    """
    figure, (left, right) = canvas(2, sharey=True)
    for (weight, (code, closed, exact)), colour in zip(one.items(), SHADES, strict=False):
        left.plot(lags, np.asarray(closed), color=colour, label=f"w = {weight:g}")
        left.plot(lags[::4], np.asarray(code)[::4], "o", ms=3, color=colour)
        left.plot(lags, np.asarray(exact), color=colour, lw=1, ls=":")
    left.plot([], [], color="grey", lw=1, ls=":", label="exact")
    left.set(
        xlabel="lag ℓ (steps)",
        ylabel="|μ| of a neuron",
        yscale="log",
        ylim=(1e-4, 1.3),
        title="one neuron, first order",
    )
    for (order, values), colour in zip(two.items(), ("grey", SHADES[3], "black"), strict=False):
        right.plot(
            lags,
            np.asarray(values),
            color=colour,
            ls=ORDER_STYLES[order],
            lw=3 if order == "zeroth" else 1.5,
            label=order,
        )
    right.set(xlabel="lag ℓ (steps)", title="two neurons that rotate")
    return done(figure, left, right)


def matrices(named: Mapping[str, ArrayLike]) -> Figure:
    """Draw matrices as maps of signed entries on one scale."""
    figure, panels = canvas(len(named), height=2.9)
    most = max(np.abs(np.asarray(matrix)).max() for matrix in named.values())
    for axes, (name, matrix) in zip(panels, named.items(), strict=True):
        image = axes.imshow(
            np.asarray(matrix), cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest"
        )
        axes.set(title=name, xlabel="from neuron", xticks=[], yticks=[])
    panels[0].set_ylabel("to neuron")
    figure.colorbar(image, ax=panels, label="entry", shrink=0.8)
    return done(figure)


def spectra(
    scales: Mapping[str, Mapping[str, NDArray[np.float64]]],
    lags: Sequence[int],
    envelopes: Mapping[str, NDArray[np.float64]],
) -> Figure:
    """Draw the neurons' time scales, and envelopes beside the mixture of exponentials with those
    scales.

    Args:
        scales: For each setting and cell, τ in steps, shape (seeds, neurons).
        lags: Lags.
        envelopes: For each setting, DiagGate's zeroth-order envelope, shape (seeds, lags).

    Returns:
        The figure.
    """
    figure, (spectrum, mixture) = canvas(2, height=3.6)
    rows = []
    for row, (setting, by_cell) in enumerate(scales.items()):
        for place, ((cell, tau), colour) in enumerate(zip(by_cell.items(), SHADES, strict=False)):
            rows.append((y := -(4 * row + place), f"{cell}, {setting}"))
            for seed, own in enumerate(tau):
                spectrum.plot(
                    own, np.full(len(own), y + 0.2 * (1 - seed)), "|", ms=6, color=colour, alpha=0.8
                )
    spectrum.set(
        xlabel="time scale $τ_q$ (steps)",
        xscale="log",
        yticks=[y for y, _ in rows],
        yticklabels=[words for _, words in rows],
    )
    spectrum.set(xticks=(ticks := [1, 2, 3, 5, 10]), xticklabels=ticks)
    spectrum.minorticks_off()
    fine = np.geomspace(lags[0], lags[-1], 100)
    for (setting, f), marker, colour in zip(
        envelopes.items(), _MARKS, (SHADES[2], SHADES[3], SHADES[4]), strict=False
    ):
        mixture.plot(lags, np.median(f, 0), marker, ms=3.5, color=colour, label=setting)
        mixture.plot(
            fine,
            np.median(mixture_envelope(fine, scales[setting]["DiagGate"]), 0),
            color=colour,
            lw=1,
        )
    mixture.set(xlabel="lag ℓ (steps)", ylabel="zeroth-order envelope", xscale="log", yscale="log")
    return done(figure, mixture)
