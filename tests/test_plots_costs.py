"""The page of costs reads what `make bench` has recorded."""

from pathlib import Path

import pytest

from book.chapters import plots_costs

RECORDS = Path("book/results/bench")


@pytest.fixture
def records():
    """All records by name."""
    return {path.stem: plots_costs.load(path) for path in RECORDS.glob("*.json")}


def test_tables_hold_the_recorded_times(records):
    table = plots_costs.ratios(records["steps"], "small")
    taken = records["steps"]["shapes"]["small"]["seconds"]
    assert float(table.loc["LSTM", "time over nn.LSTM's"]) == pytest.approx(
        taken["LSTM"] / taken["nn.LSTM"], abs=0.006
    )
    assert float(table.loc["GRU", "naive loop's over this"]) == pytest.approx(
        taken["GRU, naive loop"] / taken["GRU"], abs=0.006
    )
    machine = plots_costs.machine(records["steps"]).recorded
    assert (
        machine["one large product of matrices"]
        == f"{records['steps']['environment']['gemm_gflops']:.0f} GFLOP/s"
    )
    assert machine["numpy"] in records["steps"]["environment"]["versions"]
    stable = plots_costs.against_scipy(records["stable"], records["fits"])
    mle = records["fits"]["scipy"] / records["fits"]["median"]["mle, 1 × 1000"]
    assert float(stable.iloc[-1]["SciPy over ours"].replace(",", "")) == pytest.approx(mle, abs=0.6)


def test_exponents_are_slopes_on_logarithmic_axes(records):
    """A made-up record whose times are exact powers gives those powers."""
    steps, transport = records["steps"], records["transport"]
    for point in steps["sweeps"]:
        place = {"T": 1, "B": 0, "H": 3}[point["size"]]
        point["seconds"] = dict.fromkeys(point["seconds"], 1e-06 * point["shape"][place] ** 1.5)
    for point in transport["sweeps"]:
        point["seconds"] = 1e-6 * point["lag"] ** 2
    slopes = plots_costs.exponents(steps, transport).astype(float)
    assert (slopes.iloc[:, :3] == 1.5).all(axis=None)
    assert (slopes.iloc[:, 3] == 2).all()
