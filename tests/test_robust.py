"""The farthest of some numbers."""

import numpy as np
import xarray as xr

from book.chapters import robust


def test_largest_number_tells_a_giant_whatever_scale_and_location():
    """One number of size g among n − 1 zeros lies √(n − 1) standard deviations from the mean, for
    every g."""
    samples = xr.DataArray(np.zeros((2, 1024)), dims=("column", "sequence"))
    samples[:, 7] = [3.0, -1e6]
    np.testing.assert_allclose(robust.largest(samples + 5), (1024 - 1) ** 0.5)
