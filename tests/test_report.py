"""The answer of a diagnosis: the same in print, in a figure and in `lw show`."""

import io
import re
import sys

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from lwcore import results
from lwcore.cli import app
from lwcore.diagnose import Diagnosis
from lwcore.diagnose.answer import MOST_ROWS, Verdict
from lwcore.printing import write_legibly

INFINITE = np.inf
KNOWN = {
    "sequences_read": 100,
    "end_points": 1,
    "end_points_drawn": 1,
    "caveats": "",
    "measured_parameters": 9,
    "all_parameters": 9,
    "left_out_names": "",
    "source": "target",
    "loss": "mse_loss",
    "network": "GRU, 8 neurons",
    "measured_on": "read as 100 sequences of 9 steps of width 1",
    "fingerprint": "0123456789ab",
}


def answered(needed, low=None, high=None, n_sequences=100, lags=None, **attrs):
    """A diagnosis of lags with these N(ℓ); infinite where no signal is found."""
    needed = np.array(needed, dtype=float)
    low = needed / 2 if low is None else np.array(low, dtype=float)
    high = needed * 2 if high is None else np.array(high, dtype=float)
    count = len(needed)
    parts = np.ones((count, 50))
    parts[low == INFINITE] = 0  # without a gradient there is no bound
    data = xr.Dataset(
        {
            "statistic": (("lag", "sequence"), parts),
            "projection": (("lag", "sequence"), np.zeros((count, 50))),
            "required": ("lag", needed),
            "required_interval": (("bound", "lag"), np.stack([low, high])),
            "detected": ("lag", np.isfinite(needed)),
            "false_windows": 4,
        },
        {"lag": np.arange(1, count + 1) if lags is None else lags},
    )
    known = results.environment() | KNOWN | {"n_sequences": n_sequences}
    known["length"] = int(data.lag[-1]) + 1
    return Diagnosis(data.assign_attrs(known | attrs))


