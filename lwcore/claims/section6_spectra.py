"""Claims of Section 6.2 on the spectra of time scales, and on what they do to envelopes and windows."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy import stats

from lwcore import mixtures
from lwcore.claims.claim import Chapter, Kind, Measured, as_stated, at_least, at_most, exactly, over, rather, when, within
from lwcore.claims.record import Runs
from lwcore.claims.recorded import BUDGET, EXPANSIONS, SCALAR, log, numbers, windows
from lwcore.spectra import width
from lwcore.window import mixture_envelope

chapter = Chapter("livi", Kind.NETWORK)


@chapter.claim(
    "one-gate-one-time-scale",
    "§6.2, Fig. 4",
    "In ConstGate and in SharedGate all neurons have the same time scale.",
    as_stated("spread of τ over its mean, both cells in the run paper-v2, first order (least to largest)", at_most(0.01)),
    when("if only gates count (zeroth order)", "the same at zeroth order, runs small and paper-v2", at_most(0.01)),
    code="lwcore.window.time_scales",
    counterexample="ConstGate in the run small: to first order the diagonal of the recurrent matrix spreads τ by 4 to 5 %.",
    fair="As far as gates go, all neurons of these cells have one time scale.",
    reported=True,
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    def spread(name: str, order: str) -> list[float]:
        tau = runs[name].time_scale.sel(model=SCALAR, order=order)
        return numbers(tau.std("unit") / tau.mean("unit"))

    return over(spread("paper-v2", "first")), over(spread("paper-v2", "zeroth") + spread("small", "zeroth"))


@chapter.claim(
    "one-gate-several-time-scales-of-the-gradient",
    "§6.2, Fig. 4, asked of the exact transport",
    "Where all neurons share one gate, the exact transport has several time scales all the same.",
    as_stated(
        "ratio of the 90 % to the 10 % quantile of τ from the exact diagonal, ConstGate in the runs small and paper-v2", at_least(1.1)
    ),
    code=("lwcore.window.time_scales", "lwcore.spectra.width"),
    paper="ours",
)
def _(runs: Runs) -> Measured:
    exact = [10 ** width(runs[name].time_scale.sel(model="ConstGate", order="exact")) for name in ("small", "paper-v2")]
    return over(numbers(*exact))


@chapter.claim(
    "diagonal-gate-broad-spectrum",
    "§6.2, Fig. 4",
    "DiagGate develops a broad spectrum of time scales.",
    as_stated("ratio of the 90 % to the 10 % quantile of τ, DiagGate in the run paper-v2, zeroth and first order", at_least(2)),
    when("for AdamW and gates that start smaller (run small)", "the same, run small (least to largest)", at_least(2)),
    code=("lwcore.window.time_scales", "lwcore.spectra.width"),
    counterexample="DiagGate trained by SGD from gates at one half: all time scales between one and three and a half steps.",
    fair="DiagGate can develop a broad spectrum of time scales; whether it does hangs on the training.",
    reported=True,
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    def ratio(name: str) -> Measured:
        return over(numbers(10 ** width(runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS))))

    return ratio("paper-v2"), ratio("small")


@chapter.claim(
    "most-neurons-short",
    "§6.2, Fig. 4",
    "Most neurons of DiagGate have short time scales.",
    as_stated(
        "share of neurons with τ below 8 steps, the task's shortest delay; DiagGate in the runs small and paper-v2, zeroth and first order",
        at_least(0.5),
    ),
    code="lwcore.window.time_scales",
    reported=True,
)
def _(runs: Runs) -> Measured:
    short = [(runs[name].time_scale.sel(model="DiagGate", order=EXPANSIONS) < 8).mean("unit") for name in ("small", "paper-v2")]
    return over(numbers(*short))


@chapter.claim(
    "one-neuron-with-a-long-memory",
    "§6.2, Fig. 4",
    "At least one neuron of DiagGate has a very long memory beside the others'.",
    as_stated("largest over median τ, DiagGate in the run paper-v2, zeroth and first order (least to largest)", at_least(10)),
    rather("after AdamW from smaller gates it is several times the median", "the same, run small (least to largest)", at_least(3)),
    code="lwcore.window.time_scales",
    counterexample="DiagGate trained by SGD from gates at one half: the slowest of 64 neurons has 1.6 to 1.9 times the median time scale.",
    fair="After AdamW from smaller gates the slowest neurons of DiagGate remember several times as long as the median one.",
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
        "R² of an exponential on log rates of single neurons, DiagGate in the runs small and paper-v2, zeroth and first order (least to"
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
        "mixture of the fitted exponentials over the exact envelope at lag 160, equal at lag 1; DiagGate in the runs small and paper-v2",
        within(0.8, 1.25),
    ),
    when("if only gates count (zeroth order)", "the same at zeroth order (least to largest)", within(0.8, 1.25)),
    code="lwcore.mixtures.mixtures",
    counterexample="DiagGate in the run paper-v2: the mixture of its neurons' exact time scales ends at five times its exact envelope.",
    fair="The envelope of DiagGate's gates is the superposition of its neurons' exponentials.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    def end(order: str) -> Measured:
        found = []
        for name in ("small", "paper-v2"):
            run = runs[name].sel(model="DiagGate")
            mixture = mixtures.mixtures(run, order, own_weights=True).drop_vars("order")
            found += numbers(1 + mixtures.relative_error(mixture, run.envelope.sel(order=order, drop=True)).isel(lag=-1))
        return over(found)

    return end("exact"), end("zeroth")


@chapter.claim(
    "broad-mixtures-look-algebraic",
    "§6.2",
    "Over a finite range of lags a superposition of exponentials with a broad spectrum is close to a power law.",
    as_stated(
        "factor of lags over which slopes agree to a factor of 1.5 (an exponential: 1.5), 64 time scales spread evenly in log τ over three"
        " decades, weights τ^(−1/2); at least a decade",
        at_least(10),
    ),
    code=("lwcore.window.mixture_envelope", "lwcore.mixtures.power_stretch"),
)
def _() -> Measured:
    tau = np.geomspace(1, 1000, 64)
    lags = np.unique(np.geomspace(1, 1000, 40).astype(int))
    first, last, _ = mixtures.power_stretch(lags, mixture_envelope(lags, tau, tau**-0.5))
    return exactly(last / first)


@chapter.claim(
    "mixture-explains-the-power-law",
    "§6.2",
    "What bends DiagGate's envelope away from an exponential is the sum over neurons, each of them exponential.",
    as_stated(
        "share of DiagGate's neurons whose own rates are closer to a power law, run small, zeroth and first order (least to largest)",
        at_most(0.2),
    ),
    code="lwcore.mixtures.closer_to_power",
    fair="A sum over neurons makes the gates' envelope fall more slowly; what makes the whole transport algebraic acts in every neuron.",
)
def _(runs: Runs) -> Measured:
    own = mixtures.closer_to_power(runs["small"].rate.sel(model="DiagGate", order=EXPANSIONS)).mean("unit")
    return over(numbers(own))


@chapter.claim(
    "exact-neurons-closer-to-a-power",
    "§6.2, asked of the exact transport",
    "In the exact transport most of DiagGate's neurons are closer to a power law by themselves, without any sum.",
    as_stated("share of DiagGate's neurons whose own exact rates are closer to a power law (least to largest), run small", at_least(0.5)),
    code="lwcore.mixtures.closer_to_power",
    paper="ours",
)
def _(runs: Runs) -> Measured:
    return over(numbers(mixtures.closer_to_power(runs["small"].rate.sel(model="DiagGate", order="exact")).mean("unit")))


@chapter.claim(
    "broader-spectra-decay-more-slowly",
    "abstracts",
    "A broader spectrum of gates makes the envelope fall more slowly.",
    as_stated(
        "share of 2000 pairs of random spectra (16 neurons, log τ uniform about a random centre) in which the broader one keeps more at"
        " lag 64",
        at_least(1),
    ),
    when(
        "if the spectra compared have the same mean retention",
        "least ratio of the envelope of a random spectrum to that of equal neurons with its mean retention, lags 1 to 256",
        at_least(1 - 1e-12),
    ),
    code="lwcore.window.mixture_envelope",
    counterexample="All neurons at τ = 50 keep 28 % at lag 64; half at τ = 1 and half at τ = 10, a broader spectrum, less than 0.1 %.",
    fair="At the same mean retention, a broader spectrum of gates makes the envelope fall more slowly.",
)
def _() -> tuple[Measured, Measured]:
    rng, lags = np.random.default_rng(9), np.arange(1, 257)
    centre, half = np.exp(rng.uniform(0, 4, (2, 2000, 1))), rng.uniform(0, 2, (2, 2000, 1))
    tau = centre * np.exp(half * rng.uniform(-1, 1, (2, 2000, 16)))
    at_64 = mixture_envelope([64.0], tau)[..., 0]
    breadth = np.log(tau).std(-1)
    kept = np.where(breadth[0] > breadth[1], at_64[0] > at_64[1], at_64[1] > at_64[0])
    equal = -1 / np.log(np.exp(-1 / tau[0]).mean(-1, keepdims=True))
    ratio = mixture_envelope(lags, tau[0]) / mixture_envelope(lags, equal, np.array([16.0]))
    return exactly(kept.mean()), exactly(ratio.min())


def _ranks(of: xr.DataArray, on: xr.DataArray) -> list[float]:
    """Spearman's coefficient over the models of each seed; a seed in which one side does not vary has none."""
    pairs = [(of.sel(seed=seed).values, on.sel(seed=seed).values) for seed in of.seed.values]
    return [float(stats.spearmanr(a, b).statistic) for a, b in pairs if np.ptp(a) > 0 and np.ptp(b) > 0]


