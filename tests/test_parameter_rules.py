"""The rule of the parameters, on data that were made up so that the answer is known."""

from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.recordings.clock import parameter_conditions
from benchmarks.recordings.learners import n_parameters
from book.chapters import clock, dose, parameter_rules
from lwcore.stats import Interval

CELLS = ("ConstGate", "DiagGate", "LSTM")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals have no say in the verdict."""
    monkeypatch.setattr(parameter_rules, "DRAWS", 20)


def made_up(power, write):
    """Make searches up in which N½ is a power of the parameters, the gate and the lag."""
    rng = np.random.default_rng(2)
    rows = []
    for seed in clock.SEEDS["parameters"]:
        for condition, width in parameter_conditions():
            parameters = n_parameters(condition, width)
            needed = 150 * (parameters / 3000) ** power * condition.gate**write
            needed *= (condition.lag / 7) ** 1.5 * np.exp(0.1 * rng.standard_normal())
            varied = asdict(condition) | {"width": width, "parameters": parameters}
            for count in dose.COUNTS:
                end = "half" if count >= needed else "settled"
                found = {"seed": seed, "count": count, "end": end, "steps": 500, "seconds": 1.0}
                rows.append(varied | found | {"share": 0.5})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("power", "write", "verdict"), [(0.8, 0.0, "supported"), (0.1, -0.4, "refuted")]
)
def test_exponents_of_made_up_data_are_found(power, write, verdict):
    found = parameter_rules.parameters(made_up(power, write))
    assert tuple(row.cell for row in found.rows) == CELLS
    for row in found.rows:
        assert row.parameters.value == pytest.approx(power, abs=0.08)
        assert row.write.value == pytest.approx(write, abs=0.08)
        assert row.lag.value == pytest.approx(1.5, abs=0.15)
        assert row.parameters.low <= row.parameters.value <= row.parameters.high
    assert found.verdict() == verdict


def test_the_greatest_likelihood_is_that_of_exact_numbers_in_narrow_intervals():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.standard_normal(40), np.ones(40)])
    y = x @ [0.5, 2.0] + 0.3 * rng.standard_normal(40)
    width = 1e-3
    found = parameter_rules.greatest_likelihood(x, y - width / 2, y + width / 2)
    left = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    expected = stats.norm.logpdf(left, scale=left.std()).sum() + 40 * np.log(width)
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("power", "write", "verdict"),
    [
        (1.1, -0.1, "supported"),
        (1.2, 0.0, "undecided"),
        (0.25, 0.0, "undecided"),
        (0.24, 0.0, "refuted"),
        (0.8, -0.26, "refuted"),
    ],
)
def test_a_cell_is_judged_by_the_registered_rule(power, write, verdict):
    wide = Interval(0.0, -9.0, 9.0)  # intervals are reported, and have no say
    row = parameter_rules.ParametersRow("LSTM", wide, wide, wide, 0.0)
    row = replace(row, parameters=wide._replace(value=power), write=wide._replace(value=write))
    assert row.verdict() == verdict
