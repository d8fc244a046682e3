"""What a diagnosis says of itself, in every corner: it speaks of measured lags alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
import xarray as xr

from lwcore.diagnose import Diagnosis, bands, words
from lwcore.diagnose.words import plural

INF = np.inf
READ = " Read as 100 sequences of 60 steps of 1 number."
BEWARE = "Beware: a few sequences make most of the noise, so that intervals hold less often than they say; take more sequences."


def rest(seen, lags):
    """What is said of lags whose sign is not known."""
    shown = "a lag is shown if they do and it needs no more than 100."
    return f"Of {seen} of {lags} the 50 sequences that gave the numbers tell the sign; {shown}"


# Lags, N(ℓ), its lower and upper end, whether detected; the number of sequences asked about; what is said.
ROWS = {
    "all": (
        [1, 5, 10],
        [10, 20, 30],
        [5, 10, 15],
        [20, 40, 200],
        [1, 1, 1],
        100,
        "In 100 sequences the gradient of the loss shows every measured lag, up to the longest, 10 steps (95 % interval 5 to 10).",
    ),
    "some": (
        [1, 5, 10, 20],
        [10, 20, 300, 400],
        [5, 10, 90, 150],
        [20, 120, 900, INF],
        [1, 1, 1, 0],
        100,
        "In 100 sequences the gradient of the loss shows every measured lag up to 5 (95 % interval 1 to 10), and no measured lag beyond 5 "
        f"(1 to 10), of 4 lags measured up to 20 steps. {rest(3, '4 lags')}",
    ),
    "a gap": (
        [1, 5, 10],
        [10, 200, 30],
        [5, 90, 15],
        [20, 400, 60],
        [1, 1, 1],
        100,
        "In 100 sequences the gradient of the loss shows every measured lag up to 1 (95 % interval 1 to 10), and also the longest "
        "(10 to 10), of 3 lags measured up to 10 steps.",
    ),
    "not the shortest": (
        [2, 5, 10],
        [200, 20, 300],
        [90, 15, 150],
        [400, 60, 900],
        [1, 1, 1],
        100,
        "In 100 sequences the gradient of the loss shows measured lags up to 5 (95 % interval 5 to 5), but not the shortest, 2, of 3 lags "
        "measured up to 10 steps.",
    ),
    "none, but perhaps some": (
        [1, 5],
        [200, 300],
        [50, 150],
        [INF, INF],
        [0, 0],
        100,
        "In 100 sequences the gradient of the loss shows no measured lag, though the 95 % interval reaches to 1, of 2 lags measured up to "
        f"5 steps. {rest('none', '2 lags')}",
    ),
    "none at all": (
        [1, 5],
        [200, 300],
        [150, 150],
        [500, 600],
        [1, 1],
        1,
        "In 1 sequence the gradient of the loss shows no measured lag, and the 95 % interval holds none, of 2 lags measured up to 5 steps.",
    ),
    "one lag, seen": (
        [1],
        [10],
        [5],
        [20],
        [1],
        1000,
        "In 1,000 sequences the gradient of the loss shows the one lag measured, 1 step (95 % interval 1 to 1).",
    ),
    "one lag, not seen": (
        [7],
        [1000],
        [50],
        [INF],
        [0],
        100,
        f"In 100 sequences the gradient of the loss shows nothing at the one lag measured, 7 steps (95 % interval 0 to 7). "
        f"{rest('none', '1 lag')}",
    ),
}


def made(lags, needed, low, high, detected, n, alpha=1.9, exponent=2.1, **attributes):
    data = xr.Dataset(
        {
            "required": (("reading", "lag"), [needed, needed]),
            "required_interval": (("bound", "lag"), [low, high]),
            "detected": ("lag", np.array(detected, bool)),
            "statistic": (("lag", "sequence"), np.zeros((len(lags), 50))),
            "tail_index": (("noise_definition", "lag"), np.full((2, len(lags)), alpha)),
            "exponent": (("noise_definition", "lag"), np.full((2, len(lags)), exponent)),
        },
        coords={"lag": lags, "reading": ["variance", "stable"], "bound": ["low", "high"], "noise_definition": ["lag", "total"]},
    )
    data["required"] = data.required.astype(float)
    told = {"n_sequences": n, "source": "error", "level": 0.95, "interrupted": 0, "measured_on": f"r{READ[2:-1]}: half for directions"}
    return Diagnosis(data.assign_attrs(told | attributes))


def said_of(found):
    """The words, on one line, without the last sentence, which says how the data were read."""
    said = " ".join(str(found).split())
    assert said.endswith(READ)
    return said.removesuffix(READ)


@pytest.mark.parametrize("row", ROWS)
def test_every_corner_has_its_words(row):
    *numbers, said = ROWS[row]
    assert said_of(made(*numbers)) == said


@pytest.mark.parametrize("n", [1, 2, 30, 100, 10**6])
def test_nothing_is_said_of_lags_that_were_not_measured(n):
    rng = np.random.default_rng(n)
    for _ in range(30):
        lags = np.unique(rng.integers(1, 60, rng.integers(1, 5))).tolist()
        low, needed, high = np.sort(10 ** rng.uniform(0, 4, (3, len(lags))), axis=0)
        said = said_of(made(lags, needed, low, high, rng.random(len(lags)) < 0.7, n))
        assert not re.search(r"up to 0|beyond 0|none beyond| of \d+ steps", said), said
        steps = {int(found) for found in re.findall(r"(?:up to|beyond|longest,|shortest,|measured,|reaches to) (\d+)", said)}
        assert steps <= set(lags), said


def test_the_source_and_an_interrupt_are_named():
    numbers = ROWS["all"][:-1]
    assert "of the loss, as if nothing had been learned yet, shows every" in " ".join(str(made(*numbers, source="target")).split())
    assert str(made(*numbers, interrupted=1)).startswith("Interrupted: 50 sequences gave numbers. In 100 sequences")


@pytest.mark.parametrize(("alpha", "exponent", "warned"), [(1.9, 2.1, False), (0.51, 2.0, True), (1.9, -0.7, True), (1.5, 6.0, True)])
def test_giants_are_warned_of(alpha, exponent, warned):
    assert (BEWARE in said_of(made(*ROWS["all"][:-1], alpha=alpha, exponent=exponent))) == warned


def test_the_coverage_that_is_said_is_that_of_the_docstring():
    said = re.findall(r"^\* (\d+ to \d+ %)", bands.__doc__, re.MULTILINE)
    assert re.findall(r"\d+ to \d+ %", words.HELD) == said


def test_one_is_not_several():
    assert [plural(count, "step") for count in (0, 1, 2, 1024)] == ["0 steps", "1 step", "2 steps", "1,024 steps"]
