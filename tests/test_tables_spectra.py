"""Tables of a run, and of numbers with answers planted in them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr
from scipy import stats

from book.chapters import tables_spectra as tables
from lwcore import experiment
from lwcore.course import SEQUENCES
from lwcore.experiment import Config, run
from lwcore.window import time_scales

MODELS, SEEDS = ["ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM"], [1, 2, 3]
CONFIG = Config.named("smoke").but(
    models=["DiagGate", "GRU", "LSTM"], training={"snapshots": [0, 30]}
)


@pytest.fixture(scope="module")
def small():
    return run(CONFIG, progress=False)


@pytest.fixture
def planted():
    """Numbers of a run with exponential rates whose τ is known: one group of neurons, and two for
    the LSTM; 60 neurons."""
    rng = np.random.default_rng(0)
    log_tau = rng.normal(1.0, 0.3, (5, 3, 60))
    log_tau[:2] = 1.0  # ConstGate, SharedGate
    log_tau[4, :, 30:] += 4.0  # LSTM
    lag = xr.DataArray(np.array([1, 2, 4, 8, 12, 15]), dims="lag")
    tau = xr.DataArray(
        np.exp(log_tau), dims=("model", "seed", "unit"), coords={"model": MODELS, "seed": SEEDS}
    )
    rate = np.exp(-lag / tau).expand_dims(order=["zeroth", "first", "exact"]).assign_coords(lag=lag)
    return xr.Dataset(
        {
            "rate": rate,
            "time_scale": xr.concat([tau] * 3, "order").assign_coords(
                order=["zeroth", "first", "exact"]
            ),
            "envelope": rate.sum("unit"),
            "base_rate": 100 * tau**0.5 * rng.lognormal(0, 0.05, tau.shape),
        }
    )


def test_one_and_two_groups_of_neurons_are_told_apart(planted):
    table = tables.modes(planted)
    assert table["several modes"].tolist() == ["–"] * 4 + ["0 of 3"] * 4 + ["3 of 3"] * 2
    assert set(table["neurons"]) == {"60"}
    tau = planted.time_scale.sel(model="GRU", order="exact").median("unit")
    assert table.loc[("GRU", "exact"), "median τ"].split(" to ")[-1] == f"{tau.max():.2g}"


def test_neurons_without_a_time_scale_are_left_out_of_the_test(planted):
    planted.time_scale[{"model": 3, "seed": 0, "unit": 0}] = np.inf
    planted.time_scale[{"model": 3, "seed": 0, "unit": 1}] = np.nan
    planted.time_scale[{"model": 3, "seed": 1, "unit": slice(7)}] = 0.5
    assert tables.modes(planted).loc[("GRU", "zeroth"), "neurons"] == "58 to 60"
    assert tables.modes(planted).loc[("GRU", "zeroth"), "τ < 1"].endswith(" to 7")


def test_base_rates_that_grow_with_the_time_scale_hold_the_envelope_up(planted):
    table = tables.base_rates(planted)
    reshaped, correlation = table["reshaping"], table["correlation"]
    for model in ("ConstGate", "SharedGate"):
        assert reshaped[model, "zeroth"] == "1.00 (1.00 to 1.00)"
        assert correlation[model, "zeroth"] == "–"
    gru = planted.sel(model="GRU", order="zeroth")
    by_hand = [
        stats.pearsonr(
            np.log(gru.base_rate.sel(seed=s)), np.log(gru.time_scale.sel(seed=s))
        ).statistic
        for s in planted.seed.values
    ]
    found = tables.base_rates(planted).loc[("GRU", "zeroth")]
    z = np.arctanh(by_hand)
    low, high = np.tanh(stats.t.interval(0.95, 2, z.mean(), stats.sem(z)))
    assert found["correlation"] == f"{np.tanh(z.mean()):.2f} ({low:.2f} to {high:.2f})"
    assert float(found["reshaping"].split()[0]) > 1.05


def test_head_factor_is_the_lstms_own(small):
    """Against the trace of the same network, at the four end points that are measured."""
    network = experiment.networks(CONFIG.but(models=["LSTM"]))["LSTM", 1]
    fresh = experiment.fresh_sequences(CONFIG, 1)
    with torch.no_grad():
        trace = network.cell.trace(fresh.inputs)
    measured = slice(len(fresh.inputs) // 2, None)  # the other half gives signs
    ends = [9, 11, 13, 15]
    kept = trace.gates.keep
    shown = (trace.neurons.head * kept)[measured, ends].mean((0, 1))
    found = tables.head_factor(small).sel(seed=1)
    assert found.values == pytest.approx((shown / kept[:SEQUENCES].mean((0, 1))).numpy(), rel=1e-4)


def test_head_factor_is_summed_up_over_neurons(small):
    mean = tables.head_factor(small).mean("unit")
    found = tables.head(small)
    assert found["mean over neurons"] == f"{mean.min():.2f} to {mean.max():.2f}"
    assert found["neurons with e below 0.001"].startswith("0")


def test_decay_names_the_law_and_what_it_lacks(small):
    run = small.copy()
    lag = small.lag.astype(float)
    noise = 1 + 1e-4 * np.sin(7.0 * lag)
    run["envelope"] = (
        xr.where(small.model == "GRU", lag**-1.5, lag**0.5 * 0.8**lag) * noise + 0 * small.envelope
    )
    table = tables.decay(run.sel(model=["GRU", "LSTM"]))
    assert table.loc[("GRU", "exact"), "β"] == "1.50"
    assert table.loc[("GRU", "exact"), "R² power"] == "1.00"
    assert table.loc[("LSTM", "exact"), "β"] == "-0.50"
    assert table.loc[("LSTM", "exact"), "cut-off (steps)"] == f"{-1 / np.log(0.8):.0f}"
    run["envelope"] = lag**-0.5 * 1.1**lag * noise + 0 * small.envelope
    assert tables.decay(run.sel(model=["GRU"])).loc[("GRU", "exact"), "cut-off (steps)"] == "none"


def test_departure_is_a_ratio_of_envelopes(small):
    ratio = (small.envelope.sel(order="zeroth") / small.envelope.sel(order="exact")).sel(
        model="GRU", lag=4
    )
    low, high = f"{ratio.min():.2g}", f"{ratio.max():.2g}"
    assert tables.departure(small, [1, 4]).loc[("GRU", "zeroth"), "lag 4"] == (
        low if low == high else f"{low} to {high}"
    )


def test_expectations_follow_from_the_run(small):
    small = small.sel(model=[*["DiagGate"] * 3, "GRU", "LSTM"]).assign_coords(model=MODELS)
    run = small.copy()
    lag, wide = (
        small.lag.astype(float),
        xr.DataArray(np.linspace(1, 20, small.sizes["unit"]), dims="unit"),
    )
    run["time_scale"] = (
        xr.where(small.model.isin(["GRU", "LSTM"]), wide, 2 + 0.001 * wide) + 0 * small.time_scale
    )
    run["envelope"] = (
        xr.where(small.model.isin(["GRU", "LSTM"]), lag**-1.5, 0.7**lag) + 0 * small.envelope
    )
    for name, value in {"alpha": 1.8, "scale": 1.0, "deviation": 1.0, "signal_error": 1e-3}.items():
        run[name] = xr.full_like(small[name], value)
    gated = small.model.isin(["GRU", "LSTM"])
    # windows of 8 and 2 steps
    run["signal"] = xr.where(lag <= xr.where(gated, 8, 2), 1e3, -1e3) + 0 * small.signal
    run["view"] = small.view
    verdicts = tables.expectations(run, 64).verdict
    assert (verdicts.drop("a spectrum with several modes") == "holds").all(), verdicts
    assert verdicts["a spectrum with several modes"] == "does not hold here"
    run["signal"] = xr.where(lag <= xr.where(gated, 0, 6), 1e3, -1e3) + 0 * small.signal
    run["envelope"] = 0.7**lag + 0 * small.envelope
    table = tables.expectations(run, 64)
    assert table.loc["a longer window than DiagGate", "exact"] == "0 + 0 of 4"
    assert table.loc["f nearer to a power than to an exponential", "zeroth"] == "0 + 0 of 4"


def test_holms_procedure_stops_at_the_first_failure():
    # 0.05/4 for the least, 0.05/3 for the next, then 0.05/2 fails
    p = xr.DataArray([0.011, np.nan, 0.04, 0.001, 0.03])
    assert tables._rejected(p, 0.05).values.tolist() == [True, False, False, True, False]


def test_calibration_is_a_share_with_its_interval():
    table = tables.calibration(20, trials=20)
    uniform = table.loc["uniform", "several found"]
    share = float(uniform.split()[0])
    ends = stats.binomtest(round(share * 20), 20).proportion_ci()
    assert uniform == f"{share:.2f} ({ends.low:.2f} to {ends.high:.2f})"
    assert table.modes.tolist() == [1, 1, 1, 2, 2, 2]


def test_time_scales_planted_are_those_the_run_would_measure(planted):
    one = planted.sel(model="GRU", order="zeroth").isel(seed=0)
    assert time_scales(
        planted.lag.values, one.rate.transpose("lag", "unit").values
    ) == pytest.approx(one.time_scale.values)
