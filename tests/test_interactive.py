"""The formulas that charts compute in a page give the numbers of the package; Vega itself evaluates them here, without a browser."""

from __future__ import annotations

import itertools
import re

import altair as alt
import numpy as np
import pytest
import vl_convert

from lwcore import interactive
from lwcore.bounds import detection_threshold, rate_exponent, sample_complexity
from lwcore.window import DecayLaw, predicted_window

LAWS = [DecayLaw("exponential", 1, 0.9), DecayLaw("power", 1, 1), DecayLaw("logarithmic", 1)]
RATES = ["mean", "optimal", "paper_v2"]
VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
N = np.geomspace(10, 1e6, 6)

CHARTS = {
    "thresholds": lambda: interactive.thresholds(LAWS, [10, 1000], signal=1, alpha=1.5),
    "complexity": lambda: interactive.complexity(LAWS, signal=1, alpha=1.5),
    "sandwich": lambda: interactive.sandwich(N, {"supremum": N**0.3}, N**0.2, N**0.4),
    "window_explorer": interactive.window_explorer,
    "regimes": interactive.regimes,
}


def texts(spec):
    """What Vega writes when it draws a chart."""
    return re.findall(r">([^<>]+)</text>", vl_convert.vegalite_to_svg(spec, vl_version=VERSION))


def with_sliders(chart, **settings):
    """Parameters of a chart with its sliders at the given values."""
    parameters = chart.to_dict()["params"]
    assert settings.keys() <= {parameter["name"] for parameter in parameters if "bind" in parameter}
    return [parameter | {"value": settings[parameter["name"]]} if parameter["name"] in settings else parameter for parameter in parameters]


def signals(chart, names, **settings):
    """Values of signals as Vega computes them at a setting of the sliders."""
    expression = " + '|' + ".join(f"({name} + '')" for name in names)
    mark = {"type": "text", "text": {"expr": expression}}
    (text,) = texts({"data": {"values": [{}]}, "mark": mark, "params": with_sliders(chart, **settings)})
    return [float(number) for number in text.split("|")]


def drawn(chart, panel, fields, **settings):
    """Columns of the data that a panel draws, in the order of the fields."""
    spec = chart.to_dict()
    rows = [p["layer"][0] if "layer" in p else p for p in spec["concat"]][panel]
    fieldwise = " + '|' + ".join(f"datum.{field}" for field in fields)
    rows.setdefault("data", spec.get("data"))
    made = {"data": rows["data"], "transform": [*rows["transform"], {"calculate": fieldwise, "as": "row"}]}
    if "name" in rows["data"]:
        made["datasets"] = spec["datasets"]
    parameters = with_sliders(chart, **settings)
    found = texts(made | {"mark": "text", "encoding": {"text": {"field": "row", "type": "nominal"}}, "params": parameters})
    return [list(column) for column in zip(*(row.split("|") for row in found), strict=True)]


SETTINGS = [  # law, its parameter, log₁₀ signal, α, ε, rate, log₁₀ N
    *((law, None, 0, 1.5, 0.1, rate, 3) for law, rate in itertools.product(["exponential", "power", "logarithmic"], RATES)),
    ("exponential", 0.5, -1, 1.05, 0.01, "mean", 8),
    ("exponential", 0.995, 1, 2.0, 0.4, "optimal", 0),
    ("power", 0.1, 0.55, 1.95, 0.33, "mean", 5.7),
    ("power", 3.0, -0.35, 1.1, 0.07, "paper_v2", 2.2),
    ("logarithmic", None, -1, 1.35, 0.29, "optimal", 1.9),
    ("power", 1.0, -1, 1.5, 0.1, "mean", 1),  # no window
]


def at(name, decay, log_signal, alpha, error, rate, log_n):
    """A decay law, and the sliders that choose it and the rest."""
    decay = {"exponential": 0.9, "power": 1.0, "logarithmic": float("nan")}[name] if decay is None else decay
    sliders = {"law": name, "log_amplitude": log_signal, "alpha": alpha, "error": error, "rate": rate, "log_budget": log_n}
    sliders |= {"exponential": {"lambda": decay}, "power": {"beta": decay}, "logarithmic": {}}[name]
    return DecayLaw(name, 10**log_signal, decay), sliders


