"""Tables on the regimes: against formulas written out by hand, and windows found by search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from book.chapters.regimes import constants, gates_or_data, growth, regime_slope
from lwcore.detection import sample_complexity
from lwcore.window import DecayLaw

RATES = {"mean": 3.0, "optimal": 2.0, "paper_v2": 1.5}  # p at α = 1.5
LAWS = [
    DecayLaw("exponential", 2.0, 0.8),
    DecayLaw("power", 2.0, 0.7),
    DecayLaw("logarithmic", 2.0),
]


def test_slopes_by_hand() -> None:
    for rate, p in RATES.items():
        expected = [1 / (p * math.log(1 / 0.8)), 1 / (p * 0.7), 1 / p]
        assert [regime_slope(law, 1.5, rate) for law in LAWS] == pytest.approx(expected)


def test_measured_windows_grow_as_the_paper_says() -> None:
    table = growth(LAWS, 1.3, error=0.2)
    assert list(table.index) == [(law.name, rate) for law in LAWS for rate in RATES]
    assert table["measured slope"].values == pytest.approx(table["paper's slope"].values, rel=2e-3)
    gap = table["gap to closed form (grid steps)"]
    assert gap.between(0, 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("law", "alpha"),
    [
        (DecayLaw("exponential", 1, 0.5), 1.5),
        (DecayLaw("exponential", 1, 0.62), 1.5),
        (DecayLaw("exponential", 1, 0.5), 1.05),
        (DecayLaw("power", 1, 3), 1.05),
        (DecayLaw("exponential", 1e-9, 0.9), 1.05),
    ],
)
def test_steep_laws_end_their_grid_before_the_floats_end(law: DecayLaw, alpha: float) -> None:
    table = growth([law], alpha)
    assert table["measured slope"].values == pytest.approx(table["paper's slope"].values, rel=2e-3)
    assert table["gap to closed form (grid steps)"].between(0, 1 + 1e-9).all()


@pytest.mark.parametrize(
    "table",
    [
        lambda law: growth([law], 1.5),
        lambda law: constants([law], 1e5, 1, 1.5),
        lambda law: gates_or_data([law], 1e5, 1.5),
    ],
)
@pytest.mark.parametrize(
    ("name", "decay"), [("exponential", 1.2), ("exponential", 1.0), ("power", 0.0), ("power", -1.0)]
)
def test_a_law_must_fall(table, name: str, decay: float) -> None:
    with pytest.raises(ValueError, match=f"law = {name} with decay {decay}: must fall"):
        table(DecayLaw(name, 1, decay))


def test_a_law_too_steep_for_a_grid_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"must stay in the range of a float for 20 lags, but does so for \d+\."
    ):
        growth([DecayLaw("exponential", 1, 1e-10)], 1.05)


def needed(law: DecayLaw, lag: float, rate: str, root: bool = False) -> float:
    """N of a lag, the envelope f as it is or, with its decay halved, c √(f/c)."""
    f = law.envelope(lag)
    return float(
        sample_complexity(math.sqrt(f * law.amplitude) if root else f, 1, 1, 1.5, rate=rate)
    )


def by_search(law: DecayLaw, rate: str, n: float, root: bool = False) -> float:
    """The lag that N sequences just detect, with no closed form but that of f."""
    return math.exp(
        optimize.brentq(
            lambda log_lag: math.log(needed(law, math.exp(log_lag), rate, root) / n),
            0,
            math.log(1e300),
        )
    )


@pytest.mark.parametrize("law", LAWS[1:], ids=lambda law: law.name)
@pytest.mark.parametrize("rate", RATES)
def test_gates_and_data_by_search(law: DecayLaw, rate: str) -> None:
    n = 20.0
    row = gates_or_data([law], n, 1.5).loc[law.name, rate]
    n_c = float(sample_complexity(2.0, 1, 1, 1.5, rate=rate))
    assert row["N/N_c"] == pytest.approx(n / n_c)
    for column, budget, root in (
        ("window", n, False),
        ("data doubled", 2 * n, False),
        ("decay halved", n, True),
    ):
        assert row[column] == pytest.approx(by_search(law, rate, budget, root), rel=1e-6), column
    assert row["decay halved"] == pytest.approx(row["data × N/N_c"], rel=1e-9)


def test_halving_an_exponential_decay_doubles_its_window() -> None:
    table = gates_or_data(LAWS[:1], 1e6, 1.5)
    np.testing.assert_allclose(table["decay halved"], 2 * table["window"])


def test_constants_by_hand() -> None:
    table = constants(LAWS, 100.0, 0.5, 1.5)
    for rate, p in RATES.items():
        plain = [
            math.log(100) / (p * math.log(1 / 0.8)),
            100 ** (1 / (p * 0.7)),
            math.expm1(100 ** (1 / p)),
        ]
        n_c = float(sample_complexity(2.0, 0.5, 1, 1.5, rate=rate))
        window = [
            math.log(100 / n_c) / (p * math.log(1 / 0.8)),
            (100 / n_c) ** (1 / (p * 0.7)),
            math.expm1((100 / n_c) ** (1 / p)),
        ]
        for law, by_hand, exact in zip(LAWS, plain, window, strict=True):
            row = table.loc[0.5, law.name, rate]
            assert (row["plain form"], row["window"]) == pytest.approx((by_hand, exact))
            assert (row["N_c"], row["ratio"]) == pytest.approx((n_c, exact / by_hand))
