"""Figures of transport: one step's Jacobian, time scales, and how far the orders of the rates hold.

Measured errors come as `orders.compare_orders` gives them. Lines are medians over networks, bands
run from the least to the largest.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from lwcore.figures import SHADES, band, canvas, done

_MARKS = "osD^v"
_ORDERS = {
    "exact": ("exact", "black", "-"),
    "first": ("first order", SHADES[0], "-"),
    "zeroth": ("zeroth order", SHADES[2], ":"),
    "paper_v2": ("(26) as printed", SHADES[3], "--"),
}


def blocks(
    jacobian: Tensor, names: Mapping[tuple[int, int], str], states: tuple[str, ...]
) -> Figure:
    """Draw a one-step Jacobian as a picture, its blocks named.

    Args:
        jacobian: J, shape (S, S).
        names: What to write into a block, by its row and column.
        states: The parts of the state, each of the same number of neurons.

    Returns:
        The figure.
    """
    figure, (axes,) = canvas(1, width=5.6, height=4.6)
    size, parts = len(jacobian), len(states)
    largest = jacobian.abs().max().item()
    image = axes.pcolormesh(jacobian.numpy(), cmap="RdBu_r", vmin=-largest, vmax=largest)
    middles = (np.arange(parts) + 0.5) * size / parts
    for edge in range(1, parts):
        axes.axhline(edge * size / parts, color="black", lw=1)
        axes.axvline(edge * size / parts, color="black", lw=1)
    for (row, column), name in names.items():
        axes.text(
            middles[column], (row + 0.02) * size / parts, name, ha="center", va="top", fontsize=10
        )
    axes.set(
        xticks=middles,
        xticklabels=[f"from ${s}_{{t-1}}$" for s in states],
        yticks=middles,
        yticklabels=[f"to ${s}_t$" for s in states],
    )
    axes.set(aspect="equal", ylim=(size, 0))
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, label="entry of $J_t$", shrink=0.8)
    return done(figure, trim=False)


def time_scales(retentions: Mapping[str, Tensor], compared: Mapping[str, xr.Dataset]) -> Figure:
    """Draw τ = −1/log f of each neuron on its curve, and beside it the envelopes that these time
    scales make.

    Args:
        retentions: Forget gates of some cells, each of shape (H,).
        compared: The same cells' orders of transport.

    Returns:
        The figure: left the neurons, right the envelope at zeroth order (dotted) and exactly
            (solid), relative to its first lag.
    """
    figure, (left, right) = canvas(2)
    gate = np.linspace(0.3, 0.99, 300)
    left.plot(gate, -1 / np.log(gate), color="grey", lw=1)
    for (name, values), colour, marker in zip(retentions.items(), SHADES, "os^", strict=False):
        f = values.numpy()
        left.plot(
            f, -1 / np.log(f), marker, ms=5, color=colour, label=name, zorder=5 - len(left.lines)
        )
        for order, style in (("zeroth", ":"), ("exact", "-")):
            curve = (
                compared[name].envelope.sel(order=order).mean("sequence").median(("model", "seed"))
            )
            words = f"{name}, {order}"
            right.plot(
                curve.lag, curve / curve[0], style, marker=marker, ms=3, color=colour, label=words
            )
    left.set(xlabel="forget gate f", ylabel="time scale τ (steps)", yscale="log", xlim=(0.3, 1))
    left.set(yticks=(ticks := [1, 3, 10, 30, 100]), yticklabels=ticks)
    right.set(xlabel="lag ℓ (steps)", ylabel="envelope f(ℓ)/f(1)", yscale="log")
    return done(figure, left, right)


def errors(compared: Mapping[str, xr.Dataset], level: float = 0.1) -> Figure:
    """Draw the relative error of each approximation of the rates against lag, a panel a setting,
    with a level to pass."""
    figure, panels = canvas(len(compared), sharey=True)
    for axes, (name, data) in zip(panels, compared.items(), strict=True):
        for order in (order for order in _ORDERS if order in data.order and order != "exact"):
            _order(axes, data.error.where(data.error > 1e-12).sel(order=order), order)
        axes.axhline(level, color="grey", lw=1, ls=(0, (2, 2)))
        axes.set(xlabel="lag ℓ (steps)", xscale="log", yscale="log", title=name, ylim=(5e-5, 6))
        _plain_lags(axes, data)
    panels[0].set_ylabel("relative error of the rates")
    return done(figure, panels[-1])


def envelopes(compared: Mapping[str, xr.Dataset]) -> Figure:
    """Draw envelopes of the approximations over that of the exact rates against lag, a panel a
    setting."""
    figure, panels = canvas(len(compared), sharey=True)
    for axes, (name, data) in zip(panels, compared.items(), strict=True):
        f = data.envelope.mean("sequence")
        ratio = f / f.sel(order="exact", drop=True)
        for order in (order for order in _ORDERS if order in data.order and order != "exact"):
            _order(axes, ratio.sel(order=order), order)
        axes.axhline(1, color="grey", lw=1, ls=(0, (2, 2)))
        axes.set(xlabel="lag ℓ (steps)", xscale="log", yscale="log", title=name, ylim=(0.05, 5))
        axes.set(yticks=(ticks := [0.1, 0.3, 1, 3]), yticklabels=ticks)
        _plain_lags(axes, data)
    panels[0].set_ylabel("envelope over the exact one")
    return done(figure, panels[0])


def cross_terms(terms: Mapping[str, tuple[Tensor, Tensor]]) -> Figure:
    """Draw what stands in for a sum over neurons against that sum, a panel a setting.

    Args:
        terms: For each setting the right values and their stand-ins, of one shape.

    Returns:
        The figure.
    """
    figure, panels = canvas(len(terms))
    for axes, (name, (right, wrong)) in zip(panels, terms.items(), strict=True):
        largest = max(right.abs().max().item(), wrong.abs().max().item()) * 1.05
        axes.axline((0, 0), slope=1, color="grey", lw=1)
        axes.plot(
            right.flatten(), wrong.flatten(), "o", ms=2.5, mec="none", alpha=0.5, color=SHADES[3]
        )
        axes.set(
            xlabel="sum over neurons",
            title=name,
            xlim=(-largest, largest),
            ylim=(-largest, largest),
            aspect="equal",
        )
        axes.ticklabel_format(style="sci", scilimits=(-2, 2))
        axes.locator_params(nbins=5)
    panels[0].set_ylabel("product of diagonals")
    return done(figure)


def _order(axes: Axes, values: xr.DataArray, order: str) -> None:
    """Draw one order of transport against the lag."""
    name, colour, style = _ORDERS[order]
    band(
        axes,
        values.lag,
        values,
        color=colour,
        ls=style,
        marker="o" if len(values.lag) < 16 else None,
        ms=3,
        label=name,
    )


def _plain_lags(axes: Axes, data: xr.Dataset) -> None:
    """Name powers of two on the axis of lags."""
    ticks = [lag for lag in (1, 2, 4, 8, 16, 32, 64) if lag <= int(data.lag[-1])]
    axes.set(xticks=ticks, xticklabels=ticks)
    axes.minorticks_off()
