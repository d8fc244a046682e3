"""Time of fitting stable laws, on one thread: our maximum likelihood against SciPy's, and all
columns of a run at once.

Run with ``python -m benchmarks.fits``. The first fit of a kind, which fills its tables, stands in a
column of its own. Only ratios within one run mean anything. SciPy's fit takes half a minute or more
and runs once; alpha and scale are free in it, skewness and location fixed. Ours fits the location
as well.
"""

from __future__ import annotations

import functools
import statistics
import warnings
from collections.abc import Callable

import numpy as np
import scipy
from rich.console import Console
from rich.table import Table
from scipy import stats

from benchmarks.harness import record, seconds
from lwcore.stable import SymmetricStable, fit

ALPHA, SAMPLES = 1.5, 1000
COLUMNS, LONG = 128, 8000
ROUNDS = 15


def by_scipy(sample: np.ndarray) -> object:
    """Fit alpha and scale by SciPy's maximum likelihood."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its quadrature complains far out
        return stats.levy_stable.fit(sample, f1=0.0, floc=0.0)


def main() -> None:
    """Time all contestants and print the table."""
    rng = np.random.default_rng(0)
    sample = SymmetricStable(ALPHA).sample(SAMPLES, rng)
    run = SymmetricStable(ALPHA).sample((LONG, COLUMNS), rng)
    contestants: dict[str, Callable[[], object]] = {"mle, 1 × 1000": lambda: fit(sample, "mle")}
    contestants |= {
        f"{method}, 128 × 8000": functools.partial(fit, run, method)
        for method in ("mcculloch", "ecf")
    }
    first = {name: seconds(task) for name, task in contestants.items()}
    median = {
        name: statistics.median(seconds(task) for _ in range(ROUNDS))
        for name, task in contestants.items()
    }
    scipys = seconds(lambda: by_scipy(sample))
    table = Table(
        "fit",
        "first, ms",
        "median, ms",
        "SciPy over it",
        "over the first",
        box=None,
        header_style="bold",
    )
    for name, time_taken in median.items():
        against = (
            (f"{scipys / time_taken:.0f}", f"{scipys / first[name]:.0f}")
            if name.startswith("mle")
            else ("", "")
        )
        table.add_row(name, f"{1e3 * first[name]:.1f}", f"{1e3 * time_taken:.1f}", *against)
    table.add_row("levy_stable.fit, 1 × 1000", f"{1e3 * scipys:.0f}")
    console = Console()
    console.print(
        f"alpha = {ALPHA}, float64, one thread, scipy {scipy.__version__}, median of {ROUNDS} "
        "rounds, SciPy's fit once"
    )
    console.print(table)
    console.print(
        "recorded in "
        f"{record('fits', {'alpha': ALPHA, 'first': first, 'median': median, 'scipy': scipys})}"
    )


if __name__ == "__main__":
    main()
