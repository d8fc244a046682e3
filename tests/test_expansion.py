"""The expansion against subsets written out, autograd and hand-made numbers; what is reported about it, on known traces."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from lwcore import expansion
from lwcore.cells import ConstGate
from lwcore.orders import without_norm
from lwcore.transport import effective_rates, envelope
from tests.networks import CELLS, draw, make

seeds = st.integers(0, 2**31)


def product(factors):
    """Newest on the left."""
    result = torch.eye(factors[0].shape[-1], dtype=torch.float64)
    for factor in factors:
        result = factor @ result
    return result


@given(seed=seeds, steps=st.integers(1, 5), size=st.integers(1, 3))
@settings(max_examples=50)
def test_coefficients_are_sums_over_the_steps_that_mix(seed, steps, size):
    """Eq. (45), and its like for every power: all ways to choose the k steps at which R stands."""
    kept, mixing = draw(2, steps, size, size, seed=seed)
    terms = expansion.coefficients(kept, mixing, steps + 1)
    assert terms.shape == (steps + 2, size, size)
    for k in range(steps + 2):
        chosen = [product([mixing[j] if j in at else kept[j] for j in range(steps)]) for at in combinations(range(steps), k)]
        torch.testing.assert_close(terms[k], sum(chosen, torch.zeros(size, size, dtype=torch.float64)), rtol=1e-10, atol=1e-12)


def test_polynomial_is_the_scaled_product():
    """Eqs. (44) and (46), batched; the remainder by its definition, and of second order."""
    kept, mixing = draw(2, 3, 6, 4, 4)
    terms = expansion.coefficients(kept, mixing, 6)
    for eps in (0.0, 0.3, 1.0, -2.0):
        expected = sum(eps**k * term for k, term in enumerate(terms))
        torch.testing.assert_close(expansion.scaled_product(kept, mixing, eps), expected, rtol=1e-10, atol=1e-10)
    left_out = expansion.remainders(kept, mixing, [1e-4, 1e-3])
    assert left_out.shape == (2, 3)
    size = torch.linalg.matrix_norm(terms)
    torch.testing.assert_close(left_out[0], 1e-8 * size[2] / size[0], rtol=2e-2, atol=0)
    torch.testing.assert_close(left_out[1] / left_out[0], torch.full((3,), 100.0, dtype=torch.float64), rtol=2e-1, atol=0)


@pytest.mark.parametrize("kind", CELLS)
def test_split_is_retention_and_mixing(kind):
    """Their sum is J; mixing vanishes with the recurrent weights; the first two terms hold the rates on their diagonal."""
    cell = make(kind)
    trace = cell.trace(draw(2, 9, 3))
    kept, mixing = expansion.split(trace, slice(3, 9))
    torch.testing.assert_close(kept + mixing, trace.jacobian(slice(3, 9)).dense(), rtol=1e-12, atol=1e-14)
    constant, linear = expansion.coefficients(kept, mixing)
    diagonal = [term[:, :4, -4:].diagonal(dim1=-2, dim2=-1) for term in (constant, constant + linear)]
    for order, expected in zip(("zeroth", "first"), diagonal, strict=True):
        torch.testing.assert_close(effective_rates(trace, [6], order, [8])[:, 0, 0], expected, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        cell.weight_hh.zero_()
    _, mixing = expansion.split(cell.trace(draw(2, 9, 3)), torch.tensor([2, 4]))
    assert mixing.shape[:2] == (2, 2)
    assert mixing.abs().max() < 1e-15


@pytest.mark.parametrize("kind", ["DiagGate", "GRU", "LSTM+norm"])
def test_fidelity_is_its_definition(kind):
    trace = make(kind).trace(draw(3, 10, 3))
    lags, ends = [1, 2, 5], [6, 9]
    found = expansion.fidelity(trace, lags, ends)
    rates = {order: effective_rates(trace, lags, order, ends).numpy() for order in ("zeroth", "first", "exact")}
    for order, mu in rates.items():
        at = found.sel(order=order)
        np.testing.assert_allclose(at.envelope.mean("sequence"), envelope(torch.from_numpy(mu)))
        for i, lag in enumerate(lags):
            exact = rates["exact"][:, :, i]
            assert float(at.error.sel(lag=lag)) == pytest.approx(np.abs(mu[:, :, i] - exact).sum() / np.abs(exact).sum())
            if i:
                grown = [abs(mu[b, e, i, q]) > abs(mu[b, e, i - 1, q]) for b in range(3) for e in range(2) for q in range(4)]
                assert float(at.rises.sel(lag=lag)) == pytest.approx(np.mean(grown))
        assert at.rises.isel(lag=0).isnull()
    ratio = found.envelope.mean("sequence") / found.envelope.sel(order="exact").mean("sequence")
    assert (abs(ratio - 1) <= found.error + 1e-12).all(), "the error of the rates bounds that of the envelope"
    kept, mixing = expansion.split(trace, slice(1, None))
    norms = [float(r.norm() / a.norm()) for a, r in zip(kept.flatten(0, 1), mixing.flatten(0, 1), strict=True)]
    assert float(found.coupling) == pytest.approx(np.mean(norms))


def test_closed_form_of_one_neuron_passes_through_zero_and_rises():
    """|μ| = (1 − s)^ℓ |1 + ℓ c|, c = s w/(1 − s): the counterexample to Lemma 5.1."""
    cell = ConstGate(1, 1, gate_init=0.2, dtype=torch.float64)
    cell.weight_hh.data.fill_(-0.7)
    trace = cell.trace(torch.zeros(1, 30, 1, dtype=torch.float64))
    lags = np.arange(1, 30)
    found = expansion.fidelity(trace, lags.tolist(), [29])
    expected = 0.8**lags * np.abs(1 - 0.175 * lags)
    np.testing.assert_allclose(found.envelope.sel(order="first", sequence=0), expected, rtol=1e-11, atol=1e-16)
    np.testing.assert_allclose(found.envelope.sel(order="exact", sequence=0), 0.66**lags, rtol=1e-11)
    assert found.rises.sel(order="first").values[1:].tolist() == (np.diff(expected) > 0).astype(float).tolist()
    assert not found.rises.sel(order=["zeroth", "exact"])[:, 1:].any()


@pytest.mark.parametrize("kind", [kind for kind in CELLS if not kind.startswith("LSTM")])
@given(seed=seeds)
@settings(max_examples=50)
def test_rates_fall_where_they_must(kind, seed):
    """The proposition of Appendix A, on cells with strong couplings; and zeroth order never rises."""
    trace = make(kind, seed).trace(draw(2, 12, 3, seed=seed + 1))
    ends, lags = [9, 11], list(range(1, 9))
    sure = expansion.falls_for_sure(trace, 8, ends)
    assert sure.shape == (2, 2, 7, 4)
    first = effective_rates(trace, lags, "first", ends).abs()
    slack = 1e-12 * first[:, :, :-1]
    assert (first[:, :, 1:] <= first[:, :, :-1] + slack)[sure].all()
    zeroth = effective_rates(trace, lags, "zeroth", ends)
    assert (zeroth.diff(dim=2) <= 0).all()


def test_condition_is_met_at_every_lag_where_mixing_is_positive_and_small():
    cell = make("ConstGate", hidden_size=3)
    with torch.no_grad():
        cell.weight_hh.copy_(torch.diag(torch.tensor([0.9, 0.5, -0.3], dtype=torch.float64)))
    sure = expansion.falls_for_sure(cell.trace(0 * draw(1, 30, 3)), 29, [29])[0, 0]
    assert sure[:, :2].all()
    assert sure[0, 2]
    assert not sure[-1, 2]


def test_first_lag_beyond():
    assert expansion.first_lag_beyond([1, 2, 4, 8], [0.0, 0.1, 0.2, 0.05]) == 4
    assert expansion.first_lag_beyond([1, 2], [0.0, 0.1]) == float("inf")
    assert expansion.first_lag_beyond([3], [0.5], level=0.2) == 3


def test_tables_show_median_and_range():
    error = np.zeros((1, 3, 3, 2))
    error[0, :, 0] = [[0.2, 0.3], [0.0, 0.3], [0.0, 0.0]]
    names = ("model", "seed", "order", "lag")
    measured = xr.Dataset(
        {
            "error": (names, error),
            "envelope": (("model", "seed", "order", "sequence", "lag"), np.ones((1, 3, 3, 1, 2))),
            "off_diagonal": (("model", "seed", "lag"), np.ones((1, 3, 2))),
        },
        coords={"order": ["zeroth", "first", "exact"], "lag": [1, 5], "model": ["DiagGate"]},
    )
    row = expansion.crossings(measured).loc["DiagGate"]
    assert row.tolist() == ["5 (1 to > 5)", "> 5", "> 5", "> 5", "1"]
    assert row.index.tolist() == ["zeroth: rates", "first: rates", "zeroth: f", "first: f", "off-diagonal share"]
    table = expansion.over_seeds(measured.error.mean("lag"), "{:.3f}")
    assert table.loc["DiagGate", "zeroth"] == "0.150 (0.000 to 0.250)"
    assert table.loc["DiagGate", "exact"] == "0.000"


def test_examples_are_reproducible_and_train():
    before, again = (expansion.example("DiagGate", 3, hidden_size=8, gate_init=0.2) for _ in range(2))
    assert torch.equal(before.trace.states, again.trace.states)
    assert before.trace.states.shape == (16, 64, 8)
    assert before.trace.states.dtype == torch.float64
    assert before.trace.gate.mean() == pytest.approx(0.2, abs=0.02)
    trained = expansion.example("DiagGate", 3, steps=40, hidden_size=8, gate_init=0.2)
    assert torch.equal(trained.trace.inputs, before.trace.inputs)
    loss = [float(one.network.residual(one.trace.outputs, one.targets).square().mean()) for one in (before, trained)]
    assert loss[1] < 0.95 * loss[0]
    measured = expansion.survey({"DiagGate": [before, trained]}, [1, 3], [5, 9])
    assert dict(measured.sizes) == {"model": 1, "seed": 2, "order": 3, "lag": 2, "sequence": 16}
    alone = expansion.fidelity(trained.trace, [1, 3], [5, 9])
    xr.testing.assert_allclose(measured.sel(model="DiagGate", drop=True).isel(seed=1), alone)


def test_forgetting_layer_normalisation_is_possible_and_wrong():
    """What Appendix B does: the Jacobian without N, whose diagonal is diag(D) diag(U)."""
    trace = make("ConstGate+norm").trace(draw(2, 5, 3))
    forgetful = without_norm(trace)
    expected = 0.3 * (1 - trace.candidate.square()) * trace.parameters["weight_hh"].diagonal()
    torch.testing.assert_close(forgetful.neurons.mixing, expected, rtol=1e-12, atol=0)
    assert (trace.neurons.mixing - expected).abs().max() > 0.01


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"must be the same \(\.\.\., steps, S, S\)"):
        expansion.coefficients(torch.zeros(3, 2, 2), torch.zeros(2, 2, 2))
    with pytest.raises(ValueError, match=r"must be the same \(\.\.\., steps, S, S\)"):
        expansion.scaled_product(torch.zeros(0, 2, 2), torch.zeros(0, 2, 2), 1.0)
    with pytest.raises(ValueError, match="orders = -1"):
        expansion.coefficients(torch.zeros(1, 2, 2), torch.zeros(1, 2, 2), -1)
    with pytest.raises(ValueError, match="LSTMTrace"):
        expansion.falls_for_sure(make("LSTM").trace(draw(1, 5, 3)), 2, [4])
    with pytest.raises(ValueError, match="last = 9"):
        expansion.falls_for_sure(make("GRU").trace(draw(1, 5, 3)), 9, [4])
    with pytest.raises(ValueError, match="model = 'RNN': must be one of 'ConstGate'"):
        expansion.example("RNN", 0)
    with pytest.raises(ValueError, match="level = -1"):
        expansion.first_lag_beyond([1], [0.0], -1)
