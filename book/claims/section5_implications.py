"""Claims of Section 5.5 and of the abstracts: the exponent of N(ℓ), gates against data, heavy
tails, clipping."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from book.chapters import clipping, regimes, robust
from book.chapters.aggregation import measured_exponent
from book.chapters.agreement import correlation_interval, partial_rank_correlation, rank_correlation
from book.chapters.frontier import at_task, single_lag_share
from book.chapters.frontier import ease as ease_of
from book.chapters.prediction import learned_share, parameter_counts
from book.chapters.resampling import concentration
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
    in_later_versions,
    in_part,
    over,
    rather,
    when,
    within,
)
from book.claims.record import Runs
from lwcore import detection, stable
from lwcore.inference import probes
from lwcore.stable import SymmetricStable
from lwcore.window import DecayLaw, regime_window

chapter = Chapter("livi", Kind.SIMULATION)

_ALPHA = 1.5
_LAWS = [DecayLaw("exponential", 1, 0.9), DecayLaw("power", 1, 1), DecayLaw("logarithmic", 1)]


@chapter.claim(
    "number-grows-as-alpha",
    "abstract of v1, and §5.5 (i)",
    "The least number of sequences that shows a lag grows as the envelope to the power −α.",
    as_stated(
        "measured exponent p of the best of three estimators over α, α = 1.5, with its 95 % "
        "interval",
        within(0.9, 1.1),
    ),
    in_later_versions(
        "averages need κ = α/(α − 1)", "measured exponent of the mean over κ", within(0.9, 1.1)
    ),
    rather(
        "the best test needs 2, whatever α",
        "measured exponent of the likelihood over 2",
        within(0.9, 1.1),
    ),
    code="book.chapters.aggregation.measured_exponent",
    counterexample="α = 1.5, a tenth of the signal, by the measured exponents: the best test needs {best:.0f} times the data, the mean"
    " {mean:.0f} times; the printed law says {printed:.0f}.",
    fair=(
        "The exponent is α/(α − 1) for those who average, and 2 for those who use the "
        "sequences well."
    ),
)
def _() -> tuple[Measured, Measured, Measured, Facts]:
    rng = np.random.default_rng(551)
    found = {
        m: measured_exponent(_ALPHA, m, [64, 1024], rng, replicates=600)
        for m in ("likelihood", "median", "mean")
    }
    best = min(("likelihood", "median", "mean"), key=lambda method: found[method].exponent)

    def over_printed(method: str, printed: float) -> Measured:
        low, high = found[method].interval
        return estimate(found[method].exponent / printed, (low / printed, high / printed))

    facts = {
        "best": 10 ** found[best].exponent,
        "mean": 10 ** found["mean"].exponent,
        "printed": 10**_ALPHA,
    }
    return (
        over_printed(best, _ALPHA),
        over_printed("mean", detection.rate_exponent(_ALPHA)),
        over_printed("likelihood", 2),
        facts,
    )


@chapter.claim(
    "gradients-concentrate-as-their-tails-say",
    "abstract of a later version",
    "Averages of gradients concentrate as N to the power −1/κ, with the κ = α/(α − 1) of their "
    "tail index.",
    as_stated(
        "measured exponent of averages over the κ of the fitted α, whole gradient; range over 25 "
        "trained networks",
        within(0.9, 1.1),
    ),
    in_part(
        "for the paper's statistic, whose α is so near 2 that κ and 2 are hardly two",
        "the same for that statistic",
        within(0.9, 1.1),
    ),
    kind=Kind.NETWORK,
    code=("book.chapters.resampling.concentration", "lwcore.inference.summary"),
    counterexample=(
        "A trained GRU: the fitted α promises an exponent of {promised:.1f}; means "
        "of 8 to 256 sequences have {found:.1f}."
    ),
    fair=(
        "Averages of stable numbers do; where gradients explode now and then, they "
        "concentrate more slowly than a fitted α says."
    ),
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    whole = (
        robust.numbers(runs["small"], "whole", "whole").isel(probe=0, lag=0).values.reshape(25, -1)
    )
    alpha = stable.fit(whole.T, "ecf").alpha
    measured = -1 / concentration(whole, np.random.default_rng(550), ("mean",))[:, 0]
    results = probes(runs["small"], "zeroth", "error").sel(noise="own")
    of_lags = results.exponent.median(["probe", "lag"]) * (1 - 1 / results.alpha.median("probe"))
    promised = np.asarray(alpha / (alpha - 1))
    furthest = int(np.argmax(measured / promised))
    facts = {"promised": promised[furthest], "found": measured[furthest]}
    return over(measured / promised), over(np.ravel(of_lags)), facts


@chapter.claim(
    "signal-enters-squared",
    "§5.5 (i)",
    "In the information the strength of the signal stands squared.",
    as_stated(
        "power of the signal in the information of one sequence, least over Δ from σ/1,000 to "
        "1,000 σ, α = 1.5",
        within(1.9, 2.1),
    ),
    when(
        "for signals below a tenth of the noise's scale",
        "range of that power from σ/1,000 to σ/10",
        within(1.9, 2.1),
    ),
    code="lwcore.detection.mutual_information",
    kind=Kind.THEOREM,
    counterexample=(
        "Δ = 100 σ: one sequence tells nearly all there is to know, and twice the "
        "signal adds next to nothing."
    ),
    fair=(
        "While little is known the information grows with the square of the signal; it ends "
        "at one bit."
    ),
)
def _() -> tuple[Measured, Measured]:
    shifts = np.geomspace(1e-3, 1e3, 13)
    powers = np.diff(np.log(detection.mutual_information(shifts, _ALPHA))) / np.diff(np.log(shifts))
    return exactly(powers.min()), over(powers[:4])


@chapter.claim(
    "data-count-less-than-in-proportion",
    "§5.5 (i)",
    "Below α = 2 the information grows less than in proportion to the number of sequences.",
    as_stated("factor that doubled data give by the printed N^(2/α), α = 1.5", at_most(1.98)),
    in_later_versions(
        "κ = α/(α − 1) stands in the place of α, for means",
        "factor in the exact information of the mean, Δ = σ/1,000, N = 100",
        at_most(1.98),
    ),
    code=("lwcore.detection.mutual_information", "lwcore.detection.lan_divergence"),
    kind=Kind.THEOREM,
    counterexample=(
        "α = 1.5: N^(2/α) is N^(4/3), and doubled data would give {0} times the information."
    ),
    fair=(
        "The information in a mean grows less than in proportion; that in all N values grows "
        "in proportion, until a bit is told."
    ),
)
def _() -> tuple[Measured, Measured]:
    n = np.array([100, 200])
    printed = detection.lan_divergence(1e-3, _ALPHA, 1, n, "paper_v2")
    exact = detection.mutual_information(1e-3, _ALPHA, 1, n, "mean")
    return exactly(printed[1] / printed[0]), exactly(exact[1] / exact[0])


@chapter.claim(
    "gates-beat-data",
    "§5.5 (i)",
    "A slower envelope lengthens the window more than more data do.",
    as_stated(
        "least quotient of windows with halved decay and with doubled data; three laws and "
        "exponents, N from N_c, what f = c takes, to 10⁵",
        at_least(1 - 1e-9),
    ),
    when(
        "if N is more than twice what an undiminished signal, f = c, takes",
        "the same for such N",
        at_least(1 - 1e-9),
    ),
    code="book.chapters.regimes.gates_or_data",
    kind=Kind.THEOREM,
    counterexample="Envelope 1/ℓ, α = 1.5, 12 sequences: a window of {plain:.1f} steps; doubled data make it {doubled:.1f}, half the decay"
    " {halved:.1f}.",
    fair=(
        "Halving the decay squares the data, in units of the number that an undiminished "
        "signal takes."
    ),
    seen="The numbers of sequences compared were first too large for the literal reading to fail.",
)
def _() -> tuple[Measured, Measured, Facts]:
    every: list[float] = []
    enough: list[float] = []
    for alpha in (1.5, 2.0):
        for n in np.geomspace(2, 1e5, 60):
            table = regimes.gates_or_data(_LAWS, n, alpha)
            table = table[
                np.isfinite(table["decay halved"]) & (table["window"] > 0) & (table["N/N_c"] >= 1)
            ]
            quotient = (table["decay halved"] / table["data doubled"]).to_numpy()
            every += quotient.tolist()
            enough += quotient[(table["N/N_c"] >= 2).to_numpy()].tolist()
    few = regimes.gates_or_data(_LAWS[1:2], 12, 1.5).iloc[0]
    facts = {"plain": few["window"], "doubled": few["data doubled"], "halved": few["decay halved"]}
    return exactly(min(every)), exactly(min(enough)), facts


@chapter.claim(
    "heavy-tails-take-more-sequences",
    "§5.4, after Eq. (35), and §5.5 (ii)",
    "With the same gates, heavier tails raise the threshold and make reliable detection take more "
    "sequences.",
    as_stated(
        "least quotient of the numbers at α = 1.2 and at 2, by the printed exponent, Δ from σ/100 "
        "to σ",
        at_least(1),
    ),
    in_later_versions(
        "the exponent is κ = α/(α − 1), for means",
        "the same for the sign of the mean, exact error 0.1",
        at_least(1),
    ),
    rather(
        "the best test needs about as many",
        "the same for the likelihood ratio, all Δ but the largest",
        within(0.8, 1.25),
    ),
    code=("lwcore.detection.sample_complexity", "lwcore.detection.least_sequences"),
    kind=Kind.THEOREM,
    counterexample=(
        "Δ = σ/100: the printed formula asks for {heavy:.0f} sequences at α = 1.2, "
        "and for {gaussian:.0f} at α = 2."
    ),
    fair="Heavier tails cost those who average.",
)
def _() -> tuple[Measured, Measured, Measured, Facts]:
    shifts = np.array([1, 0.3, 0.1, 0.03, 0.01])
    gaussian, heavy = (
        detection.sample_complexity(shifts, 1, 1, alpha, rate="paper_v2") for alpha in (2.0, 1.2)
    )
    quotients = {
        t: np.divide(*(detection.least_sequences(shifts, 1, a, test=t) for a in (1.2, 2.0)))
        for t in ("mean", "likelihood")
    }
    facts = {"heavy": heavy[-1], "gaussian": gaussian[-1]}
    return (
        exactly((heavy / gaussian).min()),
        exactly(quotients["mean"].min()),
        over(quotients["likelihood"][1:]),
        facts,
    )


@chapter.claim(
    "smaller-alpha-shortens-the-window",
    "§5.4, §5.5 (iii) and abstracts",
    "In every regime heavier tails shorten the window.",
    as_stated(
        "largest log₁₀ of the windows' quotient, α = 1.2 over 1.8, by the printed exponent; three "
        "envelopes, N = 10, 100 and 1,000",
        at_most(0),
    ),
    in_later_versions("the exponent is κ = α/(α − 1)", "the same with κ", at_most(0)),
    code="lwcore.window.regime_window",
    kind=Kind.THEOREM,
    counterexample=(
        "Envelope 1/ℓ, N = 1,000, m̄ = σ: by the printed exponent {heavy:.0f} "
        "steps at α = 1.2, and {light:.0f} at α = 1.8."
    ),
    fair=(
        "The window of those who average is shorter the heavier the tails; the printed "
        "exponent α says the opposite."
    ),
)
def _() -> tuple[Measured, Measured, Facts]:
    largest, printed = (
        {},
        [
            regime_window(_LAWS[1], [1000], 1, 1, alpha, rate="paper_v2").item()
            for alpha in (1.2, 1.8)
        ],
    )
    for rate in ("paper_v2", "mean"):
        heavy, light = (
            [regime_window(law, [10, 100, 1000], 3, 1, alpha, rate=rate) for law in _LAWS]
            for alpha in (1.2, 1.8)
        )
        largest[rate] = exactly(np.log10(np.array(heavy) / np.array(light)).max())
    return largest["paper_v2"], largest["mean"], dict(zip(("heavy", "light"), printed, strict=True))


@chapter.claim(
    "heavy-tails-shorten-every-window",
    "abstract of a later version",
    "Heavy tails shorten temporal horizons throughout, because statistics concentrate more slowly.",
    as_stated(
        "least of three tests' quotients of required numbers at α = 1.2 and at 2, Δ = σ/100, "
        "error 0.1",
        at_least(1),
    ),
    when("for those who average plainly", "that quotient for the sign of the mean", at_least(1)),
    kind=Kind.THEOREM,
    code="lwcore.detection.least_sequences",
    counterexample=(
        "Δ = σ/100: the median needs fewer sequences at α = 1.2 than in Gaussian "
        "noise of the same scale."
    ),
    fair="Heavy tails weaken the mean, and only estimates that average large values as they are.",
)
def _() -> tuple[Measured, Measured]:
    quotients = {
        t: float(
            detection.least_sequences(0.01, 1, 1.2, test=t)
            / detection.least_sequences(0.01, 1, 2.0, test=t)
        )
        for t in ("likelihood", "median", "mean")
    }
    return exactly(min(quotients.values())), exactly(quotients["mean"])


@chapter.claim(
    "slow-envelopes-learn-long-lags",
    "§5.5 (iv)",
    "Of several architectures those whose envelope falls more slowly learn long lags better.",
    as_stated(
        "rank correlation of the first-order envelope at lag 128, in units of lag 1, with the "
        "share learned of that lag, within seeds of"
        " the run small, five cells as units (95 %)",
        at_least(0),
    ),
    when(
        "if gates alone are measured, before training, each lag is learned by itself, and "
        "networks have equally many parameters",
        "partial rank correlation of the zeroth-order envelope, in units of lag 1, with the ease "
        "of learning, within lags of the run"
        " single-lag, given the number of parameters, five cells as units (95 %)",
        at_least(0),
    ),
    kind=Kind.NETWORK,
    code=(
        "book.chapters.prediction.learned_share",
        "book.chapters.frontier.ease",
        "book.chapters.agreement.partial_rank_correlation",
    ),
    counterexample="Run small, lag 128, medians over seeds: DiagGate's envelope falls far more slowly than ConstGate's, and it has learned"
    " {diag:.0%} of that lag, ConstGate {const:.0%}.",
    fair="Five cells do not tell: before training they differ in their number of parameters far more than in their envelopes. In the run"
    " paper-v2, after training, the rank correlation is {paper:.2f}, over three cells.",
    seen="Ranges were over seeds; a statement about cells has cells as units. Before training the number of parameters was not given, and"
    " envelopes were not in units of lag 1.",
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    def over_cells(found: NDArray[np.float64], cells: int) -> Measured:
        return estimate(float(found[0]), correlation_interval(float(found[0]), cells))

    def after(name: str) -> tuple[NDArray[np.float64], xr.DataArray]:
        learned, f = (
            learned_share(runs[name]).sel(lag=128),
            np.log(runs[name].envelope.sel(order="first", drop=True)),
        )
        kept = (f.sel(lag=128) - f.sel(lag=1)).expand_dims("predictor")
        return rank_correlation(kept, learned, ("seed",)), learned

    found, learned = after("small")
    ease = ease_of(single_lag_share(runs["single-lag"]))
    start = runs["single-lag-start"].envelope.sel(order="zeroth", drop=True)
    before = (
        at_task((start / start.sel(lag=1, drop=True)).to_dataset(name="kept"))
        .kept.sel(lag=ease.lag)
        .expand_dims("predictor")
    )
    size = -parameter_counts(runs["single-lag"]) + xr.zeros_like(ease)
    facts = {
        name: learned.sel(model=model).median().item()
        for name, model in (("diag", "DiagGate"), ("const", "ConstGate"))
    }
    facts["paper"] = after("paper-v2")[0][0]
    return (
        over_cells(found, 5),
        over_cells(partial_rank_correlation(before, ease, size, ("lag",)), 4),
        facts,
    )


@chapter.claim(
    "clipping-raises-alpha",
    "§5.5 (iv)",
    "Clipping numbers with heavy tails makes their mean concentrate as if α were larger.",
    as_stated(
        "largest exponent p of a clipped mean of stable numbers, α = 1.2 and 1.5, with 95 % "
        "intervals; 6 and 3 for the mean",
        at_most(2.2),
    ),
    code="book.chapters.aggregation.aggregate",
    fair=(
        "Clipped before they are averaged, numbers concentrate with the exponent 2 of a "
        "Gaussian at once, wherever they are clipped."
    ),
)
def _() -> Measured:
    rng = np.random.default_rng(552)
    found = [
        measured_exponent(alpha, "clipped mean", [64, 1024], rng, replicates=600)
        for alpha in (1.2, 1.5)
    ]
    return Measured(
        max(one.exponent for one in found),
        min(one.interval[0] for one in found),
        max(one.interval[1] for one in found),
    )


@chapter.claim(
    "normalisation-raises-alpha",
    "§5.5 (iv)",
    "Normalising gradients with heavy tails makes their mean concentrate as if α were larger.",
    as_stated(
        "power of N with which the spread of a mean of normalised gradients falls; 8 parameters, "
        "stable, α = 1.2 and 1.5; 1/6 and 1/3 for"
        " plain means (95 %)",
        at_least(0.45),
    ),
    code="lwcore.stable.SymmetricStable",
    fair=(
        "Normalised before they are averaged, gradients are bounded, and concentrate as "
        "Gaussian ones do."
    ),
)
def _() -> Measured:
    rng, powers = np.random.default_rng(555), []
    for alpha in (1.2, 1.5):
        gradients = SymmetricStable(alpha).sample((1000, 512, 8), rng)
        units = (gradients / np.linalg.norm(gradients, axis=-1, keepdims=True))[..., 0]
        few, many = (np.quantile(units[:, :count].mean(1), [0.25, 0.75]) for count in (8, 512))
        powers.append(math.log(np.ptp(few) / np.ptp(many)) / math.log(64))
    # an interquartile range of n Gaussian numbers has error 1.17/√n
    error = 1.96 * math.sqrt(2) * 1.17 / math.sqrt(1000) / math.log(64)
    return Measured(float(np.median(powers)), min(powers) - error, max(powers) + error)


@chapter.claim(
    "clipping-in-training-helps",
    "§5.5 (iv)",
    "Clipping as training does it, the norm of every step's gradient, makes signals in "
    "heavy-tailed noise easier to tell.",
    as_stated(
        "errors in a signal's sign from 64 clipped steps, over errors without clipping; batches "
        "of 16, 8 parameters, α = 1.5, Δ = σ/10",
        at_most(0.9),
    ),
    code="lwcore.stable.SymmetricStable",
    fair=(
        "Inside a batch the tails have had their effect before the clipping; over the steps "
        "clipping does help."
    ),
)
def _() -> Measured:
    rng, wrong, repeats = np.random.default_rng(553), np.zeros(2), 2000
    for _ in range(10):
        steps = SymmetricStable(_ALPHA).sample((repeats // 10, 64, 8, 16), rng).mean(-1)
        steps[..., 0] += 0.1
        norms = np.linalg.norm(steps, axis=-1, keepdims=True)
        clipped = steps * np.minimum(1, np.median(norms) / norms)
        wrong += [(one[..., 0].sum(-1) < 0).sum() for one in (steps, clipped)]
    plain, after = wrong / repeats
    # of the logarithm; paired samples only make it smaller
    half_width = 1.96 * math.sqrt((1 - plain) / wrong[0] + (1 - after) / wrong[1])
    return estimate(
        after / plain, (after / plain * math.exp(-half_width), after / plain * math.exp(half_width))
    )


@chapter.claim(
    "clipping-saves-sequences",
    "§5.5 (iv)",
    "Reducing the tails of gradients by clipping saves sequences.",
    as_stated(
        "sequences needed without clipping over those needed with it, a twentieth clipped, whole "
        "gradient; range over 25 networks",
        at_least(1.05),
    ),
    in_part(
        "for DiagGate, whose gradients explode now and then",
        "the same; range over its 5 networks",
        at_least(1.05),
    ),
    kind=Kind.NETWORK,
    code="book.chapters.clipping.effects_on_run",
    counterexample=(
        "A trained ConstGate: its gradients have no heavy tails, and a clipped "
        "mean needs as many sequences as a mean."
    ),
    fair="Clipping saves sequences where gradients have heavy tails, in DiagGate and in some GRUs (seed by seed {gru_0:.2f}, {gru_1:.2f},"
    " {gru_2:.2f}, {gru_3:.2f} and {gru_4:.2f} times), and does little elsewhere. The threshold "
    "is taken from the same numbers, and the"
    " clipped mean's bias is left out.",
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    effects = clipping.effects_on_run(
        runs["small"], "inside the whole gradient", np.random.default_rng(554)
    )
    gain = effects.gain.sel(share=0.95)
    facts = {f"gru_{k}": float(one) for k, one in enumerate(gain.sel(model="GRU"))}
    return over(np.ravel(gain)), over(gain.sel(model="DiagGate").values), facts
