"""Widths, analysis of variance, phases, mixtures and slopes against closed forms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr

from lwcore import spectra

LAGS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def of_units(values):
    return xr.DataArray(np.asarray(values, float), dims="unit")


def test_width_counts_decades_between_quantiles():
    tau = np.geomspace(0.3, 30, 101)
    assert float(spectra.width(of_units(tau))) == pytest.approx(0.8 * 2)
    assert float(spectra.quantile(of_units(tau), 0.9)) == pytest.approx(0.3 * 100**0.9)
    assert float(spectra.width(of_units(7 * tau[::-1]))) == pytest.approx(0.8 * 2), "no unit, no order"
    assert float(spectra.width(of_units([*tau, np.nan, np.nan]))) == pytest.approx(0.8 * 2), "no time scale, no part"
    assert float(spectra.width(of_units(np.full(9, 2.5)))) == 0
    assert float(spectra.width(of_units([1, 2, 3, 4, np.inf, np.inf]))) == np.inf


def test_learned_share_is_a_projection_on_what_was_planted():
    results = xr.Dataset(
        {"course_learned": (("snapshot", "task_lag"), [[0.6, 0.3], [0.3, 0.15], [-0.3, 0.6]]), "planted": ("delay", [0.0, 0.6, 0.0, 0.3])},
        coords={"task_lag": [2, 4], "delay": [1, 2, 3, 4]},
    )
    np.testing.assert_allclose(spectra.learned_share(results), [1, 0.5, 0], atol=1e-15)


def test_variance_shares_of_known_effects():
    a, b, c = (xr.DataArray(values, dims=name) for name, values in {"a": [-1.0, 1.0], "b": [-1.0, 0.0, 1.0], "c": [-1.0, 1.0]}.items())
    noise = xr.DataArray([0.0, 5.0], dims="seed")
    shares = spectra.variance_shares(3 * a + 2 * b + 1.5 * a * c + noise, ["a", "b", "c"])
    parts = np.array([9, 4 * 2 / 3, 0, 1.5**2])  # variances: 1 of ±1, 2/3 of −1, 0, 1
    assert shares.source.values.tolist() == ["a", "b", "c", "interactions"]
    np.testing.assert_allclose(shares, np.tile(parts / parts.sum(), (2, 1)).T, atol=1e-12)
    assert spectra.variance_shares(0 * a + b * 0 + 0.1, ["a", "b"]).isnull().all()
    with pytest.raises(ValueError, match=r"factors = \['a', 'd'\]: 'd' must be one of"):
        spectra.variance_shares(a + b, ["a", "d"])
    with pytest.raises(ValueError, match="values: 1 of 6 entries"):
        spectra.variance_shares((a + b).where((a + b) < 2), ["a", "b"])


def test_shares_of_widths_are_those_of_the_axis_that_moves_them():
    rng = np.random.default_rng(0)
    dims = ("optimizer", "gate_spread", "task", "model", "seed", "snapshot", "order", "unit")
    tau = np.exp(rng.standard_normal((2, 2, 2, 2, 3, 1, 2, 400)))
    tau[1] **= 4  # a factor 4 in width
    tau[:, :, :, 1] = 1.0  # a cell whose neurons share a time scale
    sweep = xr.Dataset(
        {"course_time_scale": (dims, tau)}, coords={"order": ["zeroth", "exact"], "model": ["LSTM", "SharedGate"], "seed": [1, 2, 3]}
    )
    table = spectra.width_shares(sweep)
    assert table.index.tolist() == [("LSTM", "zeroth"), ("LSTM", "exact")]
    assert all(int(text.split()[0]) > 90 for text in table["% optimizer"])
    assert all(int(text.split()[0]) < 5 for text in table["% task"])


def test_lining_up():
    lags = [4, 9, 15, 31]
    assert float(spectra.lining_up(of_units([4, 9, 9, 15, 31, 200, 1]), lags)) == pytest.approx(1)
    assert float(spectra.lining_up(of_units(np.sqrt([4 * 9, 9 * 15, 15 * 31])), lags)) == pytest.approx(-1)
    between = np.concatenate([np.geomspace(a, b, 100, endpoint=False) for a, b in pairwise(lags)])
    assert float(spectra.lining_up(of_units(between), lags)) == pytest.approx(0, abs=1e-12)
    assert np.isnan(spectra.lining_up(of_units([1, 2, 99]), lags))


def measured(weights, tau):
    """Rates that are exact exponentials, one neuron letting nothing through."""
    rate = weights * np.exp(-np.array(LAGS)[:, None] / tau)
    rate[:, -1] = 0
    scales = np.where(np.arange(len(tau)) < len(tau) - 1, tau, np.nan)
    one = xr.Dataset(
        {"rate": (("lag", "unit"), rate), "time_scale": ("unit", scales), "envelope": ("lag", rate.sum(1))},
        coords={"lag": LAGS},
    )
    return one.expand_dims(model=["LSTM"], seed=[1, 2], order=["zeroth", "exact"])


def test_mixtures_rebuild_what_is_a_mixture():
    weights, tau = np.array([1.0, 3.0, 0.5, 2.0]), np.array([1.0, 5.0, 40.0, 7.0])
    results = measured(weights, tau)
    np.testing.assert_allclose(spectra.mixtures(results, "exact", own_weights=True), results.envelope.sel(order="exact"), rtol=1e-12)
    alike = spectra.mixtures(results, "exact").isel(model=0, seed=0)
    np.testing.assert_allclose(alike, np.exp(-np.array(LAGS)[:, None] / tau[:3]).sum(1), rtol=1e-12)
    error = spectra.relative_error(alike, results.envelope.sel(order="exact").isel(model=0, seed=0))
    assert float(error[0]) == 0
    whole = results.envelope.isel(model=0, seed=0, order=0)
    assert float(error[-1]) == pytest.approx(float(alike[-1] / alike[0] / (whole[-1] / whole[0]) - 1))
    table = spectra.reconstruction(results)
    assert table.index.tolist() == [("LSTM", "zeroth", "zeroth"), ("LSTM", "exact", "exact"), ("LSTM", "zeroth", "exact")]
    assert (table["right to lag, own weights"] == "64 (64 to 64)").all()
    assert (table["at the longest lag, own weights"] == "1 (1 to 1)").all()


def test_slopes_of_powers_and_exponentials():
    lag = np.array(LAGS, float)
    at, slopes = spectra.local_slopes(lag, 3 * lag**-1.7)
    np.testing.assert_allclose(slopes, -1.7)
    assert ((at > lag[:-1]) & (at < lag[1:])).all()
    at, slopes = spectra.local_slopes(lag, np.exp(-lag / 9))
    np.testing.assert_allclose(slopes, -at / 9)


def test_power_stretch_is_all_of_a_power_and_a_factor_of_an_exponential():
    lag = np.geomspace(1, 1000, 601)
    first, last, beta = spectra.power_stretch(lag, 5 * lag**-0.8)
    assert last / first > 980
    assert beta == pytest.approx(0.8)
    first, last, _ = spectra.power_stretch(lag, np.exp(-lag / 300))
    assert 1.45 < last / first <= 1.5 * (1 + 1e-9)
    bent = lag**-1.0 * np.exp(-lag / 100)  # slope 1 + ℓ/100: within a factor 1.5 up to lag 50
    first, last, _ = spectra.power_stretch(lag, bent)
    assert first < 1.1
    assert last == pytest.approx(51, abs=1)
    assert np.isnan(spectra.power_stretch(lag, lag**0.3)).all()
    with pytest.raises(ValueError, match="factor = 1"):
        spectra.power_stretch(lag, bent, factor=1)
    with pytest.raises(ValueError, match="envelope contains"):
        spectra.local_slopes([1, 2], [1.0, 0.0])


def test_power_ranges_read_both_curves():
    lag = np.array(LAGS, float)
    results = measured(np.ones(3), np.array([6.0, 6.0, 6.0]))
    results["envelope"] = (0 * results.envelope) + xr.DataArray(lag**-1.2, dims="lag")
    table = spectra.power_ranges(results)
    at, _ = spectra.local_slopes(lag, lag**-1.2)
    assert table.loc[("LSTM", "zeroth"), "envelope: factor of lags"].startswith(f"{at[-1] / at[0]:.1f} ")
    assert table.loc[("LSTM", "exact"), "envelope: β"] == "1.20 (1.20 to 1.20)"
    assert float(table.loc[("LSTM", "exact"), "mixture: factor of lags"].split()[0]) <= 1.5


def test_ranges_leave_out_what_is_missing():
    values = xr.DataArray([[1.0, 3.0], [np.nan, np.nan]], dims=("model", "seed"), coords={"model": ["a", "b"]})
    assert spectra.ranges(values, "{:.1f}").tolist() == ["2.0 (1.0 to 3.0)", ""]
