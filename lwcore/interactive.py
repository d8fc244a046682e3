"""Charts that a reader can move: the scaling laws of Section 5.4 with sliders, and the static charts that lead up to them.

Every function gives an Altair chart. What a slider changes is computed in the reader's browser, from the formulas of `lwcore.bounds` and
`lwcore.window` written once more in Vega's expressions; the tests hold the two against each other. The one thing a browser cannot compute
is the constant C of Eq. (35), a quantile of a stable law or its Fisher information. It is tabulated here, at the values where the sliders
stop, and rounded to ten digits; between those values nothing is interpolated.

Charts of windows count signal in units of the noise: one number, ``c m̄/σ_α``, is all that matters of the law's amplitude, the alignment
and the scale.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lwcore.bounds import detection_threshold, sample_complexity
from lwcore.window import DecayLaw, predicted_window

Array = NDArray[np.float64]

# The colours of `lwcore.plots`: seaborn's palette for readers who do not tell red from green.
_LAW_COLOURS = {"exponential": "#0173b2", "power": "#de8f05", "logarithmic": "#029e73"}
_RATE_COLOURS = {"mean": "#d55e00", "optimal": "#56b4e9", "paper_v2": "#949494"}
_RATE_WORDS = {"mean": "mean, p = α/(α − 1)", "optimal": "optimal, p = 2", "paper_v2": "paper_v2, p = α"}
_ALPHAS = np.round(np.arange(1.05, 2.001, 0.05), 2)
_ERRORS = np.round(np.arange(0.01, 0.401, 0.01), 2)
_POWERS_OF_TEN = "'10' + (datum.value < 1 ? '⁻' : '') + '⁰¹²³⁴⁵⁶⁷⁸⁹'[abs(round(log(datum.value) / LN10))]"


def use_book_style() -> None:
    """Show charts in notebooks the way the book draws them: as JSON for the script in ``book/_static/charts.js``, and for JupyterLab."""
    alt.renderers.register("living_paper", _mime_bundle)
    alt.renderers.enable("living_paper")


def thresholds(
    laws: Sequence[DecayLaw], n_sequences: Sequence[float], *, signal: float, alpha: float, error: float = 0.1, rate: str = "mean"
) -> alt.LayerChart:
    """Draw envelopes and the thresholds of Eq. (35), with the windows of Eq. (36) where they cross.

    Args:
        laws: Decay laws, of different names.
        n_sequences: Numbers of sequences N, one dotted line each.
        signal: Alignment over noise scale, m̄/σ_α, in one over the units of the envelope.
        alpha: Tail index α in (1, 2].
        error: Probability ε of naming the wrong sign.
        rate: ``"mean"``, ``"optimal"`` or ``"paper_v2"``.

    Returns:
        The chart.
    """
    lag = np.geomspace(1, 1e4, 97)
    level = detection_threshold(n_sequences, signal, 1, alpha, error, rate)
    curves = [{"lag": x, "value": y, "law": law.name} for law in laws for x, y in _pairs(lag, law.envelope(lag), above=1e-3)]
    lines = [{"value": y, "label": f"N = {n:,.0f}"} for n, y in zip(n_sequences, _digits(level), strict=True)]
    crossings = [
        {"lag": x, "value": y, "law": law.name} for law in laws for x, y in _pairs(predicted_window(law, level), level) if 1 <= x <= lag[-1]
    ]
    x, y = _log_x("lag:Q", "lag ℓ (steps)", 0, 4), _log_y("value:Q", "envelope f(ℓ)", -3, 1)
    base = alt.Chart(alt.Data(values=curves)).mark_line(clip=True).encode(x, y, _law_colour())
    levels = alt.Chart(alt.Data(values=lines))
    return _dress(
        alt.layer(
            base,
            levels.mark_rule(strokeDash=[3, 3], color="grey").encode(y),
            levels.mark_text(align="right", dx=-2, dy=-5, color="#666").encode(y, text="label:N", x=alt.value("width")),
            alt.Chart(alt.Data(values=crossings)).mark_point(filled=True, size=60, opacity=1).encode(x, y, _law_colour()),
        ),
        "Three falling curves on double-logarithmic axes, the exponential bending down, the power law straight, the logarithmic one almost "
        "level, and dotted horizontal lines, lower for larger N; dots mark where a curve meets a line.",
    )


def complexity(laws: Sequence[DecayLaw], *, signal: float, alpha: float, error: float = 0.1, rate: str = "mean") -> alt.Chart:
    """Draw the number of sequences N(ℓ) of Eq. (37) that each lag needs; arguments and result as those of `thresholds`."""
    lag = np.geomspace(1, 1e4, 97)
    rows = [
        {"lag": x, "required": y, "law": law.name}
        for law in laws
        for x, y in _pairs(lag, sample_complexity(law.envelope(lag), signal, 1, alpha, error, rate), below=1e9)
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(clip=True)
    return _dress(
        chart.encode(_log_x("lag:Q", "lag ℓ (steps)", 0, 4), _log_y("required:Q", "sequences N(ℓ)", 0, 8), _law_colour()),
        "Three rising curves on double-logarithmic axes: the exponential law's turns upwards and leaves the chart, the power law's is "
        "straight, the logarithmic law's flattens.",
    )


def sandwich(n_sequences: ArrayLike, windows: dict[str, ArrayLike], shortest: ArrayLike, longest: ArrayLike) -> alt.LayerChart:
    """Draw windows (steps, by the name of their definition) between the two bounds of Eq. (39), at given numbers of sequences."""
    budget = _digits(n_sequences)
    band = [{"budget": n, "window": low, "longest": high} for n, low, high in zip(budget, _digits(shortest), _digits(longest), strict=True)]
    steps = [
        {"budget": n, "window": h, "name": name.replace("_", " ")} for name, window in windows.items() for n, h in _pairs(budget, window)
    ]
    first, last = np.log10(min(budget)), np.log10(max(budget))
    x, y = _log_x("budget:Q", "number of sequences N", first, last), _log_y("window:Q", "window (steps)", 0, 3)
    return _dress(
        alt.layer(
            alt.Chart(alt.Data(values=band)).mark_area(opacity=0.25, color=_LAW_COLOURS["power"], clip=True).encode(x, y, y2="longest:Q"),
            alt.Chart(alt.Data(values=steps))
            .mark_line(interpolate="step-after", strokeWidth=1.5, color="black")
            .encode(
                x,
                y,
                alt.StrokeDash("name:N", title=None).scale(domain=[name.replace("_", " ") for name in windows], range=[[1, 0], [3, 3]]),
            ),
        ),
        "A shaded band rises along a straight line on double-logarithmic axes; a solid staircase climbs along its upper edge and a dotted "
        "one along its lower edge.",
    )


def window_explorer() -> alt.ConcatChart:
    """Draw envelope, threshold and window with sliders for everything that Eqs. (35) to (39) depend on.

    Returns:
        The chart. Its signals ``exponent`` (p), ``constant`` (C), ``threshold`` (ε_th), ``needed`` (N(1), to see one step) and ``window``
        (H_N, real) are what the functions of `lwcore.bounds` and `lwcore.window` give at the sliders' values, with m̄ = σ_α = 1. The sliders
        of the laws that are not chosen are hidden (``usermeta``, read by ``book/_static/charts.js``).
    """
    envelope = _by_law("amplitude * pow(lambda, datum.lag)", "amplitude * pow(datum.lag, -beta)", "amplitude / log(1 + datum.lag)")
    params = [
        _choice("law", "decay of f", "power", {name: name for name in _LAW_COLOURS}),
        _slider("lambda", "λ (exponential law)", 0.9, 0.5, 0.995, 0.005),
        _slider("beta", "β (power law)", 1, 0.1, 3, 0.1),
        _slider("log_amplitude", "signal, log₁₀ c m̄/σ", 0, -1, 1, 0.05),
        _slider("alpha", "tail index α", 1.5, _ALPHAS[0], _ALPHAS[-1], 0.05),
        _slider("error", "error ε", 0.1, _ERRORS[0], _ERRORS[-1], 0.01),
        _choice("rate", "rate exponent", "mean", _RATE_WORDS),
        _slider("log_budget", "sequences, log₁₀ N", 3, 0, 8, 0.1),
        *_constants(_ERRORS),
        _formula("amplitude", "pow(10, log_amplitude)"),
        _formula("budget", "pow(10, log_budget)"),
        _formula("exponent", _exponent("rate")),
        _formula("constant", _constant("rate", "round((error - 0.01) / 0.01)")),
        _formula("threshold", "constant * pow(budget, -1 / exponent)"),
        _formula("needed", "pow(constant / " + _by_law("(amplitude * lambda)", "amplitude", "(amplitude / log(2))") + ", exponent)"),
        _formula("window", _window("amplitude / threshold")),
        _formula(
            "reading",
            "'N = ' + format(budget, ',.3~r') + ' with p = ' + format(exponent, '.3~r') + ': threshold ' + format(threshold, '.3~r')"
            " + (window >= 1 ? ', window ' + (window > 1e15 ? 'above 10¹⁵' : format(window, ',.4~r')) + ' steps.'"
            " : ', below which f lies from the first lag on: no window. One step takes N = ' + format(needed, ',.3~r') + '.')",
        ),
    ]
    lag, level = _log_x("lag:Q", "lag ℓ (steps)", 0, 4), _log_y("value:Q", "envelope f(ℓ) m̄/σ", -4, 2)
    budget, reach = _log_x("budget:Q", "number of sequences N", 0, 8), _log_y("window:Q", "window (steps)", 0, 6)
    here = (
        alt.Chart(alt.sequence(0, 1))
        .transform_calculate(lag="window", value="threshold", budget="budget", window="window")
        .transform_filter("datum.window >= 1")
    )
    rule: dict[str, Any] = {"strokeDash": [3, 3], "color": "grey", "clip": True}
    dot: dict[str, Any] = {"filled": True, "size": 80, "color": "#d55e00", "clip": True}
    curve: dict[str, Any] = {"color": _LAW_COLOURS["exponential"], "clip": True}
    left = alt.layer(
        alt.Chart(alt.sequence(0, 4.001, 0.02, as_="decade"), name="envelope")
        .transform_calculate(lag="pow(10, datum.decade)")
        .transform_calculate(value=envelope)
        .transform_filter("datum.value > 1e-6")
        .mark_line(**curve)
        .encode(lag, level),
        alt.Chart(alt.sequence(0, 1)).transform_calculate(value="threshold").mark_rule(**rule).encode(level),
        here.mark_rule(**rule).encode(lag),
        here.mark_point(**dot, opacity=1).encode(lag, level),
    )
    right = alt.layer(
        alt.Chart(alt.sequence(0, 8.001, 0.02, as_="decade"), name="growth")
        .transform_calculate(budget="pow(10, datum.decade)")
        .transform_calculate(window=_window("amplitude * pow(datum.budget, 1 / exponent) / constant"))
        .transform_filter("datum.window >= 1 && datum.window < 1e9")
        .mark_line(**curve)
        .encode(budget, reach),
        alt.Chart(alt.sequence(0, 1)).transform_calculate(budget="budget").mark_rule(**rule).encode(budget),
        here.mark_rule(**rule).encode(reach),
        here.mark_point(**dot, opacity=1).encode(budget, reach),
    )
    explorer = alt.concat(left, right, columns=2, usermeta={"shown": {"lambda": {"law": "exponential"}, "beta": {"law": "power"}}})
    return _dress(
        explorer.add_params(*params),
        "Two panels that follow the sliders below them. In the first, the envelope falls with the lag and meets the dotted threshold "
        "at a dot. In the second, the window rises with the number of sequences, with a dot at the chosen number.",
    )


def regimes(decay: float = 0.9, beta: float = 1.0, error: float = 0.1) -> alt.ConcatChart:
    """Draw how the window grows in the three regimes, for the three exponents, on axes where the paper's law is straight.

    Args:
        decay: λ of the exponential law.
        beta: β of the power law.
        error: Probability ε of naming the wrong sign.

    Returns:
        The chart, with sliders for α and for the signal c m̄/σ_α.
    """
    ratio = "(pow(10, log_amplitude) * pow(datum.budget, 1 / datum.exponent) / datum.constant)"
    panels = {
        "exponential": (f"log{ratio} / {-float(np.log(decay))!r}", "datum.height >= 1", alt.Y("height:Q", title="window (steps)")),
        "power": (f"pow({ratio}, {1 / beta!r})", "datum.height >= 1", _log_y("height:Q", "window (steps)", 0, 5)),
        "logarithmic": (ratio, f"datum.height >= {float(np.log(2))!r}", _log_y("height:Q", "log(1 + window)", -1, 4)),
    }
    rates = alt.Data(values=[{"rate": rate, "words": words} for rate, words in _RATE_WORDS.items()])
    colour = alt.Color("words:N", title=None).scale(domain=list(_RATE_WORDS.values()), range=list(_RATE_COLOURS.values()))
    charts = [
        alt.Chart(rates, title=name, name=name)
        .transform_calculate(decade="sequence(0, 8.001, 0.05)", exponent=_exponent("datum.rate"), constant=_constant("datum.rate", "0"))
        .transform_flatten(["decade"])
        .transform_calculate(budget="pow(10, datum.decade)")
        .transform_calculate(height=height)
        .transform_filter(kept)
        .mark_line(clip=True)
        .encode(_log_x("budget:Q", "sequences N", 0, 8), y, colour)
        for name, (height, kept, y) in panels.items()
    ]
    slopes = " + ', ' + ".join(f"'{rate} ' + format(1 / ({_exponent(repr(rate))}), '.3~r')" for rate in _RATE_WORDS)
    params = [
        _slider("alpha", "tail index α", 1.5, _ALPHAS[0], _ALPHAS[-1], 0.05),
        _slider("log_amplitude", "signal, log₁₀ c m̄/σ", 0, -1, 1, 0.05),
        *_constants([error]),
        _formula("reading", f"'Slopes go as 1/p: ' + {slopes} + '.'"),
    ]
    return _dress(
        alt.concat(*charts, columns=3).add_params(*params).resolve_scale(color="shared"),
        "Three panels, one for each decay law, each with three rising straight lines that fan out from about the same place: the steepest "
        "for the exponent printed in version 2, the flattest for the sample mean.",
    )


def _constants(errors: Sequence[float] | Array) -> list[alt.Parameter]:
    """Tabulate C of Eq. (35), the threshold for one sequence in units of σ_α/m̄, over α (rows) and ε (columns)."""
    tables = {
        rate: [[float(f"{detection_threshold(1, 1, 1, alpha, error, rate):.10g}") for error in errors] for alpha in _ALPHAS]
        for rate in ("mean", "optimal")
    }
    return [alt.param(name=f"{rate}_constants", value=table) for rate, table in tables.items()]


def _constant(rate: str, column: str) -> str:
    """Write C as an expression of the tail index, of a rate and of the table's column."""
    return f"({rate} == 'optimal' ? optimal_constants : mean_constants)[round((alpha - {_ALPHAS[0]}) / 0.05)][{column}]"


