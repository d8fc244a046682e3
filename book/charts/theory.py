"""The scaling laws of Section 5.4 as charts: static ones that lead up to them, and explorers with
sliders.

Explorers count noise in units of the signal: one number, ``σ_α/(c m̄)``, is all that matters of the
scale, the alignment and the law's amplitude.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from book.charts.crossing import (
    ERRORS,
    RATE_WORDS,
    READING,
    alpha_slider,
    constant,
    constants,
    exponent,
    noise_slider,
    threshold_parameters,
    window_panels,
)
from book.charts.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    SKY,
    by_choice,
    choice,
    digits,
    dress,
    formula,
    log_x,
    log_y,
    pairs,
    slider,
)
from lwcore.detection import detection_threshold, sample_complexity
from lwcore.window import DecayLaw

_LAW_COLOURS = {"exponential": BLUE, "power": ORANGE, "logarithmic": GREEN}
_RATE_COLOURS = {"mean": RED, "optimal": SKY, "paper_v2": GREY}


def thresholds(
    laws: Sequence[DecayLaw],
    n_sequences: Sequence[float],
    *,
    signal: float,
    alpha: float,
    error: float = 0.1,
    rate: str = "mean",
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
    curves = [
        {"lag": x, "value": y, "law": law.name}
        for law in laws
        for x, y in pairs(lag, law.envelope(lag), above=1e-3)
    ]
    lines = [
        {"value": y, "label": f"N = {n:,.0f}"}
        for n, y in zip(n_sequences, digits(level), strict=True)
    ]
    crossings = [
        {"lag": x, "value": y, "law": law.name}
        for law in laws
        for x, y in pairs(law.inverse(np.log(level)), level)
        if 1 <= x <= lag[-1]
    ]
    x, y = log_x("lag:Q", "lag ℓ (steps)", 0, 4), log_y("value:Q", "envelope f(ℓ)", -3, 1)
    base = alt.Chart(alt.Data(values=curves)).mark_line(clip=True).encode(x, y, _law_colour())
    levels = alt.Chart(alt.Data(values=lines))
    return dress(
        alt.layer(
            base,
            levels.mark_rule(strokeDash=[3, 3], color="grey").encode(y),
            levels.mark_text(align="right", dx=-2, dy=-5, color="#666").encode(
                y, text="label:N", x=alt.value("width")
            ),
            alt.Chart(alt.Data(values=crossings))
            .mark_point(filled=True, size=60, opacity=1)
            .encode(x, y, _law_colour()),
        ),
        "Three falling curves on double-logarithmic axes, the exponential bending down, the power "
        "law straight, the logarithmic one almost "
        "level, and dotted horizontal lines, lower for larger N; dots mark where a curve meets a "
        "line.",
    )


def complexity(
    laws: Sequence[DecayLaw], *, signal: float, alpha: float, error: float = 0.1, rate: str = "mean"
) -> alt.Chart:
    """Draw the number of sequences N(ℓ) of Eq. (37) that each lag needs; arguments and result as
    those of `thresholds`."""
    lag = np.geomspace(1, 1e4, 97)
    rows = [
        {"lag": x, "required": y, "law": law.name}
        for law in laws
        for x, y in pairs(
            lag, sample_complexity(law.envelope(lag), signal, 1, alpha, error, rate), below=1e9
        )
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(clip=True)
    return dress(
        chart.encode(
            log_x("lag:Q", "lag ℓ (steps)", 0, 4),
            log_y("required:Q", "sequences N(ℓ)", 0, 8),
            _law_colour(),
        ),
        "Three rising curves on double-logarithmic axes: the exponential law's turns upwards and "
        "leaves the chart, the power law's is "
        "straight, the logarithmic law's flattens.",
    )


def sandwich(
    n_sequences: ArrayLike, windows: dict[str, ArrayLike], shortest: ArrayLike, longest: ArrayLike
) -> alt.LayerChart:
    """Draw windows (steps, by the name of their definition) between the two bounds of Eq. (39), at
    given numbers of sequences."""
    budget = digits(n_sequences)
    band = [
        {"budget": n, "window": low, "longest": high}
        for n, low, high in zip(budget, digits(shortest), digits(longest), strict=True)
    ]
    steps = [
        {"budget": n, "window": h, "name": name.replace("_", " ")}
        for name, window in windows.items()
        for n, h in pairs(budget, window)
    ]
    first, last = np.log10(min(budget)), np.log10(max(budget))
    x, y = (
        log_x("budget:Q", "number of sequences N", first, last),
        log_y("window:Q", "window (steps)", 0, 3),
    )
    return dress(
        alt.layer(
            alt.Chart(alt.Data(values=band))
            .mark_area(opacity=0.25, color=_LAW_COLOURS["power"], clip=True)
            .encode(x, y, y2="longest:Q"),
            alt.Chart(alt.Data(values=steps))
            .mark_line(interpolate="step-after", strokeWidth=1.5, color="black")
            .encode(
                x,
                y,
                alt.StrokeDash("name:N", title=None).scale(
                    domain=[name.replace("_", " ") for name in windows], range=[[1, 0], [3, 3]]
                ),
            ),
        ),
        "A shaded band rises along a straight line on double-logarithmic axes; a solid staircase "
        "climbs along its upper edge and a dotted "
        "one along its lower edge.",
    )


def window_explorer() -> alt.ConcatChart:
    """Draw envelope, threshold and window with sliders for everything that Eqs. (35) to (39) depend
    on.

    Returns:
        The chart. Its signals ``exponent`` (p), ``constant`` (C), ``threshold`` (ε_th), ``needed``
        (N(1), to see one step) and ``window`` (H_N, real) are what the functions of
        `lwcore.detection` and `lwcore.window` give at the sliders' values, with c = m̄ = 1. The
        sliders of the laws that are not chosen are hidden (``usermeta``, read by
        ``book/_static/charts.js``).
    """
    envelope = _by_law("pow(lambda, datum.lag)", "pow(datum.lag, -beta)", "1 / log(1 + datum.lag)")
    params = [
        choice("law", "decay of f", "power", {name: name for name in _LAW_COLOURS}),
        slider("lambda", "λ (exponential law)", 0.9, 0.5, 0.995, 0.005),
        slider("beta", "β (power law)", 1, 0.1, 3, 0.1),
        noise_slider(),
        alpha_slider(),
        slider("error", "error ε", 0.1, ERRORS[0], ERRORS[-1], 0.01),
        *threshold_parameters(ERRORS, "round((error - 0.01) / 0.01)"),
        formula(
            "needed",
            "pow(constant * noise / " + _by_law("lambda", "1", "(1 / log(2))") + ", exponent)",
        ),
        formula("window", _window("(1 / threshold)")),
        formula("reading", READING),
    ]
    left, right = window_panels(
        alt.Chart(alt.sequence(0, 4.001, 0.02, as_="decade"), name="envelope")
        .transform_calculate(lag="pow(10, datum.decade)")
        .transform_calculate(value=envelope)
        .transform_filter("datum.value > 1e-6"),
        alt.Chart(alt.sequence(0, 8.001, 0.02, as_="decade"), name="growth")
        .transform_calculate(budget="pow(10, datum.decade)")
        .transform_calculate(
            window=_window("(pow(datum.budget, 1 / exponent) / (constant * noise))")
        )
        .transform_filter("datum.window >= 1 && datum.window < 1e9"),
        "envelope f(ℓ)/c",
    )
    explorer = alt.concat(
        left,
        right,
        columns=2,
        usermeta={"shown": {"lambda": {"law": "exponential"}, "beta": {"law": "power"}}},
    )
    return dress(
        explorer.add_params(*params),
        "Two panels that follow the sliders below them. In the first, the envelope falls with the "
        "lag and meets the dotted threshold "
        "at a dot. In the second, the window rises with the number of sequences, with a dot at "
        "the chosen number.",
    )


def regimes(decay: float = 0.9, beta: float = 1.0, error: float = 0.1) -> alt.ConcatChart:
    """Draw how the window grows in the three regimes, for the three exponents, on axes where the
    paper's law is straight.

    Args:
        decay: λ of the exponential law.
        beta: β of the power law.
        error: Probability ε of naming the wrong sign.

    Returns:
        The chart, with sliders for α and for the noise, σ_α/(c m̄).
    """
    ratio = "(pow(datum.budget, 1 / datum.exponent) / (pow(10, log_noise) * datum.constant))"
    panels = {
        "exponential": (
            f"log{ratio} / {-float(np.log(decay))!r}",
            "datum.height >= 1",
            alt.Y("height:Q", title="window (steps)"),
        ),
        "power": (
            f"pow({ratio}, {1 / beta!r})",
            "datum.height >= 1",
            log_y("height:Q", "window (steps)", 0, 5),
        ),
        "logarithmic": (
            ratio,
            f"datum.height >= {float(np.log(2))!r}",
            log_y("height:Q", "log(1 + window)", -1, 4),
        ),
    }
    rates = alt.Data(values=[{"rate": rate, "words": words} for rate, words in RATE_WORDS.items()])
    colour = alt.Color("words:N", title=None).scale(
        domain=list(RATE_WORDS.values()), range=list(_RATE_COLOURS.values())
    )
    charts = [
        alt.Chart(rates, title=name, name=name)
        .transform_calculate(
            decade="sequence(0, 8.001, 0.05)",
            exponent=exponent("datum.rate"),
            constant=constant("datum.rate", "0"),
        )
        .transform_flatten(["decade"])
        .transform_calculate(budget="pow(10, datum.decade)")
        .transform_calculate(height=height)
        .transform_filter(kept)
        .mark_line(clip=True)
        .encode(log_x("budget:Q", "sequences N", 0, 8), y, colour)
        for name, (height, kept, y) in panels.items()
    ]
    slopes = " + ', ' + ".join(
        f"'{rate} ' + format(1 / ({exponent(repr(rate))}), '.3~r')" for rate in RATE_WORDS
    )
    params = [
        alpha_slider(),
        noise_slider(),
        *constants([error]),
        formula("reading", f"'Slopes go as 1/p: ' + {slopes} + '.'"),
    ]
    return dress(
        alt.concat(*charts, columns=3).add_params(*params).resolve_scale(color="shared"),
        "Three panels, one for each decay law, each with three rising straight lines that fan out "
        "from about the same place: the steepest "
        "for the exponent printed in version 2, the flattest for the sample mean.",
    )


def _by_law(*expressions: str) -> str:
    """Write an expression that depends on the chosen law."""
    return by_choice("law", dict(zip(_LAW_COLOURS, expressions, strict=True)))


def _window(ratio: str) -> str:
    """Write the window, Eq. (60), as an expression of ``c/ε_th``; 0 below the first lag."""
    lag = _by_law(f"log({ratio}) / -log(lambda)", f"pow({ratio}, 1 / beta)", f"exp({ratio}) - 1")
    return f"({lag} >= 1 ? {lag} : 0)"


def _law_colour() -> alt.Color:
    return alt.Color("law:N", title=None).scale(
        domain=list(_LAW_COLOURS), range=list(_LAW_COLOURS.values())
    )
