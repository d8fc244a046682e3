"""Approximations of the rates judged against the exact diagonal, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from book.chapters.orders import (
    compare_orders,
    passing_lag,
    span,
    without_norm,
)
from lwcore.cells import ConstGate
from lwcore.transport import effective_rates, exact_rates_and_share, split
from tests.networks import CELLS, draw, make

LAGS, ENDS = [1, 2, 5], [6, 8]


def traces(kind, count=2):
    return {
        (kind, seed): make(kind, seed).trace(draw(3, 9, 3, seed=seed + 10)) for seed in range(count)
    }


@pytest.mark.parametrize("kind", CELLS)
def test_errors_are_relative_one_norms(kind):
    those = traces(kind)
    data = compare_orders(those, LAGS, ENDS)
    assert data.order.values.tolist() == ["zeroth", "first", "exact"]
    for (_, seed), trace in those.items():
        zeroth, first, exact = (
            effective_rates(trace, LAGS, order, ENDS).numpy()
            for order in ("zeroth", "first", "exact")
        )
        for i, lag in enumerate(LAGS):
            at = data.sel(model=kind, seed=seed, lag=lag)
            assert float(at.envelope.sel(order="exact").mean()) == pytest.approx(
                np.abs(exact[:, :, i]).sum() / 6
            )
            expected = np.abs(first - exact)[:, :, i].sum() / np.abs(exact[:, :, i]).sum()
            assert float(at.error.sel(order="first")) == pytest.approx(
                expected, rel=1e-9, abs=1e-15
            )
            assert float(at.error.sel(order="exact")) == 0
            for order, mu in (("zeroth", zeroth), ("first", first), ("exact", exact)):
                grown = (np.abs(mu[:, :, i]) > np.abs(mu[:, :, i - 1])).mean() if i else np.nan
                assert float(at.rises.sel(order=order)) == pytest.approx(grown, nan_ok=True)
        one = data.sel(model=kind, seed=seed)
        assert one.off_diagonal.values == pytest.approx(
            exact_rates_and_share(trace, LAGS, ENDS)[1].mean((0, 1)).numpy()
        )
        f = one.envelope.mean("sequence")
        assert (abs(f / f.sel(order="exact") - 1) <= one.error + 1e-12).all(), (
            "the error of the rates bounds that of the envelope"
        )
        kept, mixing = split(trace, slice(1, None))
        norms = [
            float(r.norm() / a.norm())
            for a, r in zip(kept.flatten(0, 1), mixing.flatten(0, 1), strict=True)
        ]
        assert float(one.coupling) == pytest.approx(np.mean(norms))


def test_closed_form_of_one_neuron_passes_through_zero_and_rises():
    """|μ| = (1 − s)^ℓ |1 + ℓ c|, c = s w/(1 − s): the counterexample to Lemma 5.1."""
    cell = ConstGate(1, 1, gate_init=0.2, dtype=torch.float64)
    cell.weight_hh.data.fill_(-0.7)
    trace = cell.trace(torch.zeros(1, 30, 1, dtype=torch.float64))
    lags = np.arange(1, 30)
    found = compare_orders({("ConstGate", 0): trace}, lags.tolist(), [29]).isel(model=0, seed=0)
    expected = 0.8**lags * np.abs(1 - 0.175 * lags)
    np.testing.assert_allclose(
        found.envelope.sel(order="first", sequence=0), expected, rtol=1e-11, atol=1e-16
    )
    np.testing.assert_allclose(
        found.envelope.sel(order="exact", sequence=0), 0.66**lags, rtol=1e-11
    )
    assert (
        found.rises.sel(order="first").values[1:].tolist()
        == (np.diff(expected) > 0).astype(float).tolist()
    )
    assert not found.rises.sel(order=["zeroth", "exact"])[:, 1:].any()


@pytest.mark.parametrize("kind", [kind for kind in CELLS if kind.endswith("+norm")])
def test_norm_left_out_is_the_identity_in_its_place(kind):
    trace = traces(kind, 1)[kind, 0]
    short = without_norm(trace)
    if kind == "ConstGate+norm":  # Eq. (52) as it stands
        slope = (0.3 * (1 - trace.gates.candidate**2)).unsqueeze(-1) * trace.parameters["weight_hh"]
        expected = 0.7 * torch.eye(4, dtype=torch.float64) + slope
        torch.testing.assert_close(
            short.jacobian(slice(None)).dense(), expected, rtol=1e-12, atol=1e-14
        )
    assert not torch.allclose(short.neurons.mixing, trace.neurons.mixing, rtol=1e-3)
    torch.testing.assert_close(short.states, trace.states, rtol=0, atol=0)


def test_passing_lag_is_the_first_beyond_the_level():
    error = xr.DataArray(
        [[0.0, 0.2, 0.05, 0.3], [0.0, 0.0, 0.1, 0.1]],
        dims=("network", "lag"),
        coords={"lag": [1, 2, 4, 8]},
    )
    first, none = passing_lag(error).values
    assert first == 2
    assert np.isnan(none)
    assert passing_lag(error, 0.25).values[0] == 8


def test_tables_say_what_was_measured():
    compare_orders(traces("GRU", 3), [1, 5])
    assert span([3.0, 1.0, 2.04], ".1f") == "2.0 (1.0 to 3.0)"
    assert span([3.0, np.nan, 2.0], never="> 8") == "3 (2 to > 8)"


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"traces = \{\}: must hold at least one"):
        compare_orders({}, LAGS)
    with pytest.raises(
        ValueError, match="a LSTM without layer normalisation: must have one to leave out"
    ):
        without_norm(traces("LSTM", 1)["LSTM", 0])
