"""Claims of Sections 5.1 to 5.3, Eqs. (27)–(31): the matched statistic, its mean, and how fast
averages of it concentrate."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch

from book.chapters import matched
from book.chapters.aggregation import MeasuredExponent, measured_exponent
from book.chapters.hill import hill
from book.claims import cases
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate, exactly, over, share
from lwcore import detection, experiment, gradient, stable
from lwcore.inference import probes
from lwcore.network import Network
from lwcore.stable import SymmetricStable
from lwcore.transport import Order, coefficients, effective_rates, scaled_product, split

# signs come from other sequences than the numbers that they turn
_FOR_SIGNS, _FOR_NUMBERS = slice(0, 96), slice(96, 256)
_LIVE = experiment.Config.named("live")


@functools.cache
def _networks(trained: bool) -> dict[tuple[str, int], Network]:
    """Five small cells, three seeds; training takes some twenty seconds."""
    return experiment.networks(_LIVE, trained)


def _terms(
    trained: bool, order: Order, lags: tuple[int, ...] = _LIVE.task.lags
) -> dict[tuple[str, int], matched.LagTerms]:
    """Both sides of Eq. (27) for every network, on 256 fresh sequences along a random direction; by
    default at the task's lags."""
    found = {}
    for (model, seed), network in _networks(trained).items():
        trace, errors = network.observe(*experiment.fresh_sequences(_LIVE, seed, 256))
        direction = gradient.random_direction(network.cell, torch.Generator().manual_seed(seed))
        found[model, seed] = matched.lag_terms(trace, errors, direction, lags, order)
    return found


@measures("lag-part-is-a-sum-over-neurons")
def _() -> tuple[Measured, Measured]:
    shares = []
    for trained, lags in ((True, _LIVE.task.lags), (False, (1,))):
        every = _terms(trained, "first", lags).values()
        shares.append(
            over(
                np.ravel(
                    [
                        matched.agreement(terms, np.random.default_rng(0)).explained.value
                        for terms in every
                    ]
                )
            )
        )
    return shares[0], shares[1]


@measures("lag-part-to-first-order")
def _() -> tuple[Measured, Measured, Measured]:
    powers: dict[str, list[float]] = {"diagonal taken": [], "none driven": [], "whole": []}
    for name, cell in cases.cells().items():
        if name.startswith("LSTM"):
            continue
        kept, whole = split(cases.scan(cell), slice(5, 9))
        errors, moved = cases.draw(5, seed=3), cases.draw(5, seed=4)
        for case, found in powers.items():
            mixing, missed = whole if case != "none driven" else _diagonal(whole), []
            constant, linear = coefficients(kept, mixing)
            for size in (1e-3, 1e-4):
                series = constant + size * linear
                series = series if case == "whole" else _diagonal(series)
                missed.append(
                    ((scaled_product(kept, mixing, size) - series) @ moved @ errors).abs().mean()
                )
            found.append(math.log10(missed[0] / missed[1]))
    first, second, third = map(over, powers.values())
    return first, second, third


def _diagonal(matrices: torch.Tensor) -> torch.Tensor:
    """Set everything beside the diagonal to zero."""
    return torch.diag_embed(matrices.diagonal(dim1=-2, dim2=-1))


@measures("statistic-never-negative")
def _(runs: Runs) -> tuple[Measured, Measured]:
    seen = (probes(runs["small"], view, "error") for view in ("first", "zeroth"))
    first, zeroth = (exactly((one.signal < -4 * one.signal_error).mean()) for one in seen)
    return first, zeroth


@measures("mean-is-envelope-times-alignment")
def _() -> tuple[Measured, Measured]:
    ratios = {}
    for order in ("first", "zeroth"):
        for key, terms in _terms(True, order).items():
            signs = terms.of(_FOR_SIGNS).signs
            ratios[order, *key] = matched.factorisation_ratio(
                terms.of(_FOR_NUMBERS), signs, np.random.default_rng(0)
            ).value
    first = np.ravel([ratio for (order, _, _), ratio in ratios.items() if order == "first"])
    constant = np.ravel(
        [
            ratio
            for (order, model, _), ratio in ratios.items()
            if (order, model) == ("zeroth", "ConstGate")
        ]
    )
    return over(first), exactly(abs(constant - 1).max())


@measures("alignment-is-a-weighted-average")
def _() -> tuple[Measured, Measured]:
    shares = []
    for order in ("first", "zeroth"):
        inside = []
        for terms in _terms(True, order).values():
            rates, sizes = terms.rates.mean((0, 1)), terms.alignments.mean((0, 1)).abs()
            average = (rates * sizes).sum(-1) / rates.sum(-1)
            inside += ((sizes.amin(-1) <= average) & (average <= sizes.amax(-1))).tolist()
        shares.append(exactly(np.mean(inside)))
    return shares[0], shares[1]


