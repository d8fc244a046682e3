"""From gates to a window: the time scales that a layer's gates give its neurons, their envelope,
and how far N sequences see."""

from __future__ import annotations

import altair as alt
import numpy as np
from scipy import special

from book.charts.crossing import (
    READING,
    alpha_slider,
    noise_slider,
    threshold_parameters,
    window_panels,
)
from book.charts.style import CURVE, DOT, dress, formula, log_x, log_y, slider, total

NEURONS = 32  # those of the small networks of Appendix B
_ERROR = 0.1
_NEWTON_STEPS = 8  # enough for nine digits wherever the sliders stand


def gate_explorer() -> alt.ConcatChart:
    """Draw gates, time scales, envelope, threshold and window of a layer whose gates stand still.

    A neuron with the gate s keeps 1 − s of its state a step, and so forgets with the time scale ``τ
    = −1/log(1 − s)``. The neurons' log-odds ``log(s/(1 − s))`` are the quantiles of a normal law:
    their median and their spread have sliders. The envelope is the mean over neurons of their
    zeroth-order rates, ``f(ℓ)/H = Σ_q exp(−ℓ/τ_q)/H``, which is 1 at lag 0.

    Returns:
        The chart. Its signals are those of `book.charts.window_explorer`; ``rates`` holds the
        neurons' 1/τ, from the slowest to the fastest. A mixture of exponentials has no inverse in
        closed form: the window is found by Newton's method on log f, which is convex, from a lag
        where f lies above the threshold, so that no step goes too far.
    """
    quantiles = special.ndtri((np.arange(NEURONS) + 0.5) / NEURONS)
    rates = ", ".join(f"log(1 + exp(log_odds + spread * {z:.12g}))" for z in quantiles)
    params = [
        slider("gate", "gate s, median neuron", 0.2, 0.005, 0.95, 0.005),
        slider("spread", "spread of its log-odds", 1, 0, 2, 0.1),
        noise_slider(),
        alpha_slider(),
        *threshold_parameters([_ERROR], "0"),
        formula("log_odds", "log(gate / (1 - gate))"),
        formula("rates", f"[{rates}]"),
        formula("needed", _needed("1")),
        *_newton(),
        formula(
            "reading",
            "'Time scales ' + (spread ? 'from ' + format(1 / rates["
            + str(NEURONS - 1)
            + "], '.3~r') + ' to ' : 'all ')"
            " + format(1 / rates[0], ',.3~r') + ' steps. ' + " + READING,
        ),
    ]
    neurons = (
        alt.Chart(alt.sequence(0, NEURONS, as_="neuron"), name="neurons")
        .transform_calculate(
            gate="1 - exp(-rates[datum.neuron])", time_scale="1 / rates[datum.neuron]"
        )
        .mark_point(**DOT | {"size": 30})
    )
    every_gate = (
        alt.Chart(alt.sequence(-4, -0.005, 0.02, as_="decade"), name="map")
        .transform_calculate(gate="pow(10, datum.decade)")
        .transform_calculate(time_scale="-1 / log(1 - datum.gate)")
        .mark_line(**CURVE)
    )
    axes = log_x("gate:Q", "gate s", -4, 0), log_y("time_scale:Q", "time scale τ (steps)", -1, 4)
    lags = alt.sequence(0, 4.001, 0.02, as_="decade")
    envelope, growth = window_panels(
        alt.Chart(lags, name="envelope")
        .transform_calculate(lag="pow(10, datum.decade)")
        .transform_calculate(value=_envelope("datum.lag"))
        .transform_filter("datum.value > 1e-6"),
        alt.Chart(lags, name="growth")
        .transform_calculate(window="pow(10, datum.decade)")
        .transform_calculate(budget=_needed("datum.window"))
        .transform_filter("datum.budget >= 1 && datum.budget < 1e9"),
        "envelope f(ℓ)/H",
    )
    return dress(
        alt.concat(
            alt.layer(every_gate.encode(*axes), neurons.encode(*axes)), envelope, growth, columns=3
        ).add_params(*params),
        "Three panels that follow the sliders below them. In the first, dots on a falling curve "
        "give each neuron's time scale for its "
        "gate: the smaller the gate, the longer. In the second, the envelope of these neurons "
        "falls with the lag and meets the dotted "
        "threshold at a dot. In the third, the window rises with the number of sequences.",
    )


def _envelope(lag: str) -> str:
    """Write the mean of the neurons' exponentials as an expression of a lag."""
    return f"({total(f'exp(-{lag} * rates[{{k}}])', NEURONS)} / {NEURONS})"


def _needed(lag: str) -> str:
    """Write N(ℓ), Eq. (37), as an expression of a lag."""
    return f"pow(constant * noise / {_envelope(lag)}, exponent)"


def _newton() -> list[alt.Parameter]:
    """Find the lag at which f falls to the threshold; 0 below the first lag."""
    # The slowest neuron alone is a lower bound on f, and the lag where it falls to the threshold
    # one on the window.
    steps = [formula("lag_0", f"max(1, -log({NEURONS} * threshold) / rates[0])")]
    for k in range(_NEWTON_STEPS):
        steps += [
            formula(
                f"parts_{k}",
                "[" + ", ".join(f"exp(-lag_{k} * rates[{q}])" for q in range(NEURONS)) + "]",
            ),
            formula(f"sum_{k}", total(f"parts_{k}[{{k}}]", NEURONS)),
            formula(
                f"lag_{k + 1}",
                f"lag_{k} + log(sum_{k} / {NEURONS} / threshold) * sum_{k} / "
                f"{total(f'rates[{{k}}] * parts_{k}[{{k}}]', NEURONS)}",
            ),
        ]
    return [*steps, formula("window", f"threshold <= {_envelope('1')} ? lag_{_NEWTON_STEPS} : 0")]
