"""Recorded runs, network by network: envelope, sequences that a lag needs, and window."""

from typing import Any

import altair as alt
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from book.charts.explorers import RATE_WORDS
from book.charts.style import RULE, choice, dress, formula, log_x, log_y
from lwcore.experiment import config_of
from lwcore.figures import COLOURS
from lwcore.inference import NOISES, PAPER_V2, RATES, required, window_of
from lwcore.signatures import require

_WAYS = {rate: {"rate": rate} for rate in RATES} | {"letter_v2": PAPER_V2}
_WORDS = RATE_WORDS | {
    "variance": "sample variance, p = 2",
    "letter_v2": "v2 to the letter, f twice",
    "zeroth": "zeroth order",
    "first": "first order",
    "whole": "exact, random w",
    "gradient": "exact, own gradient",
}
_COUNTABLE = 1e10  # numbers of sequences above this are left out
_DIMS = ("model", "seed", "order", "probe", "noise", "way", "lag", "budget")
_CHOSEN = "[look][datum.direction][noise][estimate]"


def results_browser(results: xr.Dataset) -> alt.ConcatChart:
    """What a run measured, with choices of cell, seed, order of transport, noise and rate.

    Nothing is computed in the page but which of the numbers to show. N(ℓ) and H_N are those of
    `lwcore.inference`, by the rule ``"tested"`` and the definition ``"supremum"``, rounded. In the
    chart's data a row is a network, or the median of a cell's: ``f`` by view and lag; ``n`` (N(ℓ),
    empty where it cannot be counted) and ``h`` (H_N, 0 where no lag is seen) by view, direction,
    noise, rate, and lag or number of sequences.
    """
    held = sorted({"envelope", "signal", "scale"} & {*map(str, results.data_vars)})
    require("results", held, len(held) == 3, "of a run, with envelope, signal and scale")
    models, views = results.model.values.tolist(), list(dict.fromkeys(results.view.values.tolist()))
    budgets = list(config_of(results).diagnostics.budgets)
    seeds = {str(seed): f"seed {seed}" for seed in results.seed.values}
    seeds = {"median": "median over seeds"} | seeds if len(seeds) > 1 else seeds

    def places(*names: str) -> dict[int, str]:
        return {k: _WORDS.get(name, f"{name} gradient") for k, name in enumerate(names)}

    letter, middle = list(_WAYS).index("letter_v2"), min(7, len(budgets) - 1)
    params = [
        choice("model", "cells", "all", {"all": "all cells"} | {name: name for name in models}),
        choice("seed", "networks", next(iter(seeds)), seeds),
        choice("look", "order of transport", 0, places(*views)),
        choice("noise", "noise", 0, {0: "the lag's own part", 1: "whole gradient"}),
        choice("estimate", "way to N(ℓ)", letter, places(*_WAYS)),
        choice("at", "sequences N", middle, {k: f"{n:,}" for k, n in enumerate(budgets)}),
        alt.param(name="lags", value=results.lag.values.tolist()),
        alt.param(name="budgets", value=budgets),
        formula("budget", "budgets[at]"),
    ]
    last, top = float(np.log10(results.lag[-1])), int(np.ceil(np.log10(results.envelope.max())))
    lag = log_x("lag:Q", "lag ℓ (steps)", float(np.log10(results.lag[0])), last + 0.02)
    first, most = np.log10([budgets[0], budgets[-1]]).tolist()
    number = log_x("budget:Q", "number of sequences N", first, most)
    reach = log_y("steps:Q", "window (steps)", 0, last + 0.12)
    shades = [COLOURS.get(model, "black") for model in models]
    colour = alt.Color("model:N", title=None).scale(domain=models, range=shades)
    one = alt.Chart(alt.sequence(0, 1)).transform_calculate(budget="budget")
    rule = one.mark_rule(**RULE)
    chosen = alt.Chart(alt.NamedData("networks")).transform_filter(
        "(model == 'all' || datum.model == model) && datum.seed == seed"
    )
    directions = chosen.transform_calculate(direction="sequence(0, length(datum.n[look]))")
    directions = directions.transform_flatten(["direction"])
    dots: dict[str, Any] = {"clip": True, "point": {"size": 12, "aria": False}}
    steps: dict[str, Any] = {"clip": True, "interpolate": "step-after"}
    envelope = _curves("envelope", chosen, "lag", "lags", "value", "datum.f[look]")
    needed = _curves("required", directions, "lag", "lags", "needed", f"datum.n{_CHOSEN}")
    window = _curves("window", directions, "budget", "budgets", "steps", f"datum.h{_CHOSEN}")
    of_noise = alt.Chart(alt.NamedData("control")).transform_calculate(direction="0")
    control = _curves("control", of_noise, "budget", "budgets", "steps", f"datum.h{_CHOSEN}")
    here = directions.transform_calculate(steps=f"datum.h{_CHOSEN}[at]", budget="budget")
    here = here.transform_calculate(
        words="datum.model + ' ' + (datum.steps ? format(datum.steps, '~r') : 'none')"
    ).transform_joinaggregate(all="values(words)")
    at = "'Window at N = ' + format(budget, ',') + ', in steps: '"
    here = here.transform_calculate(reading=f"{at} + join(pluck(datum.all, 'words'), ', ') + '.'")
    height, by = log_y("needed:Q", "sequences N(ℓ)", -2, 8), alt.Detail("direction:N")
    level = log_y("value:Q", "envelope f(ℓ)", top - 6, top)
    panels = (
        envelope.mark_line(**dots).encode(lag, level, colour),
        alt.layer(
            needed.mark_line(**dots).encode(lag, height, colour, by),
            rule.encode(log_y("budget:Q", "sequences N(ℓ)", -2, 8)),
        ),
        alt.layer(
            control.mark_line(color="grey", strokeDash=[6, 3], **steps).encode(number, reach),
            window.mark_line(**steps).encode(number, reach, colour, by),
            rule.encode(number),
            here.properties(name="reading")
            .mark_point(filled=True, size=50, opacity=1, clip=True)
            .encode(number, reach, colour),
        ),
    )
    chart = dress(
        alt.concat(*panels, columns=3).add_params(*params),
        "Three panels of lines, one colour a cell, with what the choices below them pick from "
        f"run {results.attrs['name']}: envelopes that fall with the lag; the number of sequences "
        "that each lag needs; and windows that climb in steps as it grows, with a dashed grey line "
        "for the null control.",
    )
    data = _measured(results, "error")
    null = _measured(results, "noise").max(("model", "seed"))
    largest = [part.max("probe").expand_dims("probe") for part in _by_view(null, views)]
    # last: each step copies them
    chart.datasets = {
        "networks": _rows(data, views),
        "control": [{"h": [_rounded(part.window) for part in largest]}],
    }
    return chart


