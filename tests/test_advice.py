"""What a diagnosis advises: planted cases in which the answer is known, and its record."""

import re

import numpy as np
import pytest
import torch
from scipy import stats

from lwcore.diagnose import Diagnosis, diagnose
from lwcore.diagnose.advice import _clipping, _cut, _gates, _saved_by_clipping, advice
from lwcore.diagnose.verdicts import lag_rows
from tests.test_diagnose import Net, planted


def measured(batch, bias=0.0, **options):
    """An untrained LSTM of 8 neurons whose forget gates have one bias more."""
    net = Net()
    with torch.no_grad():
        net.rnn.bias_hh_l0[8:16] += bias
    how = {"source": "target", "progress": False}
    return diagnose(net, batch, range(1, 13), **how, **options)


@pytest.fixture(scope="module")
def found():
    return measured(planted())


def lags_in(advised_change):
    """The lags that a suggestion names, as in ``lags 2–4, 7``."""
    named = re.search(r"may help at lags? ([\d–, ]+)", advised_change)[1]
    ends = [part.split("–") for part in named.strip(", ").split(", ")]
    return {lag for one in ends for lag in range(int(one[0]), int(one[-1]) + 1)}


def test_gates_that_are_closed_hide_a_lag_and_open_ones_show_it(found):
    """The target is the input of lag 3. Following the advice shows it from as many sequences."""
    closed, opened = measured(planted(), -4.0), found
    assert 3 in lags_in(_gates(closed.data, lag_rows(closed.data, 400), 400).do)
    assert (closed.window(400).steps, opened.window(400).steps) == (0, 3)
    again = _gates(opened.data, lag_rows(opened.data, 400), 400)
    assert again is None or 3 not in lags_in(again.do)


def test_gates_that_are_open_hide_nothing_that_the_target_does_not_ask_for():
    """The last but one input is the target. N is small, so that a lag not seen is excluded."""
    open_gates = measured(planted(1000, lag=1), 4.0, sequences=1000, n_sequences=20)
    assert open_gates.data.envelope[-1] > 0.5 * open_gates.data.envelope[0]
    assert _gates(open_gates.data, lag_rows(open_gates.data, 20), 20) is None


def with_numbers(found, part, whole, detected):
    """The diagnosis, had it measured these parts of lags and whole gradients."""
    numbers = {"statistic": (("lag", "sequence"), part), "projection": (("lag", "sequence"), whole)}
    data = found.data.drop_dims("sequence").assign(numbers)
    return Diagnosis(data.assign(detected=("lag", detected)))


@pytest.mark.parametrize(("size", "last"), [(0.5, 9), (0.0, 4)])
def test_a_cut_drops_what_lies_beyond_it(found, size, last):
    """Lags 1 to 4 have parts of mean 1, lag 9 of a size. Few sequences allow only a later cut."""
    means = np.array([1.0] * 4 + [0.0] * 4 + [size] + [0.0] * 3)
    part = stats.norm(means[:, None]).rvs((12, 4000), random_state=0)
    cuts = []
    for count in (4000, 10):
        some = part[:, :count]
        data = with_numbers(found, some, some, np.arange(12) < 4).data
        said = _cut(data, lag_rows(data, 400))
        assert "costs at most 5 % of the signal" in said.do
        cuts.append(int(re.search(r"behind lag (\d+)", said.do)[1]))
    assert cuts[0] == last < cuts[1]


def test_a_band_of_lags_counts_once_in_a_cut(found):
    """The last row stands for lags 12 to 99 together: a twentieth of the signal, and no more."""
    part = np.full((12, 400), 1.0)
    part[-1] = 0.4  # of 11.4
    data = with_numbers(found, part, part, [True] * 12).data
    data["lag_to"] = ("lag", [*range(1, 12), 99])
    assert "behind lag 11:" in _cut(data, lag_rows(data, 400)).do
    part[-1] = 0.8  # of 11.8
    data = with_numbers(found, part, part, [True] * 12).data.assign(lag_to=data.lag_to)
    assert _cut(data, lag_rows(data, 400)) is None


@pytest.mark.parametrize(("noise", "helps"), [(stats.norm(), False), (stats.t(3), True)])
def test_clipping_helps_with_heavy_tails_and_not_with_gaussian_ones(found, noise, helps):
    """Parts of one size: N(ℓ) changes by the relative efficiency of Huber's clipped mean."""
    part, limit = np.full((12, 4000), 0.05), noise.ppf(0.975)
    whole = part + noise.rvs(part.shape, random_state=0)
    data = with_numbers(found, part, whole, [True] * 12).data
    efficiency = 0.95**2 * noise.var() / noise.expect(lambda z: min(z * z, limit**2))
    low, high = _saved_by_clipping(data)
    assert low <= efficiency <= high
    assert (_clipping(data) is not None) == helps


def with_verdicts(found, needed, n_sequences, **attrs):
    """The diagnosis, had its 12 lags these N(ℓ), known exactly; infinite: not detected."""
    needed = np.array(needed, dtype=float)
    data = found.data.copy(deep=True).drop_vars(["envelope"])
    data["required"] = ("lag", needed)
    data["required_interval"] = (("bound", "lag"), np.stack([needed, needed]))
    data["detected"] = ("lag", np.isfinite(needed))
    length = {"length": 13, "n_sequences": n_sequences}
    return Diagnosis(data.assign_attrs(length | attrs))


def done(diagnosis):
    """What there is to do."""
    return [one.do for one in advice(diagnosis.data)]


FAR = [np.inf] * 8


def test_more_sequences_are_advised_where_they_reach_a_longer_lag(found):
    longer = with_verdicts(found, [10, 20, 50, 500, *FAR], 100)
    assert "Take more sequences to detect lag 4" in done(longer)
    shorter = with_verdicts(found, [10, 500, 50, 60, *FAR], 100)
    assert not any("more sequences" in one for one in done(shorter))
    beyond_reach = with_verdicts(found, [10, 20, 50, 10**7, *FAR], 100)
    assert not any("more sequences" in one for one in done(beyond_reach))


def test_lags_that_were_not_looked_at_and_the_target_are_advised_where_nothing_is_seen(found):
    nothing = with_verdicts(found, [np.inf] * 12, 100, source="error", length=20)
    assert "Look at the other lags: lags=range(13, 20)" in done(nothing)
    assert any("source='target'" in one for one in done(nothing))
    everything = with_verdicts(found, [np.inf] * 12, 100, source="target")
    assert done(everything) == []
    seen = with_verdicts(found, [10.0] * 12, 100, source="error", length=20)
    assert not any("source" in one or "lags=" in one for one in done(seen))