@measures("no-signal-looks-like-noise")
def _() -> tuple[Measured, Measured]:
    groups, size, neurons = 2000, 64, 16
    noise = torch.randn(
        groups * size,
        1,
        1,
        neurons,
        generator=torch.Generator().manual_seed(5),
        dtype=torch.float64,
    )
    terms = matched.LagTerms(torch.ones_like(noise), noise, noise.sum(-1))
    own = matched.own_sign_means(terms, size)[:, 0]
    means = noise.reshape(groups, size, neurons).mean(1)
    others = (means.roll(1, 0).sign() * means).sum(-1)
    found = []
    for one in (own, others):
        z = one.numpy() * math.sqrt(size / neurons)
        error = 1.96 * z.std(ddof=1) / math.sqrt(groups)
        found.append(estimate(z.mean(), (z.mean() - error, z.mean() + error)))
    return found[0], found[1]


@measures("rates-do-not-depend-on-the-end-point")
def _() -> tuple[Measured, Measured]:
    early, middle = [], []
    for (_, seed), network in _networks(True).items():
        trace, _ = network.observe(*experiment.fresh_sequences(_LIVE, seed, 256))
        for order in ("zeroth", "first"):
            ends = [8, trace.length // 2, trace.length - 1]
            f = [
                float(effective_rates(trace, [8], order, [end]).abs().sum(-1).mean())
                for end in ends
            ]
            early.append(f[0] / f[2])
            middle.append(f[1] / f[2])
    return over(early), over(middle)


@functools.cache
def _mean_exponents() -> dict[float, MeasuredExponent]:
    rng = np.random.default_rng(31)
    return {
        alpha: measured_exponent(alpha, "mean", [8, 512], rng, replicates=1000)
        for alpha in (1.3, 1.5, 1.8)
    }


def _in_units(exponents: dict[float, MeasuredExponent], rate: str) -> Measured:
    """Measured over printed exponents: the middle one, between the least and the largest end of an
    interval."""
    values = [
        [p / detection.rate_exponent(alpha, rate) for p in (one.exponent, *one.interval)]
        for alpha, one in exponents.items()
    ]
    return Measured(
        float(np.median(values, axis=0)[0]), float(np.min(values)), float(np.max(values))
    )


@measures("noise-of-an-average")
def _() -> tuple[Measured, Measured]:
    return _in_units(_mean_exponents(), "paper_v2"), _in_units(_mean_exponents(), "mean")


@measures("heavy-tails-slow-averages-down")
def _() -> tuple[Measured, Measured, Facts]:
    slower = [
        512 ** (0.5 - 1 / np.array([one.exponent, *one.interval]))
        for one in _mean_exponents().values()
    ]
    least = min(slower, key=lambda factors: factors[0])
    printed, gaussian = 1000 ** (-1 / detection.rate_exponent(1.5, "paper_v2")), 1000**-0.5
    return exactly(printed / gaussian), Measured(*least), {"printed": printed, "gaussian": gaussian}


@measures("presence-is-sign")
def _() -> tuple[Measured, Measured]:
    shifts = np.array([0.1, 0.01])
    ratio = detection.least_sequences(
        shifts / 2, 1, 1.5, test="likelihood"
    ) / detection.least_sequences(shifts, 1, 1.5, test="likelihood")
    return exactly(ratio[1]), exactly(ratio[0] / ratio[1])


@measures("gaussian-limit")
def _() -> Measured:
    found = measured_exponent(2.0, "mean", [8, 512], np.random.default_rng(32), replicates=1000)
    return estimate(found.exponent, found.interval)


@measures("hill-reads-the-tail-index")
def _() -> tuple[Measured, Measured, Facts]:
    rng, found, light = np.random.default_rng(33), [], 0.0
    for alphas in ((1.2, 1.5, 1.8), (1.1, 1.2, 1.3)):
        ratios = [
            hill(SymmetricStable(alpha).sample((1024, 100), rng))[0] / alpha for alpha in alphas
        ]
        means, errors = np.mean(ratios, axis=1), 1.96 * np.std(ratios, axis=1, ddof=1) / 10
        found.append(
            Measured(
                float(np.median(means)),
                float((means - errors).min()),
                float((means + errors).max()),
            )
        )
        light = light or float(means[-1] * alphas[-1])
    return found[0], found[1], {"light": light}


@measures("steps-pooled-for-the-tail-index")
def _() -> tuple[Measured, Measured, Facts]:
    law, rng = SymmetricStable(1.2), np.random.default_rng(35)
    sliding = np.lib.stride_tricks.sliding_window_view(
        law.sample((1024 + 15, 1000), rng), 16, axis=0
    ).mean(-1)
    covered, read = [], []
    for numbers in (sliding, law.sample((1024, 1000), rng)):
        alpha, low, high = hill(numbers)
        read.append(float(np.mean(alpha)))
        covered.append(share(int(np.sum((low <= law.alpha) & (law.alpha <= high))), 1000))
    return covered[0], covered[1], {"read": read[0]}


@measures("quantiles-read-the-scale")
def _() -> Measured:
    rng = np.random.default_rng(34)
    ratios = [
        np.asarray(
            stable.fit(SymmetricStable(alpha, 3.0).sample((1024, 100), rng), "mcculloch").scale
        )
        / 3.0
        for alpha in (1.2, 1.5, 1.8, 2.0)
    ]
    means, errors = np.mean(ratios, axis=1), 1.96 * np.std(ratios, axis=1, ddof=1) / 10
    return Measured(
        float(np.median(means)), float((means - errors).min()), float((means + errors).max())
    )
