"""An explorer of the window: from a decay law to the threshold, and how far N sequences see.

What a slider changes is computed in the reader's browser, from the formulas of `lwcore.detection`
and `lwcore.window` written once more in Vega's expressions; tests hold the two against each other.
The one thing a browser cannot compute is the constant C of Eq. (35): it is tabulated where the
sliders stop, to ten digits. Noise counts in units of the signal, ``σ_α/(c m̄)``.
"""

from typing import Any

import altair as alt
import numpy as np
from scipy import special

from book.charts.style import CURVE, DOT, RULE, choice, dress, formula, log_x, log_y, slider
from lwcore.stable import SymmetricStable

DETECTOR_WORDS = {
    "mean": "mean, p = α/(α − 1)",
    "likelihood": "likelihood ratio, p = 2",
    "paper_v2": "paper_v2, p = α",
}
_ALPHAS = np.round(np.arange(1.05, 2.001, 0.05), 2).tolist()
_ERRORS = np.round(np.arange(0.01, 0.401, 0.01), 2).tolist()
_LAWS = {  # f(ℓ)/c, and the lag at which it falls to ε, by x = c/ε
    "exponential": ("pow(lambda, {lag})", "log({x}) / -log(lambda)"),
    "power": ("pow({lag}, -beta)", "pow({x}, 1 / beta)"),
    "logarithmic": ("(1 / log(1 + {lag}))", "(exp({x}) - 1)"),
}
_READING = (
    "'N = ' + format(budget, ',.3~r') + ' with p = ' + format(exponent, '.3~r') + ': threshold ' "
    "+ format(threshold, '.3~r') + (window >= 1 ? ', window ' + (window > 1e15 ? 'above 10¹⁵' : "
    "format(window, ',.4~r')) + ' steps.' : ', below which f lies from the first lag on: no "
    "window. One step takes N = ' + format(needed, ',.3~r') + '.')"
)


def window_explorer() -> alt.ConcatChart:
    """Chart envelope, threshold and window, with sliders for all that Eqs. (35) to (39) depend on.

    Its signals ``exponent`` (p), ``constant`` (C), ``threshold`` (ε_th), ``needed`` (N(1), to see
    one step) and ``window`` (H_N, real) are what the package gives at the sliders' values, with
    c = m̄ = 1. The slider of a law that is not chosen is hidden, by ``charts.js``.
    """
    params = [
        choice("law", "decay of f", "power", {name: name for name in _LAWS}),
        slider("lambda", "λ (exponential law)", 0.9, 0.5, 0.995, 0.005),
        slider("beta", "β (power law)", 1, 0.1, 3, 0.1),
        *_threshold(),
        slider("error", "error ε", 0.1, _ERRORS[0], _ERRORS[-1], 0.01),
        formula("needed", f"pow(constant * noise / {_by_law(0, lag='1')}, exponent)"),
        formula("window", _reached("(1 / threshold)")),
        formula("reading", _READING),
    ]
    panels = _panels(
        _rows("lag", 4, value=_by_law(0, lag="datum.lag")),
        _rows("budget", 8, window=_reached("(pow(datum.budget, 1 / exponent) / constant / noise)")),
    )
    shown = {"lambda": {"law": "exponential"}, "beta": {"law": "power"}}
    return dress(
        alt.concat(*panels, columns=2, usermeta={"shown": shown}).add_params(*params),
        "Two panels that follow the sliders below them. In the first, the envelope falls with the "
        "lag and meets the dotted threshold at a dot. In the second, the window rises with the "
        "number of sequences, with a dot at the chosen number.",
    )