@chapter.claim(
    "spectra-go-with-windows",
    "§6, goal (iii); abstracts",
    "Cells with broader spectra of time scales have longer windows, as version 2 computes them.",
    as_stated(
        f"rank correlation over five cells of the width of the gates' spectrum with the window by version 2's letter, N = {BUDGET}, zeroth "
        "and first order, seeds of the run small (least to largest)",
        at_least(0.5),
    ),
    code=("lwcore.spectra.width", "lwcore.inference.infer"),
)
def _(runs: Runs) -> Measured:
    run = runs["small"]
    breadth = width(run.time_scale.sel(order="zeroth", drop=True))
    return over(one for order in EXPANSIONS for one in _ranks(breadth, windows(run, order).sel(budget=BUDGET)))


@chapter.claim(
    "spectra-do-not-lengthen-windows-of-the-gradient",
    "abstracts, asked of the gradient itself",
    "Cells with broader spectra of time scales do not let gradient information be recovered over longer lags.",
    as_stated(
        "rank correlation over five cells of the width of the gates' spectrum with the window along each lag's own mean gradient in the"
        f" noise of the whole gradient, N = {BUDGET}, seeds of the run small (least to largest)",
        at_most(0),
    ),
    code=("lwcore.spectra.width", "lwcore.inference.infer"),
    paper="ours",
)
def _(runs: Runs) -> Measured:
    run = runs["small"]
    breadth = width(run.time_scale.sel(order="zeroth", drop=True))
    return over(_ranks(breadth, windows(run, "gradient", "variance", "total").sel(budget=BUDGET)))
