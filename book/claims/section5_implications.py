"""Claims of Section 5.5: the exponent of N(ℓ), and slow envelopes."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from book.chapters.agreement import correlation_interval, partial_rank_correlation, rank_correlation
from book.chapters.frontier import at_task, single_lag_share
from book.chapters.frontier import ease as ease_of
from book.chapters.prediction import learned_share, parameter_counts
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate

_ALPHA = 1.5


