"""The figures of a diagnosis show its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from lwcore import plots_diagnosis
from lwcore.diagnose import Diagnosis, diagnose
from tests.test_diagnose import Net, planted


@pytest.fixture(scope="module")
def found():
    return diagnose(Net(outputs=1), planted(), range(1, 13), progress=False)


def test_one_picture_holds_envelope_time_scales_needs_and_window(found):
    data = found.data
    envelope, scales, needs, window, beside = found.plot().axes
    np.testing.assert_allclose(envelope.lines[0].get_ydata(), data.envelope)
    np.testing.assert_allclose(beside.lines[0].get_ydata(), data.off_diagonal)
    np.testing.assert_allclose(scales.lines[0].get_xdata(), np.sort(data.time_scale))
    detected = data.detected.values.astype(bool)
    seen, unseen = needs.lines[:2]
    np.testing.assert_allclose(seen.get_ydata(), data.required[detected])
    assert list(unseen.get_xdata()) == data.lag.values[~detected].tolist()
    drawn = {line.get_label(): line.get_ydata() for line in window.lines}
    budgets = window.lines[0].get_xdata().tolist()
    assert drawn["longest visible lag"].tolist() == [found.window(n).steps for n in budgets]
    assert drawn["all lags visible up to"].tolist() == [found.window(n, "first_passage").steps for n in budgets]


def test_several_are_compared_where_lags_are_detected(found):
    figure = plots_diagnosis.compared({"one": found, "half": Diagnosis(found.data.isel(lag=slice(0, 6)))})
    needs, window = figure.axes
    assert [line.get_label() for line in window.lines] == ["one", "half"]
    assert len(needs.lines[0].get_xdata()) == int(found.data.detected.sum())
    assert figure.get_supxlabel().count("400 sequences of 16 steps") == 1  # said once for both
