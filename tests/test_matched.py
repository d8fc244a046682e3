"""The matched statistic examined: every measure against its definition, or a simulation whose
answer is known."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from book.chapters import matched
from lwcore.gradient import matched_statistic, random_direction
from lwcore.inference import LETTER, RATES, required, summary
from lwcore.network import Network
from lwcore.transport import envelope
from tests import oracles
from tests.networks import CELLS, draw, make


def noise_terms(sequences, ends=3, lags=2, hidden=4, seed=0):
    """Alignments of pure noise with rates that are correlated with their size, not their sign."""
    generator = torch.Generator().manual_seed(seed)
    alignments = torch.randn(
        sequences, ends, lags, hidden, generator=generator, dtype=torch.float64
    )
    rates = (
        0.5
        + alignments.abs()
        + torch.rand(alignments.shape, generator=generator, dtype=torch.float64)
    )
    return matched.LagTerms(rates, alignments, (rates * alignments).sum(-1))


@pytest.mark.parametrize("kind", CELLS)
def test_terms_are_both_sides_of_equation_27(kind):
    """Entry by entry, with M by autograd."""
    network = Network(make(kind), torch.Generator().manual_seed(3))
    inputs, targets = draw(2, 7, 3), draw(2, 7, seed=4)
    trace, delta = network.observe(inputs, targets)
    direction = random_direction(network.cell, torch.Generator().manual_seed(8))
    terms = matched.lag_terms(trace, delta, direction, [1, 3])
    moved = trace.moved(direction)
    for b in range(2):
        for e, t in enumerate(range(3, 7)):
            for i, lag in enumerate((1, 3)):
                whole = oracles.transport(network.cell, inputs[b], trace.history[b, 0], t, lag)
                expected = delta[b, t] @ whole[:4] @ moved[b, t - lag]
                torch.testing.assert_close(
                    terms.transport[b, e, i], expected, rtol=1e-10, atol=1e-13
                )
                diagonal = oracles.carried_block(network.cell, whole).diagonal()
                expected = (delta[b, t] * diagonal * moved[b, t - lag][-4:]).sum()
                torch.testing.assert_close(
                    terms.statistic()[b, e, i], expected, rtol=1e-10, atol=1e-13
                )


def test_statistic_and_signs_are_those_of_equation_28():
    terms = noise_terms(20)
    signs = terms.signs
    assert torch.equal(signs, torch.sign(terms.alignments.sum((0, 1))))
    torch.testing.assert_close(
        terms.statistic(signs).mean(1), matched_statistic(terms.rates, terms.alignments, signs)
    )
    chosen = terms.of(slice(3, 5), [1])
    assert torch.equal(chosen.transport, terms.transport[3:5, :, 1:])
    assert torch.equal(chosen.rates, terms.rates[3:5, :, 1:])


@pytest.mark.parametrize(("persistence", "expected"), [(0.0, 40.0), (0.8, None), (1.0, 1.0)])
def test_effective_samples_of_an_autoregression(persistence, expected):
    """x_t = φ x_{t−1} + …: autocorrelation φ^k, and the variance of the mean of T values known in
    closed form."""
    length = 40
    steps = [draw(3000, 1, seed=9)]
    for t in range(1, length):
        steps.append(
            persistence * steps[-1] + (1 - persistence**2) ** 0.5 * draw(3000, 1, seed=10 + t)
        )
    series = torch.stack(steps, dim=1)
    if expected is None:
        k = np.arange(1, length)
        expected = length / (1 + 2 * ((1 - k / length) * persistence**k).sum())
    worth = matched.effective_samples(series, np.random.default_rng(0))
    assert worth.value[0] == pytest.approx(expected, rel=0.08)
    assert worth.low[0] <= worth.value[0] <= worth.high[0]


@given(
    log_factors=hnp.arrays(float, 4, elements=st.floats(-20, 20)), seed=st.integers(0, 2**32 - 1)
)
def test_a_factor_that_all_rates_at_a_lag_share_cancels(log_factors, seed):
    """From rates to N(ℓ) by the package's own functions: f once, N(ℓ) stays; by version 2's letter
    it goes as γ^−α."""
    generator, lags, factors = (
        torch.Generator().manual_seed(seed),
        [1, 2, 4, 8],
        np.exp(log_factors),
    )
    # of both signs, and no factor of any kind
    rates = torch.randn(64, 3, 4, 5, generator=generator, dtype=torch.float64)
    alignments = 0.3 * rates.sign() + torch.randn(
        rates.shape, generator=generator, dtype=torch.float64
    )
    # a gradient that is not weighted by the lag's rates
    whole = alignments.sum((1, 2, 3)).expand(1, 4, -1).numpy()

    def found(rates):
        statistic = (
            matched_statistic(rates, alignments, torch.ones(4, 5, dtype=torch.float64))
            .T[None]
            .numpy()
        )
        variables = {
            "statistic": (("probe", "lag", "sequence"), statistic),
            "projection": (("probe", "lag", "sequence"), whole),
        }
        kept = summary(xr.Dataset(variables, {"lag": lags, "view": ("probe", ["first"])}))
        return kept.assign(
            envelope=(("order", "lag"), envelope(rates)[None].numpy())
        ).assign_coords(order=["first"])

    plain, scaled = found(rates), found(rates * torch.as_tensor(factors)[:, None])
    close = functools.partial(xr.testing.assert_allclose, check_dim_order=False)
    gamma = xr.DataArray(factors, {"lag": lags})
    for name in ("signal", "envelope"):
        close(scaled[name], gamma * plain[name], rtol=1e-12)
    before, after = (one.sel(noise="own", drop=True) for one in (plain, scaled))
    close(after.scale, gamma * before.scale, rtol=1e-12)
    close(after.alpha, before.alpha, rtol=1e-12)
    ways = [({"rate": rate}, 0.0) for rate in RATES]  # and the power of 1/γ
    for how, power in (
        *ways,
        (LETTER, before.alpha),
        ({"noise": "whole", "rate": "variance"}, 2.0),
    ):
        before_n, after_n = (
            required(one, rule="plug-in", error=0.1, **how) for one in (plain, scaled)
        )
        close(after_n, before_n * gamma**-power, rtol=1e-9)


def fluctuating(steps, widen=0.0, sequences=20_000, hidden=4):
    """Rates are products of one gate for all neurons, which fluctuates; alignments Gaussian, wider
    with the lag or not."""
    rng = np.random.default_rng(5)
    gates = np.exp(rng.normal(-0.3, 0.3, (sequences, max(steps)))).cumprod(1)[
        :, np.array(steps) - 1
    ]
    rates = torch.as_tensor(gates)[:, None, :, None].expand(-1, 1, -1, hidden)
    width = torch.as_tensor(gates.mean(0) ** -widen)[:, None]
    alignments = width * torch.as_tensor(rng.standard_normal((sequences, 1, len(steps), hidden)))
    return matched.LagTerms(rates, alignments, alignments.sum(-1))


STEPS = [1, 4, 16, 64]


def quartiles(terms):
    statistic = terms.statistic(terms.signs)[:, 0].numpy()
    return statistic, np.subtract(*np.quantile(statistic, [0.75, 0.25], axis=0))


def test_a_scale_of_quantiles_goes_to_zero_with_the_envelope():
    """P(|T| > 8 f K) ≤ 1/8 + P(max|a| > K) by Markov, rates fluctuating and alignments without a
    bound; with K the 7/8 quantile, 1/4."""
    terms = fluctuating(STEPS)
    statistic, scale = quartiles(terms)
    f, largest = (
        terms.rates.abs().sum(-1).mean((0, 1)).numpy(),
        terms.alignments.abs().amax(-1)[:, 0].numpy(),
    )
    assert (np.abs(statistic) <= terms.rates.sum(-1)[:, 0].numpy() * largest).all()
    reach = 8 * f * np.quantile(largest, 7 / 8, axis=0)
    assert ((np.abs(statistic) > reach).mean(0) <= 1 / 4).all()
    assert (scale <= 2 * reach).all()
    assert (np.diff(scale) < 0).all()
    assert scale[-1] < 1e-4 * scale[0]


def test_alignments_that_widen_as_the_envelope_falls_keep_the_scale_up():
    """What the corollary assumes is needed: |a| as 1/f keeps quantiles of |T| of order one where f
    falls by the same factor as before."""
    shorter = [1, 2, 4, 8]  # beyond, the gate's median falls below its mean
    (_, kept), (_, lost) = (
        quartiles(fluctuating(shorter, widen=1.0)),
        quartiles(fluctuating(shorter)),
    )
    assert kept[-1] > 0.5 * kept[0]
    assert lost[-1] < 0.3 * lost[0]


def test_the_mean_of_the_rates_is_no_bound_sequence_by_sequence():
    """One neuron, |a| = 1: |T| is the gate, a lognormal above its mean exp(s²/2) with the chance
    Φ(−s/2), here s = 0.3."""
    terms = fluctuating([1], hidden=1)
    terms = terms._replace(alignments=terms.alignments.sign())
    beyond = (terms.statistic(terms.signs).abs() > terms.rates.mean()).double().mean().item()
    assert beyond == pytest.approx(stats.norm.cdf(-0.15), abs=0.015)


def test_a_standard_deviation_may_stay_where_quantiles_go():
    """A rate of 1/f in a share f² of the sequences: mean f, mean square one."""
    f, count = 0.01, 100_000
    rates = torch.zeros(count, 1, 1, 1, dtype=torch.float64)
    rates[: round(f**2 * count)] = 1 / f
    terms = matched.LagTerms(rates, draw(count, 1, 1, 1).sign(), rates[..., 0])
    assert rates.mean().item() == pytest.approx(f)
    statistic, scale = quartiles(terms)
    assert scale == 0
    assert statistic.std() == pytest.approx(1, abs=0.01)
