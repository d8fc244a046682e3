"""The formulas that charts compute in a page give the numbers of the package, and the browser those
of the run; Vega itself evaluates them here, without a browser."""

import re
from functools import cache

import altair as alt
import numpy as np
import pytest
import vl_convert

from book import charts
from lwcore.detection import detection_threshold, rate_exponent, sample_complexity
from lwcore.inference import DETECTORS, probes, required, windows
from lwcore.results import load
from lwcore.window import DecayLaw
from tests.built_book import ROOT

pytestmark = pytest.mark.slow
VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


@cache
def run(name="quick"):
    return load(ROOT / "book" / "results" / f"{name}.nc")


@cache
def made(name):
    """A chart, which takes a second or two to make."""
    return charts.results_browser(run()) if name == "results_browser" else getattr(charts, name)()


def texts(spec):
    """What Vega writes when it draws a chart, given as a dictionary."""
    return re.findall(r">([^<>]+)</text>", vl_convert.vegalite_to_svg(spec, vl_version=VERSION))


def with_controls(spec, settings):
    """Parameters of a chart with its controls at the given values."""
    assert settings.keys() <= {each["name"] for each in spec["params"] if "bind" in each}
    values = {name: {"value": value} for name, value in settings.items()}
    return [each | values.get(each["name"], {}) for each in spec["params"]]


def signals(chart, names, **settings):
    """Values of signals as Vega computes them at a setting of the controls."""
    text = {"expr": " + '|' + ".join(f"({name} + '')" for name in names)}
    made = {"data": {"values": [{}]}, "mark": {"type": "text", "text": text}}
    (found,) = texts(made | {"params": with_controls(chart.to_dict(), settings)})
    return [float(number) for number in found.split("|")]


def drawn(chart, view, fields, **settings):
    """Columns of the data that the view of a name draws, in the order of the fields."""
    spec = chart.to_dict()
    rows = find(spec, view)
    joined = " + '|' + ".join(f"datum.{field}" for field in fields)
    made = {
        "data": rows["data"],
        "datasets": spec.get("datasets", {}),
        "transform": [*rows["transform"], {"calculate": joined, "as": "row"}],
        "mark": "text",
        "encoding": {"text": {"field": "row", "type": "nominal"}},
        "params": with_controls(spec, settings),
    }
    found = [row.split("|") for row in texts(made)]
    return [list(column) for column in zip(*found, strict=True)] or [[] for _ in fields]


def find(spec, name, data=None):
    """The first view of a name in a chart, with the data it takes from the views around it; Altair
    counts names in several panels."""
    data = spec.get("data", data)
    if re.fullmatch(rf"{name}(_\d+)?", spec.get("name", "")):
        return spec | {"data": data}
    inner = [find(part, name, data) for part in (*spec.get("concat", []), *spec.get("layer", []))]
    return next(filter(None, inner), None)


def numbers(columns):
    """Columns as arrays, NaN where nothing is drawn."""
    return [np.array([np.nan if one == "null" else float(one) for one in each]) for each in columns]


@pytest.mark.parametrize(
    ("law", "log_noise", "alpha", "error", "detector", "log_n"),
    [
        (DecayLaw("exponential", 1, 0.5), -1, 1.05, 0.01, "mean", 8),
        (DecayLaw("power", 1, 3.0), -0.35, 1.1, 0.07, "paper_v2", 2.2),
        (DecayLaw("logarithmic", 1, np.nan), -1, 1.35, 0.29, "likelihood", 1.9),
    ],
)
def test_window_explorer_shows_what_the_package_computes(
    law, log_noise, alpha, error, detector, log_n
):
    chart, how = made("window_explorer"), (1, 10**log_noise, alpha, error, detector)
    sliders = {"law": law.name, "log_noise": log_noise, "alpha": alpha, "error": error}
    sliders |= {"detector": detector, "log_budget": log_n}
    sliders |= {"exponential": {"lambda": law.decay}, "power": {"beta": law.decay}}.get(
        law.name, {}
    )
    threshold = detection_threshold(10.0**log_n, *how)
    expected = {
        "exponent": rate_exponent(alpha, detector),
        "constant": detection_threshold(1, 1, 1, alpha, error, detector),
        "threshold": threshold,
        "needed": sample_complexity(law.envelope(1), *how),
        "window": law.inverse(np.log(threshold)),
    }
    logarithmic = law.name == "logarithmic"
    steepness = 1 / threshold if logarithmic else max(expected["exponent"], 1 / law.decay)
    # C has ten digits
    assert signals(chart, expected, **sliders) == pytest.approx(
        list(expected.values()), rel=1e-9 * max(1, steepness)
    )
    lag, envelope = numbers(drawn(chart, "envelope", ["lag", "value"], **sliders))
    assert envelope == pytest.approx(law.envelope(lag), rel=1e-12)
    budget, window = numbers(drawn(chart, "growth", ["budget", "window"], **sliders))
    assert (budget.size > 0) == (expected["needed"] <= 1e8)
    if budget.size:
        # from the first of the budgets that see a step, on a grid of 50 a decade
        assert budget[0] == pytest.approx(max(1, expected["needed"]), rel=0.05)
        exact = law.inverse(np.log(detection_threshold(budget, *how)))
        assert window == pytest.approx(exact, rel=1e-7)


def test_browser_shows_what_was_measured():
    """Of DiagGate at the fourth look: medians over seeds and directions, by the mean."""
    browser = made("results_browser")
    choices = {"model": "DiagGate", "seed": "median", "look": 3, "estimate": 0, "noise": 1, "at": 3}
    how = {"noise": "whole", "detector": DETECTORS[0]}
    noise, own = (probes(run(), "gradient", source) for source in ("noise", "error"))
    needed = required(own, **how).sel(model="DiagGate").median(("seed", "probe"))
    envelope = run().envelope.sel(model="DiagGate", order="exact").median("seed")

    lag, value = numbers(drawn(browser, "envelope", ["lag", "value"], **choices))
    assert lag == pytest.approx(run().lag.values)
    assert value == pytest.approx(envelope.values, rel=5e-3)
    (shown,) = numbers(drawn(browser, "required", ["needed"], **choices))
    assert shown == pytest.approx(needed.where(needed < 1e10).values, rel=5e-3, nan_ok=True)
    (shown,) = numbers(drawn(browser, "control", ["steps"], **choices))
    null = windows(noise, **how).max(("model", "seed", "probe"))
    assert shown == pytest.approx(null.where(null > 0).values, nan_ok=True)
