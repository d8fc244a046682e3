"""Figures of a diagnosis."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lwcore.diagnose.diagnosis import Diagnosis
from lwcore.figures import SHADES, canvas, done

_NAMES = {"supremum": "longest visible lag", "first_passage": "all lags visible up to"}


_BUDGETS = [2**k for k in range(21)]  # numbers of sequences N at which windows are drawn


def diagnosis(found: Diagnosis) -> Figure:
    """Draw a diagnosis in one picture: envelope and off-diagonal share, time scales; N(ℓ), and the window."""
    figure, panels = canvas(4, width=7.6, height=6, rows=2)
    _envelope(panels[0], found.data)
    _time_scales(panels[1], found.data)
    _required(panels[2], found.data)
    _window(panels[3], found, SHADES[0])
    panels[3].set_ylim(bottom=0)
    panels[3].legend(fontsize=8)
    return _signed(figure, found)


def compared(named: dict[str, Diagnosis]) -> Figure:
    """Draw N(ℓ), with the interval of each, and the longest visible lag against N, of several diagnoses beside one another."""
    figure, (left, right) = canvas(2, width=8.2, height=3.4)
    for (name, found), colour in zip(named.items(), SHADES, strict=False):
        _required_line(left, found.data.isel(lag=found.data.detected.values.astype(bool)), colour, name)
        _window(right, found, colour, name, definitions=("supremum",))
    _required_axes(left, *(found.data for found in named.values()))
    left.set_title("What it takes to see a lag (those detected)", fontsize=9)
    right.set_ylim(bottom=0)
    right.legend(fontsize=8)
    return _signed(figure, *named.values())


def _envelope(axes: Axes, data: xr.Dataset) -> None:
    """Draw the envelope with twice its standard error, and how much of the transport stands beside the diagonal."""
    f, error = data.envelope, 2 * data.envelope_error.fillna(0)
    axes.fill_between(data.lag, np.maximum(f - error, 0.1 * f), f + error, color=SHADES[0], alpha=0.18, lw=0)
    axes.plot(data.lag, f, color=SHADES[0], marker="o", ms=3)
    axes.set(xscale="log", yscale="log", xlabel="lag ℓ (steps)", ylabel="envelope f(ℓ)", title="What the network carries")
    beside = axes.twinx()
    beside.plot(data.lag, data.off_diagonal, color="grey", ls=":")
    beside.set(ylim=(0, 1.05))
    beside.set_ylabel("off-diagonal share (dotted)", color="grey")


def _time_scales(axes: Axes, data: xr.Dataset) -> None:
    """Draw every neuron's time scale, layer by layer, in the order of size."""
    for layer in np.unique(data.layer):
        tau = np.sort(data.time_scale.values[data.layer.values == layer])
        tau = tau[np.isfinite(tau)]
        if len(tau):
            axes.plot(
                tau, (np.arange(len(tau)) + 0.5) / len(tau), color=SHADES[int(layer) % len(SHADES)], marker=".", label=f"layer {layer + 1}"
            )
    axes.set(xlabel="time scale τ (steps)", ylabel="share of neurons below", title="How long its neurons remember", ylim=(0, 1))
    if len(axes.lines) > 1:
        axes.legend(fontsize=8)


def _required(axes: Axes, data: xr.Dataset) -> None:
    """Draw N(ℓ) and the number of sequences that the summary speaks of."""
    _required_line(axes, data, SHADES[0], None)
    _required_axes(axes, data)
    axes.axhline(data.attrs["n_sequences"], color="grey", ls="--", lw=1)
    axes.annotate(
        f"N = {data.attrs['n_sequences']:,}", (data.lag[0], data.attrs["n_sequences"]), (2, 3), textcoords="offset points", fontsize=8
    )


def _required_line(axes: Axes, data: xr.Dataset, colour: object, name: str | None) -> None:
    """Draw N(ℓ) of one diagnosis: dots where the lag is detected, crosses where it is not, a bar for the interval."""
    needed, detected = data.required, data.detected.values.astype(bool)
    low, high = (data.required_interval.sel(bound=bound) for bound in ("low", "high"))
    axes.vlines(data.lag, low, high.where(np.isfinite(high), 1e30), color=colour, alpha=0.3, lw=2)
    axes.plot(data.lag[detected], needed[detected], "o", ms=4, color=colour, label=name)
    axes.plot(data.lag[~detected], needed[~detected], "x", ms=4, color=colour)


def _required_axes(axes: Axes, *several: xr.Dataset) -> None:
    """Bound the axis of N(ℓ) by the detected lags: the others reach to infinity."""
    values = np.concatenate([data.required.values[data.detected.values.astype(bool)] for data in several])
    values = np.append(values[np.isfinite(values)], [data.attrs["n_sequences"] for data in several])
    axes.set(xscale="log", yscale="log", ylim=(values.min() / 5, values.max() * 50), xlabel="lag ℓ (steps)", ylabel="sequences needed N(ℓ)")
    axes.set_title("What it takes to see a lag (× not detected)", fontsize=9)


def _window(
    axes: Axes, found: Diagnosis, colour: object, name: str | None = None, definitions: tuple[str, ...] = ("supremum", "first_passage")
) -> None:
    """Draw H_N against N, the interval of the longest visible lag as a band."""
    windows = [found.window(n) for n in _BUDGETS]
    low, high = ([getattr(window, end) for window in windows] for end in ("low", "high"))
    axes.fill_between(_BUDGETS, low, high, color=colour, alpha=0.15, lw=0, step="post")
    for definition, style in zip(definitions, ("-", "--"), strict=False):
        steps = [found.window(n, definition).steps for n in _BUDGETS]
        axes.step(_BUDGETS, steps, where="post", color=colour, ls=style, label=name or _NAMES[definition])
    axes.set(xscale="log", xlabel="number of sequences N", ylabel="learnability window $H_N$ (steps)")
    axes.set_title("The window", fontsize=9)


def _signed(figure: Figure, *several: Diagnosis) -> Figure:
    """Say what was measured, and on what, and finish the figure."""
    told = [found.data.attrs for found in several]
    lines = dict.fromkeys(f"{attrs['network']}; {attrs['measured_on']}; revision {attrs['revision']}" for attrs in told)
    figure.supxlabel("\n".join(lines), x=0.005, ha="left", fontsize=7, color="grey")
    return done(figure, trim=False)
