"""Time and accuracy of the symmetric stable law, on one thread: ours against ``scipy.stats.levy_stable``, both against mpmath.

Run with ``python -m benchmarks.stable``; about a minute, nearly all of it SciPy's. Only ratios within one run mean anything. SciPy is timed
on fewer points where it is slow; times are per point. Ours are the median of 15 calls, and the first call, which builds its table, apart.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import levy_stable

from lwcore.stable import SymmetricStable
from lwcore.stable.standard import standard_law
from tests.test_stable_law import by_mpmath

ALPHA, POINTS, ROUNDS, ORACLE_POINTS = 1.5, 10_000, 15, 30

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def seconds(function: Function, points: Array) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    function(points)
    return time.perf_counter() - start


def compare(ours: Function, theirs: Function, points: Array, theirs_on: int) -> list[str]:
    """Return µs a point of our first call, of our later ones and of SciPy's, and the ratios of the last to the first two."""
    standard_law.cache_clear()
    first = seconds(ours, points) / points.size
    later = statistics.median(seconds(ours, points) for _ in range(ROUNDS)) / points.size
    some = points[:: points.size // theirs_on]
    scipys = seconds(theirs, some) / some.size
    return [f"{1e6 * first:.3f}", f"{1e6 * later:.3f}", f"{1e6 * scipys:,.0f}", f"{scipys / first:,.0f}", f"{scipys / later:,.0f}"]


def worst(values: Array, true: Array) -> str:
    """Return the largest relative error."""
    return f"{np.abs(values / true - 1).max():.1e}"


def main() -> None:
    """Time both, measure both, and print the tables."""
    law, rng = SymmetricStable(ALPHA), np.random.default_rng(0)
    grid, draws, probabilities = np.linspace(-20, 20, POINTS), law.sample(POINTS, rng), rng.uniform(size=POINTS)
    pdf, cdf, ppf = ((lambda x, name=name: getattr(levy_stable, name)(x, ALPHA, 0)) for name in ("pdf", "cdf", "ppf"))

    times = Table("µs a point", "ours, first call", "ours", "SciPy", "SciPy / first", "SciPy / ours", box=None, header_style="bold")
    times.add_row("pdf, −20 … 20", *compare(law.pdf, pdf, grid, POINTS))
    times.add_row("pdf, own draws", *compare(law.pdf, pdf, draws, POINTS))
    times.add_row("cdf, −20 … 20", *compare(law.cdf, cdf, grid, POINTS // 10))
    times.add_row("ppf, uniform", *compare(law.ppf, ppf, probabilities, POINTS // 100))

    x = np.geomspace(0.01, 1e4, ORACLE_POINTS)
    true_pdf, true_sf, _ = np.array([by_mpmath(ALPHA, point, 50) for point in x]).T
    errors = Table(f"largest relative error at {x.size} points, 0.01 … 1e4", "ours", "SciPy", box=None, header_style="bold")
    errors.add_row("pdf", worst(law.pdf(x), true_pdf), worst(pdf(x), true_pdf))
    errors.add_row("tail probability, cdf(−x)", worst(law.cdf(-x), true_sf), worst(cdf(-x), true_sf))
    errors.add_row("ppf of that probability", worst(law.ppf(true_sf), -x), worst(ppf(true_sf), -x))

    console = Console()
    console.print(
        f"alpha = {ALPHA}, {POINTS} points (SciPy: cdf {POINTS // 10}, ppf {POINTS // 100}), one thread, SciPy {scipy.__version__}"
    )
    console.print(times)
    console.print(errors)


if __name__ == "__main__":
    main()