def _curves(name: str, networks: alt.Chart, x: str, places: str, y: str, values: str) -> alt.Chart:
    """A row for each point of some curves; lines break where there is no value, or 0 steps."""
    points = networks.transform_calculate(**{x: places, y: values}).transform_flatten([x, y])
    return points.transform_calculate(**{y: f"datum.{y} > 0 ? datum.{y} : null"}).properties(
        name=name
    )


def _measured(results: xr.Dataset, source: str) -> xr.Dataset:
    """N(ℓ) and windows in every way that can be chosen."""
    one = results.sel(source=source)
    ways = [
        xr.concat([required(one, noise=noise, **how) for how in _WAYS.values()], "way")
        for noise in NOISES
    ]
    needed = xr.concat(ways, "noise")
    windows = window_of(needed, config_of(results).diagnostics.budgets)
    found = xr.Dataset({"envelope": results.envelope, "required": needed, "window": windows})
    return found.assign_coords(view=("probe", results.view.values)).transpose(*_DIMS)


def _by_view(data: xr.Dataset, views: list[str]) -> list[xr.Dataset]:
    return [data.isel(probe=data.view.values == view) for view in views]


def _rows(data: xr.Dataset, views: list[str]) -> list[dict[str, Any]]:
    """The numbers of each network, and of each cell in the median over seeds and directions."""
    rows = []
    for model in data.model.values.tolist():
        networks = {str(seed): data.sel(model=model, seed=seed) for seed in data.seed.values}
        of_networks = {seed: _by_view(one, views) for seed, one in networks.items()}
        if len(networks) > 1:
            of_networks["median"] = [
                part.median(("seed", "probe"))
                .expand_dims("probe")
                .assign(envelope=part.envelope.median("seed"))
                for part in _by_view(data.sel(model=model), views)
            ]
        for seed, parts in of_networks.items():
            orders = ["exact" if view in ("whole", "gradient") else view for view in views]
            pairs = list(zip(parts, orders, strict=True))
            f = [_rounded(part.envelope.sel(order=order)) for part, order in pairs]
            n, h = ([_rounded(part[name]) for part in parts] for name in ("required", "window"))
            rows.append({"model": model, "seed": seed, "f": f, "n": n, "h": h})
    return rows


def _rounded(values: ArrayLike) -> list[Any]:
    """Nested numbers to three digits, whole ones without a point; empty if they are too large."""
    array = np.asarray(values, float)
    if array.ndim > 1:
        return [_rounded(part) for part in array]
    kept = (float(f"{one:.3g}") if one < _COUNTABLE else None for one in array)
    return [int(one) if one is not None and one == int(one) else one for one in kept]
