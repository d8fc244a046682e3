"""Tables of the companion's chapters show what was computed."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from book.chapters import elman_bridge as bridge
from book.chapters import tables_elman
from book.chapters.elman_measured import Scaling, descents, study
from lwcore.elman.bounds import Problem, theorem_1, theorem_2

PROBLEM = Problem("logistic", 0.5, 3, 2, 0.4, 0.6, sequences=2)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def case():
    return study(PROBLEM, rng())


@pytest.fixture(scope="module")
def frame():
    return tables_elman.looseness(PROBLEM, [(8, 2, 4), (16, 2, 4), (8, 3, 4), (8, 2, 9)])


def test_slopes_name_value_and_interval():
    sizes = np.array([1.0, 10.0, 100.0])
    table = tables_elman.slopes(
        {"x": Scaling(sizes, np.repeat(sizes[:, None] ** -0.5, 3, axis=1))}, rng()
    )
    assert list(table.loc["x"]) == ["-0.50", "-0.50", "-0.50", "0.1"]


def test_class_is_the_kernels_space_at_the_first_step_only(case):
    table = tables_elman.classes(case)
    assert table.iloc[0, 0] == pytest.approx(1)
    assert (table.iloc[1:, 0] < 0.99).all()
    assert table.iloc[:, 1].to_numpy() == pytest.approx(math.hypot(0.4, 0.6))
    assert (table.iloc[:, 2] <= table.iloc[:, 1]).all()


def test_needs_and_orders_are_powers():
    needs = tables_elman.needs({"a": (PROBLEM, 0.02), "b": (PROBLEM, 0.0002)})
    assert (needs.loc["b"] - needs.loc["a"]).to_numpy() == pytest.approx(4, abs=0.05)
    orders = tables_elman.orders(dataclasses.replace(PROBLEM, length=20), [1e-5, 1e-6])
    assert orders.iloc[0].to_numpy() == pytest.approx(2, abs=0.05)
    assert orders.iloc[1, :2].to_numpy() == pytest.approx(3, abs=0.1)


def test_plan_is_relative_to_promise_and_radius(case):
    error = 0.02
    run = descents(case, 10, 6, 1, rng(), step_size=0.2, project=False)[0]
    row = tables_elman.plan(case, error, [run], 6).loc[1]
    asked = theorem_2(PROBLEM, error)
    assert row["least risk / promise"] == pytest.approx(run.least_risk / math.exp(asked.log_risk))
    farthest = max(run.recurrent_moves.max(), run.input_moves.max()) / math.exp(asked.log_radius)
    assert row["farthest move / λ"] == pytest.approx(farthest)
    assert (row["leaves λ at step"] == "never") == (farthest <= 1)


def test_looseness_has_a_row_for_each_setting_and_result(frame):
    assert len(frame) == 4 * 11
    assert (frame["repaired"] > 0).all()
    same = frame[(frame["m"] == 8) & (frame["T"] == 2) & (frame["result"] == "Prop. 4")]
    assert same["printed"].nunique() == 1
    table = tables_elman.ratios(frame, "repaired")
    one = frame[(frame["m"] == 16) & (frame["result"] == "Theorem 1")].iloc[0]
    assert float(table.loc["Theorem 1", (16, 2, 4)]) == pytest.approx(
        10 ** one["repaired"], rel=0.06
    )


def test_shares_are_bounds_over_the_first_risk(case):
    first = np.square(case.targets).sum(axis=1).mean()
    assert tables_elman.bound_shares(case, 8, [4], as_printed=True) == pytest.approx(
        [theorem_1(PROBLEM, 8, 4).value / first]
    )


def test_windows_show_both_and_mark_the_end():
    log_f = np.arange(1, 21) * math.log(0.5)
    table = tables_elman.windows({("tanh", 0.5): (0.5, log_f)}, [1e3, 1e30])
    row = table.loc["tanh", 0.5]
    assert row["first factor"] == row["last factor"] == "0.50"
    predicted = bridge.predicted_window(bridge.cut_off_law(0.5), [1e3])[0]
    assert row.iloc[3] == f"{math.floor(predicted)} / {predicted:.1f}"
    assert row.iloc[4].startswith("≥ 20 / ")