def _threshold() -> list[alt.Parameter]:
    """Make controls of noise, α, ε, exponent and N; from them p, C and the threshold of Eq. (35)."""
    level = np.asarray(_ERRORS)
    of_mean = []  # C by α (rows) and ε (columns), as `detection_threshold` has it
    of_likelihood = []
    for alpha in _ALPHAS:
        law = SymmetricStable(alpha)
        of_mean.append(_to_ten_digits(-law.ppf(level)))
        of_likelihood.append(
            _to_ten_digits(-special.ndtri(level) / np.sqrt(law.fisher_information()))
        )
    table = "(detector == 'likelihood' ? likelihood_constants : mean_constants)"
    row = f"[round((alpha - {_ALPHAS[0]}) / 0.05)]"
    column = "[round((error - 0.01) / 0.01)]"
    by_detector = (
        "(detector == 'mean' ? alpha / (alpha - 1) : detector == 'likelihood' ? 2 : alpha)"
    )
    return [
        slider("log_noise", "noise, log₁₀ σ/(c m̄)", 0, -1, 1, 0.05),
        slider("alpha", "tail index α", 1.5, _ALPHAS[0], _ALPHAS[-1], 0.05),
        choice("detector", "rate exponent", "mean", DETECTOR_WORDS),
        slider("log_budget", "sequences, log₁₀ N", 3, 0, 8, 0.1),
        alt.param(name="mean_constants", value=of_mean),
        alt.param(name="likelihood_constants", value=of_likelihood),
        formula("noise", "pow(10, log_noise)"),
        formula("budget", "pow(10, log_budget)"),
        formula("exponent", by_detector),
        formula("constant", f"{table}{row}{column}"),
        formula("threshold", "constant * noise * pow(budget, -1 / exponent)"),
    ]


def _to_ten_digits(values: np.ndarray) -> list[float]:
    """Round numbers to ten digits, as they stand in the page."""
    return [float(f"{value:.10g}") for value in values]


def _rows(name: str, decades: int, **ordinate: str) -> alt.Chart:
    """Make the points of a curve over some decades, of what can be drawn.

    Args:
        name: Field of the abscissa.
        decades: How far it goes, from 1 on.
        ordinate: Field of the ordinate, and Vega's expression for it.
    """
    drawable = {
        "value": "datum.value > 1e-6",
        "window": "datum.window >= 1 && datum.window < 1e9",
    }
    ((field, expression),) = ordinate.items()
    rows = alt.Chart(alt.sequence(0, decades + 0.001, 0.02, as_="decade"))
    rows = rows.transform_calculate(**{name: "pow(10, datum.decade)"})
    return rows.transform_calculate(**{field: expression}).transform_filter(drawable[field])


def _panels(envelope: alt.Chart, growth: alt.Chart) -> tuple[Any, Any]:
    """Draw envelope and threshold, and the window against N, with dots where the sliders stand."""
    lag = log_x("lag:Q", "lag ℓ (steps)", 0, 4)
    level = log_y("value:Q", "envelope f(ℓ)/c", -4, 2)
    budget = log_x("budget:Q", "number of sequences N", 0, 8)
    reach = log_y("window:Q", "window (steps)", 0, 6)
    at_sliders = alt.Chart(alt.sequence(0, 1)).transform_calculate(
        lag="window", value="threshold", budget="budget", window="window"
    )
    if_window = at_sliders.transform_filter("datum.window >= 1")
    left = alt.layer(
        envelope.properties(name="envelope").mark_line(**CURVE).encode(lag, level),
        at_sliders.mark_rule(**RULE).encode(level),
        if_window.mark_rule(**RULE).encode(lag),
        if_window.mark_point(**DOT).encode(lag, level),
    )
    right = alt.layer(
        growth.properties(name="growth").mark_line(**CURVE).encode(budget, reach),
        at_sliders.mark_rule(**RULE).encode(budget),
        if_window.mark_rule(**RULE).encode(reach),
        if_window.mark_point(**DOT).encode(budget, reach),
    )
    return left, right


def _by_law(part: int, **where: str) -> str:
    """Write an expression of the chosen law: its envelope, or the lag at which it meets a level.

    Args:
        part: 0 for the envelope, 1 for the lag: the place in an entry of `_LAWS`.
        where: What stands in the place of ``{lag}`` or ``{x}``.
    """
    by_law = [f"{name}: {laws[part].format(**where)}" for name, laws in _LAWS.items()]
    return f"({{{', '.join(by_law)}}}[law])"


def _reached(ratio: str) -> str:
    """Write the window, Eq. (60), from ``c/ε_th``; 0 below the first lag."""
    lag = _by_law(1, x=ratio)
    return f"({lag} >= 1 ? {lag} : 0)"
