"""What envelope a spectrum of time scales makes: an exponential, a power of the lag, or one after
the other."""

from __future__ import annotations

import altair as alt
import numpy as np
from scipy import special

from book.chapters.mixtures import SAME_SLOPE
from book.charts.style import (
    BLUE,
    CURVE,
    DOT,
    GREEN,
    ORANGE,
    by_choice,
    choice,
    dress,
    formula,
    log_x,
    log_y,
    slider,
    total,
)

NEURONS = 50
# a share of 0.02, 0.04 … of the neurons lies above 1 less that share
_LEVELS = (np.arange(NEURONS) + 0.5) / NEURONS
_LEAST = 1e-6  # what is left of an envelope that counts as gone
_COLOURS = {"power law": ORANGE, "exponential": GREEN}


def spectrum_explorer() -> alt.ConcatChart:
    """Draw 50 time scales, their mixture of exponentials and its local slope, and mark the
    stretches of lags that look like a law.

    Time scales are the quantiles of a law of log τ. The width of a log-uniform or log-normal one is
    that of `spectra.width`: decades from the 10 % to the 90 % quantile. Two groups lie that far
    apart, and a share of the neurons belongs to the slow one. The envelope, ``f(ℓ)/f(0) = Σ_q w_q
    exp(−ℓ/τ_q)`` with weights ``w_q ∝ τ_q^−γ`` that add up to 1, is that of
    `lwcore.window.mixture_envelope`, on lags a twentieth of a decade apart, as long as a millionth
    is left; slopes are those of `mixtures.local_slopes`, stretches those of
    `book.chapters.mixtures.power_stretch` and `book.chapters.mixtures.exponential_stretch`.

    Returns:
        The chart. Its signal ``times`` holds the time scales in steps. Vega's expressions have no
        loop, and its data have: the search for stretches is done there, and what it finds, in
        words, is the field ``reading`` of the rows in which it ends.
    """
    params = [
        choice(
            "kind",
            "spectrum",
            "log-uniform",
            {name: name for name in ("log-uniform", "log-normal", "two groups")},
        ),
        slider("middle", "middle τ, log₁₀ steps", 1, 0, 2, 0.05),
        slider("decades", "width (decades)", 1.5, 0, 3, 0.05),
        slider("share", "share of slow group", 0.5, 0.02, 0.98, 0.02),
        slider("gamma", "weight τ^−γ, exponent γ", 0, 0, 1.5, 0.1),
        alt.param(name="levels", value=[round(float(level), 12) for level in _LEVELS]),
        alt.param(name="normal", value=[round(float(z), 12) for z in special.ndtri(_LEVELS)]),
        formula("times", "[" + ", ".join(_time(k) for k in range(NEURONS)) + "]"),
        formula(
            "weights", "[" + ", ".join(f"pow(times[{k}], -gamma)" for k in range(NEURONS)) + "]"
        ),
        formula("all_weights", total("weights[{k}]", NEURONS)),
    ]
    lag, steep = (
        log_x("lag:Q", "lag ℓ (steps)", 0, 4),
        alt.Y("slope:Q", title="local slope d log f/d log ℓ").scale(domain=[-4, 0]),
    )
    scales = (
        alt.Chart(alt.sequence(0, NEURONS, as_="neuron"), name="times")
        .transform_calculate(time="times[datum.neuron]", below="levels[datum.neuron]")
        .mark_point(**DOT | {"size": 20, "color": BLUE})
        .encode(
            log_x("time:Q", "time scale τ (steps)", -1, 4),
            alt.Y("below:Q", title="share of neurons below").scale(domain=[0, 1]),
        )
    )
    envelope, slopes, stretches = _envelope("envelope"), _slopes(_envelope("slopes")), _stretches()
    return dress(
        alt.concat(
            scales,
            alt.layer(
                stretches,
                envelope.mark_line(**CURVE).encode(
                    lag, log_y("value:Q", "envelope f(ℓ)/f(0)", -6, 0)
                ),
            ),
            alt.layer(stretches, slopes.mark_line(**CURVE).encode(lag.copy(), steep)),
            columns=3,
            usermeta={"shown": {"share": {"kind": "two groups"}}},
        ).add_params(*params),
        "Three panels that follow the controls below them. In the first, dots rise with the time "
        "scale, one for each neuron. In the second "
        "their envelope falls with the lag, and in the third stands its local slope; shaded bands "
        "mark the lags where the envelope looks "
        "like a power law or like an exponential.",
    )


