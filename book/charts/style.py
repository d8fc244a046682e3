"""What all charts share: how they go into a page, their controls, axes and marks."""

import html
import json
from typing import Any

import altair as alt
import numpy as np

# of seaborn's palette for readers who do not tell red from green
BLUE = "#0173b2"
RED = "#d55e00"
CURVE: dict[str, Any] = {"color": BLUE, "clip": True}
RULE: dict[str, Any] = {"strokeDash": [3, 3], "color": "grey", "clip": True}
DOT: dict[str, Any] = {"filled": True, "size": 80, "color": RED, "clip": True, "opacity": 1}
_POWERS_OF_TEN = (
    "'10' + (datum.value < 1 ? '⁻' : '') + '⁰¹²³⁴⁵⁶⁷⁸⁹'[abs(round(log(datum.value) / LN10))]"
)


def use_book_style() -> None:
    """Show charts as JSON, which ``book/_static/charts.js`` draws, and as JupyterLab draws them."""
    alt.renderers.register("living_paper", _mime_bundle)
    alt.renderers.enable("living_paper")


def formula(name: str, expression: str) -> alt.Parameter:
    """Give a name to an expression of other parameters."""
    return alt.param(name=name, expr=expression)


def slider(
    name: str, words: str, value: float, least: float, most: float, step: float
) -> alt.Parameter:
    """Make a parameter that a slider moves; the words are its label."""
    bind = alt.binding_range(min=float(least), max=float(most), step=step, name=words)
    return alt.param(name=name, value=value, bind=bind)


def choice(name: str, words: str, value: Any, options: dict[Any, str]) -> alt.Parameter:
    """Make a parameter that is one of some values, shown in the words that belong to them."""
    shown = alt.binding_select(options=list(options), labels=list(options.values()), name=words)
    return alt.param(name=name, value=value, bind=shown)


def log_x(field: str, title: str, least: float, most: float) -> alt.X:
    """Make a logarithmic axis between two powers of ten, given by their exponents."""
    return _decades(alt.X(field, title=title), least, most)


def log_y(field: str, title: str, least: float, most: float) -> alt.Y:
    """Make an upright logarithmic axis, as `log_x` makes a level one."""
    return _decades(alt.Y(field, title=title), least, most)


def _decades(channel: Any, least: float, most: float) -> Any:
    """Scale a channel logarithmically, with a tick at each power of ten."""
    ticks = [10.0**k for k in range(int(np.ceil(least)), int(most) + 1)]
    scaled = channel.scale(type="log", domain=[10**least, 10**most])
    return scaled.axis(values=ticks, labelExpr=_POWERS_OF_TEN)


def dress(chart: Any, description: str) -> Any:
    """Give a chart its look, and the words by which those know it who hear the page."""
    axis = {"titleFontWeight": "normal", "titleFontSize": 12, "labelFontSize": 11}
    return (
        chart.properties(description=description, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(grid=False, labelFlush=True, labelSeparation=5, **axis)
        .configure_legend(orient="top", labelFontSize=11, columns=3)
        .configure_line(strokeWidth=2)
    )


def _mime_bundle(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Write a chart as an element that the book's script draws, and as JupyterLab draws it."""
    name = html.escape(spec["description"], quote=True)
    data = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    script = f'<script type="application/json">{data}</script>'
    return {
        "text/html": f'<div class="chart" role="group" aria-label="{name}">{script}</div>',
        f"application/vnd.vegalite.v{alt.SCHEMA_VERSION[1]}+json": spec,
        "text/plain": "an interactive chart",
    }
