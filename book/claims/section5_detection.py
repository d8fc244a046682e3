"""Claims of Section 5.3 and Appendices C and D, Eqs. (32)–(34) and (53)–(57): stable laws,
divergence, information, Fano's inequality."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, stats

from book.chapters.lan import lan_expansions
from book.claims.claim import (
    Chapter,
    Facts,
    Kind,
    Measured,
    as_mended,
    as_stated,
    at_least,
    at_most,
    estimate,
    exactly,
    over,
    rather,
    when,
    within,
)
from lwcore import detection
from lwcore.stable import SymmetricStable

chapter = Chapter("livi", Kind.THEOREM)

_ALPHA = 1.5
_ALPHAS = (1.2, 1.5, 1.8)
_SHIFTS = np.array([1, 0.3, 0.1, 0.03, 0.01])  # Δ/σ
_CURVATURE = SymmetricStable(_ALPHA).fisher_information()


@chapter.claim(
    "gaussian-and-cauchy-in-closed-form",
    "§5.3",
    "Among the symmetric stable laws, α = 2 is the Gaussian and α = 1 the Cauchy law.",
    as_stated(
        "largest relative difference of density and distribution from SciPy's", at_most(1e-10)
    ),
    code="lwcore.stable.SymmetricStable",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    x = np.linspace(-6, 6, 101)
    pairs = [
        (SymmetricStable(2), stats.norm(scale=math.sqrt(2))),
        (SymmetricStable(1), stats.cauchy),
    ]
    return exactly(
        max(
            abs(getattr(ours, f)(x) / getattr(theirs, f)(x) - 1).max()
            for ours, theirs in pairs
            for f in ("pdf", "cdf")
        )
    )


@chapter.claim(
    "levy-law-is-symmetric-stable",
    "§5.3",
    "Among the symmetric stable laws, α = 1/2 is the Lévy law.",
    as_stated(
        "largest distance between the two distribution functions, whatever the scales: at least "
        "that at zero",
        at_most(0.01),
    ),
    as_mended(
        "among all stable laws, symmetric or not",
        "largest distance of the characteristic function of 100,000 Lévy variables from exp(−√|u| "
        "(1 − i)), in standard errors",
        at_most(4),
    ),
    counterexample="A Lévy variable is never negative; a symmetric one is in half of all cases.",
    fair=(
        "Closed forms are known for the Gaussian and the Cauchy law, and for the one-sided "
        "Lévy law outside the symmetric family."
    ),
    kind=Kind.IDENTITY,
)
def _() -> tuple[Measured, Measured]:
    at_zero = abs(stats.levy_stable.cdf(0.0, 0.5, 0.0) - stats.levy.cdf(0.0))
    draws = stats.levy.rvs(size=100_000, random_state=np.random.default_rng(51))
    u = np.array([0.1, 0.5, 1, 2, 5])
    # α = 1/2, skewed to one side as far as can be
    angles, expected = u[:, None] * draws, np.exp(-np.sqrt(u) * (1 - 1j))
    pairs = ((np.cos(angles), expected.real), (np.sin(angles), expected.imag))
    away = [
        abs(waves.mean(1) - true) / (waves.std(1) / math.sqrt(draws.size)) for waves, true in pairs
    ]
    return exactly(at_zero), exactly(np.max(away))


@chapter.claim(
    "tails-are-powers",
    "§5.3",
    "Below α = 2 the densities fall as a power of the distance, with the exponent α + 1.",
    as_stated(
        "measured over expected exponent, from a thousand to a million scales; range over α = "
        "1.2, 1.5 and 1.8",
        within(0.99, 1.01),
    ),
    code="lwcore.stable.SymmetricStable",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    falls = {
        alpha: -np.ptp(SymmetricStable(alpha).logpdf([1e3, 1e6])) / np.log(1e3) for alpha in _ALPHAS
    }
    return over([-fall / (alpha + 1) for alpha, fall in falls.items()])


@chapter.claim(
    "no-variance-below-two",
    "§5.3",
    "Below α = 2 the variance is infinite.",
    as_stated(
        "power of the reach with which the second moment inside it grows, a thousand to a million "
        "scales; over α = 1.2, 1.5, 1.8",
        at_least(0.1),
    ),
    code="lwcore.stable.SymmetricStable",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    powers = []
    for alpha in _ALPHAS:
        law = SymmetricStable(alpha)
        inside = [
            integrate.quad(
                lambda t, p=law.pdf: p(math.exp(t)) * math.exp(3 * t), -20, math.log(r), limit=200
            )[0]
            for r in (1e3, 1e6)
        ]
        powers.append(math.log(inside[1] / inside[0]) / math.log(1e3))
    return over(powers)


@chapter.claim(
    "fisher-information-is-finite",
    "§5.3",
    "Above α = 1 the score is square-integrable, so that the Fisher information for the location "
    "is finite.",
    as_stated(
        "largest difference between the mean square of 100,000 simulated scores and the integral, "
        "in per cent; α = 1.1 to 1.8",
        at_most(2),
    ),
    code="lwcore.stable.SymmetricStable",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    rng, away = np.random.default_rng(52), []
    for alpha in (1.1, *_ALPHAS):
        law = SymmetricStable(alpha)
        squares = law.score(law.sample(100_000, rng)) ** 2
        error = 1.96 * squares.std() / math.sqrt(squares.size)
        middle, expected = squares.mean(), law.fisher_information()
        away.append(
            [
                100 * abs(middle - expected) / expected,
                100 * (abs(middle - expected) + error) / expected,
            ]
        )
    middle, highest = np.max(away, axis=0)
    return estimate(middle, (0, highest))


@chapter.claim(
    "locally-asymptotically-normal",
    "Eq. (53) and §5.3, after Eq. (32)",
    "Shifts of the order N to the power −1/α make N sequences a Gaussian experiment, faster than "
    "the Gaussian rate where α is below 2.",
    as_stated(
        "standard deviation of the log-likelihood ratio, over that of the expansion; α = 1.5, N = "
        "1,000, 2,000 experiments",
        within(0.9, 1.1),
    ),
    rather("the rate is √N, for every α above 1", "the same with √N", within(0.9, 1.1)),
    code="book.chapters.lan.lan_expansions",
    counterexample=(
        "α = 1.5, N = 1,000, h = 1: the log-likelihood ratio has a tenth of the "
        "variance that the expansion gives it."
    ),
    fair=(
        "A location family with a finite Fisher information is locally asymptotically normal "
        "at the rate √N."
    ),
)
def _() -> tuple[Measured, Measured]:
    rng, found = np.random.default_rng(53), []
    for rate in ("paper_v2", "optimal"):
        ratios = lan_expansions(_ALPHA, 1000, rng, [rate], replicates=2000)[rate].log_ratio
        spread = ratios.std(ddof=1) / math.sqrt(_CURVATURE)
        low, high = np.sqrt((ratios.size - 1) / stats.chi2.ppf([0.975, 0.025], ratios.size - 1))
        found.append(estimate(spread, (spread * low, spread * high)))
    return found[0], found[1]


@chapter.claim(
    "divergence-of-local-shifts",
    "Eq. (54)",
    "Along shifts of the order N to the power −1/α the divergence tends to a positive square of "
    "the local parameter.",
    as_stated(
        "exact divergence of a million sequences over that square, α = 1.5, h = 1",
        within(0.95, 1.05),
    ),
    rather("it does along shifts of the order 1/√N", "the same with √N", within(0.95, 1.05)),
    code="lwcore.detection.kl_divergence",
    counterexample="α = 1.5, h = 1, N = 1,000,000: the divergence is a hundredth of the square.",
    fair="The limit stands with √N in the place of N to the power 1/α.",
)
def _() -> tuple[Measured, Measured]:
    n = 1e6
    away = {
        p: detection.kl_divergence(0.5 * n ** (-1 / p), _ALPHA, 1, n) / (_CURVATURE / 2)
        for p in (_ALPHA, 2)
    }
    return exactly(float(away[_ALPHA])), exactly(float(away[2]))


@chapter.claim(
    "divergence-bounded-below",
    "Eq. (55)",
    "For all large N the divergence of such local shifts stays above a constant times the square "
    "of the local parameter.",
    as_stated(
        "power of N with which the divergence changes, from a thousand to a million sequences, α "
        "= 1.5, h = 1",
        at_least(-0.01),
    ),
    rather("it does along shifts of the order 1/√N", "the same with √N", at_least(-0.01)),
    code="lwcore.detection.kl_divergence",
    counterexample=(
        "α = 1.5: every thousandfold N takes nine tenths off the divergence, so "
        "that no constant is below it for ever."
    ),
    fair=(
        "With shifts of the order 1/√N there is such a constant for every bounded range of "
        "the local parameter."
    ),
)
def _() -> tuple[Measured, Measured]:
    n = np.array([1e3, 1e6])
    powers = {
        p: np.log(np.divide(*detection.kl_divergence(0.5 * n ** (-1 / p), _ALPHA, 1, n)[::-1]))
        / np.log(1e3)
        for p in (_ALPHA, 2)
    }
    return exactly(powers[_ALPHA]), exactly(powers[2])


@chapter.claim(
    "divergence-grows-with-sequences",
    "Eqs. (32) and (56)",
    "The divergence of the two hypotheses grows at least as N to the power 2/α.",
    as_stated(
        "power of N in the divergence of all N values, which no statistic of them exceeds, over "
        "2/α; α = 1.5",
        at_least(0.98),
    ),
    rather(
        "N values: the power is 1",
        "that power, from simulated log-likelihood ratios of 10 and 1,000 values",
        within(0.9, 1.1),
    ),
    rather(
        "their mean: it is 2/κ = 2(α − 1)/α, for small shifts",
        "power of N in the divergence of the mean, over 2/κ",
        within(0.98, 1.02),
    ),
    code=("lwcore.detection.kl_divergence", "book.chapters.lan.lan_expansions"),
    counterexample=(
        "α = 1.5, Δ = σ/1,000: a thousandfold N makes the divergence 1,000 times "
        "as large, not 10,000 times."
    ),
    fair=(
        "It follows from Eq. (31) as printed, not from independent sequences: their "
        "divergence is N times that of one, for every α."
    ),
)
def _() -> tuple[Measured, Measured, Measured]:
    n = np.array([1.0, 1e3])
    whole, mean = (
        np.log(np.divide(*detection.kl_divergence(1e-3, _ALPHA, 1, n, statistic)[::-1]))
        / np.log(1e3)
        for statistic in ("product", "mean")
    )
    rng, logs = np.random.default_rng(54), []
    for count in (10, 1000):  # a shift of σ/5 is h = 0.2 √N local units
        terms = lan_expansions(
            _ALPHA, count, rng, ["optimal"], h=0.2 * math.sqrt(count), replicates=2000
        )
        simulated = -terms["optimal"].log_ratio
        logs.append(
            [
                np.log(simulated.mean()),
                simulated.std() / simulated.mean() / math.sqrt(simulated.size),
            ]
        )
    power, error = (
        (logs[1][0] - logs[0][0]) / np.log(100),
        1.96 * math.hypot(logs[0][1], logs[1][1]) / np.log(100),
    )
    return (
        exactly(whole * _ALPHA / 2),
        estimate(power, (power - error, power + error)),
        exactly(mean / (2 - 2 / _ALPHA)),
    )


@chapter.claim(
    "divergence-is-quadratic",
    "Eq. (32)",
    "The divergence stays above a constant times the square of the shift, however large the shift.",
    as_stated(
        "power of the shift in the divergence, from 100 to 10,000 scales, α = 1.5", at_least(1.98)
    ),
    when(
        "for shifts up to a quarter of the noise's scale",
        "least share of its quadratic limit; α = 1.2, 1.5 and 1.8",
        at_least(0.9),
    ),
    code="lwcore.detection.kl_divergence",
    counterexample=(
        "α = 1.5, N = 1, Δ = 100 σ: the divergence is about 12 nats, its quadratic "
        "limit more than 8,000."
    ),
    fair=(
        "For small shifts the divergence is a square; far out it grows as a logarithm unless α = 2."
    ),
)
def _() -> tuple[Measured, Measured]:
    far = np.log(np.divide(*detection.kl_divergence([1e4, 1e2], _ALPHA))) / np.log(1e2)
    shifts = np.geomspace(1e-3, 0.25, 20)
    near = min(
        (
            detection.kl_divergence(shifts, alpha)
            / (2 * SymmetricStable(alpha).fisher_information() * shifts**2)
        ).min()
        for alpha in _ALPHAS
    )
    return exactly(far), exactly(near)


@chapter.claim(
    "information-grows-with-sequences",
    "Eq. (33)",
    "The information on the sign grows at least as N to the power 2/α times the squared signal.",
    as_stated(
        "power of N in the information of all N values, over 2/α; α = 1.5, Δ = σ/1,000, N = 1 to "
        "1,000",
        at_least(0.98),
    ),
    rather(
        "it is a quarter of the divergence while that is small",
        "least and largest share of N KL/4, N = 1 to 1,000",
        within(0.95, 1.0001),
    ),
    code="lwcore.detection.mutual_information",
    counterexample=(
        "α = 1.5, Δ = σ/1,000: a thousandfold N tells 1,000 times as much, not "
        "10,000 times; no constant keeps N^(4/3) below N."
    ),
    fair=(
        "For a small signal the information of N sequences is that of one, N times over, "
        "until a bit is told."
    ),
)
def _() -> tuple[Measured, Measured]:
    n = np.array([1.0, 10, 100, 1000])
    information = detection.mutual_information(1e-3, _ALPHA, 1, n)
    shares = information / (detection.kl_divergence(1e-3, _ALPHA, 1, n) / 4)
    return exactly(
        float(np.log(information[-1] / information[0])) / np.log(1e3) * _ALPHA / 2
    ), over(shares)


def _by_entropies(shift: float, alpha: float) -> tuple[float, float]:
    """Information from its definition, entropy of the observation less that given the sign; and
    KL(P₁‖M), both by plain quadrature."""
    law = SymmetricStable(alpha)
    node, weight = np.polynomial.legendre.leggauss(8)
    t = np.linspace(-30, 30, 4001)[:-1, None] + 0.0075 * (1 + node)
    x = np.sinh(t)  # distance from the location of P₁
    mass = 0.0075 * weight * np.cosh(t) * law.pdf(x)
    log_first, log_mixture = (
        law.logpdf(x),
        np.logaddexp(law.logpdf(x), law.logpdf(x + 2 * shift)) - math.log(2),
    )
    # the mixture is symmetric: both signs contribute the same
    entropy, given = -(mass * log_mixture).sum(), -(mass * log_first).sum()
    return float(entropy - given), float((mass * (log_first - log_mixture)).sum())


@chapter.claim(
    "information-by-the-mixture",
    "Eq. (57)",
    "The information on the sign is the average of the two laws' divergences from their mixture.",
    as_stated(
        "largest difference from the information by entropies, in nats; α = 1.2 and 1.5, Δ = σ/2 "
        "and 3σ",
        at_most(1e-7),
    ),
    code="lwcore.detection.mutual_information",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    pairs = [(shift, alpha) for shift in (0.5, 3.0) for alpha in (1.2, 1.5)]
    return exactly(
        max(
            abs(float(detection.mutual_information(s, a, route="mixture")) - _by_entropies(s, a)[0])
            for s, a in pairs
        )
    )


@chapter.claim(
    "information-at-most-one-bit",
    "Appendix D, after Eq. (57)",
    "The information is never negative and never more than the one bit that the sign holds.",
    as_stated(
        "how far it leaves the range from 0 to log 2, in nats, by entropies; α = 1.5, Δ from "
        "σ/100 to 100σ",
        at_most(1e-7),
    ),
    code="lwcore.detection.mutual_information",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    found = [_by_entropies(shift, _ALPHA)[0] for shift in (0.01, 1.0, 10.0, 100.0)]
    return exactly(max(0.0, -min(found), max(found) - math.log(2)))


@chapter.claim(
    "information-at-least-half-a-divergence",
    "Appendix D, after Eq. (57)",
    "The information is at least half of one law's divergence from the mixture.",
    as_stated("least ratio of information to that half, α = 1.5, Δ = σ/2 to 3σ", at_least(1)),
    code="lwcore.detection.mutual_information",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    return exactly(
        min(
            float(detection.mutual_information(s, _ALPHA)) / (_by_entropies(s, _ALPHA)[1] / 2)
            for s in (0.5, 3.0)
        )
    )


@chapter.claim(
    "mixture-costs-a-constant",
    "Appendix D, end of the derivation of Eq. (33)",
    "That divergence from the mixture may be replaced by the one from the other law, at the cost "
    "of a constant factor.",
    as_stated(
        "least ratio of information to KL(P₁‖P₀), over shifts from σ/100 to 10⁶ σ, α = 1.5, "
        "relative to that for small shifts",
        at_least(0.5),
    ),
    when(
        "for shifts up to a quarter of the noise's scale",
        "the same over those shifts",
        at_least(0.95),
    ),
    code=("lwcore.detection.mutual_information", "lwcore.detection.kl_divergence"),
    counterexample=(
        "Far apart, the information is a bit at most, while the divergence of the "
        "two laws grows without limit."
    ),
    fair="For small shifts the factor is 1/4; there is none for all shifts.",
)
def _() -> tuple[Measured, Measured]:
    shifts = np.array([0.01, 0.1, 0.25, 1, 10, 1e3, 1e6])
    ratio = (
        detection.mutual_information(shifts, _ALPHA) / detection.kl_divergence(shifts, _ALPHA) * 4
    )
    return exactly(ratio.min()), exactly(ratio[:3].min())


@chapter.claim(
    "fano-bounds-the-error",
    "Appendix D, Fano's inequality",
    "No test errs less often than Fano's inequality allows for the information there is.",
    as_stated(
        "least ratio of a test's exact error to Fano's, three tests, N = 1 to 1,001, α = 1.2, 1.5 "
        "and 1.8, Δ = σ/10",
        at_least(1),
    ),
    code=("lwcore.detection.fano_error", "lwcore.detection.detection_error"),
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    n, ratios = np.array([1, 11, 101, 1001]), []
    for alpha in _ALPHAS:
        least = detection.fano_error(detection.mutual_information(0.1, alpha, 1, n))
        ratios += [
            (detection.detection_error(n, 0.1, 1, alpha, test) / least).min()
            for test in ("likelihood", "median", "mean")
        ]
    return exactly(min(ratios))


def _printed_number(
    shift: np.ndarray, alpha: float, exponent: float, share: float = 1.0
) -> np.ndarray:
    """Eq. (34) at an error of a tenth, its constant a share of the largest that makes Eq. (33) true
    for one sequence and a small shift."""
    constant = share * SymmetricStable(alpha).fisher_information() / 2
    return ((math.log(2) - detection.binary_entropy(0.1)) / constant) ** (
        exponent / 2
    ) * shift**-exponent


@chapter.claim(
    "necessary-number",
    "Eq. (34), as Eq. (37) takes it",
    "What Fano's inequality asks for, with the exponent α, is the order of what is needed: no "
    "test does with fewer sequences, and the best "
    "with as many, up to a constant.",
    as_stated(
        "largest over least ratio of the best test's number to Eq. (34)'s while Δ goes from σ/100 "
        "to σ/10⁴, error 0.1; α = 1.2, 1.5, 1.8",
        at_most(1.1),
    ),
    when(
        "as a bound from below alone, which stands because it asks for ever less of what is needed",
        "least ratio of the best test's number to Eq. (34)'s, error 0.1, Δ from σ/100 to σ; α = "
        "1.2, 1.5 and 1.8",
        at_least(1),
    ),
    rather(
        "as the signal shrinks, the best test's number leaves it behind as the power 2 − α of 1/Δ",
        "measured over expected power, Δ from σ/100 to σ/10⁴; the same α",
        within(0.98, 1.02),
    ),
    code="lwcore.detection.least_sequences",
    counterexample=(
        "α = 1.2, Δ = σ/10⁴: the best test needs {times:,.0f} times as many "
        "sequences as Eq. (34) asks for."
    ),
    fair=(
        "Eq. (34) with the exponent 2 is a necessary number for all tests, and of the order "
        "of what the best one needs."
    ),
    seen=(
        "Read first as a bound from below alone, which any exponent below 2 keeps with room "
        "to spare."
    ),
)
def _() -> tuple[Measured, Measured, Measured, Facts]:
    far = np.array([1e-2, 1e-4])
    ratios = {
        a: detection.least_sequences(far, 1, a, test="likelihood") / _printed_number(far, a, a)
        for a in _ALPHAS
    }
    least = min(
        (
            detection.least_sequences(_SHIFTS, 1, a, test="likelihood")
            / _printed_number(_SHIFTS, a, a)
        ).min()
        for a in _ALPHAS
    )
    powers = [
        math.log(far_ratio / near_ratio) / math.log(100) / (2 - a)
        for a, (near_ratio, far_ratio) in ratios.items()
    ]
    return (
        over([ratio.max() / ratio.min() for ratio in ratios.values()]),
        exactly(least),
        over(powers),
        {"times": float(ratios[1.2][1])},
    )


@chapter.claim(
    "later-necessary-number",
    "Eq. (34), with the exponent of later versions",
    "No test tells the lag from fewer sequences than Fano's inequality asks for, with the "
    "exponent κ = α/(α − 1).",
    as_stated(
        "least ratio of the best test's number to that of Eq. (34) with κ, error 0.1, Δ from "
        "σ/100 to σ, α = 1.5",
        at_least(1),
    ),
    when("for the sign of the mean", "the same with the mean's number", at_least(1)),
    code="lwcore.detection.least_sequences",
    counterexample=(
        "α = 1.5, Δ = σ/100: the median needs fewer than 100,000 sequences, the "
        "formula asks for more than two million."
    ),
    fair="The exponent κ is a mean's; over all tests the exponent is 2.",
)
def _() -> tuple[Measured, Measured]:
    asked = _printed_number(_SHIFTS, _ALPHA, detection.rate_exponent(_ALPHA))
    best, mean = (
        exactly((detection.least_sequences(_SHIFTS, 1, _ALPHA, test=test) / asked).min())
        for test in ("likelihood", "mean")
    )
    return best, mean


@chapter.claim(
    "fano-from-a-lower-bound",
    "Eqs. (33) and (34)",
    "A lower bound on the information gives, by Fano's inequality, a number of sequences below "
    "which no test succeeds.",
    as_stated(
        "best test's number over Eq. (34)'s, Gaussian noise, Δ = σ/100; the bound is a tenth of "
        "the information's own small-signal form",
        at_least(1),
    ),
    rather(
        "an upper bound does: I ≤ N KL/4",
        "least ratio of the best test's number to that; Δ from σ/100 to σ, α = 1.2 to 2",
        at_least(1),
    ),
    rather(
        "a lower bound gives a number with which the best test succeeds, by Hellman and Raviv's "
        "P_e ≤ ½ (1 − I/log 2)",
        "that bound over the best test's error, N = 1 to 1,001, Δ = σ/30 to σ, α = 1.2 to 2, up "
        "to 0.999 of a bit; median (range)",
        at_least(1),
    ),
    code=(
        "lwcore.detection.necessary_sequences",
        "lwcore.detection.least_sequences",
        "lwcore.detection.hellman_raviv_error",
    ),
    counterexample=(
        "A weaker bound is still true, and asks for more: zero as a lower bound "
        "would ask for infinitely many sequences."
    ),
    fair="A lower bound on the information gives a sufficient number, as Eq. (37) calls it, by Hellman and Raviv's inequality in the place"
    " of Fano's: I ≥ (1 − 2 P_e) log 2 is enough. An upper bound gives a necessary one, by Fano's.",
)
def _() -> tuple[Measured, Measured, Measured]:
    weak = _printed_number(np.array(0.01), 2.0, 2.0, share=0.1)
    best = detection.least_sequences(0.01, 1, 2.0, test="likelihood") / weak
    enough = [
        (
            detection.least_sequences(_SHIFTS, 1, a, test="likelihood")
            / detection.necessary_sequences(_SHIFTS, 1, a)
        ).min()
        for a in (*_ALPHAS, 2.0)
    ]
    n, ratios = np.array([1, 11, 101, 1001]), []
    for a in (*_ALPHAS, 2.0):
        for shift in (0.03, 0.1, 0.3, 1.0):
            information = detection.mutual_information(shift, a, 1, n)
            less = information < 0.999 * math.log(2)
            error = detection.detection_error(n, shift, 1, a, "likelihood")
            ratios += (detection.hellman_raviv_error(information) / error)[less].tolist()
    return exactly(best), exactly(min(enough)), over(ratios)