def _time(k: int) -> str:
    """Write a neuron's time scale in steps as an expression of the controls."""
    width_of_normal = 2 * special.ndtri(0.9)
    away = {
        "log-uniform": f"(levels[{k}] - 0.5) / 0.8",
        "log-normal": f"normal[{k}] / {width_of_normal:.12g}",
        "two groups": f"(levels[{k}] > 1 - share ? 0.5 : -0.5)",
    }
    return f"pow(10, middle + decades * {by_choice('kind', away)})"


def _envelope(name: str) -> alt.Chart:
    """Give rows of ``lag`` and ``value``, the weighted mean of the neurons' exponentials."""
    return (
        alt.Chart(alt.sequence(0, 4.001, 0.05, as_="decade"), name=name)
        .transform_calculate(lag="pow(10, datum.decade)", neuron=f"sequence(0, {NEURONS})")
        .transform_flatten(["neuron"])
        .transform_calculate(
            part="weights[datum.neuron] / all_weights * exp(-datum.lag / times[datum.neuron])"
        )
        .transform_aggregate(value="sum(part)", groupby=["lag"])
        .transform_filter(f"datum.value > {_LEAST}")
    )


def _slopes(envelope: alt.Chart) -> alt.Chart:
    """Give rows of ``lag`` and ``slope`` between neighbouring lags of an envelope."""
    return (
        envelope.transform_window(lag_before="lag(lag)", value_before="lag(value)")
        .transform_filter("isValid(datum.lag_before)")
        .transform_calculate(apart="log(datum.lag / datum.lag_before)")
        .transform_calculate(
            slope="log(datum.value / datum.value_before) / datum.apart",
            lag="(datum.lag - datum.lag_before) / datum.apart",
        )
    )


def _stretches() -> alt.Chart:
    """Draw for either law the widest of all stretches of lags over which slopes, or rates, stay
    within a factor of one another."""
    found = (
        _slopes(_envelope("stretches"))
        .transform_calculate(law="['power law', 'exponential']")
        .transform_flatten(["law"])
        .transform_calculate(
            height="datum.law == 'power law' ? -datum.slope : -datum.slope / datum.lag"
        )
        .transform_calculate(log_height="log(datum.height)")
        .transform_window(logs="sum(log_height)", groupby=["law"])
        .transform_aggregate(rows="values(lag)", groupby=["law"])
        .transform_calculate(
            first="sequence(0, length(datum.rows))", heights="pluck(datum.rows, 'height')"
        )
        .transform_flatten(["first"])
        .transform_calculate(last="sequence(datum.first, length(datum.rows))")
        .transform_flatten(["last"])
        .transform_calculate(range="extent(slice(datum.heights, datum.first, datum.last + 1))")
        .transform_filter(f"datum.range[1] <= {SAME_SLOPE} * (1 + 1e-9) * datum.range[0]")
        .transform_calculate(start="datum.rows[datum.first].lag", end="datum.rows[datum.last].lag")
        .transform_calculate(factor="datum.end / datum.start")
        # of stretches that rounding alone tells apart, the first
        .transform_calculate(rounded="round(1e6 * datum.factor)")
        .transform_aggregate(
            [alt.AggregatedFieldDef(op="argmax", field="rounded", **{"as": "best"})],
            groupby=["law"],
        )
        .transform_calculate(
            start="datum.best.start", end="datum.best.end", factor="datum.best.factor"
        )
        .transform_calculate(  # the geometric mean of the slopes or rates
            mean="exp((datum.best.rows[datum.best.last].logs - datum.best.rows[datum.best.first].logs"
            " + datum.best.rows[datum.best.first].log_height) / (datum.best.last - "
            "datum.best.first + 1))"
        )
        .transform_joinaggregate(laws="values(law)")
        .transform_calculate(reading=_reading())
    )
    colour = alt.Color("law:N", title=None).scale(
        domain=list(_COLOURS), range=list(_COLOURS.values())
    )
    return found.mark_rect(opacity=0.3, clip=True).encode(
        log_x("start:Q", "lag ℓ (steps)", 0, 4), alt.X2("end:Q"), colour
    )


def _reading() -> str:
    """Say in words over which lags an envelope looks like which law."""

    def stretch(law: str) -> str:
        return f"format({law}.factor, ',.3~r') + ' (lag ' + format({law}.start, ',.3~r') + ' to ' + format({law}.end, ',.3~r') + ', '"

    power, exponential = "datum.laws[0]", "datum.laws[1]"
    return (
        f"(({power}.factor > {exponential}.factor) ? 'More of a power law: ' : 'More of an "
        "exponential: ')"
        f" + 'slope the same over a factor of ' + {stretch(power)} + 'β = ' + "
        f"format({power}.mean, '.2~r')"
        f" + '), rate of decay over one of ' + {stretch(exponential)} + 'τ = ' + format(1 / "
        f"{exponential}.mean, ',.3~r') + ' steps).'"
    )
