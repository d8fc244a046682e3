"""Claims of Section 6.2 on the spectra of time scales, and on what they do to envelopes and
windows."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from book.chapters import mixtures
from book.chapters.agreement import correlation_interval
from book.chapters.spectra import width
from book.claims.claim import (
    Chapter,
    Facts,
    Kind,
    Measured,
    as_stated,
    at_least,
    at_most,
    estimate,
    exactly,
    in_part,
    over,
    rather,
    when,
    within,
)
from book.claims.record import Runs
from book.claims.recorded import BUDGET, EXPANSIONS, SCALAR, log, numbers, windows
from lwcore.inference import LETTER, OPTIMISER
from lwcore.window import mixture_envelope

chapter = Chapter("livi", Kind.NETWORK)


@chapter.claim(
    "one-gate-one-time-scale",
    "§6.2, Fig. 4",
    "In ConstGate and in SharedGate all neurons have the same time scale.",
    as_stated(
        "spread of τ over its mean, both cells in the run paper-v2, first order (least to largest)",
        at_most(0.01),
    ),
    when(
        "if only gates count (zeroth order)",
        "the same at zeroth order, runs small and paper-v2",
        at_most(0.01),
    ),
    code="lwcore.window.time_scales",
    counterexample=(
        "ConstGate in the run small: to first order the recurrent matrix's "
        "diagonal spreads τ by up to {const:.1%}."
    ),
    fair="As far as gates go, all neurons of these cells have one time scale.",
    reported=True,
    kind=Kind.IDENTITY,
    fixed=(
        "At zeroth order both cells have one time scale by definition, and ConstGate's is "
        "its configuration's."
    ),
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    def spread(name: str, order: str) -> list[float]:
        tau = runs[name].time_scale.sel(model=SCALAR, order=order)
        return numbers(tau.std("unit") / tau.mean("unit"))

    first = runs["small"].time_scale.sel(model="ConstGate", order="first")
    const = float((first.std("unit") / first.mean("unit")).max())
    return (
        over(spread("paper-v2", "first")),
        over(spread("paper-v2", "zeroth") + spread("small", "zeroth")),
        {"const": const},
    )


@chapter.claim(
    "one-gate-several-time-scales-of-the-gradient",
    "§6.2, Fig. 4, asked of the exact transport",
    "Where all neurons share one gate, the exact transport has several time scales all the same.",
    as_stated(
        "ratio of the 90 % to the 10 % quantile of τ from the exact diagonal, ConstGate in the "
        "runs small and paper-v2",
        at_least(1.1),
    ),
    code=("lwcore.window.time_scales", "book.chapters.spectra.width"),
    paper="ours",
)
def _(runs: Runs) -> Measured:
    exact = [
        10 ** width(runs[name].time_scale.sel(model="ConstGate", order="exact"))
        for name in ("small", "paper-v2")
    ]
    return over(numbers(*exact))


@chapter.claim(
    "diagonal-gate-broad-spectrum",
    "§6.2, Fig. 4",
    "DiagGate develops a broad spectrum of time scales.",
    as_stated(
        "ratio of the 90 % to the 10 % quantile of τ, DiagGate in the run paper-v2, zeroth and "
        "first order",
        at_least(2),
    ),
    in_part(
        "for AdamW at the one rate tried and gates that start smaller",
        "the same, run small (least to largest)",
        at_least(2),
    ),
    code=("lwcore.window.time_scales", "book.chapters.spectra.width"),
    counterexample=(
        "DiagGate trained by SGD from a gate of 0.5: all time scales between "
        "{least:.1f} and {most:.1f} steps."
    ),
    fair=(
        "DiagGate can develop a broad spectrum of time scales; whether it does depends on "
        "the training."
    ),
    reported=True,
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    def ratio(name: str) -> Measured:
        return over(
            numbers(10 ** width(runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS)))
        )

    tau = runs["paper-v2"].time_scale.sel(model="DiagGate", order=EXPANSIONS)
    return ratio("paper-v2"), ratio("small"), {"least": float(tau.min()), "most": float(tau.max())}


@chapter.claim(
    "most-neurons-short",
    "§6.2, Fig. 4",
    "Most neurons of DiagGate have short time scales.",
    as_stated(
        "share of neurons with τ below 8 steps, the task's shortest delay; DiagGate in the runs "
        "small and paper-v2, zeroth and first order",
        at_least(0.5),
    ),
    code="lwcore.window.time_scales",
    reported=True,
    fixed=(
        "All neurons start below the shortest delay, at the time scale of the configuration's gate."
    ),
)
def _(runs: Runs) -> Measured:
    short = [
        (runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS) < 8).mean("unit")
        for name in ("small", "paper-v2")
    ]
    return over(numbers(*short))


@chapter.claim(
    "one-neuron-with-a-long-memory",
    "§6.2, Fig. 4",
    "At least one neuron of DiagGate has a very long memory beside the others'.",
    as_stated(
        "largest over median τ, DiagGate in the run paper-v2, zeroth and first order (least to "
        "largest)",
        at_least(10),
    ),
    rather(
        "after AdamW from smaller gates it is several times the median",
        "the same, run small (least to largest)",
        at_least(3),
    ),
    code="lwcore.window.time_scales",
    counterexample=(
        "DiagGate trained by SGD from a gate of 0.5: the slowest neuron's time "
        "scale is {0} times the median one."
    ),
    fair=(
        "After AdamW from smaller gates the slowest neurons of DiagGate remember several "
        "times as long as the median one."
    ),
    reported=True,
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    def tail(name: str) -> Measured:
        tau = runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS)
        return over(numbers(tau.max("unit") / tau.median("unit")))

    return tail("paper-v2"), tail("small")


@chapter.claim(
    "a-neuron-decays-exponentially",
    "§6.1, time-scale extraction",
    "Every neuron's effective rates fall exponentially, so that one time scale stands for them.",
    as_stated(
        "R² of an exponential on log rates of single neurons, DiagGate in the runs small and "
        "paper-v2, zeroth and first order (least to"
        " largest)",
        at_least(0.95),
    ),
    code="lwcore.window.time_scales",
)
def _(runs: Runs) -> Measured:
    found = []
    for name in ("small", "paper-v2"):
        rate = runs[name].rate.sel(model="DiagGate", order=EXPANSIONS)
        log_rate = log(rate.where(rate > 0))
        lag = xr.zeros_like(log_rate).where(np.isfinite(log_rate)) + rate.lag
        found += numbers(xr.corr(log_rate, lag, "lag") ** 2)
    return over(found)


@chapter.claim(
    "envelope-is-a-mixture-of-exponentials",
    "§6.2",
    "DiagGate's envelope is the superposition of its neurons' exponentials.",
    as_stated(
        "mixture of the fitted exponentials over the exact envelope at lag 160, equal at lag 1; "
        "DiagGate in the runs small and paper-v2",
        within(0.8, 1.25),
    ),
    when(
        "if only gates count (zeroth order)",
        "the same at zeroth order (least to largest)",
        within(0.8, 1.25),
    ),
    code="book.chapters.mixtures.mixtures",
    counterexample=(
        "DiagGate in the run paper-v2: the mixture of its neurons' exact time "
        "scales ends at {0.high:.1f} times its envelope."
    ),
    fair="The envelope of DiagGate's gates is the superposition of its neurons' exponentials.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    def end(order: str) -> Measured:
        found = []
        for name in ("small", "paper-v2"):
            run = runs[name].sel(model="DiagGate")
            mixture = mixtures.mixtures(run, order, own_weights=True).drop_vars("order")
            found += numbers(
                1
                + mixtures.relative_error(mixture, run.envelope.sel(order=order, drop=True)).isel(
                    lag=-1
                )
            )
        return over(found)

    return end("exact"), end("zeroth")


@chapter.claim(
    "broad-mixtures-look-algebraic",
    "§6.2",
    "Over a finite range of lags a superposition of exponentials with a broad spectrum is close "
    "to a power law.",
    as_stated(
        "factor of lags over which slopes agree to a factor of 1.5 (an exponential: 1.5), 64 time "
        "scales spread evenly in log τ over three"
        " decades, weights τ^(−1/2); at least a decade",
        at_least(10),
    ),
    code=("lwcore.window.mixture_envelope", "book.chapters.mixtures.power_stretch"),
    kind=Kind.IDENTITY,
    fixed=(
        "Spectrum and weights are chosen, not measured: the row says that there is such a spectrum."
    ),
)
def _() -> Measured:
    tau = np.geomspace(1, 1000, 64)
    lags = np.unique(np.geomspace(1, 1000, 40).astype(int))
    first, last, _ = mixtures.power_stretch(lags, mixture_envelope(lags, tau, tau**-0.5))
    return exactly(last / first)


@chapter.claim(
    "mixture-explains-the-power-law",
    "§6.2",
    "What bends DiagGate's envelope away from an exponential is the sum over neurons, each of "
    "them exponential.",
    as_stated(
        "share of DiagGate's neurons whose own rates are closer to a power law, run small, zeroth "
        "and first order (least to largest)",
        at_most(0.2),
    ),
    code="book.chapters.mixtures.closer_to_power",
    fair=(
        "As far as gates and first order go, single neurons fall exponentially, and the sum "
        "over them more slowly."
    ),
)
def _(runs: Runs) -> Measured:
    own = mixtures.closer_to_power(runs["small"].rate.sel(model="DiagGate", order=EXPANSIONS)).mean(
        "unit"
    )
    return over(numbers(own))


@chapter.claim(
    "exact-neurons-closer-to-a-power",
    "§6.2, asked of the exact transport",
    "In the exact transport most of DiagGate's neurons by themselves, without any sum, are missed "
    "by an exponential more than by a power, "
    "though neither is right.",
    as_stated(
        "share of DiagGate's neurons whose log exact rates a power fits better than an "
        "exponential does, run small (least to largest)",
        at_least(0.5),
    ),
    rather(
        "neither law describes a neuron: what the better of the two leaves over is no noise of "
        "the measurement",
        "share of neurons of which the better one leaves more than a twentieth of the variance of "
        "the log rates, the same",
        at_least(0.5),
    ),
    code="book.chapters.mixtures.closer_to_power",
    paper="ours",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    rate = runs["small"].rate.sel(model="DiagGate", order="exact")
    log_rate = log(rate.where(rate > 0))
    at = [
        xr.zeros_like(log_rate).where(np.isfinite(log_rate)) + lag
        for lag in (rate.lag, log(rate.lag))
    ]
    left = 1 - xr.concat([xr.corr(log_rate, one, "lag") ** 2 for one in at], "law").max("law")
    return over(numbers(mixtures.closer_to_power(rate).mean("unit"))), over(
        numbers((left > 0.05).mean("unit"))
    )


@chapter.claim(
    "broader-spectra-decay-more-slowly",
    "abstracts",
    "A broader spectrum of gates makes the envelope fall more slowly.",
    as_stated(
        "share of 2000 pairs of random spectra (16 neurons, log τ uniform about a random centre) "
        "in which the broader one keeps more at"
        " lag 64",
        at_least(1),
    ),
    when(
        "if the spectra compared have the same mean retention",
        "least ratio of the envelope of a random spectrum to that of equal neurons with its mean "
        "retention, lags 1 to 256",
        at_least(1 - 1e-12),
    ),
    code="lwcore.window.mixture_envelope",
    counterexample=(
        "All neurons at τ = 50 keep {narrow:.0%} at lag 64; half at τ = 1 and half "
        "at τ = 10, a broader spectrum, {broad:.2%}."
    ),
    fair=(
        "At the same mean retention, a broader spectrum of gates makes the envelope fall "
        "more slowly."
    ),
    kind=Kind.THEOREM,
)
def _() -> tuple[Measured, Measured, Facts]:
    rng, lags = np.random.default_rng(9), np.arange(1, 257)
    centre, half = np.exp(rng.uniform(0, 4, (2, 2000, 1))), rng.uniform(0, 2, (2, 2000, 1))
    tau = centre * np.exp(half * rng.uniform(-1, 1, (2, 2000, 16)))
    at_64 = mixture_envelope([64.0], tau)[..., 0]
    breadth = np.log(tau).std(-1)
    kept = np.where(breadth[0] > breadth[1], at_64[0] > at_64[1], at_64[1] > at_64[0])
    equal = -1 / np.log(np.exp(-1 / tau[0]).mean(-1, keepdims=True))
    ratio = mixture_envelope(lags, tau[0]) / mixture_envelope(lags, equal, np.array([16.0]))
    narrow, broad = (float(np.exp(-64 / np.array(taus)).mean()) for taus in ([50.0], [1.0, 10.0]))
    return exactly(kept.mean()), exactly(ratio.min()), {"narrow": narrow, "broad": broad}


def _over_cells(of: xr.DataArray, *on: xr.DataArray) -> Measured:
    """Spearman's coefficient over the models, each with its median over seeds; the 95 % interval
    has the models as its units."""
    found = [float(stats.spearmanr(of.median("seed"), one.median("seed")).statistic) for one in on]
    low, high = zip(*(correlation_interval(one, of.sizes["model"]) for one in found), strict=True)
    return estimate(float(np.mean(found)), (min(low), max(high)))


@chapter.claim(
    "spectra-go-with-windows",
    "§6, goal (iii); abstracts",
    "Cells with broader spectra of time scales have longer windows.",
    as_stated(
        "rank correlation over five cells, each the median of its seeds, of the width of the "
        "gates' spectrum with the window by Eqs. (34) "
        f"to (36), f counted once, N = {BUDGET}, run small; mean of zeroth and first order, "
        "between the ends of their 95 % intervals over"
        " cells",
        at_least(0.5),
    ),
    when(
        "by version 2's letter, which divides by f a second time",
        "the same by version 2's letter",
        at_least(0.5),
    ),
    code=("book.chapters.spectra.width", "lwcore.inference.windows"),
    seen=(
        "First by version 2's letter alone, with an interval over seeds. But the letter "
        "counts f twice, and the statement is about cells."
    ),
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    run = runs["small"]
    breadth = width(run.time_scale.sel(order="zeroth", drop=True))
    once, letter = (
        [windows(run, order, **how).sel(budget=BUDGET) for order in EXPANSIONS]
        for how in ({}, LETTER)
    )
    return _over_cells(breadth, *once), _over_cells(breadth, *letter)


@chapter.claim(
    "spectra-do-not-lengthen-windows-of-the-gradient",
    "abstracts, asked of the gradient itself",
    "Cells with broader spectra of time scales do not let gradient information be recovered over "
    "longer lags.",
    as_stated(
        "rank correlation over five cells, each the median of its seeds, of the width of the "
        "gates' spectrum with the window along each "
        f"lag's own mean gradient in the noise of the whole gradient, N = {BUDGET}, run small; 95 "
        "% over cells",
        at_most(0),
    ),
    code=("book.chapters.spectra.width", "lwcore.inference.windows"),
    paper="ours",
    seen="The interval was first over seeds; the statement is about cells.",
)
def _(runs: Runs) -> Measured:
    run = runs["small"]
    breadth = width(run.time_scale.sel(order="zeroth", drop=True))
    return _over_cells(breadth, windows(run, "gradient", **OPTIMISER).sel(budget=BUDGET))
