"""Claims of Sections 5.1 to 5.3, Eqs. (27)–(31): the matched statistic, its mean, and how fast
averages of it concentrate."""

from __future__ import annotations

import functools
import math

import numpy as np
import torch

from book.chapters import matched
from book.claims import cases
from book.claims.checks import Runs, measures
from book.claims.claim import Measured, estimate, exactly, over
from lwcore import experiment, gradient
from lwcore.inference import probes
from lwcore.network import Network
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
