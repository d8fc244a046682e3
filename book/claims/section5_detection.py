"""Claims of Section 5.3 and Appendices C and D, Eqs. (32)–(34) and (53)–(57): stable laws,
divergence, information, Fano's inequality."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, stats

from book.chapters.lan import lan_expansions
from book.claims.checks import Facts, measures
from book.claims.claim import Measured, estimate, exactly, over
from lwcore import detection
from lwcore.stable import SymmetricStable

_ALPHA = 1.5
_ALPHAS = (1.2, 1.5, 1.8)
_SHIFTS = np.array([1, 0.3, 0.1, 0.03, 0.01])  # Δ/σ
_CURVATURE = SymmetricStable(_ALPHA).fisher_information()


@measures("gaussian-and-cauchy-in-closed-form")
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


@measures("levy-law-is-symmetric-stable")
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


@measures("tails-are-powers")
def _() -> Measured:
    falls = {
        alpha: -np.ptp(SymmetricStable(alpha).logpdf([1e3, 1e6])) / np.log(1e3) for alpha in _ALPHAS
    }
    return over([-fall / (alpha + 1) for alpha, fall in falls.items()])


@measures("no-variance-below-two")
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


@measures("fisher-information-is-finite")
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


@measures("locally-asymptotically-normal")
def _() -> tuple[Measured, Measured]:
    rng, found = np.random.default_rng(53), []
    for rate in ("paper_v2", "optimal"):
        ratios = lan_expansions(_ALPHA, 1000, rng, [rate], replicates=2000)[rate].log_ratio
        spread = ratios.std(ddof=1) / math.sqrt(_CURVATURE)
        low, high = np.sqrt((ratios.size - 1) / stats.chi2.ppf([0.975, 0.025], ratios.size - 1))
        found.append(estimate(spread, (spread * low, spread * high)))
    return found[0], found[1]


@measures("divergence-of-local-shifts")
def _() -> tuple[Measured, Measured]:
    n = 1e6
    away = {
        p: detection.kl_divergence(0.5 * n ** (-1 / p), _ALPHA, 1, n) / (_CURVATURE / 2)
        for p in (_ALPHA, 2)
    }
    return exactly(float(away[_ALPHA])), exactly(float(away[2]))


@measures("divergence-bounded-below")
def _() -> tuple[Measured, Measured]:
    n = np.array([1e3, 1e6])
    powers = {
        p: np.log(np.divide(*detection.kl_divergence(0.5 * n ** (-1 / p), _ALPHA, 1, n)[::-1]))
        / np.log(1e3)
        for p in (_ALPHA, 2)
    }
    return exactly(powers[_ALPHA]), exactly(powers[2])


@measures("divergence-grows-with-sequences")
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


@measures("divergence-is-quadratic")
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


@measures("information-grows-with-sequences")
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


@measures("information-by-the-mixture")
def _() -> Measured:
    pairs = [(shift, alpha) for shift in (0.5, 3.0) for alpha in (1.2, 1.5)]
    return exactly(
        max(
            abs(float(detection.mutual_information(s, a, route="mixture")) - _by_entropies(s, a)[0])
            for s, a in pairs
        )
    )


@measures("information-at-most-one-bit")
def _() -> Measured:
    found = [_by_entropies(shift, _ALPHA)[0] for shift in (0.01, 1.0, 10.0, 100.0)]
    return exactly(max(0.0, -min(found), max(found) - math.log(2)))


@measures("information-at-least-half-a-divergence")
def _() -> Measured:
    return exactly(
        min(
            float(detection.mutual_information(s, _ALPHA)) / (_by_entropies(s, _ALPHA)[1] / 2)
            for s in (0.5, 3.0)
        )
    )


@measures("mixture-costs-a-constant")
def _() -> tuple[Measured, Measured]:
    shifts = np.array([0.01, 0.1, 0.25, 1, 10, 1e3, 1e6])
    ratio = (
        detection.mutual_information(shifts, _ALPHA) / detection.kl_divergence(shifts, _ALPHA) * 4
    )
    return exactly(ratio.min()), exactly(ratio[:3].min())


@measures("fano-bounds-the-error")
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


@measures("necessary-number")
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


@measures("later-necessary-number")
def _() -> tuple[Measured, Measured]:
    asked = _printed_number(_SHIFTS, _ALPHA, detection.rate_exponent(_ALPHA))
    best, mean = (
        exactly((detection.least_sequences(_SHIFTS, 1, _ALPHA, test=test) / asked).min())
        for test in ("likelihood", "mean")
    )
    return best, mean


@measures("fano-from-a-lower-bound")
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
