"""Tables of a run whose answer is known, made from laws instead of networks."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from book.chapters import tables
from lwcore.experiment import Config, run
from lwcore.inference import probes, required, windows


@pytest.fixture(scope="module")
def small():
    return run(Config.named("smoke"), progress=False)


@pytest.fixture
def lawful(small):
    """The small run with DiagGate's envelope a power of the lag, the others' exponential, and all
    noise scales constant."""
    exponential = 0.7**small.lag
    power = small.lag**-1.5
    law = xr.where(small.model == "DiagGate", power, exponential)
    run = small.copy()
    run["envelope"] = (law + 0 * small.envelope) * (1 + 1e-3 * np.sin(small.lag))
    run["scale"] = xr.ones_like(small.scale)
    run["view"] = small.view
    run["negative"] = xr.zeros_like(small.negative)
    run["time_scale"] = (
        xr.where(small.model == "DiagGate", 2.0 + small.unit * 1.0, 3.0) + 0 * small.time_scale
    )
    run["alpha"] = xr.full_like(small.alpha, 1.8)
    run["signal_error"] = xr.full_like(small.signal, 1e-3)
    return seen(run, (small.model == "DiagGate") & (small.lag <= 4))


def seen(run, where):
    """Put a signal where lags are to be detected."""
    return run.assign(signal=xr.where(where, 1e3, -1e3) + 0 * run.signal)


def test_agreement_confirms_a_run_that_does_as_the_paper_says(lawful):
    assert (tables.agreement(lawful, 64).verdict == "holds").all()


def test_agreement_refutes_each_statement_alone(lawful):
    opposite = lawful.copy()
    opposite["envelope"] = lawful.envelope.sel(
        model=["DiagGate", "DiagGate", "ConstGate"]
    ).assign_coords(model=lawful.model)
    opposite["negative"] = lawful.negative + 0.1
    opposite["scale"] = lawful.scale * opposite.envelope.sel(order="first", drop=True)
    opposite["time_scale"] = (
        xr.where(lawful.model == "DiagGate", 3.0, 2.0 + lawful.unit) + 0 * lawful.time_scale
    )
    opposite = seen(opposite, (lawful.model != "DiagGate") & (lawful.lag <= 4))
    verdicts = tables.agreement(opposite, 64).verdict
    monotone = "f never rises with the lag (Lemma 5.1)"
    assert (verdicts.drop(monotone) == "does not hold here").all(), verdicts
    opposite["envelope"] = opposite.envelope.copy()
    opposite.envelope[{"model": 0, "seed": 1, "order": 1, "lag": 3}] *= 100
    table = tables.agreement(opposite, 64)
    assert table.loc[monotone].tolist() == ["6 of 6", "5 of 6", "–", "holds at zeroth order only"]


def test_decay_reads_the_laws(lawful):
    table = tables.decay(lawful)
    assert table.loc[("ConstGate", "exact"), "best law"] == "exponential 2"
    assert table.loc[("ConstGate", "exact"), "τ (steps)"] == "2.8 (2.8 to 2.8)", "−1/log 0.7"
    assert table.loc[("DiagGate", "first"), "best law"] in ("power 2", "tempered 2")
    assert table.loc[("DiagGate", "first"), "β"].startswith("1.5 (1.5 to")


def test_other_tables_report_what_the_run_holds(small):
    least = float(small.test_loss.sel(model="DiagGate").min())
    assert tables.training(small).loc["DiagGate", "least error"] == pytest.approx(least, abs=5e-4)
    share = 100 * float(small.negative.sel(model="ConstGate", order="first", lag=4).mean())
    assert tables.negative_rates(small, [1, 4]).loc[("ConstGate", "first"), "% at lag 4"] == round(
        share
    )


def test_windows_are_medians_of_the_named_ways(small):
    table = tables.windows(small, 512)
    expected = windows(
        probes(small.sel(model="SharedGate"), "whole", "error"), 512, rate="variance", noise="whole"
    ).median()
    assert table.loc[("SharedGate", "whole"), "in the whole gradient"].startswith(
        f"{expected:.0f} ("
    )
    assert table.loc[("SharedGate", "whole"), "v2 to the letter"] == "–"
    assert table.loc[("SharedGate", "zeroth"), "v2 to the letter"] != "–"


def test_hardest_lag_is_the_largest_number_needed(small):
    expected = np.ceil(
        required(
            probes(small.sel(model="DiagGate"), "gradient", "error"), rate="variance", noise="whole"
        ).max()
    )
    assert tables.hardest_lag(small).loc["DiagGate", "largest seed"] == f"{expected:.0f}"


def test_what_a_run_cannot_answer_is_said(small):
    with pytest.raises(ValueError, match="DiagGate missing"):
        tables.agreement(small.sel(model=["ConstGate", "SharedGate"]), 64)


def test_null_control_counts_networks(small):
    null = windows(probes(small, "gradient", "noise"), 512, rule="plug-in")
    assert (
        tables.null_control(small).loc[("plug-in", "own"), "gradient"]
        == f"{int((null > 0).any('probe').sum())} of 6"
    )


def test_concentration_names_the_stable_exponent(small):
    row = tables.concentration(small).loc[("DiagGate", "own")]
    alpha = small.alpha.sel(model="DiagGate", noise="own", source="error").median("probe")
    assert row["α fitted"] == f"{alpha.min():.2f} to {alpha.max():.2f}"
    assert row["p if stable"].startswith(f"{alpha.max() / (alpha.max() - 1):.2f} to")
