"""Time and accuracy of the stable law, against SciPy, and time of its fits (`make bench`).

Both laws are held against mpmath, too. SciPy is timed on fewer points where it is slow. Ours are
medians of 15 calls; the first call, which builds tables, stands apart.
"""

import functools
import statistics
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import levy_stable

from benchmarks.harness import Task, record, seconds
from lwcore.stable import SymmetricStable, fit
from lwcore.stable.standard import standard_law
from tests.test_stable_law import by_mpmath

ALPHA = 1.5
POINTS = 10_000  # for the functions of the law
ROUNDS = 15
COLUMNS = 128  # of the fits, as in a run with 128 lags
LONG = 8000  # samples of these

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def timed(task: Task) -> tuple[float, float]:
    """Return the seconds of the first call, and the median of later ones."""
    first = seconds(task)
    later = statistics.median(seconds(task) for _ in range(ROUNDS))
    return first, later


def ours(name: str) -> Function:
    """Return a function of our law."""
    return getattr(SymmetricStable(ALPHA), name)


def scipys(name: str) -> Function:
    """Return the same function of SciPy's law."""
    return functools.partial(getattr(levy_stable, name), alpha=ALPHA, beta=0)


def compare(name: str, points: Array, scipy_points: int) -> dict[str, float]:
    """Return the seconds a point of our first call, of our later ones and of SciPy's."""
    standard_law.cache_clear()
    first, later = timed(lambda: ours(name)(points))
    some = points[:: points.size // scipy_points]
    scipy = seconds(lambda: scipys(name)(some))
    return {
        "first": first / points.size,
        "later": later / points.size,
        "scipy": scipy / some.size,
    }


def largest_errors(name: str, points: Array, truth: Array) -> tuple[float, float]:
    """Return the largest relative errors, ours and SciPy's."""

    def largest(function: Function) -> float:
        return float(np.abs(function(points) / truth - 1).max())

    return largest(ours(name)), largest(scipys(name))


def measure_law() -> None:
    """Time and hold against mpmath the functions of the law; print and record."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-20, 20, POINTS)
    draws = SymmetricStable(ALPHA).sample(POINTS, rng)
    compared = {
        "pdf, −20 … 20": compare("pdf", grid, POINTS),
        "pdf, own draws": compare("pdf", draws, POINTS),
        "cdf, −20 … 20": compare("cdf", grid, POINTS // 10),
        "ppf, uniform": compare("ppf", rng.uniform(size=POINTS), POINTS // 100),
    }
    x = np.geomspace(0.01, 1e4, 30)
    density, tail, _ = np.array([by_mpmath(ALPHA, point, 50) for point in x]).T
    worst = {
        "pdf": largest_errors("pdf", x, density),
        "tail probability, cdf(−x)": largest_errors("cdf", -x, tail),
        "ppf of that probability": largest_errors("ppf", tail, -x),
    }
    print((1e6 * pd.DataFrame(compared).T).rename_axis("µs a point").to_string())
    print(pd.DataFrame(worst, ["ours", "SciPy"]).T.rename_axis("largest relative error"))
    settings = {"alpha": ALPHA, "points": POINTS}
    record("stable", settings | {"seconds_a_point": compared, "largest_error": worst})


def measure_fits() -> None:
    """Time the two fits; print and record."""
    rng = np.random.default_rng(0)
    run = SymmetricStable(ALPHA).sample((LONG, COLUMNS), rng)
    tasks: dict[str, Task] = {
        "mcculloch, 128 × 8000": lambda: fit(run, "mcculloch"),
        "ecf, 128 × 8000": lambda: fit(run, "ecf"),
    }
    first = {}
    median = {}
    for name, task in tasks.items():
        first[name], median[name] = timed(task)
    fits = {"first": first, "median": median}
    print(f"seconds of a fit: {fits}")
    record("fits", {"alpha": ALPHA} | fits)


def main() -> None:
    """Measure the law, then the fits."""
    measure_law()
    measure_fits()


if __name__ == "__main__":
    main()
