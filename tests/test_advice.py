"""What a diagnosis advises: how to ask again, where that is known to tell more."""

import numpy as np
import pytest

from lwcore.diagnose import Diagnosis, diagnose
from lwcore.diagnose.advice import advice
from tests.test_diagnose import Net, planted


@pytest.fixture(scope="module")
def found():
    return diagnose(Net(), planted(), range(1, 13), source="target", progress=False)


def with_verdicts(found, needed, n_sequences, **attrs):
    """The diagnosis, had its 12 lags these N(ℓ), known exactly; infinite: not detected."""
    needed = np.array(needed, dtype=float)
    data = found.data.copy(deep=True)
    data["required"] = ("lag", needed)
    data["required_interval"] = (("bound", "lag"), np.stack([needed, needed]))
    data["detected"] = ("lag", np.isfinite(needed))
    length = {"length": 13, "n_sequences": n_sequences}
    return Diagnosis(data.assign_attrs(length | attrs))


def done(diagnosis):
    """What there is to do."""
    return [one.do for one in advice(diagnosis.data)]


def test_lags_that_were_not_looked_at_and_the_target_are_advised_where_nothing_is_seen(found):
    nothing = with_verdicts(found, [np.inf] * 12, 100, source="error", length=20)
    assert "Look at them one by one: lags=range(13, 20)" in done(nothing)
    assert any("source='target'" in one for one in done(nothing))
    everything = with_verdicts(found, [np.inf] * 12, 100, source="target")
    assert done(everything) == []
    seen = with_verdicts(found, [10.0] * 12, 100, source="error", length=20)
    assert not any("source" in one or "lags=" in one for one in done(seen))
