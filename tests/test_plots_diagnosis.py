"""The figures of a diagnosis show its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from lwcore import plots_diagnosis
from lwcore.diagnose import diagnose
from tests.test_diagnose import Net, planted


@pytest.fixture(scope="module")
def data():
    return diagnose(Net(outputs=1), planted(), range(1, 13), progress=False).data


def test_one_picture_holds_envelope_time_scales_needs_and_window(data):
    envelope, scales, needs, window, beside = plots_diagnosis.diagnosis(data).axes
    np.testing.assert_allclose(envelope.lines[0].get_ydata(), data.envelope)
    np.testing.assert_allclose(beside.lines[0].get_ydata(), data.off_diagonal)
    np.testing.assert_allclose(scales.lines[0].get_xdata(), np.sort(data.time_scale))
    detected = data.detected.values.astype(bool)
    seen, unseen = needs.lines[:2]
    np.testing.assert_allclose(seen.get_ydata(), data.required.sel(reading="variance")[detected])
    assert list(unseen.get_xdata()) == data.lag.values[~detected].tolist()
    drawn = {line.get_label(): line.get_ydata() for line in window.lines}
    np.testing.assert_array_equal(drawn["longest visible lag"], data.window.sel(reading="variance", definition="supremum"))
    np.testing.assert_array_equal(drawn["all lags visible up to"], data.window.sel(reading="variance", definition="first_passage"))


def test_several_are_compared_where_lags_are_detected(data):
    figure = plots_diagnosis.compared({"one": data, "half": data.isel(lag=slice(0, 6))})
    needs, window = figure.axes
    assert [line.get_label() for line in window.lines] == ["one", "half"]
    assert len(needs.lines[0].get_xdata()) == int(data.detected.sum())
    assert figure.get_supxlabel().count("400 sequences of 16 steps") == 1  # said once for both
