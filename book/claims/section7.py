"""Claims of Section 7 and of the abstracts: what decides how many sequences a delay needs, and what
is learned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import xarray as xr

from book.chapters import agreement, frontier, prediction
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate, over
from book.claims.recorded import EXPANSIONS, SCALAR, lead, log, numbers
from lwcore.stats import most_covered



def _over_seeds(values: Iterable[float], seeds: xr.DataArray) -> Measured:
    """Numbers of networks on a few seeds: median, least and largest, with what a range over so many
    seeds covers."""
    return replace(over(values), covers=most_covered(seeds.size))


def _over_cells(correlation: float, cells: int) -> Measured:
    """A rank correlation that speaks of cells: its interval has them as its units, one less where
    another number is given."""
    return estimate(correlation, agreement.correlation_interval(correlation, cells))


