@pytest.mark.parametrize(("name", "decay", "log_signal", "alpha", "error", "rate", "log_n"), SETTINGS)
def test_explorer_computes_what_the_package_does(name, decay, log_signal, alpha, error, rate, log_n):
    law, sliders = at(name, decay, log_signal, alpha, error, rate, log_n)
    threshold = detection_threshold(10.0**log_n, 1, 1, alpha, error, rate)
    expected = {
        "exponent": rate_exponent(alpha, rate),
        "constant": detection_threshold(1, 1, 1, alpha, error, rate),
        "threshold": threshold,
        "needed": sample_complexity(law.envelope(1), 1, 1, alpha, error, rate),
        "window": predicted_window(law, threshold),
    }
    steepness = law.amplitude / threshold if name == "logarithmic" else max(rate_exponent(alpha, rate), 1 / law.decay)
    assert signals(interactive.window_explorer(), expected, **sliders) == pytest.approx(
        [float(v) for v in expected.values()], rel=1e-9 * max(1, steepness)
    )  # C has ten digits


@pytest.mark.parametrize(("name", "decay", "log_signal", "alpha", "error", "rate", "log_n"), SETTINGS[9:])
def test_explorer_draws_what_the_package_computes(name, decay, log_signal, alpha, error, rate, log_n):
    law, sliders = at(name, decay, log_signal, alpha, error, rate, log_n)
    chart = interactive.window_explorer()
    lag, envelope = np.array(drawn(chart, 0, ["lag", "value"], **sliders), float)
    assert envelope == pytest.approx(law.envelope(lag), rel=1e-12)
    budget, window = np.array(drawn(chart, 1, ["budget", "window"], **sliders) or [[], []], float)
    exact = predicted_window(law, detection_threshold(budget, 1, 1, alpha, error, rate)) if budget.size else budget
    assert window == pytest.approx(exact, rel=1e-7)
    assert (budget.size > 0) == (sample_complexity(law.envelope(1), 1, 1, alpha, error, rate) <= 1e8)


@pytest.mark.parametrize(("alpha", "log_signal"), [(1.5, 0), (1.1, -0.5)])
def test_regimes_are_those_of_the_package(alpha, log_signal):
    laws = [DecayLaw("exponential", 10**log_signal, 0.9), DecayLaw("power", 10**log_signal, 1), DecayLaw("logarithmic", 10**log_signal)]
    for panel, law in enumerate(laws):
        rate, budget, height = drawn(interactive.regimes(), panel, ["rate", "budget", "height"], alpha=alpha, log_amplitude=log_signal)
        for name in RATES:
            n, drawn_height = (np.array([float(v) for v, r in zip(column, rate, strict=True) if r == name]) for column in (budget, height))
            assert (n.size > 0) == (sample_complexity(law.envelope(1), 1, 1, alpha, rate=name) <= 1e8)
            if n.size == 0:
                continue
            window = predicted_window(law, detection_threshold(n, 1, 1, alpha, rate=name))
            kept = np.isfinite(window)
            expected = np.log1p(window[kept]) if law.name == "logarithmic" else window[kept]
            assert drawn_height[kept] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("name", CHARTS)
def test_chart_is_complete(name):
    spec = CHARTS[name]().to_dict()
    assert len(spec["description"]) > 40
    assert vl_convert.vegalite_to_svg(spec, vl_version=VERSION).count("<path") > 3
    bound = [parameter["bind"] for parameter in spec.get("params", []) if "bind" in parameter]
    assert all(len(bind["name"]) > 4 for bind in bound)


def test_every_public_function_is_tried():
    public = {
        n
        for n, f in vars(interactive).items()
        if callable(f) and getattr(f, "__module__", "") == interactive.__name__ and not n.startswith("_")
    }
    assert public == {*CHARTS, "use_book_style"}


def test_a_chart_goes_into_a_page_as_one_inert_element():
    before = alt.renderers.active
    interactive.use_book_style()
    try:
        bundle = CHARTS["complexity"]()._repr_mimebundle_()
    finally:
        alt.renderers.enable(before)
    assert bundle["text/html"].startswith('<div class="chart" role="group" aria-label="Three rising curves')
    assert "http" not in bundle["text/html"].replace(alt.SCHEMA_URL, "")
    assert bundle["text/html"].count("</script>") == 1
    assert any("vegalite" in kind for kind in bundle)
