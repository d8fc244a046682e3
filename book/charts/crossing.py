"""The threshold of Eq. (35), and where an envelope meets it: what the explorers share.

What a slider changes is computed in the reader's browser, from the formulas of `lwcore.detection`
and `lwcore.window` written once more in Vega's expressions; the tests hold the two against each
other. The one thing a browser cannot compute is the constant C of Eq. (35), a quantile of a stable
law or its Fisher information. It is tabulated here, at the values where the sliders stop, and
rounded to ten digits; between those values nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray
from scipy import special

from book.charts.style import CURVE, DOT, RULE, choice, formula, log_x, log_y, slider
from lwcore.stable import SymmetricStable

RATE_WORDS = {
    "mean": "mean, p = α/(α − 1)",
    "optimal": "optimal, p = 2",
    "paper_v2": "paper_v2, p = α",
}
ALPHAS = np.round(np.arange(1.05, 2.001, 0.05), 2)
ERRORS = np.round(np.arange(0.01, 0.401, 0.01), 2)
READING = (
    "'N = ' + format(budget, ',.3~r') + ' with p = ' + format(exponent, '.3~r') + ': threshold ' "
    "+ format(threshold, '.3~r')"
    " + (window >= 1 ? ', window ' + (window > 1e15 ? 'above 10¹⁵' : format(window, ',.4~r')) + ' "
    "steps.'"
    " : ', below which f lies from the first lag on: no window. One step takes N = ' + "
    "format(needed, ',.3~r') + '.')"
)


def constants(errors: Sequence[float] | NDArray[np.float64]) -> list[alt.Parameter]:
    """Tabulate C of Eq. (35), the threshold for one sequence in units of σ_α/m̄, over α (rows) and
    ε (columns)."""
    laws, level = [SymmetricStable(alpha) for alpha in ALPHAS.tolist()], np.asarray(errors)
    tables = {  # as `detection.detection_threshold` has it, for all ε at once
        "mean": [-law.ppf(level) for law in laws],
        "optimal": [-special.ndtri(level) / np.sqrt(law.fisher_information()) for law in laws],
    }
    rounded = {
        rate: [[float(f"{one:.10g}") for one in row] for row in table]
        for rate, table in tables.items()
    }
    return [alt.param(name=f"{rate}_constants", value=table) for rate, table in rounded.items()]


def constant(rate: str, column: str) -> str:
    """Write C as an expression of the tail index, of a rate and of the table's column."""
    return f"({rate} == 'optimal' ? optimal_constants : mean_constants)[round((alpha - {ALPHAS[0]}) / 0.05)][{column}]"


def exponent(rate: str) -> str:
    """Write p as an expression of a rate."""
    return f"({rate} == 'mean' ? alpha / (alpha - 1) : {rate} == 'optimal' ? 2 : alpha)"


def alpha_slider() -> alt.Parameter:
    """Make the slider of the tail index, which stops where the constants are tabulated."""
    return slider("alpha", "tail index α", 1.5, ALPHAS[0], ALPHAS[-1], 0.05)


def noise_slider() -> alt.Parameter:
    """Make the slider of the noise, in units of the signal."""
    return slider("log_noise", "noise, log₁₀ σ/(c m̄)", 0, -1, 1, 0.05)


def threshold_parameters(
    errors: Sequence[float] | NDArray[np.float64], column: str
) -> list[alt.Parameter]:
    """Make the controls of rate exponent and N, and the formulas of p, C and the threshold of Eq.
    (35) that follow from them."""
    return [
        choice("rate", "rate exponent", "mean", RATE_WORDS),
        slider("log_budget", "sequences, log₁₀ N", 3, 0, 8, 0.1),
        *constants(errors),
        formula("noise", "pow(10, log_noise)"),
        formula("budget", "pow(10, log_budget)"),
        formula("exponent", exponent("rate")),
        formula("constant", constant("rate", column)),
        formula("threshold", "constant * noise * pow(budget, -1 / exponent)"),
    ]


def window_panels(envelope: alt.Chart, growth: alt.Chart, level_title: str) -> tuple[Any, Any]:
    """Draw an envelope with its threshold, and the window against N, with a dot in each where the
    sliders stand.

    Args:
        envelope: Rows of ``lag`` and ``value``.
        growth: Rows of ``budget`` and ``window``.
        level_title: Name of the envelope's axis.

    Returns:
        Two panels, to which belong the parameters of `threshold_parameters` and a formula
        ``window``.
    """
    lag, level = log_x("lag:Q", "lag ℓ (steps)", 0, 4), log_y("value:Q", level_title, -4, 2)
    budget, reach = (
        log_x("budget:Q", "number of sequences N", 0, 8),
        log_y("window:Q", "window (steps)", 0, 6),
    )
    one = alt.Chart(alt.sequence(0, 1)).transform_calculate(
        lag="window", value="threshold", budget="budget", window="window"
    )
    here = one.transform_filter("datum.window >= 1")
    left = alt.layer(
        envelope.mark_line(**CURVE).encode(lag, level),
        one.mark_rule(**RULE).encode(level),
        here.mark_rule(**RULE).encode(lag),
        here.mark_point(**DOT).encode(lag, level),
    )
    right = alt.layer(
        growth.mark_line(**CURVE).encode(budget, reach),
        one.mark_rule(**RULE).encode(budget),
        here.mark_rule(**RULE).encode(reach),
        here.mark_point(**DOT).encode(budget, reach),
    )
    return left, right
