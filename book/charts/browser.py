"""Recorded runs, network by network: envelope, sequences that a lag needs, and window."""

from collections.abc import Iterable
from typing import Any

import altair as alt
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from book.charts.explorers import DETECTOR_WORDS
from book.charts.style import RULE, choice, dress, formula, log_x, log_y
from lwcore.experiment import config_of
from lwcore.figures import COLOURS
from lwcore.inference import DETECTORS, NOISES, PAPER_V2, required, window_of

_WAYS = {name: {"detector": name} for name in DETECTORS} | {"letter_v2": PAPER_V2}
_WORDS = DETECTOR_WORDS | {
    "variance": "sample variance, p = 2",
    "letter_v2": "letter of version 2",
    "zeroth": "zeroth order",
    "first": "first order",
    "whole": "exact, random w",
    "gradient": "exact, own gradient",
}
_COUNTABLE = 1e10  # numbers of sequences above this are left out
_DIMS = ("model", "seed", "order", "probe", "noise", "way", "lag", "n_sequences")
# Vega's way to a number of a network: by view, direction, noise and way to N(ℓ).
_CHOSEN = "[look][datum.direction][noise][estimate]"


def results_browser(results: xr.Dataset) -> alt.ConcatChart:
    """Chart what a run measured, with choices of cell, seed, order of transport, noise and detector.

    Nothing is computed in the page but which of the numbers to show. N(ℓ) and H_N are those of
    `lwcore.inference`, by the rule ``"tested"`` and the definition ``"supremum"``, rounded. In the
    chart's data a row is a network, or the median of a cell's: ``f`` by view and lag; ``n`` (N(ℓ),
    empty where it cannot be counted) and ``h`` (H_N, 0 where no lag is seen) by view, direction,
    noise, detector, and lag or number of sequences.
    """
    views = list(dict.fromkeys(results.view.values.tolist()))
    chart = dress(
        alt.concat(*_panels(results), columns=3).add_params(*_choices(results, views)),
        "Three panels of lines, one colour a cell, with what the choices below them pick from "
        f"run {results.attrs['name']}: envelopes that fall with the lag; the number of sequences "
        "that each lag needs; and windows that climb in steps as it grows, with a dashed grey line "
        "for the null control.",
    )
    networks = _rows(_measured(results, "error"), views)
    null = _measured(results, "noise").max(("model", "seed"))
    largest = []
    for of_view in _by_view(null, views):
        over_probes = of_view.max("probe").expand_dims("probe")
        largest.append(_rounded(over_probes.window))
    # last: each step copies them
    chart.datasets = {"networks": networks, "control": [{"h": largest}]}
    return chart


def _choices(results: xr.Dataset, views: list[str]) -> list[alt.Parameter]:
    """Make what a reader can choose, and the lists of lags and budgets that follow from it."""
    models = {name: name for name in results.model.values.tolist()}
    seeds = {str(seed): f"seed {seed}" for seed in results.seed.values}
    if len(seeds) > 1:
        seeds = {"median": "median over seeds"} | seeds
    budgets = list(config_of(results).diagnostics.budgets)
    noises = {0: "own noise", 1: "noise of whole gradient"}
    numbers = {place: f"{budget:,}" for place, budget in enumerate(budgets)}
    version_2 = list(_WAYS).index("letter_v2")
    return [
        choice("model", "cells", "all", {"all": "all cells"} | models),
        choice("seed", "networks", next(iter(seeds)), seeds),
        choice("look", "order of transport", 0, _words_by_place(views)),
        choice("noise", "noise", 0, noises),
        choice("estimate", "way to N(ℓ)", version_2, _words_by_place(_WAYS)),
        choice("at", "sequences N", min(7, len(budgets) - 1), numbers),
        alt.param(name="lags", value=results.lag.values.tolist()),
        alt.param(name="budgets", value=budgets),
        formula("budget", "budgets[at]"),
    ]


def _words_by_place(names: Iterable[str]) -> dict[int, str]:
    """Give the words for names, by their places in the data."""
    return {place: _WORDS.get(name, f"{name} gradient") for place, name in enumerate(names)}


