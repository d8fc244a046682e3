"""Widths, analysis of variance and phases against closed forms."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr

from book.chapters import spectra


def of_units(values):
    return xr.DataArray(np.asarray(values, float), dims="unit")


def test_width_counts_decades_between_quantiles():
    tau = np.geomspace(0.3, 30, 101)
    assert float(spectra.width(of_units(tau))) == pytest.approx(0.8 * 2)
    assert float(spectra.quantile(of_units(tau), 0.9)) == pytest.approx(0.3 * 100**0.9)
    assert float(spectra.width(of_units(7 * tau[::-1]))) == pytest.approx(0.8 * 2), (
        "no unit, no order"
    )
    assert float(spectra.width(of_units([*tau, np.nan, np.nan]))) == pytest.approx(0.8 * 2), (
        "no time scale, no part"
    )
    assert float(spectra.width(of_units(np.full(9, 2.5)))) == 0
    assert float(spectra.width(of_units([1, 2, 3, 4, np.inf, np.inf]))) == np.inf


def test_learned_share_is_a_projection_on_what_was_planted():
    results = xr.Dataset(
        {
            "course_learned": (("snapshot", "task_lag"), [[0.6, 0.3], [0.3, 0.15], [-0.3, 0.6]]),
            "planted": ("delay", [0.0, 0.6, 0.0, 0.3]),
        },
        coords={"task_lag": [2, 4], "delay": [1, 2, 3, 4]},
    )
    np.testing.assert_allclose(spectra.learned_share(results), [1, 0.5, 0], atol=1e-15)


def test_variance_shares_of_known_effects():
    a, b, c = (
        xr.DataArray(values, dims=name)
        for name, values in {"a": [-1.0, 1.0], "b": [-1.0, 0.0, 1.0], "c": [-1.0, 1.0]}.items()
    )
    noise = xr.DataArray([0.0, 5.0], dims="seed")
    shares = spectra.variance_shares(3 * a + 2 * b + 1.5 * a * c + noise, ["a", "b", "c"])
    parts = np.array([9, 4 * 2 / 3, 0, 1.5**2])  # variances: 1 of ±1, 2/3 of −1, 0, 1
    assert shares.source.values.tolist() == ["a", "b", "c", "interactions"]
    np.testing.assert_allclose(shares, np.tile(parts / parts.sum(), (2, 1)).T, atol=1e-12)
    assert spectra.variance_shares(0 * a + b * 0 + 0.1, ["a", "b"]).isnull().all()
    with pytest.raises(ValueError, match=r"factors = \['a', 'd'\]: 'd' must be one of"):
        spectra.variance_shares(a + b, ["a", "d"])


def test_shares_of_widths_are_those_of_the_axis_that_moves_them():
    rng = np.random.default_rng(0)
    dims = ("optimizer", "gate_spread", "task", "model", "seed", "snapshot", "order", "unit")
    tau = np.exp(rng.standard_normal((2, 2, 2, 2, 3, 1, 2, 400)))
    tau[1] **= 4  # a factor 4 in width
    tau[:, :, :, 1] = 1.0  # a cell whose neurons share a time scale
    sweep = xr.Dataset(
        {"course_time_scale": (dims, tau)},
        coords={"order": ["zeroth", "exact"], "model": ["LSTM", "SharedGate"], "seed": [1, 2, 3]},
    )
    table = spectra.width_shares(sweep)
    assert table.index.tolist() == [("LSTM", "zeroth"), ("LSTM", "exact")]
    noise = spectra.variance_shares(
        xr.DataArray(rng.standard_normal((2, 2, 2, 4000)), dims=(*dims[:3], "trial")), dims[:3]
    )
    # the 14 % of the columns' names
    assert float(noise.sel(source="task").mean()) == pytest.approx(1 / 7, abs=0.01)
    assert all(int(text.split()[0]) > 90 for text in table["% optimizer (14)"])
    assert all(int(text.split()[0]) < 5 for text in table["% task (14)"])


def test_width_is_regressed_on_what_was_learned_and_on_the_optimiser():
    """Widths of 1 + 2·share + 3·adaptive plus noise; against NumPy's correlations, and the whole
    explained where there is no noise."""
    rng = np.random.default_rng(1)
    share, noise = rng.random((2, 2, 4, 2, 5))
    for size in (0.0, 0.5):
        wide = 1 + 2 * share + 3 * np.array([0, 1])[:, None, None, None] + size * noise
        wide[:, :, 1] = 0  # a cell whose neurons share a time scale
        tau = 10 ** (np.linspace(-1, 1, 101) * wide[..., None, None, None] / 1.6)
        dims = ("optimizer", "task", "model", "seed", "snapshot")
        sweep = xr.Dataset(
            {
                "course_time_scale": ((*dims, "order", "unit"), tau),
                "course_learned": ((*dims, "task_lag"), share[..., None, None]),
                "planted": ("delay", [1.0]),
            },
            {
                "optimizer": ["sgd", "adamw"],
                "model": ["LSTM", "SharedGate"],
                "order": ["zeroth"],
                "task_lag": [3],
                "delay": [3],
            },
        )
        found = spectra.learning_and_optimiser(sweep)
        y, x, adaptive = (
            one[:, :, 0].ravel()
            for one in (wide, share, np.arange(2)[:, None, None, None] + 0 * wide)
        )
        r, s, t = (np.corrcoef(*pair)[0, 1] for pair in ((x, y), (adaptive, y), (x, adaptive)))
        both = (r**2 + s**2 - 2 * r * s * t) / (1 - t**2)
        np.testing.assert_allclose(
            found[["share learned", "optimiser", "both"]], [r**2, s**2, both]
        )
        assert (both == pytest.approx(1)) == (size == 0)


def test_widths_at_equal_share_are_read_off_the_other_curve():
    """Widths are 2·share under AdamW and share/2 under SGD, up to a factor of the seed; the second
    task is not learned by SGD."""
    reached = {"sgd": [0.0, 0.3, 0.6], "adamw": [0.0, 0.8, 1.0]}
    tau, learned = np.ones((2, 2, 2, 1, 3, 1, 101)), np.zeros((2, 2, 2, 1, 3, 1))
    for o, (name, factor) in enumerate({"sgd": 0.5, "adamw": 2.0}.items()):
        for task, seed, k in np.ndindex(2, 2, 3):
            share = 0.0 if name == "sgd" and task else reached[name][k] * (1 - 0.2 * seed)
            learned[o, task, seed, 0, k] = share
            tau[o, task, seed, 0, k, 0] = 10 ** (np.linspace(-1, 1, 101) * factor * share / 1.6)
    dims = ("optimizer", "task", "seed", "model", "snapshot")
    sweep = xr.Dataset(
        {
            "course_time_scale": ((*dims, "order", "unit"), tau),
            "course_learned": ((*dims, "task_lag"), learned),
            "planted": ("delay", [1.0]),
        },
        coords={
            "optimizer": ["sgd", "adamw"],
            "task": ["a", "b"],
            "seed": [1, 2],
            "model": ["GRU"],
            "order": ["zeroth"],
            "task_lag": [3],
            "delay": [3],
        },
    ).expand_dims(gate_spread=[0.1])
    table = spectra.at_equal_share(sweep)
    assert table.index.tolist() == [("GRU", "a")]
    assert table.loc[("GRU", "a")].tolist() == [
        "0.54 (0.48 to 0.60)",
        "0.27 (0.24 to 0.30)",
        "1.08 (0.96 to 1.20)",
    ]


def test_lining_up():
    lags = [4, 9, 15, 31]
    assert float(spectra.lining_up(of_units([4, 9, 9, 15, 31, 200, 1]), lags)) == pytest.approx(1)
    assert float(
        spectra.lining_up(of_units(np.sqrt([4 * 9, 9 * 15, 15 * 31])), lags)
    ) == pytest.approx(-1)
    between = np.concatenate([np.geomspace(a, b, 100, endpoint=False) for a, b in pairwise(lags)])
    assert float(spectra.lining_up(of_units(between), lags)) == pytest.approx(0, abs=1e-12)
    assert np.isnan(spectra.lining_up(of_units([1, 2, 99]), lags))


def test_ranges_leave_out_what_is_missing():
    values = xr.DataArray(
        [[1.0, 3.0], [np.nan, np.nan]], dims=("model", "seed"), coords={"model": ["a", "b"]}
    )
    assert spectra.ranges(values, "{:.1f}").tolist() == ["2.0 (1.0 to 3.0)", ""]


def test_split_adds_up():
    rate = xr.DataArray([[1.0, 2.0], [0.5, 0.0]], dims=("lag", "unit"))
    split = spectra.split_envelope(rate, xr.DataArray([3.0, 0.5], dims="unit"))
    assert split.f_gates.values.tolist() == [3.0, 0.5]
    assert split.f.values.tolist() == [4.0, 1.5]
    assert split.f_adapt.values.tolist() == [1.0, 1.0]
