"""Time and accuracy of the symmetric stable law and of its fits, against SciPy (`make bench`).

Both laws are held against mpmath, too. SciPy is timed on fewer points where it is slow, its fit
once, with alpha and scale free; ours fits the location as well. Ours are medians of 15 calls; the
first call, which builds tables, stands apart.
"""

import functools
import statistics
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import levy_stable

from benchmarks.harness import Task, record, seconds
from lwcore.stable import SymmetricStable, fit
from lwcore.stable.standard import standard_law
from tests.test_stable_law import by_mpmath

ALPHA, POINTS, ROUNDS = 1.5, 10_000, 15
SAMPLES, COLUMNS, LONG = 1000, 128, 8000

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def timed(task: Task) -> tuple[float, float]:
    """Seconds of the first call, and of later ones."""
    return seconds(task), statistics.median(seconds(task) for _ in range(ROUNDS))


def law(name: str) -> tuple[Function, Function]:
    """A function of the law: ours and SciPy's."""
    theirs = functools.partial(getattr(levy_stable, name), alpha=ALPHA, beta=0)
    return getattr(SymmetricStable(ALPHA), name), theirs


def compare(name: str, points: Array, theirs_on: int) -> dict[str, float]:
    """Seconds a point of our first call, of our later ones and of SciPy's."""
    standard_law.cache_clear()
    ours, theirs = law(name)
    first, later = timed(lambda: ours(points))
    some = points[:: points.size // theirs_on]
    scipys = seconds(lambda: theirs(some)) / some.size
    return {"first": first / points.size, "later": later / points.size, "scipy": scipys}


def errors(name: str, points: Array, true: Array) -> tuple[float, ...]:
    """Largest relative errors, ours and SciPy's."""
    return tuple(float(np.abs(of(points) / true - 1).max()) for of in law(name))


def by_scipy(sample: Array) -> object:
    """SciPy's maximum-likelihood fit of alpha and scale."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its quadrature complains far out
        return levy_stable.fit(sample, f1=0.0, floc=0.0)


def main() -> None:
    """Time both, measure both, print and record."""
    rng = np.random.default_rng(0)
    grid, draws = np.linspace(-20, 20, POINTS), SymmetricStable(ALPHA).sample(POINTS, rng)
    compared = {
        "pdf, −20 … 20": compare("pdf", grid, POINTS),
        "pdf, own draws": compare("pdf", draws, POINTS),
        "cdf, −20 … 20": compare("cdf", grid, POINTS // 10),
        "ppf, uniform": compare("ppf", rng.uniform(size=POINTS), POINTS // 100),
    }
    x = np.geomspace(0.01, 1e4, 30)
    density, tail, _ = np.array([by_mpmath(ALPHA, point, 50) for point in x]).T
    worst = {
        "pdf": errors("pdf", x, density),
        "tail probability, cdf(−x)": errors("cdf", -x, tail),
        "ppf of that probability": errors("ppf", tail, -x),
    }
    print((1e6 * pd.DataFrame(compared).T).rename_axis("µs a point").to_string())
    print(pd.DataFrame(worst, ["ours", "SciPy"]).T.rename_axis("largest relative error"))
    found = {"seconds_a_point": compared, "largest_error": worst}
    record("stable", {"alpha": ALPHA, "points": POINTS} | found)

    rng = np.random.default_rng(0)
    sample = SymmetricStable(ALPHA).sample(SAMPLES, rng)
    run = SymmetricStable(ALPHA).sample((LONG, COLUMNS), rng)
    times = {
        "mle, 1 × 1000": timed(lambda: fit(sample, "mle")),
        "mcculloch, 128 × 8000": timed(lambda: fit(run, "mcculloch")),
        "ecf, 128 × 8000": timed(lambda: fit(run, "ecf")),
    }
    first, median = ({name: pair[k] for name, pair in times.items()} for k in (0, 1))
    fits = {"first": first, "median": median, "scipy": seconds(lambda: by_scipy(sample))}
    print(f"seconds of a fit: {fits}")
    record("fits", {"alpha": ALPHA} | fits)


if __name__ == "__main__":
    main()
