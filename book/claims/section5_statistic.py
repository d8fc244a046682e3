"""Claims of Sections 5.1 to 5.3, Eqs. (27)–(31): the matched statistic, its mean, and how fast
averages of it concentrate."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch

from book.chapters import matched, robust
from book.chapters.aggregation import MeasuredExponent, measured_exponent
from book.chapters.hill import hill
from book.claims import cases
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
    in_later_versions,
    in_part,
    over,
    rather,
    share,
    when,
    within,
)
from book.claims.record import Runs
from lwcore import detection, experiment, gradient, stable
from lwcore.inference import probes
from lwcore.network import Network
from lwcore.stable import SymmetricStable
from lwcore.transport import Order, coefficients, effective_rates, scaled_product, split

chapter = Chapter("livi", Kind.SIMULATION)

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


@chapter.claim(
    "lag-part-is-a-sum-over-neurons",
    "Eq. (27)",
    "A lag's part of the gradient is, approximately, the sum over neurons of effective learning "
    "rate times alignment.",
    as_stated(
        "share of its mean square that the sum accounts for, at the task's lags after training; "
        "range over 15 networks and 4 lags",
        at_least(0.5),
    ),
    in_part(
        "for untrained networks and one step back",
        "the same at lag 1 before training",
        at_least(0.5),
    ),
    code="book.chapters.matched.agreement",
    counterexample=(
        "Two neurons that only copy each other: the gradient goes by the entries "
        "beside the diagonal, and the sum is zero."
    ),
    fair=(
        "The sum over neurons stands for a lag's part as long as little of it has gone from "
        "neuron to neuron."
    ),
    slow=True,
    kind=Kind.NETWORK,
)
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


@chapter.claim(
    "lag-part-to-first-order",
    "Eq. (27), as an expansion of first order",
    "What the sum over neurons leaves out of a lag's part is of second order in the recurrent "
    "mixing.",
    as_stated(
        "power of the mixing with which the remainder falls, at lag 4; range over cells whose "
        "state is h",
        at_least(1.9),
    ),
    when(
        "where no neuron drives another, so that all is on the diagonal",
        "the same, with the mixing's diagonal alone",
        at_least(1.9),
    ),
    rather(
        "with the whole matrix of first order, not its diagonal alone, it is",
        "the same",
        at_least(1.9),
    ),
    code=("lwcore.transport.coefficients", "lwcore.transport.scaled_product"),
    counterexample=(
        "Two neurons, one step: the entry that carries one neuron's gradient to "
        "the other is of first order, and is left out."
    ),
    fair=(
        "The diagonal is taken to first order; what is left out beside the diagonal is of "
        "first order, too."
    ),
    kind=Kind.THEOREM,
)
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


@chapter.claim(
    "statistic-never-negative",
    "Eq. (28) and footnote 2",
    "Turned by the signs of their mean alignments, all neurons add up to a statistic whose mean "
    "cannot be negative.",
    as_stated(
        "share of 750 networks, directions and lags at which the mean lies more than four "
        "standard errors below zero, first-order rates",
        at_most(0),
    ),
    when(
        "if no rate is negative, as for gates alone", "the same with zeroth-order rates", at_most(0)
    ),
    code="lwcore.gradient.matched_statistic",
    counterexample="One neuron with the rate −1 and the alignment 1: its statistic is −1.",
    fair=(
        "The mean is not negative if each neuron is turned by the sign of its mean rate "
        "times alignment, or if no rate is negative."
    ),
    kind=Kind.THEOREM,
)
def _(runs: Runs) -> tuple[Measured, Measured]:
    seen = (probes(runs["small"], view, "error") for view in ("first", "zeroth"))
    first, zeroth = (exactly((one.signal < -4 * one.signal_error).mean()) for one in seen)
    return first, zeroth


@chapter.claim(
    "mean-is-envelope-times-alignment",
    "Eq. (29)",
    "The mean of the matched statistic is the envelope times the mean alignment.",
    as_stated(
        "mean over the product, at the task's lags, first-order rates; range over 15 trained "
        "networks",
        within(0.9, 1.1),
    ),
    when(
        "if rates are positive and go independently of alignments, as a constant gate's alone do",
        "largest difference from 1 in ConstGate with zeroth-order rates",
        at_most(1e-10),
    ),
    code=("lwcore.gradient.factorise", "book.chapters.matched.factorisation_ratio"),
    counterexample=(
        "One neuron, rate 0 or 2 where its alignment is 2 or 0: envelope and mean "
        "alignment are 1, the statistic always 0."
    ),
    fair=(
        "The mean is envelope times mean alignment where rates are positive and not "
        "correlated with alignments."
    ),
    slow=True,
    kind=Kind.THEOREM,
)
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


@chapter.claim(
    "alignment-is-a-weighted-average",
    "Eq. (30)",
    "The mean alignment is an average of the neurons' own, weighted with their effective rates.",
    as_stated(
        "share of trained networks and lags at which it lies between the neurons' least and "
        "largest, first-order rates",
        at_least(1),
    ),
    when(
        "if no rate is negative, as for gates alone",
        "the same with zeroth-order rates",
        at_least(1),
    ),
    code="book.chapters.matched.lag_terms",
    counterexample=(
        "Rates 2 and −1, alignments 1 and 2: the formula gives 0, which is no average of 1 and 2."
    ),
    fair="Weighted with absolute rates it is an average.",
    slow=True,
    kind=Kind.THEOREM,
)
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


@chapter.claim(
    "no-signal-looks-like-noise",
    "§5.2",
    "Where no neuron has a mean alignment, the matched statistic shows noise and nothing else.",
    as_stated(
        "mean over its standard error, in noise without signal, 16 neurons; signs from the "
        "sequences that are averaged",
        within(-0.2, 0.2),
    ),
    when(
        "if the signs come from other sequences",
        "the same with signs from as many other sequences",
        within(-0.2, 0.2),
    ),
    code="book.chapters.matched.own_sign_means",
    counterexample=(
        "One neuron, one sequence: turned by the sign of its own number, noise is never negative."
    ),
    fair="Signs are to be taken from sequences that are not averaged afterwards.",
)
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


@chapter.claim(
    "rates-do-not-depend-on-the-end-point",
    "§5, footnote 1",
    "Effective rates depend on the lag and not on where in the sequence it ends.",
    as_stated(
        "envelope at lag 8 that ends 8 steps after the start over that at the end of the "
        "sequence, zeroth and first order; range over 15"
        " trained networks",
        within(0.9, 1.1),
    ),
    when(
        "behind the first half of the sequence, where the state has forgotten its start",
        "the same, at the middle",
        within(0.9, 1.1),
    ),
    code="lwcore.transport.effective_rates",
    counterexample=(
        "A trained GRU or LSTM: from its zero state the envelope of the first "
        "steps is down to {0.low:.2f} of what it is later."
    ),
    fair=(
        "Behind the first steps, which remember that a sequence starts from zero, rates "
        "depend on the lag alone."
    ),
    slow=True,
    kind=Kind.NETWORK,
)
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


@chapter.claim(
    "noise-of-an-average",
    "Eq. (31)",
    "The noise of an average of N sequences falls as N to the power −1/α.",
    as_stated(
        "measured exponent p of the fall N^(−1/p), over α; α = 1.3, 1.5 and 1.8, with the widest "
        "interval",
        within(0.9, 1.1),
    ),
    in_later_versions(
        "the exponent is κ = α/(α − 1)", "measured exponent over κ, the same", within(0.9, 1.1)
    ),
    code=("book.chapters.aggregation.measured_exponent", "lwcore.detection.rate_exponent"),
    counterexample=(
        "Towards α = 1: a mean of Cauchy variables is as spread out as one of "
        "them, while N^(−1/α) is 1/N."
    ),
    fair="A mean of N symmetric α-stable variables has N^(1/α − 1) times the scale of one.",
)
def _() -> tuple[Measured, Measured]:
    return _in_units(_mean_exponents(), "paper_v2"), _in_units(_mean_exponents(), "mean")


@chapter.claim(
    "heavy-tails-slow-averages-down",
    "§5.3, after Eq. (31)",
    "Below α = 2 the noise of an average falls more slowly than the Gaussian N to the power −1/2.",
    as_stated("printed scale of a mean of 1,000, over the Gaussian's fall, α = 1.5", at_least(1)),
    in_later_versions(
        "the exponent is κ = α/(α − 1)",
        "measured scale of a mean of 512, over the Gaussian's fall, least of three α",
        at_least(1),
    ),
    code="lwcore.detection.rate_exponent",
    counterexample=(
        "α = 1.5, N = 1,000: the printed factor is {printed:.2g}, the Gaussian one {gaussian:.2g}."
    ),
    fair=(
        "The words are right for a mean, whose exponent is α/(α − 1); the printed α, below "
        "the Gaussian's, says the opposite."
    ),
)
def _() -> tuple[Measured, Measured, Facts]:
    slower = [
        512 ** (0.5 - 1 / np.array([one.exponent, *one.interval]))
        for one in _mean_exponents().values()
    ]
    least = min(slower, key=lambda factors: factors[0])
    printed, gaussian = 1000 ** (-1 / detection.rate_exponent(1.5, "paper_v2")), 1000**-0.5
    return exactly(printed / gaussian), Measured(*least), {"printed": printed, "gaussian": gaussian}


@chapter.claim(
    "tail-index-below-two",
    "§5.3",
    "The tail index of a gradient's fluctuations is below 2, that of a Gaussian.",
    as_stated(
        "upper end of the 95 % interval for α of the gradient of one sequence, averaged over its "
        "end points, along a random direction, in"
        " trained networks; range over 25 networks of the run small",
        at_most(1.99),
    ),
    in_part("for DiagGate", "the same; range over its 5 networks", at_most(1.99)),
    code="lwcore.stable.fit",
    counterexample=(
        "A trained SharedGate of the run small: the interval from the gradients of "
        "1,024 sequences ends at α = {shared:.3g}."
    ),
    fair="Tails heavier than a Gaussian's are there in some cells and not in others, and are to be tested before they are used. The"
    " literature that is cited is about batches during training, of which this says nothing.",
    kind=Kind.NETWORK,
)
def _(runs: Runs) -> tuple[Measured, Measured, Facts]:
    numbers = robust.numbers(runs["small"], "whole", "whole").isel(probe=0, lag=0)
    ends = {
        model: stable.fit(numbers.sel(model=model).values.T, "ecf").alpha_interval[1]
        for model in numbers.model.values
    }
    return (
        over(np.ravel(list(ends.values()))),
        over(np.ravel(ends["DiagGate"])),
        {"shared": float(np.max(ends["SharedGate"]))},
    )


@chapter.claim(
    "presence-is-sign",
    "§5.3, before Eq. (32), and Appendix C",
    "Telling whether a lag carries a signal is the same problem as telling two opposite shifts "
    "apart.",
    as_stated(
        "sequences that the best test needs for presence (0 or Δ), over those for the sign (−Δ or "
        "Δ), α = 1.5, Δ = σ/100",
        within(0.95, 1.05),
    ),
    as_mended(
        "up to a constant factor, that of half the signal",
        "change of that ratio from Δ = σ/100 to σ/10, as a factor",
        within(0.99, 1.01),
    ),
    code="lwcore.detection.least_sequences",
    counterexample=(
        "Gaussian noise: nothing and Δ lie Δ apart, opposite shifts 2Δ, so that "
        "presence takes four times the sequences."
    ),
    fair=(
        "Presence is as hard as the sign of a signal of half the size: a constant factor, "
        "and the same exponent."
    ),
    kind=Kind.THEOREM,
)
def _() -> tuple[Measured, Measured]:
    shifts = np.array([0.1, 0.01])
    ratio = detection.least_sequences(
        shifts / 2, 1, 1.5, test="likelihood"
    ) / detection.least_sequences(shifts, 1, 1.5, test="likelihood")
    return exactly(ratio[1]), exactly(ratio[0] / ratio[1])


@chapter.claim(
    "gaussian-limit",
    "§5.3 and Appendix F, remarks",
    "At α = 2 everything becomes the familiar law: N grows with the inverse square of the signal.",
    as_stated("exponent p of the mean of Gaussian numbers, 95 % interval", within(1.9, 2.1)),
    code="book.chapters.aggregation.measured_exponent",
    kind=Kind.IDENTITY,
)
def _() -> Measured:
    found = measured_exponent(2.0, "mean", [8, 512], np.random.default_rng(32), replicates=1000)
    return estimate(found.exponent, found.interval)


@chapter.claim(
    "hill-reads-the-tail-index",
    "§6.1",
    "Hill's estimator gives the tail index of the statistic's stable noise.",
    as_stated(
        "mean estimate over α from the 32 largest of 1,024 stable numbers; range over α = 1.2, "
        "1.5 and 1.8 with 95 % over 100 samples",
        within(0.9, 1.1),
    ),
    in_part("for tails with α up to 1.3", "the same at α = 1.1, 1.2 and 1.3", within(0.9, 1.1)),
    code="book.chapters.hill.hill",
    counterexample=(
        "1,024 numbers with α = 1.8: the mean estimate is {light:.2f}, lighter than any stable law."
    ),
    fair="Hill's estimator reads heavy tails; near α = 2 a fit of the whole law is needed.",
)
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


@chapter.claim(
    "steps-pooled-for-the-tail-index",
    "§6.1, as the first revision of the author's public code does",
    "Numbers at all steps of all sequences may be taken together to estimate the tail index.",
    as_stated(
        "share of 1,000 samples whose 95 % interval by Hill holds α = 1.2; neighbours share 15 of "
        "16 terms",
        at_least(0.9),
    ),
    when(
        "if they are independent, as one number a sequence is",
        "the same for independent numbers",
        at_least(0.9),
    ),
    code="book.chapters.hill.hill",
    counterexample=(
        "1,024 averages over a sliding window of 16 stable numbers, α = 1.2: "
        "stable themselves, and Hill reads {read:.2g}."
    ),
    fair="One number a sequence; neighbouring steps are not independent samples.",
    paper="code",
)
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


@chapter.claim(
    "quantiles-read-the-scale",
    "§6.1",
    "McCulloch's quantiles give the scale of stable noise, whether it has a variance or not.",
    as_stated(
        "mean estimate over σ on 1,024 stable numbers, α = 1.2, 1.5, 1.8 and 2; range with 95 % "
        "intervals over 100 samples",
        within(0.95, 1.05),
    ),
    code="lwcore.stable.fit",
)
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