def _panels(results: xr.Dataset) -> tuple[alt.Chart | alt.LayerChart, ...]:
    """Draw envelope, N(ℓ) and window, each with what is chosen."""
    budgets = config_of(results).diagnostics.budgets
    log_lags = np.log10(results.lag.values[[0, -1]]).tolist()
    log_budgets = np.log10([budgets[0], budgets[-1]]).tolist()
    top = int(np.ceil(np.log10(results.envelope.max())))
    lag = log_x("lag:Q", "lag ℓ (steps)", log_lags[0], log_lags[1] + 0.02)
    level = log_y("value:Q", "envelope f(ℓ)", top - 6, top)
    needed_height = log_y("needed:Q", "sequences N(ℓ)", -2, 8)
    number = log_x("budget:Q", "number of sequences N", *log_budgets)
    reach = log_y("steps:Q", "window (steps)", 0, log_lags[1] + 0.12)
    models = results.model.values.tolist()
    shades = [COLOURS.get(model, "black") for model in models]
    colour = alt.Color("model:N", title=None).scale(domain=models, range=shades)

    networks = alt.Chart(alt.NamedData("networks")).transform_filter(
        "(model == 'all' || datum.model == model) && datum.seed == seed"
    )
    directions = networks.transform_calculate(direction="sequence(0, length(datum.n[look]))")
    directions = directions.transform_flatten(["direction"])
    of_noise = alt.Chart(alt.NamedData("control")).transform_calculate(direction="0")
    envelope = _curves("envelope", networks, "lag", "lags", "value", "datum.f[look]")
    needed = _curves("required", directions, "lag", "lags", "needed", f"datum.n{_CHOSEN}")
    window = _curves("window", directions, "budget", "budgets", "steps", f"datum.h{_CHOSEN}")
    control = _curves("control", of_noise, "budget", "budgets", "steps", f"datum.h{_CHOSEN}")

    at_budget = alt.Chart(alt.sequence(0, 1)).transform_calculate(budget="budget")
    rule = at_budget.mark_rule(**RULE | {"color": "black"})
    each_direction = alt.Detail("direction:N")
    dots: dict[str, Any] = {"clip": True, "point": {"size": 12, "aria": False}}
    steps: dict[str, Any] = {"clip": True, "interpolate": "step-after"}
    return (
        envelope.mark_line(**dots).encode(lag, level, colour),
        alt.layer(
            needed.mark_line(**dots).encode(lag, needed_height, colour, each_direction),
            rule.encode(log_y("budget:Q", "sequences N(ℓ)", -2, 8)),
        ),
        alt.layer(
            control.mark_line(color="grey", strokeDash=[6, 3], **steps).encode(number, reach),
            window.mark_line(**steps).encode(number, reach, colour, each_direction),
            rule.encode(number),
            _reading(directions)
            .mark_point(filled=True, size=50, opacity=1, clip=True)
            .encode(number, reach, colour),
        ),
    )


def _reading(directions: alt.Chart) -> alt.Chart:
    """Make the rows of the windows at the chosen N, and the sentence that reads them out."""
    at_budget = directions.transform_calculate(steps=f"datum.h{_CHOSEN}[at]", budget="budget")
    in_words = at_budget.transform_calculate(
        words="datum.model + ' ' + (datum.steps ? format(datum.steps, '~r') : 'none')"
    )
    together = in_words.transform_joinaggregate(all="values(words)")
    sentence = (
        "'Window at N = ' + format(budget, ',') + ', in steps: ' + "
        "join(pluck(datum.all, 'words'), ', ') + '.'"
    )
    return together.transform_calculate(reading=sentence).properties(name="reading")


def _curves(name: str, networks: alt.Chart, x: str, places: str, y: str, values: str) -> alt.Chart:
    """Make a row for each point of some curves; lines break where there is no value, or 0 steps.

    Args:
        name: Of the chart.
        networks: Rows with a list of values each.
        x: Field for the place of a point.
        places: Vega's expression for the list of all places.
        y: Field for the value of a point.
        values: Vega's expression for the list of all values.
    """
    points = networks.transform_calculate(**{x: places, y: values}).transform_flatten([x, y])
    broken = points.transform_calculate(**{y: f"datum.{y} > 0 ? datum.{y} : null"})
    return broken.properties(name=name)


def _measured(results: xr.Dataset, source: str) -> xr.Dataset:
    """Compute N(ℓ) and windows in every way that can be chosen."""
    of_source = results.sel(source=source)
    by_noise = []
    for noise in NOISES:
        by_way = [required(of_source, noise=noise, **options) for options in _WAYS.values()]
        by_noise.append(xr.concat(by_way, "way"))
    needed = xr.concat(by_noise, "noise")
    windows = window_of(needed, config_of(results).diagnostics.budgets)
    data = xr.Dataset({"envelope": results.envelope, "required": needed, "window": windows})
    return data.assign_coords(view=("probe", results.view.values)).transpose(*_DIMS)


def _by_view(data: xr.Dataset, views: list[str]) -> list[xr.Dataset]:
    """Take the probes of each view."""
    return [data.isel(probe=data.view.values == view) for view in views]


def _rows(data: xr.Dataset, views: list[str]) -> list[dict[str, Any]]:
    """Make a row for each network, and for each cell in the median over seeds and directions."""
    rows = []
    for model in data.model.values.tolist():
        of_model = data.sel(model=model)
        for seed in data.seed.values:
            of_views = _by_view(of_model.sel(seed=seed), views)
            rows.append(_row(model, str(seed), of_views, views))
        if data.sizes["seed"] > 1:
            medians = []
            for of_view in _by_view(of_model, views):
                median = of_view.median(("seed", "probe")).expand_dims("probe")
                medians.append(median.assign(envelope=of_view.envelope.median("seed")))
            rows.append(_row(model, "median", medians, views))
    return rows


def _row(model: str, seed: str, of_views: list[xr.Dataset], views: list[str]) -> dict[str, Any]:
    """Make the row of one network, with a list for each view."""
    envelopes = []
    needed = []
    windows = []
    for view, data in zip(views, of_views, strict=True):
        order = "exact" if view in ("whole", "gradient") else view
        envelopes.append(_rounded(data.envelope.sel(order=order)))
        needed.append(_rounded(data.required))
        windows.append(_rounded(data.window))
    return {"model": model, "seed": seed, "f": envelopes, "n": needed, "h": windows}


def _rounded(values: ArrayLike) -> list[Any]:
    """Round nested numbers to three digits, whole ones without a point; leave out the too large."""
    array = np.asarray(values, float)
    if array.ndim > 1:
        return [_rounded(row) for row in array]
    numbers: list[float | None] = []
    for value in array:
        rounded = float(f"{value:.3g}") if value < _COUNTABLE else None
        is_whole = rounded is not None and rounded.is_integer()
        numbers.append(int(rounded) if is_whole else rounded)
    return numbers
