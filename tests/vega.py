"""Charts as Vega itself evaluates them, without a browser."""

from __future__ import annotations

import re

import altair as alt
import vl_convert

VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def svg(spec):
    """Draw a chart, given as a dictionary."""
    return vl_convert.vegalite_to_svg(spec, vl_version=VERSION)


def texts(spec):
    """What Vega writes when it draws a chart."""
    return re.findall(r">([^<>]+)</text>", svg(spec))


def with_controls(chart, **settings):
    """Parameters of a chart with its controls at the given values."""
    parameters = chart.to_dict()["params"]
    assert settings.keys() <= {parameter["name"] for parameter in parameters if "bind" in parameter}
    return [
        parameter | {"value": settings[parameter["name"]]}
        if parameter["name"] in settings
        else parameter
        for parameter in parameters
    ]


def signals(chart, names, **settings):
    """Values of signals, or of expressions of them, as Vega computes them at a setting of the
    controls."""
    expression = " + '|' + ".join(f"({name} + '')" for name in names)
    mark = {"type": "text", "text": {"expr": expression}}
    (text,) = texts(
        {"data": {"values": [{}]}, "mark": mark, "params": with_controls(chart, **settings)}
    )
    return [float(number) for number in text.split("|")]


def drawn(chart, view, fields, **settings):
    """Columns of the data that the view of a name draws, in the order of the fields."""
    spec = chart.to_dict()
    fieldwise = " + '|' + ".join(f"datum.{field}" for field in fields)
    rows = find(spec, view)
    made = {
        "data": rows["data"],
        "transform": [*rows["transform"], {"calculate": fieldwise, "as": "row"}],
    }
    if "name" in rows["data"]:
        made["datasets"] = spec["datasets"]
    parameters = with_controls(chart, **settings)
    found = texts(
        made
        | {
            "mark": "text",
            "encoding": {"text": {"field": "row", "type": "nominal"}},
            "params": parameters,
        }
    )
    return [list(column) for column in zip(*(row.split("|") for row in found), strict=True)]


def find(spec, name, data=None):
    """The first view of a name in a chart, with the data it takes from the views around it; Altair
    counts names in several panels."""
    data = spec.get("data", data)
    if re.fullmatch(rf"{name}(_\d+)?", spec.get("name", "")):
        return spec | {"data": data}
    inner = [find(part, name, data) for part in (*spec.get("concat", []), *spec.get("layer", []))]
    return next(filter(None, inner), None)
