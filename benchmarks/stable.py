"""Time and accuracy of the symmetric stable law, on one thread: ours against
``scipy.stats.levy_stable``, both against mpmath.

Run with ``python -m benchmarks.stable``; about a minute, nearly all of it SciPy's. Only ratios
within one run mean anything. SciPy is timed on fewer points where it is slow; times are per point.
Ours are the median of 15 calls, and the first call, which builds its table, apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import levy_stable

from benchmarks.harness import record, seconds
from lwcore.stable import SymmetricStable
from lwcore.stable.standard import standard_law
from tests.test_stable_law import by_mpmath

ALPHA, POINTS, ROUNDS, ORACLE_POINTS = 1.5, 10_000, 15, 30

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def compare(ours: Function, theirs: Function, points: Array, theirs_on: int) -> dict[str, float]:
    """Return seconds a point of our first call, of our later ones and of SciPy's."""
    standard_law.cache_clear()
    some = points[:: points.size // theirs_on]
    return {
        "first": seconds(lambda: ours(points)) / points.size,
        "later": statistics.median(seconds(lambda: ours(points)) for _ in range(ROUNDS))
        / points.size,
        "scipy": seconds(lambda: theirs(some)) / some.size,
    }


def row(a_point: dict[str, float]) -> list[str]:
    """Write a comparison in µs, and the ratios of SciPy's time to ours."""
    first, later, scipys = a_point["first"], a_point["later"], a_point["scipy"]
    return [
        f"{1e6 * first:.3f}",
        f"{1e6 * later:.3f}",
        f"{1e6 * scipys:,.0f}",
        f"{scipys / first:,.0f}",
        f"{scipys / later:,.0f}",
    ]


def worst(values: Array, true: Array) -> float:
    """Return the largest relative error."""
    return float(np.abs(values / true - 1).max())


def main() -> None:
    """Time both, measure both, and print the tables."""
    law, rng = SymmetricStable(ALPHA), np.random.default_rng(0)
    grid, draws, probabilities = (
        np.linspace(-20, 20, POINTS),
        law.sample(POINTS, rng),
        rng.uniform(size=POINTS),
    )
    pdf, cdf, ppf = (
        (lambda x, name=name: getattr(levy_stable, name)(x, ALPHA, 0))
        for name in ("pdf", "cdf", "ppf")
    )

    times = Table(
        "µs a point",
        "ours, first call",
        "ours",
        "SciPy",
        "SciPy / first",
        "SciPy / ours",
        box=None,
        header_style="bold",
    )
    compared = {
        "pdf, −20 … 20": compare(law.pdf, pdf, grid, POINTS),
        "pdf, own draws": compare(law.pdf, pdf, draws, POINTS),
        "cdf, −20 … 20": compare(law.cdf, cdf, grid, POINTS // 10),
        "ppf, uniform": compare(law.ppf, ppf, probabilities, POINTS // 100),
    }
    for name, a_point in compared.items():
        times.add_row(name, *row(a_point))

    x = np.geomspace(0.01, 1e4, ORACLE_POINTS)
    true_pdf, true_sf, _ = np.array([by_mpmath(ALPHA, point, 50) for point in x]).T
    errors = Table(
        f"largest relative error at {x.size} points, 0.01 … 1e4",
        "ours",
        "SciPy",
        box=None,
        header_style="bold",
    )
    worsts = {
        "pdf": (worst(law.pdf(x), true_pdf), worst(pdf(x), true_pdf)),
        "tail probability, cdf(−x)": (worst(law.cdf(-x), true_sf), worst(cdf(-x), true_sf)),
        "ppf of that probability": (worst(law.ppf(true_sf), -x), worst(ppf(true_sf), -x)),
    }
    for name, pair in worsts.items():
        errors.add_row(name, *(f"{value:.1e}" for value in pair))

    console = Console()
    console.print(
        f"alpha = {ALPHA}, {POINTS} points (SciPy: cdf {POINTS // 10}, ppf {POINTS // 100}), one "
        f"thread, SciPy {scipy.__version__}"
    )
    console.print(times)
    console.print(errors)
    found = {"seconds_a_point": compared, "largest_error": worsts}
    console.print(f"recorded in {record('stable', {'alpha': ALPHA, 'points': POINTS} | found)}")


if __name__ == "__main__":
    main()
