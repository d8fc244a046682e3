"""Widths and shares learned against closed forms."""

import numpy as np
import pytest
import xarray as xr

from book.chapters import spectra


def test_width_counts_decades_between_quantiles():
    """Without unit or order; what has no time scale has no part."""
    tau = np.geomspace(0.3, 30, 101)
    of = {
        1.6: [tau, 7 * tau[::-1], [*tau, np.nan, np.nan]],
        0: [np.full(9, 2.5)],
        np.inf: [[1, 2, 3, 4, np.inf, np.inf]],
    }
    for expected, spectrums in of.items():
        for values in spectrums:
            found = spectra.width(xr.DataArray(np.asarray(values, float), dims="unit"))
            assert float(found) == pytest.approx(expected)
    assert float(spectra.quantile(xr.DataArray(tau, dims="unit"), 0.9)) == pytest.approx(
        0.3 * 100**0.9
    )


def test_learned_share_is_a_projection_on_what_was_planted():
    results = xr.Dataset(
        {
            "course_learned": (("snapshot", "task_lag"), [[0.6, 0.3], [0.3, 0.15], [-0.3, 0.6]]),
            "planted": ("delay", [0.0, 0.6, 0.0, 0.3]),
        },
        coords={"task_lag": [2, 4], "delay": [1, 2, 3, 4]},
    )
    np.testing.assert_allclose(spectra.learned_share(results), [1, 0.5, 0], atol=1e-15)