def _exponent(rate: str) -> str:
    """Write p as an expression of a rate."""
    return f"({rate} == 'mean' ? alpha / (alpha - 1) : {rate} == 'optimal' ? 2 : alpha)"


def _by_law(exponential: str, power: str, logarithmic: str) -> str:
    """Write an expression that depends on the chosen law."""
    return f"(law == 'exponential' ? {exponential} : law == 'power' ? {power} : {logarithmic})"


def _window(ratio: str) -> str:
    """Write the window, Eq. (60), as an expression of ``c/ε_th``; 0 below the first lag."""
    lag = _by_law(f"log({ratio}) / -log(lambda)", f"pow({ratio}, 1 / beta)", f"exp({ratio}) - 1")
    return f"({lag} >= 1 ? {lag} : 0)"


def _formula(name: str, expression: str) -> alt.Parameter:
    return alt.param(name=name, expr=expression)


def _slider(name: str, words: str, value: float, least: float, most: float, step: float) -> alt.Parameter:
    return alt.param(name=name, value=value, bind=alt.binding_range(min=float(least), max=float(most), step=step, name=words))


def _choice(name: str, words: str, value: str, options: dict[str, str]) -> alt.Parameter:
    return alt.param(name=name, value=value, bind=alt.binding_select(options=list(options), labels=list(options.values()), name=words))


