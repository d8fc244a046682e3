"""What all charts share: how they go into a page, their controls, axes, marks, and the last
touch."""

from __future__ import annotations

import html
import json
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

# The colours of `lwcore.figures`: seaborn's palette for readers who do not tell red from
# green.
BLUE, ORANGE, GREEN, RED, SKY, GREY = (
    "#0173b2",
    "#de8f05",
    "#029e73",
    "#d55e00",
    "#56b4e9",
    "#949494",
)
CURVE: dict[str, Any] = {"color": BLUE, "clip": True}
RULE: dict[str, Any] = {"strokeDash": [3, 3], "color": "grey", "clip": True}
DOT: dict[str, Any] = {"filled": True, "size": 80, "color": RED, "clip": True, "opacity": 1}
_POWERS_OF_TEN = (
    "'10' + (datum.value < 1 ? '⁻' : '') + '⁰¹²³⁴⁵⁶⁷⁸⁹'[abs(round(log(datum.value) / LN10))]"
)


def use_book_style() -> None:
    """Show charts in notebooks the way the book draws them: as JSON for the script in
    ``book/_static/charts.js``, and for JupyterLab."""
    alt.renderers.register("living_paper", _mime_bundle)
    alt.renderers.enable("living_paper")


def formula(name: str, expression: str) -> alt.Parameter:
    """Name what an expression of other parameters gives."""
    return alt.param(name=name, expr=expression)


def total(term: str, count: int) -> str:
    """Write a sum over k from 0 to below a count, the terms of which say ``{k}`` where k stands."""
    return "(" + " + ".join(term.format(k=k) for k in range(count)) + ")"


def by_choice(name: str, options: dict[str, str]) -> str:
    """Write an expression that depends on a choice: one for each of its values, of which the last
    needs no question."""
    *asked, last = options.items()
    return (
        "("
        + "".join(f"{name} == '{value}' ? {expression} : " for value, expression in asked)
        + last[1]
        + ")"
    )


def slider(
    name: str, words: str, value: float, least: float, most: float, step: float
) -> alt.Parameter:
    """Make a parameter that a slider moves; the words are its label."""
    return alt.param(
        name=name,
        value=value,
        bind=alt.binding_range(min=float(least), max=float(most), step=step, name=words),
    )


def choice(name: str, words: str, value: Any, options: dict[Any, str]) -> alt.Parameter:
    """Make a parameter that is one of some values, shown in the words that belong to them."""
    return alt.param(
        name=name,
        value=value,
        bind=alt.binding_select(options=list(options), labels=list(options.values()), name=words),
    )


def log_x(field: str, title: str, least: float, most: float) -> alt.X:
    """Make a logarithmic axis between two powers of ten, given by their exponents."""
    return (
        alt.X(field, title=title)
        .scale(type="log", domain=[10**least, 10**most])
        .axis(**_decades(least, most))
    )


def log_y(field: str, title: str, least: float, most: float) -> alt.Y:
    """Make an upright axis as `log_x` makes a level one."""
    return (
        alt.Y(field, title=title)
        .scale(type="log", domain=[10**least, 10**most])
        .axis(**_decades(least, most))
    )


def _decades(least: float, most: float) -> dict[str, Any]:
    """Name whole powers of ten on an axis."""
    return {
        "values": [10.0**k for k in range(int(np.ceil(least)), int(most) + 1)],
        "labelExpr": _POWERS_OF_TEN,
    }


def digits(values: ArrayLike, count: int = 6) -> list[float]:
    """Round to some significant digits: more would not be seen, and would weigh."""
    return [float(f"{value:.{count}g}") for value in np.asarray(values, float)]


def pairs(
    x: ArrayLike, y: ArrayLike, *, above: float = 0.0, below: float = np.inf
) -> list[tuple[float, float]]:
    """Give the points of a curve that can be drawn."""
    return [(a, b) for a, b in zip(digits(x), digits(y), strict=True) if above < b < below]


def dress(chart: Any, description: str) -> Any:
    """Give a chart its look, and the words by which it is known to those who hear the page."""
    return (
        chart.properties(description=description, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            grid=False,
            titleFontWeight="normal",
            titleFontSize=12,
            labelFontSize=11,
            labelFlush=True,
            labelSeparation=5,
        )
        .configure_legend(orient="top", labelFontSize=11, columns=3)
        .configure_line(strokeWidth=2)
        .configure_title(fontWeight="normal", fontSize=12)
    )


def _mime_bundle(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Give a chart as an element that the book's script draws, and as what JupyterLab draws by
    itself."""
    name = html.escape(spec["description"], quote=True)
    data = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    element = f'<div class="chart" role="group" aria-label="{name}"><script type="application/json">{data}</script></div>'
    return {
        "text/html": element,
        f"application/vnd.vegalite.v{alt.SCHEMA_VERSION[1]}+json": spec,
        "text/plain": "an interactive chart",
    }
