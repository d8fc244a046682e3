"""A forecaster, and what a diagnosis answers it."""

import torch

from book.chapters import readers
from lwcore.diagnose import diagnose


def words(text):
    """A text in one line."""
    return " ".join(text.split())


def forecast(keep):
    """A forecaster before training, of which the same hour a day before is asked."""
    hours, next_hour = readers.loads()
    torch.manual_seed(0)
    net = readers.Forecaster(keep).eval()
    houses = hours[:200], next_hour[:200]
    return diagnose(net, houses, [1, 2, 3, 22, 23, 24], source="target", progress=False)


def test_a_forecaster_reads_that_its_day_drowns_and_what_keeping_more_does():
    plain = forecast(keep=0.0)
    assert "a signal is found, and needs more" in words(str(plain))
    needed = [
        one.by_lag().set_index("lag").loc[23, "needed"] for one in (plain, forecast(keep=3.0))
    ]
    assert needed[0] > 1e5 * needed[1] > 1e7
