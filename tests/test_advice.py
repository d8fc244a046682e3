"""What a diagnosis says of four changes: planted cases in which the answer is known."""

import re

import numpy as np
import pytest
import torch
from scipy import stats

from lwcore.diagnose import Diagnosis, diagnose
from lwcore.diagnose.advice import UNTOLD, advice
from tests.test_diagnose import Net, planted

GATES, CUT, PLACE, CLIPPING = "Gates", "Backpropagation", "A loss", "Clipping"


def measured(batch, bias=0.0, **options):
    """An untrained LSTM of 8 neurons whose forget gates have one bias more."""
    net = Net()
    with torch.no_grad():
        net.rnn.bias_hh_l0[8:16] += bias
    how = {"source": "target", "progress": False}
    return diagnose(net, batch, range(1, 13), **how, **options)


def says(found, change):
    """The row of a change: what was measured, what it says."""
    rows = advice(found.data)
    return rows[rows.index.str.startswith(change)].iloc[0]


@pytest.fixture(scope="module")
def found():
    return measured(planted())


def test_gates_that_are_closed_hide_a_lag_and_open_ones_show_it(found):
    """The target is the input of lag 3. Following the advice shows it from as many sequences."""
    closed, opened = measured(planted(), -4.0), found
    (first, last), (later, _) = (
        map(int, re.search(r"may help at \d+ lags, (\d+) to (\d+)", says(one, GATES).says).groups())
        for one in (closed, opened)
    )
    assert first <= 3 <= last
    assert (closed.window(400).steps, opened.window(400).steps) == (0, 3)
    assert later > 3


def test_gates_that_are_open_hide_nothing_that_the_target_does_not_ask_for():
    """The last but one input is the target. N is small, so that a lag not seen is excluded."""
    found = measured(planted(1000, lag=1), 4.0, sequences=1000, n_sequences=20)
    assert found.data.envelope[-1] > 0.5 * found.data.envelope[0]
    assert says(found, GATES).says.startswith("no gain")


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
        row = says(with_numbers(found, some, some, np.arange(12) < 4), CUT)
        cuts.append(int(re.search(r"costs at most 5 % of the signal at lag (\d+)", row.says)[1]))
    assert cuts[0] == last < cuts[1]


NONE = "no effect that these sequences could show"


@pytest.mark.parametrize(("noise", "verdict"), [(stats.norm(), NONE), (stats.t(3), "can help")])
def test_clipping_helps_with_heavy_tails_and_not_with_gaussian_ones(found, noise, verdict):
    """Parts of one size: N(ℓ) changes by the relative efficiency of Huber's clipped mean."""
    part, limit = np.full((12, 4000), 0.05), noise.ppf(0.975)
    whole = part + noise.rvs(part.shape, random_state=0)
    row = says(with_numbers(found, part, whole, [True] * 12), CLIPPING)
    efficiency = 0.95**2 * noise.var() / noise.expect(lambda z: min(z * z, limit**2))
    low, high = map(float, re.search(r"divided by ([\d.]+) to ([\d.]+)", row.measured).groups())
    assert low - 0.005 <= efficiency <= high + 0.005  # printed with two digits
    assert row.says == verdict


def test_what_was_not_measured_is_said_and_the_rows_end_the_summary(found):
    assert says(found, PLACE).says == UNTOLD
    rows = zip(str(found).split("\n\n")[1:], (GATES, CUT, PLACE, CLIPPING), strict=True)
    assert all(row.startswith(change) for row, change in rows)
    used = diagnose(Net(), planted(100), [1, 2], parameters=["rnn"], progress=False)
    assert tuple(says(used, GATES)) == ("no envelope", UNTOLD)
