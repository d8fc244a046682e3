"""Recorded runs, network by network: envelope, sequences that a lag needs, and window, as they were
measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from book.charts.crossing import RATE_WORDS
from book.charts.style import RULE, choice, digits, dress, formula, log_x, log_y
from lwcore.figures import COLOURS
from lwcore.inference import LETTER, NOISES, RATES, config_of, required, window_of

_NEEDED = ("envelope", "signal", "scale")
_WAYS = {rate: {"rate": rate} for rate in RATES} | {"letter_v2": LETTER}
_EVERY, _MEDIAN = "all", "median"
_VIEW_WORDS = {
    "zeroth": "zeroth order",
    "first": "first order",
    "whole": "exact, random w",
    "gradient": "exact, own gradient",
}
_NOISE_WORDS = {"own": "the lag's own part", "whole": "whole gradient"}
_WAY_WORDS = RATE_WORDS | {
    "variance": "sample variance, p = 2",
    "letter_v2": "v2 to the letter, f twice",
}
_COUNTABLE = 1e10  # numbers of sequences above this are left out


def results_browser(results: xr.Dataset) -> alt.ConcatChart:
    """Draw what a run measured, with choices of cell, seed, order of transport, noise and rate.

    Nothing is computed in the page but which of the numbers to show. N(ℓ) and H_N are those of
    `lwcore.inference`, by the rule ``"tested"`` and the definition ``"supremum"``, rounded to three
    and four digits; medians over seeds and directions are taken here.

    Args:
        results: A run as `lwcore.experiment.run` returns it.

    Returns:
        The chart. In its data a row is a network, or the median of a cell's: ``f`` by view and lag;
        ``n`` (N(ℓ), empty where it cannot be counted) and ``h`` (H_N, 0 where no lag is seen) by
        view, direction, noise, rate, and lag or number of sequences.

    Raises:
        ValueError: If the results hold nothing that windows follow from.
    """
    missing = [name for name in _NEEDED if name not in results]
    if missing:
        raise ValueError(
            f"results: {', '.join(missing)} missing; must be a run as lwcore.experiment.run "
            "returns it."
        )
    models, views = results.model.values.tolist(), list(dict.fromkeys(results.view.values.tolist()))
    budgets = list(config_of(results).diagnostics.budgets)
    seeds = {str(seed): f"seed {seed}" for seed in results.seed.values}
    if len(seeds) > 1:
        seeds = {_MEDIAN: "median over seeds"} | seeds
    params = [
        choice(
            "model", "cells", _EVERY, {_EVERY: "all cells"} | {model: model for model in models}
        ),
        choice("seed", "networks", next(iter(seeds)), seeds),
        choice(
            "look",
            "order of transport",
            0,
            {k: _VIEW_WORDS.get(view, view) for k, view in enumerate(views)},
        ),
        choice("noise", "noise", 0, _indexed(NOISES, _NOISE_WORDS)),
        choice(
            "estimate", "way to N(ℓ)", list(_WAYS).index("letter_v2"), _indexed(_WAYS, _WAY_WORDS)
        ),
        choice(
            "at",
            "sequences N",
            min(7, len(budgets) - 1),
            {k: f"{n:,}" for k, n in enumerate(budgets)},
        ),
        alt.param(name="lags", value=results.lag.values.tolist()),
        alt.param(name="budgets", value=budgets),
        formula("budget", "budgets[at]"),
    ]
    top = int(np.ceil(np.log10(float(results.envelope.max()))))
    last = float(np.log10(results.lag.values[-1])) + 0.02
    lag = log_x("lag:Q", "lag ℓ (steps)", float(np.log10(results.lag.values[0])), last)
    number = log_x(
        "budget:Q", "number of sequences N", *np.log10([budgets[0], budgets[-1]]).tolist()
    )
    reach = log_y("steps:Q", "window (steps)", 0, last + 0.1)
    colour = alt.Color("model:N", title=None).scale(
        domain=models, range=[COLOURS.get(model, "black") for model in models]
    )
    chosen = alt.Chart(alt.NamedData("networks")).transform_filter(
        f"(model == '{_EVERY}' || datum.model == model) && datum.seed == seed"
    )
    one = alt.Chart(alt.sequence(0, 1)).transform_calculate(budget="budget")
    by_direction = chosen.transform_calculate(
        direction="sequence(0, length(datum.n[look]))"
    ).transform_flatten(["direction"])
    envelope = (
        _curves(chosen, "lag", "lags", "value", "datum.f[look]")
        .properties(name="envelope")
        .mark_line(clip=True, point={"size": 12, "aria": False})
        .encode(lag, log_y("value:Q", "envelope f(ℓ)", top - 6, top), colour)
    )
    required = (
        _curves(
            by_direction,
            "lag",
            "lags",
            "required",
            "datum.n[look][datum.direction][noise][estimate]",
        )
        .properties(name="required")
        .mark_line(clip=True, point={"size": 12, "aria": False})
        .encode(
            lag, log_y("required:Q", "sequences N(ℓ)", -2, 8), colour, alt.Detail("direction:N")
        )
    )
    steps = "datum.h[look][datum.direction][noise][estimate]"
    window = (
        _curves(by_direction, "budget", "budgets", "steps", steps)
        .properties(name="window")
        .mark_line(clip=True, interpolate="step-after")
        .encode(number, reach, colour, alt.Detail("direction:N"))
    )
    control = _curves(
        alt.Chart(alt.NamedData("control")),
        "budget",
        "budgets",
        "steps",
        "datum.h[look][noise][estimate]",
    ).properties(name="control")
    here = (
        by_direction.transform_calculate(steps=f"{steps}[at]", budget="budget")
        .transform_calculate(
            words="datum.model + ' ' + (datum.steps ? format(datum.steps, '~r') : 'none')"
        )
        .transform_joinaggregate(all="values(words)")
        .transform_calculate(
            reading="'Window at N = ' + format(budget, ',') + ', in steps: ' + join(pluck(datum.all, 'words'), ', ') + '.'"
        )
        .properties(name="reading")
        .mark_point(filled=True, size=50, opacity=1, clip=True)
    )
    chart = dress(
        alt.concat(
            envelope,
            alt.layer(
                required, one.mark_rule(**RULE).encode(log_y("budget:Q", "sequences N(ℓ)", -2, 8))
            ),
            alt.layer(
                control.mark_line(
                    color="grey", strokeDash=[6, 3], interpolate="step-after", clip=True
                ).encode(number, reach),
                window,
                one.mark_rule(**RULE).encode(number),
                here.encode(number, reach, colour),
            ),
            columns=3,
        ).add_params(*params),
        "Three panels of lines, one colour a cell, with what the choices below them pick from "
        f"run {results.attrs['name']}: envelopes "
        "that fall with the lag; the number of sequences that each lag needs; and windows that "
        "climb in steps as it grows, "
        "with a dashed grey line for the null control.",
    )
    # last: each step copies them
    chart.datasets = {
        "networks": _rows(results, views),
        "control": [{"h": _null_control(results, views)}],
    }
    return chart


def _indexed(names: Iterable[str], words: dict[str, str]) -> dict[int, str]:
    """Give the places of names along a dimension, with the words that a reader sees."""
    return {k: words[name] for k, name in enumerate(names)}


def _curves(networks: alt.Chart, x: str, places: str, y: str, values: str) -> alt.Chart:
    """Give a row for each point of some curves; lines break where there is no value, or a window of
    0 steps."""
    return (
        networks.transform_calculate(**{x: places, y: values})
        .transform_flatten([x, y])
        .transform_calculate(**{y: f"datum.{y} > 0 ? datum.{y} : null"})
    )


def _rows(results: xr.Dataset, views: list[str]) -> list[dict[str, Any]]:
    """Put the measured numbers of each network, and of each cell in the median, into a row."""
    measured = _measured(results).transpose(
        "model", "seed", "order", "probe", "noise", "way", "lag", "budget"
    )
    by_view = [measured.isel(probe=results.view.values == view) for view in views]
    rows = []
    for model in results.model.values.tolist():
        cells = [part.sel(model=model) for part in by_view]
        for seed in results.seed.values.tolist():
            rows.append(
                {"model": model, "seed": str(seed)}
                | _numbers([part.sel(seed=seed) for part in cells], views)
            )
        if results.sizes["seed"] > 1:
            medians = [_median(part) for part in cells]
            rows.append({"model": model, "seed": _MEDIAN} | _numbers(medians, views))
    return rows


def _median(cell: xr.Dataset) -> xr.Dataset:
    """Take medians over seeds and directions; one direction is left."""
    return xr.merge(
        [
            cell.envelope.median("seed"),
            cell[["required", "window"]].median(("seed", "probe")).expand_dims("probe"),
        ]
    )


def _measured(results: xr.Dataset, source: str = "error") -> xr.Dataset:
    """Compute N(ℓ) and windows in every way that can be chosen."""
    one = results.sel(source=source)
    needed = [
        xr.concat([required(one, noise=noise, **how) for how in _WAYS.values()], "way")
        for noise in NOISES
    ]
    by_noise = xr.concat(needed, "noise")
    windows = window_of(by_noise, config_of(results).diagnostics.budgets)
    return xr.Dataset({"envelope": results.envelope, "required": by_noise, "window": windows})


def _numbers(by_view: list[xr.Dataset], views: list[str]) -> dict[str, list[Any]]:
    """Round the numbers of one network, view by view; views of the whole transport belong to the
    exact envelope."""
    orders = by_view[0].order.values.tolist()
    envelopes = [
        part.envelope.sel(order=view if view in orders else "exact")
        for view, part in zip(views, by_view, strict=True)
    ]
    return {
        "f": [_rounded(envelope) for envelope in envelopes],
        "n": [_rounded(part.required) for part in by_view],
        "h": [_rounded(part.window, 4) for part in by_view],
    }


def _null_control(results: xr.Dataset, views: list[str]) -> list[Any]:
    """Give the largest window over all networks and directions where noise stands in the place of
    the error, by view."""
    window = _measured(results, "noise").window.transpose(..., "noise", "way", "budget")
    return [
        _rounded(window.isel(probe=results.view.values == view).max(("model", "seed", "probe")), 4)
        for view in views
    ]


def _rounded(values: ArrayLike, count: int = 3) -> list[Any]:
    """Round nested numbers to some digits, whole ones without a point; empty where they cannot be
    counted."""
    array = np.asarray(values, float)
    if array.ndim > 1:
        return [_rounded(part, count) for part in array]
    return [
        None if not value < _COUNTABLE else int(value) if value == int(value) else value
        for value in digits(array, count)
    ]
