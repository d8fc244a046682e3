"""Figures of a diagnosis, `lwcore.diagnose.Diagnosis.data`."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lwcore.figures import SHADES, canvas, done

_NAMES = {"supremum": "longest visible lag", "first_passage": "all lags visible up to"}


def diagnosis(data: xr.Dataset) -> Figure:
    """Draw a diagnosis in one picture.

    Args:
        data: What `diagnose` measured; without numbers, after an interrupt, only the upper row is drawn.

    Returns:
        The figure: envelope and off-diagonal share, time scales; N(ℓ), and the window.
    """
    complete = "required" in data
    figure, panels = canvas(4 if complete else 2, width=7.6, height=6 if complete else 3.2, rows=2 if complete else 1)
    _envelope(panels[0], data)
    _time_scales(panels[1], data)
    if complete:
        _required(panels[2], data)
        _window(panels[3], data, SHADES[0])
        panels[3].set_ylim(bottom=0)
        panels[3].legend(fontsize=8)
    return _signed(figure, data)


def compared(named: dict[str, xr.Dataset]) -> Figure:
    """Draw N(ℓ) and the windows of several diagnoses beside one another.

    Args:
        named: Complete diagnoses' data, by name.

    Returns:
        The figure: N(ℓ) with the interval of each, and the longest visible lag against N.
    """
    figure, (left, right) = canvas(2, width=8.2, height=3.4)
    for (name, data), colour in zip(named.items(), SHADES, strict=False):
        _required_line(left, data.isel(lag=data.detected.values.astype(bool)), colour, name)
        _window(right, data, colour, name, definitions=("supremum",))
    _required_axes(left, *named.values())
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
    needed, detected = data.required.sel(reading="variance"), data.detected.values.astype(bool)
    low, high = (data.required_interval.sel(bound=bound) for bound in ("low", "high"))
    axes.vlines(data.lag, low, high.where(np.isfinite(high), 1e30), color=colour, alpha=0.3, lw=2)
    axes.plot(data.lag[detected], needed[detected], "o", ms=4, color=colour, label=name)
    axes.plot(data.lag[~detected], needed[~detected], "x", ms=4, color=colour)


def _required_axes(axes: Axes, *several: xr.Dataset) -> None:
    """Bound the axis of N(ℓ) by the detected lags: the others reach to infinity."""
    values = np.concatenate([data.required.sel(reading="variance").values[data.detected.values.astype(bool)] for data in several])
    values = np.append(values[np.isfinite(values)], [data.attrs["n_sequences"] for data in several])
    axes.set(xscale="log", yscale="log", ylim=(values.min() / 5, values.max() * 50), xlabel="lag ℓ (steps)", ylabel="sequences needed N(ℓ)")
    axes.set_title("What it takes to see a lag (× not detected)", fontsize=9)


def _window(
    axes: Axes, data: xr.Dataset, colour: object, name: str | None = None, definitions: tuple[str, ...] = ("supremum", "first_passage")
) -> None:
    """Draw H_N against N, the interval of the longest visible lag as a band."""
    interval = data.window_interval.sel(definition="supremum")
    axes.fill_between(data.budget, interval.sel(bound="low"), interval.sel(bound="high"), color=colour, alpha=0.15, lw=0, step="post")
    for definition, style in zip(definitions, ("-", "--"), strict=False):
        steps = data.window.sel(reading="variance", definition=definition)
        axes.step(data.budget, steps, where="post", color=colour, ls=style, label=name or _NAMES[definition])
    axes.set(xscale="log", xlabel="number of sequences N", ylabel="learnability window $H_N$ (steps)")
    axes.set_title("The window", fontsize=9)


def _signed(figure: Figure, *several: xr.Dataset) -> Figure:
    """Say what was measured, and on what, and finish the figure."""
    lines = dict.fromkeys(f"{data.attrs['network']}; {data.attrs['measured_on']}; revision {data.attrs['revision']}" for data in several)
    figure.supxlabel("\n".join(lines), x=0.005, ha="left", fontsize=7, color="grey")
    return done(figure, trim=False)