def _log_x(field: str, title: str, least: float, most: float) -> alt.X:
    return alt.X(field, title=title).scale(type="log", domain=[10**least, 10**most]).axis(**_decades(least, most))


def _log_y(field: str, title: str, least: float, most: float) -> alt.Y:
    return alt.Y(field, title=title).scale(type="log", domain=[10**least, 10**most]).axis(**_decades(least, most))


def _decades(least: float, most: float) -> dict[str, Any]:
    """Name whole powers of ten on an axis."""
    return {"values": [10.0**k for k in range(int(np.ceil(least)), int(most) + 1)], "labelExpr": _POWERS_OF_TEN}


def _law_colour() -> alt.Color:
    return alt.Color("law:N", title=None).scale(domain=list(_LAW_COLOURS), range=list(_LAW_COLOURS.values()))


def _digits(values: ArrayLike) -> list[float]:
    """Round to six digits: more would not be seen, and would weigh."""
    return [float(f"{value:.6g}") for value in np.asarray(values, float)]


def _pairs(x: ArrayLike, y: ArrayLike, *, above: float = 0.0, below: float = np.inf) -> list[tuple[float, float]]:
    """Give the points of a curve that can be drawn."""
    return [(a, b) for a, b in zip(_digits(x), _digits(y), strict=True) if above < b < below]


def _dress(chart: Any, description: str) -> Any:
    """Give a chart its look, and the words by which it is known to those who hear the page."""
    return (
        chart.properties(description=description, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(grid=False, titleFontWeight="normal", titleFontSize=12, labelFontSize=11, labelFlush=True, labelSeparation=5)
        .configure_legend(orient="top", labelFontSize=11, columns=3)
        .configure_line(strokeWidth=2)
        .configure_title(fontWeight="normal", fontSize=12)
    )


def _mime_bundle(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Give a chart as an element that the book's script draws, and as what JupyterLab draws by itself."""
    name = html.escape(spec["description"], quote=True)
    data = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    element = f'<div class="chart" role="group" aria-label="{name}"><script type="application/json">{data}</script></div>'
    return {"text/html": element, f"application/vnd.vegalite.v{alt.SCHEMA_VERSION[1]}+json": spec, "text/plain": "an interactive chart"}
