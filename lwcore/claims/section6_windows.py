"""Claims of Section 6.2 on windows, and what a window must not hang on. Networks are those of the recorded runs."""

from __future__ import annotations

import numpy as np
import xarray as xr

from lwcore import controls
from lwcore.bounds import rate_exponent, sample_complexity
from lwcore.claims.claim import (
    Chapter,
    Measured,
    as_stated,
    at_least,
    at_most,
    exactly,
    in_later_versions,
    over,
    rather,
    share,
    when,
    within,
)
from lwcore.claims.record import Runs
from lwcore.claims.recorded import EXPANSIONS, SCALAR, fits, lead, numbers, slope, windows
from lwcore.robust import probes
from lwcore.window import learnability_window

chapter = Chapter("livi")

_N = 512  # sequences at which windows are compared: as many as were measured in the run paper-v2


@chapter.claim(
    "scalar-windows-empty",
    "§6.2, Fig. 2",
    "The windows of ConstGate and SharedGate are essentially zero for every number of sequences.",
    as_stated(
        "window (steps) by version 2's letter, both cells in the run paper-v2, 8 to 8192 sequences, zeroth and first order (least to"
        " largest);"
        " shorter than the task's shortest delay",
        at_most(7),
    ),
    when("to first order", "the same, first order", at_most(7)),
    code=("lwcore.inference.infer", "lwcore.window.learnability_window"),
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    found = {order: windows(runs["paper-v2"], order).sel(model=SCALAR, budget=slice(8, 8192)) for order in EXPANSIONS}
    return over(np.concatenate([one.values.ravel() for one in found.values()])), over(numbers(found["first"]))


@chapter.claim(
    "fast-decay-hides-moderate-lags",
    "§6.2",
    "In ConstGate and SharedGate the fast decay of the envelope, in heavy-tailed noise, leaves moderate lags undetectable.",
    as_stated(
        f"window (steps) by Eqs. (34) and (36), f counted once, both cells in the run paper-v2, zeroth order, N = {_N} (least to largest)",
        at_most(32),
    ),
    rather(
        "the noise of a lag's statistic falls with the envelope as fast as its mean, and nearly every lag is detectable",
        "the same",
        at_least(64),
    ),
    code=("lwcore.inference.infer", "lwcore.window.learnability_window"),
    counterexample="ConstGate with gate one half: at lag 128 the envelope is below 1e-35, and 512 sequences detect the lag all the same.",
    fair="Moderate lags are undetectable if each is held against a noise that does not fall with its envelope.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    found = over(numbers(windows(runs["paper-v2"], "zeroth", "paper_v2").sel(model=SCALAR, budget=_N)))
    return found, found


@chapter.claim(
    "noise-scale-stays-up",
    "Lemma 5.2, on the networks of §6",
    "The scale of the statistic's noise stays above a constant while the envelope falls.",
    as_stated("slope of log σ(ℓ) on log f(ℓ), 34 networks of the runs small and paper-v2, zeroth order (least to largest)", at_most(0.25)),
    rather(
        "the scale is proportional to the envelope", "the same, medians over the seeds of each model (least to largest)", within(0.8, 1.2)
    ),
    code="lwcore.inference.infer",
    counterexample="ConstGate in the run paper-v2: σ(ℓ) ∝ f(ℓ)^1.00 over 48 decades.",
    fair="If the scale of the noise that a lag is held against stays above a constant, N(ℓ) grows as the envelope falls.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    every, medians = [], []
    for run in (runs["small"], runs["paper-v2"]):
        chosen = probes(run, "zeroth").scale.sel(source="error", noise_definition="lag", drop=True)
        found = slope(np.log(chosen).mean("probe"), np.log(run.envelope.sel(order="zeroth", drop=True)))
        every += numbers(found)
        medians += numbers(found.median("seed"))
    return over(every), over(medians)


def _steepness(run: xr.Dataset, reading: str) -> list[float]:
    """Slope of log N(ℓ) on −log f(ℓ), over the exponent α: 1 where N(ℓ) ∝ f(ℓ)^(−α); zeroth order, a number a network."""
    chosen = probes(run, "zeroth").sel(source="error", noise_definition="lag", drop=True)
    needed = np.log(chosen.required.sel(rule="plug-in", reading=reading, drop=True))
    return numbers((-slope(needed, np.log(run.envelope.sel(order="zeroth", drop=True))) / chosen.alpha).median("probe"))


@chapter.claim(
    "sequences-as-a-power-of-the-envelope",
    "abstract of v1; Eq. (38), on the networks of §6",
    "The number of sequences that a lag needs is proportional to f(ℓ) to the power −α.",
    as_stated(
        "slope of log N(ℓ) on −α log f(ℓ), f counted once, networks of the run paper-v2, zeroth order (least to largest)", within(0.9, 1.1)
    ),
    rather(
        "f cancels from N(ℓ); it comes back where §6.1 divides by it a second time",
        "the same by version 2's letter, in which f enters twice",
        within(0.9, 1.1),
    ),
    code=("lwcore.inference.infer", "lwcore.bounds.sample_complexity"),
    counterexample="SharedGate in the run paper-v2: over a hundred decades of f, N(ℓ) has a slope of less than 0.01 on it.",
    fair="N(ℓ) is proportional to f(ℓ)^(−α) where lags are held against one common noise; in its own noise a lag's envelope cancels.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    return over(_steepness(runs["paper-v2"], "paper_v2")), over(_steepness(runs["paper-v2"], "letter_v2"))


@chapter.claim(
    "scalar-horizons-logarithmic",
    "§6.2",
    "In ConstGate and SharedGate N(ℓ) grows exponentially with the lag, at the rate of their time constant.",
    as_stated(
        "slope of log N(ℓ) on ℓ over α/τ, f counted once, both cells in the run paper-v2, zeroth order (least to largest)", within(0.9, 1.1)
    ),
    rather("it does by version 2's letter, in which f enters twice", "the same by the letter", within(0.9, 1.1)),
    code=("lwcore.inference.infer", "lwcore.decay.fit_decay"),
    counterexample="ConstGate in the run paper-v2: f falls by 48 decades from lag 1 to 160, N(ℓ) by none.",
    fair="N(ℓ) would grow exponentially if every lag were held against the same noise.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    run = runs["paper-v2"].sel(model=SCALAR)
    chosen = probes(run, "zeroth").sel(source="error", noise_definition="lag", rule="plug-in", drop=True)
    tau = np.array([-1 / np.log(fit.exponential.law.decay) for fit in fits(run, SCALAR, ["zeroth"])]).reshape(len(SCALAR), -1)
    lag = xr.zeros_like(chosen.required.isel(reading=0, drop=True)) + run.lag

    def rate(reading: str) -> Measured:
        steps = slope(np.log(chosen.required.sel(reading=reading, drop=True)), lag) / chosen.alpha
        return over(numbers(steps.median("probe").transpose("model", "seed") * tau))

    return rate("paper_v2"), rate("letter_v2")


@chapter.claim(
    "diagonal-gate-sees-furthest",
    "§6.2, Fig. 2",
    "By version 2's letter DiagGate has a longer window than ConstGate and SharedGate.",
    as_stated(
        f"steps by which it is longer at N = {_N}, seeds of the runs small and paper-v2, zeroth and first order (least to largest)",
        at_least(1),
    ),
    code="lwcore.inference.infer",
)
def _(runs: Runs) -> Measured:
    ahead = [lead(windows(runs[name], order).sel(budget=_N)) for name in ("small", "paper-v2") for order in EXPANSIONS]
    return over(one for each in ahead for one in numbers(each))


@chapter.claim(
    "diagonal-gate-sees-furthest-counted-once",
    "§6.2, by Eqs. (34) and (36)",
    "By the criterion of the theory, in which f stands once, DiagGate has a longer window than ConstGate and SharedGate.",
    as_stated(
        f"steps by which it is longer at N = {_N}, seeds of the runs small and paper-v2, zeroth order (least to largest)", at_least(1)
    ),
    when(
        "to first order, where the mean of the statistic turns negative in the other two",
        "the same, first order",
        at_least(1),
    ),
    code="lwcore.inference.infer",
    counterexample="Run small, seed 1001, 512 sequences: ConstGate's window is 160 steps, DiagGate's 128.",
    fair="With f counted once no cell has the longer window as far as gates go; to first order DiagGate has, for its rates keep their"
    " sign.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    def ahead(order: str) -> Measured:
        found = [lead(windows(runs[name], order, "mean").sel(budget=_N)) for name in ("small", "paper-v2")]
        return over(one for each in found for one in numbers(each))

    return ahead("zeroth"), ahead("first")


@chapter.claim(
    "diagonal-gate-sees-furthest-in-the-gradient",
    "abstracts; §6.2, for the gradient itself",
    "Gradient information remains recoverable over longer lags in DiagGate than in ConstGate and SharedGate.",
    as_stated(
        f"steps by which its window is longer, along each lag's own mean gradient in the noise of the whole gradient, N = {_N}, seeds of"
        " the"
        " runs small and paper-v2 (least to largest)",
        at_least(1),
    ),
    when("for version 2's own training (run paper-v2), where DiagGate has also learned most", "the same, run paper-v2", at_least(1)),
    code=("lwcore.measure.measure", "lwcore.inference.infer"),
    counterexample="Run small, seed 212, 512 sequences: 64 steps in DiagGate, 128 in ConstGate and SharedGate.",
    fair="Which cell's gradient can be seen furthest back hangs on the training.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    ahead = [numbers(lead(windows(runs[name], "gradient", "variance", "total").sel(budget=_N))) for name in ("small", "paper-v2")]
    return over(ahead[0] + ahead[1]), over(ahead[1])


@chapter.claim(
    "window-opens-at-some-hundred-sequences",
    "§6.2, Fig. 2",
    "DiagGate's window is zero for few sequences and opens at some hundreds.",
    as_stated(
        "least N, of 8 and its doubles, with a window, by version 2's letter; DiagGate in the run paper-v2, both orders", within(64, 1024)
    ),
    when(
        "for the lag's part of the gradient along random directions, in the noise of the whole gradient",
        "least N with a window there, DiagGate in the run paper-v2 (least to largest)",
        within(64, 1024),
    ),
    rather("a short window is open from the fewest sequences on", "the same", at_most(8)),
    code="lwcore.inference.infer",
    counterexample="DiagGate in the run paper-v2: 8 sequences have a window of six to eight steps.",
    fair="Where a window opens hangs on the noise, on the shortest lag looked at and on the constant in N(ℓ), which the theory leaves"
    " open.",
)
def _(runs: Runs) -> tuple[Measured, Measured, Measured]:
    def opens(window: xr.DataArray) -> list[float]:
        return numbers(window.budget.where(window.sel(model="DiagGate") > 0).min("budget"))

    run = runs["paper-v2"]
    letter = over(one for order in EXPANSIONS for one in opens(windows(run, order)))
    return letter, over(opens(windows(run, "whole", "variance", "total"))), letter


@chapter.claim(
    "window-as-a-power-of-n",
    "§6.2, Fig. 3",
    "DiagGate's window grows as the power 1/(αβ) of N, β from the power law fitted to its envelope.",
    as_stated(
        "slope of log H_N on log N times αβ, version 2's letter, zeroth order, from the first window to the longest; DiagGate in the run"
        " paper-v2 (least to largest)",
        within(0.8, 1.25),
    ),
    when("to first order", "the same, first order", within(0.8, 1.25)),
    rather("at zeroth order it grows faster", "the same, zeroth order", at_least(1.25)),
    code="lwcore.inference.infer",
    counterexample="DiagGate in the run paper-v2, zeroth order: the power law fitted has β = 10, and H_N grows nearly twice as fast as"
    " N^(1/(10 α)).",
    fair="DiagGate's window grows with N; from so few lags a power cannot be told from a logarithm.",
)
def _(runs: Runs) -> tuple[Measured, Measured, Measured]:
    def growth(order: str) -> Measured:
        run, found = runs["paper-v2"], []
        alphas = probes(run, order).alpha.sel(source="error", noise_definition="lag", model="DiagGate").median("probe")
        for seed, fit in zip(run.seed.values, fits(run, ["DiagGate"], [order]), strict=True):
            window = windows(run, order).sel(model="DiagGate", seed=seed)
            height = window.values
            grows = slice(int((height > 0).argmax()), int(height.argmax()) + 1)
            steepness = np.polyfit(np.log(window.budget.values[grows]), np.log(height[grows]), 1)[0]
            found.append(steepness * rate_exponent(float(alphas.sel(seed=seed)), "paper_v2") * fit.power.law.decay)
        return over(found)

    zeroth, first = growth("zeroth"), growth("first")
    return zeroth, first, zeroth


@chapter.claim(
    "first-order-windows",
    "§6.1",
    "Windows computed from the closed forms are those of the gradient that is carried back.",
    as_stated(
        "networks of the runs small and paper-v2, of 34, whose first-order window is within a factor of 2 of that of the lag's exact"
        " part along"
        f" the same directions, f counted once, N = {_N}",
        at_least(34),
    ),
    rather(
        "in ConstGate and SharedGate the gradient itself shows lags several times longer",
        "window of the exact part over the first-order one, ConstGate and SharedGate in the run small (least to largest)",
        at_least(3),
    ),
    code="lwcore.measure.measure",
    counterexample="ConstGate in the run small: 5 or 6 steps by the closed form, 128 for the lag's part of the gradient itself.",
    fair="The closed forms give the window as far as gates and the first-order diagonal carry; the gradient itself is carried further.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    ratio = {}
    for name in ("small", "paper-v2"):
        exact, first = (windows(runs[name], view, "mean").sel(budget=_N) for view in ("whole", "first"))
        ratio[name] = exact / first
    alike = sum(int(((one >= 0.5) & (one <= 2)).sum()) for one in ratio.values())
    return exactly(alike), over(numbers(ratio["small"].sel(model=SCALAR)))


@chapter.claim(
    "nothing-to-see-no-window",
    "§6.1, the empirical window",
    "Where the error carries nothing about the past, the empirical window is empty.",
    as_stated(
        "share of networks and random directions of the runs small and paper-v2 with a window although noise replaces the error, zeroth"
        " order, N as"
        " many as were measured",
        at_most(0.05),
    ),
    rather(
        "it is if lags count only where a test declares their mean above zero",
        "share of sets of measured numbers with signs drawn at random in which the test declares a lag, run paper-v2",
        at_most(0.05),
    ),
    code=("lwcore.controls.nulls", "lwcore.inference.significant"),
    counterexample="Any network of the run small: independent noise in the place of the error, and some mean is large enough by chance.",
    fair="A lag counts towards the window where its mean is shown to be above zero.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    at = {"source": "noise", "rule": "plug-in", "noise_definition": "lag", "reading": "mean", "definition": "supremum"}
    found = [probes(runs[name], "zeroth").window.sel(at | {"budget": count}) > 0 for name, count in (("small", 1024), ("paper-v2", 512))]
    drawn = controls.nulls(runs["paper-v2"], np.random.default_rng(7), level=0.0005, draws=10).loc["signs of the sequences at random"].sum()
    return share(sum(int(one.sum()) for one in found), sum(one.size for one in found)), share(
        int(drawn["draws"] - drawn["without a window"]), int(drawn["draws"])
    )


@chapter.claim(
    "windows-know-no-units",
    "Eqs. (34) to (36)",
    "A window does not depend on the unit in which the gradient is measured.",
    as_stated("windows that change, DiagGate in the run small, when the statistic is a million times as large or as small", at_most(0)),
    code="lwcore.controls.invariances",
)
def _(runs: Runs) -> Measured:
    table = controls.invariances(runs["small"], np.random.default_rng(8), ["DiagGate"])
    return exactly(table.loc[["statistic × 1,000,000", "statistic ÷ 1,000,000"], "changed"].sum())


@chapter.claim(
    "all-lags-up-to-the-window",
    "Eq. (36) and the abstracts",
    "Up to the window every lag is detectable.",
    as_stated(
        "windows that end later than the first lag not detected, of those of all networks, directions and N in the run paper-v2, f"
        " counted once,"
        " zeroth order",
        at_most(0),
    ),
    rather(
        "the window is the longest detectable lag; shorter ones may not be",
        "share of these windows with an undetectable lag inside",
        at_least(0.1),
    ),
    code="lwcore.window.learnability_window",
    counterexample="SharedGate in the run paper-v2, 512 sequences: the window is 128 steps, and lag 91 is not detected.",
    fair="The window is the longest detectable lag. It is a horizon, up to which all lags are detectable, where N(ℓ) rises with the lag.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    at = {"source": "error", "rule": "tested", "noise_definition": "lag", "reading": "mean"}
    window = probes(runs["paper-v2"], "zeroth").window.sel(at)
    differ = window.sel(definition="supremum") != window.sel(definition="first_passage")
    return exactly(int(differ.sum())), share(int(differ.sum()), differ.size)


@chapter.claim(
    "heavier-tails-compress-the-window",
    "abstracts",
    "With all else equal, a heavier tail makes the window shorter.",
    as_stated(
        "largest window at α = 1.2, 1.5 or 1.8 over that at α = 2, by N(ℓ) ∝ f^(−α), for DiagGate's zeroth-order envelopes in the run"
        " small,"
        " unit m̄ and σ, N from 10² to 10⁶",
        at_most(1),
    ),
    in_later_versions("the exponent is α/(α − 1)", "the same with that exponent", at_most(1)),
    code="lwcore.bounds.sample_complexity",
    counterexample="N = 10⁴: the threshold falls as N^(−1/α), to 5e-4 of its constant at α = 1.2 and 1e-2 of it at α = 2.",
    fair="As N independent numbers average at the rate N^(1/α − 1), heavier tails shorten the window of whoever averages.",
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    run, budgets = runs["small"], np.geomspace(1e2, 1e6, 9)
    envelopes = run.envelope.sel(model="DiagGate", order="zeroth").values

    def longest(alpha: float, rate: str) -> np.ndarray:
        return learnability_window(run.lag.values, sample_complexity(envelopes, 1.0, 1.0, alpha, rate=rate), budgets)

    measured = [max((longest(alpha, rate) / longest(2.0, rate)).max() for alpha in (1.2, 1.5, 1.8)) for rate in ("paper_v2", "mean")]
    return exactly(measured[0]), exactly(measured[1])