def words(text):
    """A text without its line breaks."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def found():
    """Enough for lags 1, 2 and 5; lag 4 needs more, and at lag 3 there is no signal."""
    needed = [5.0, 20.0, INFINITE, 300.0, 80.0]
    high = [9, 40, INFINITE, 900, 99]
    return answered(needed, low=[2, 10, 5, 150, 40], high=high, source="error")


def test_print_figure_and_command_say_the_same(found, tmp_path):
    answer = found.answer()
    said = words(str(found))
    points = [point for section in answer.sections.values() for point in section]
    for sentence in [answer.first, *answer.then, *points]:
        assert words(sentence) in said
    for row in answer.table.to_numpy().tolist():
        assert " ".join(row) in said
    assert repr(found) == str(found)
    assert found.answer(1000).first.startswith("From 1,000 sequences")
    figure = found.plot()
    assert words(figure.get_suptitle()) == words(answer.first)
    marked = {tuple(line.get_xdata()): line.get_markerfacecolor() for line in figure.axes[0].lines}
    assert (marked[1, 2, 5], marked[4,]) == ("#0173b2", "white")
    found.save(tmp_path / "mine.nc")
    drawn = str(tmp_path / "shown.png")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "mine.nc"), "--figure", drawn])
    assert shown.output.startswith(f"{found}\n")
    assert (tmp_path / "shown.png").read_bytes().startswith(b"\x89PNG")
    again = Diagnosis(results.load(tmp_path / "mine.nc"))
    assert str(again) == str(found)


@pytest.mark.parametrize(("n_sequences", "verdict"), [(36, "yes, fourfold"), (35, "yes")])
def test_fourfold_is_four_times_the_upper_end_of_the_interval(found, n_sequences, verdict):
    """At lag 1 that end is 9."""
    assert found.answer(n_sequences).table.iloc[0, 2] == verdict


@pytest.mark.parametrize("encoding", ["latin-1", "cp950", "utf-8"])
def test_it_prints_in_any_encoding(found, encoding, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    text = str(found)
    assert found.answer().text().count("\n") == text.count("\n")
    print(text, file=stream, flush=True)
    assert ("N(ℓ)" if encoding == "utf-8" else r"N(\u2113)") in text
    other = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    write_legibly(other)
    print("ℓ ☃", file=other, flush=True)
    shown = "ℓ ☃" if encoding == "utf-8" else r"\u2113 \u2603"
    assert other.buffer.getvalue().decode(encoding) == f"{shown}\n"


@pytest.mark.parametrize(
    ("needed", "lags", "said"),
    [
        ([5, 8, 9], None, "reaches back 3 steps"),
        ([5, INFINITE, 9], None, "back 1 step without a gap, and 3 steps at the furthest"),
        ([300, 5, 9], None, "reaches back 3 steps at the furthest, but not 1"),
        ([5, 300, 8], [4, 12, 24], "24 steps at the furthest, of the lags looked at"),
        ([300, 400], None, "enough for no lag of the gradient of all there is to learn (window: 0"),
    ],
)
def test_the_first_line_says_how_far_back_without_a_gap_and_at_the_furthest(needed, lags, said):
    first = answered(needed, lags=lags, n_sequences=20).answer().first
    assert re.match("(From )?20 sequences ", first)
    assert said in re.sub(r" \[.*?\]", "", first)


def test_there_are_four_zeros():
    no_dependence = answered([INFINITE] * 4, low=[150, 300, 400, 500])
    too_few = answered([INFINITE, 200, INFINITE, INFINITE], low=[150, 120, 400, 500])
    undecided = answered([INFINITE] * 4, low=[150, 60, 90, 500])
    nothing = answered([INFINITE] * 4, low=[INFINITE] * 4)
    said = {
        no_dependence: "no signal is found at lags 1–4 in the 100 that were read",
        too_few: "a signal is found, and needs more",
        undecided: "No signal is found, and signals up to lag 3 are not excluded",
        nothing: "there is nothing to measure. At lags 1–4 the gradient is exactly 0",
    }
    for diagnosis, reason in said.items():
        first = diagnosis.answer().first
        assert first.startswith("100 sequences are enough for no lag of the gradient of all there")
        assert [text for text in said.values() if text in first] == [reason]
        may_help = diagnosis is undecided
        assert ("give diagnose more, by sequences=" in words(str(diagnosis))) == may_help
        assert "A lag that does not show may still be learned" in words(str(diagnosis))


def test_lags_without_a_gradient_and_lags_not_looked_at_are_told():
    cut = answered([5.0, INFINITE, 8.0], low=[2.0, INFINITE, 4.0], length=9).answer()
    assert "No gradient there: in all sequences this part" in words(cut.text())
    assert "Lags 4–8 were not looked at: lags=range(4, 9) does." in cut.then


def test_what_speaks_against_the_numbers_is_said_where_it_does():
    plain = words(str(answered([5.0])))
    assert "A signal is found in 4 of 1,000 draws, and at most 10 are expected" in plain
    assert "GRU, 8 neurons: all 9 parameters." in plain
    far = answered([5.0, 101.0], caveats="11 sequences repeat half of another one.", source="error")
    assert far.answer().sections["How sure"][0] == "11 sequences repeat half of another one."
    counts = {"measured_parameters": 72, "all_parameters": 1961, "left_out_names": "embed, show"}
    some = words(str(answered([5.0], **counts)))
    assert "GRU, 8 neurons: 72 of 1,961 parameters; left out: 1,889 (embed, show)" in some
    for said in (
        "above 100 are extrapolated",
        "the gradient of what is left to learn reaches",
        "source='target' asks for all there is",
    ):
        assert said in words(str(far))
        assert said not in plain


@given(
    st.lists(
        st.tuples(st.sampled_from("dun0"), st.floats(0.01, 1e12), st.floats(1, 100)),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 10**7),
)
def test_any_numbers_make_a_small_table_of_lines_of_one_verdict(kinds, n_sequences):
    """Lags that are detected, undecided, without a signal or without a gradient, in any order."""
    needed = [count if kind == "d" else INFINITE for kind, count, _ in kinds]
    bounds = {"u": lambda *_: 0.5, "n": lambda *_: 2e7, "0": lambda *_: INFINITE}
    low = [bounds.get(kind, lambda c, f: c / f)(count, wide) for kind, count, wide in kinds]
    high = [count * wide if kind == "d" else INFINITE for kind, count, wide in kinds]
    found = answered(needed, low, high, n_sequences, length=len(kinds) + 3)
    answer = found.answer()
    assert len(answer.table) <= MOST_ROWS
    assert max(map(len, answer.text().splitlines())) <= 80
    assert "nan" not in answer.text()
    verdicts = found.by_lag().set_index("lag")["enough"].to_dict()
    for lags, _, verdict in answer.table.to_numpy().tolist():
        if verdict in list(Verdict):
            first, *last = map(int, lags.split("–"))
            assert {verdicts[lag] for lag in range(first, (last or [first])[0] + 1)} == {verdict}
    together = 0
    for row in found.by_lag().itertuples():
        if not row.needed <= n_sequences:
            break
        together = row.lag
    steps = [int(step) for step in re.findall(r"(\d+) steps?", answer.first)]
    wanted = {together, found.window(n_sequences).steps} - {0} or {0}
    assert set(steps) == wanted
