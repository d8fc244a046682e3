"""The answer of a diagnosis: the same in print, in a notebook, in a figure and in `lw show`."""

import re

import numpy as np
import pytest
import torch
import xarray as xr
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from typer.testing import CliRunner

from lwcore import results
from lwcore.cli import app
from lwcore.diagnose import Diagnosis, diagnose
from lwcore.diagnose.answer import reach_of
from lwcore.diagnose.verdicts import MOST_ROWS, Verdict
from tests.networks import draw
from tests.test_diagnose import Net, planted

INFINITE = np.inf


def answered(needed, low=None, high=None, n_sequences=100, **attrs):
    """A diagnosis of lags from 1 on with these N(ℓ); infinite where no signal is detected."""
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
            "exponent": ("lag", np.full(count, 2.0)),
            "tail_index": ("lag", np.full(count, 2.0)),
            "false_windows": 4,
        },
        {"lag": np.arange(1, count + 1)},
    )
    known = {
        "sequences_read": 100,
        "end_points": 1,
        "end_points_drawn": 1,
        "without_gradient": "",
        "caveats": "",
        "beats_constant": -1,
        "measured_parameters": 9,
        "all_parameters": 9,
        "left_out_names": "",
        "source": "target",
        "loss": "mse_loss",
        "network": "GRU, 8 neurons",
        "measured_on": "read as 100 sequences of 9 steps of width 1",
        "n_sequences": n_sequences,
        "length": count + 1,
    }
    return Diagnosis(data.assign_attrs(known | attrs))


def words(text):
    """A text without its line breaks."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def found():
    """The input three steps before the end is all that the target holds."""
    return diagnose(Net(), planted(), range(1, 9), source="target", progress=False)


def test_the_first_line_says_how_far_back_and_the_next_what_that_takes(found):
    lines = str(found).splitlines()
    needed = float(found.data.required.sel(lag=3))
    start = "From 400 sequences the gradient of all there is to learn reaches back 3 steps"
    assert words(" ".join(lines[:2])).startswith(start)
    assert f"Lag 3, the longest, needs {needed:.0f} sequences, and you have 400." in words(
        str(found)
    )


def test_print_notebook_figure_and_command_say_the_same(found, tmp_path):
    answer = found.answer()
    said = words(str(found))
    page = BeautifulSoup(found._repr_html_(), "html.parser")
    shown = words(page.get_text(" "))
    points = [point for _, section in answer.sections for point in section]
    for sentence in [answer.first, *answer.then, *answer.legend, *points]:
        assert words(sentence) in said
        assert words(sentence) in shown
    rows = [[cell.get_text() for cell in row.select("td")] for row in page.table.select("tr")][1:]
    assert rows == answer.table.to_numpy().tolist()
    for row in rows:
        assert " ".join(row) in said
    figure = found.plot()
    assert answer.first.startswith(figure.get_suptitle())
    left, _ = figure.axes
    marked = {tuple(line.get_xdata()): line.get_markerfacecolor() for line in left.lines}
    enough = [row.first for row in found.rows if row.is_enough]
    assert marked[tuple(enough)] == "#0173b2"
    found.save(tmp_path / "mine.nc")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "mine.nc")])
    assert shown.output.startswith(f"{found}\n")
    again = Diagnosis(results.load(tmp_path / "mine.nc"))
    assert (str(again), again._repr_html_()[:200]) == (str(found), found._repr_html_()[:200])


def test_the_command_draws_and_a_notebook_folds_the_numbers(found, tmp_path):
    found.save(tmp_path / "mine.nc")
    drawn = str(tmp_path / "shown.png")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "mine.nc"), "--figure", drawn])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "shown.png").read_bytes().startswith(b"\x89PNG")
    page = BeautifulSoup(found._repr_html_(), "html.parser")
    folds = {fold.summary.get_text(): fold for fold in page.select("details")}
    assert {"Every lag", "All numbers"} <= folds.keys()
    lags = [row.td.get_text() for row in folds["Every lag"].select("tbody tr")]
    assert lags == [str(lag) for lag in found.data.lag.values]


def test_there_are_five_zeros():
    no_dependence = answered([INFINITE] * 4, low=[150, 300, 400, 500])
    too_few = answered([INFINITE, 200, INFINITE, INFINITE], low=[150, 120, 400, 500])
    undecided = answered([INFINITE] * 4, low=[150, 60, 90, 500])
    not_looked_at = answered([INFINITE] * 4, low=[150, 300, 400, 500], length=9)
    nothing = answered([INFINITE] * 4, low=[INFINITE] * 4)
    drowned = answered([INFINITE, INFINITE, 10**8, INFINITE], low=[150, 200, 10**7, 10**9])
    start = "100 sequences are enough for no lag of the gradient of all there is to learn (0"
    said = {
        no_dependence: "no signal is detected at lags 1 to 4 in the 100 sequences that were read. "
        "One that needs more of them would not show",
        too_few: "a signal is detected, and needs more",
        undecided: "too few sequences were read to tell. No signal is detected, and signals up to "
        "lag 3 are not excluded",
        nothing: "there is nothing to measure. At lags 1 to 4 the gradient is exactly 0",
        drowned: "a signal is detected, but it drowns in the noise of the whole gradient",
    }
    for diagnosis, reason in said.items():
        first = diagnosis.answer().first
        assert first.startswith(start)
        assert reason in first
        assert not any(text in first for text in said.values() if text != reason)
    assert "Lags 5–8 were not looked at: lags=range(5, 9) does." in words(str(not_looked_at))
    assert not_looked_at.answer().table.to_numpy().tolist() == [
        ["1–4", "–", "none detected"],
        ["5–8", "–", "not looked at"],
    ]
    assert "not looked at" not in str(no_dependence)
    assert "Give diagnose more than these" in words(str(undecided))
    assert "Give diagnose more than these" in words(str(no_dependence))
    assert "Give diagnose more than these" not in words(str(too_few) + str(nothing))
    assert "lag 2 needs 200 sequences" in words(str(too_few))
    assert "lag 3 needs 100 million sequences" in words(str(drowned))


@pytest.mark.parametrize(
    ("target", "reason"),
    [("noise", "no signal is detected"), ("planted", "to learn reaches back 3 steps")],
)
def test_a_dependence_that_is_not_there_is_told_from_one_that_is(target, reason):
    inputs, targets = planted()
    targets = draw(400, 1, seed=9).float() if target == "noise" else targets
    how = {"source": "target", "progress": False, "n_sequences": 100}
    assert reason in words(str(diagnose(Net(), (inputs, targets), range(1, 13), **how)))


def test_a_network_without_a_path_of_that_length_has_nothing_to_measure():
    """Its gradient is cut two steps before the end."""

    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.out = nn.GRUCell(1, 8), nn.Linear(8, 1)

        def forward(self, x):
            state = x.new_zeros(len(x), 8)
            for step, part in enumerate(x.unbind(1)):
                state = self.cell(part, state)
                if step == x.shape[1] - 3:
                    state = state.detach()
            return self.out(state)

    how = {"source": "target", "progress": False, "parameters": ["cell"]}
    cut = diagnose(Cut().eval(), planted(100), range(4, 9), **how)
    said = words(str(cut))
    assert "there is nothing to measure at lags 4 to 8. There the gradient is exactly 0" in said
    assert "Lags 1–3, 9–15 were not looked at" in said
    assert "takes its whole window at once" not in said
    assert cut.answer().table.to_numpy().tolist()[0] == ["4–8", "–", "no gradient there"]


def test_of_lags_without_a_gradient_none_is_said_to_need_sequences():
    """The first line says where a signal may be, and where there can be none."""
    cut = [INFINITE] * 9
    unread = answered([INFINITE] * 11, low=[20, 30, *cut]).answer()
    assert "signals up to lag 2 are not excluded. At lags 3 to 11 there is no" in unread.first
    none = answered([INFINITE] * 11, low=[150, 130, *cut]).answer()
    assert "no signal is detected at lags 1 to 2 in the 100" in none.first
    for answer in (unread, none):
        assert answer.first.endswith("At lags 3 to 11 there is no gradient at all.")
        assert [one.do for one in answer.suggestions] == [
            "Give diagnose more than these 100 sequences"
        ]
    between = answered([INFINITE] * 5, low=[20, INFINITE, 30, INFINITE, INFINITE]).answer()
    assert between.first.endswith("At lags 2, 4–5 there is no gradient at all.")
    seen = answered([5.0, 8.0, INFINITE], low=[2.0, 4.0, INFINITE]).answer()
    assert "reaches back 2 steps" in seen.first
    assert seen.first.endswith("At lag 3 there is no gradient at all.")
    nothing = answered([INFINITE] * 3, low=[INFINITE] * 3).answer()
    assert "no gradient at all" not in nothing.first
    assert nothing.suggestions == []


def test_what_is_special_to_an_answer_stands_before_what_all_say():
    answer = answered([5.0, INFINITE], low=[2, 20], caveats="11 sequences repeat half.").answer()
    other = answered([5.0, 8.0], n_sequences=7).answer()
    assert answer.sure[0] == "11 sequences repeat half."
    assert answer.legend[0].startswith("cannot be told: ")
    assert answer.legend[-3:] == other.legend[-3:]
    assert answer.sure[-3:] == other.sure[-3:]
    assert answer.measured[-1] == other.measured[-1]


def test_few_sequences_in_which_nothing_is_detected_are_said_to_be_few():
    """More of them than there are is what a reader can do, and how is said where that is known."""
    few = answered([INFINITE] * 4, low=[50] * 4, n_sequences=40, sequences_read=40)
    assert "Give diagnose more than these 40 sequences. One that needs" in words(str(few))
    most = answered([INFINITE] * 4, low=[2000] * 4, n_sequences=1024, sequences_read=1024)
    assert "these 1,024 sequences, and say how many by sequences=…." in words(str(most))


def test_what_is_left_to_learn_is_told_from_how_far_a_network_looks():
    left = words(str(answered([5.0, 8.0], source="error")))
    assert "That is what is left to learn. The network may look back further" in left
    assert "source='target' asks how far" in left
    assert "left to learn. The network" not in words(str(answered([5.0, 8.0])))


@pytest.mark.parametrize("width", [1, 2])
def test_a_kernel_is_said_to_look_back_within_a_lag(width):
    """Where it has more steps than one."""

    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first = nn.Conv1d(1, 4, width)
            self.second = nn.Conv1d(4, 4, 2, dilation=4)
            self.out = nn.Conv1d(4, 1, 1)

        def forward(self, x):
            h = self.first(nn.functional.pad(x.mT, (width - 1, 0))).tanh()
            h = self.second(nn.functional.pad(h, (4, 0))).tanh()
            return self.out(h).mT

    inputs = draw(64, 12, 1).float()
    batch = inputs, inputs.roll(4, 1)
    found = diagnose(Convolution().eval(), batch, [1, 4], source="target", progress=False)
    names = "first, second" if width > 1 else "second"
    assert f"own kernel within a lag, here ({names})" in words(str(found))


def test_a_kernel_within_a_step_is_not_said_to_look_back():
    """Of frames of 5 numbers, each of one step."""

    class Framed(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv = nn.Conv1d(1, 2, 3)
            self.rnn, self.out = nn.GRU(6, 4, batch_first=True), nn.Linear(4, 1)

        def forward(self, x):
            count, length, width = x.shape
            framed = self.conv(x.reshape(count * length, 1, width)).reshape(count, length, -1)
            return self.out(self.rnn(framed)[0])

    inputs = draw(64, 12, 5).float()
    batch = inputs, inputs[..., :1].roll(4, 1)
    found = diagnose(
        Framed().eval(), batch, [1, 4], source="target", parameters=["conv"], progress=False
    )
    assert "kernel" not in str(found)


def test_what_there_is_to_do_is_left_out_where_there_is_nothing():
    nothing_to_do = answered([10.0, 20.0, 30.0])
    text = str(nothing_to_do)
    assert "What you can do" not in text
    headings = [line for line in text.splitlines() if line[:1].isalpha() and line[-1].isalpha()]
    assert headings[-2:] == ["What was measured", "How sure"]
    undecided = str(answered([INFINITE] * 4, low=[150, 60, 90, 500]))
    assert "What you can do" in undecided
    assert "Give diagnose more than these 100 sequences" in words(undecided)


@pytest.mark.parametrize(
    ("module", "shown"),
    [
        ("layers.{}", "72 of 1,961 parameters; left out: 1,889 (layers)."),
        ("part{}", "(34 modules)"),
    ],
)
def test_it_says_whose_gradient_it_is_in_counts(module, shown):
    names = [f"{module.format(place)}.weight" for place in range(34)]
    counts = {"measured_parameters": 72, "all_parameters": 1961}
    said = words(str(answered([5.0], left_out_names=", ".join(names), **counts)))
    assert f"GRU, 8 neurons: {shown}" in said or f"left out: 1,889 {shown}." in said
    assert names[1] not in said


def test_it_says_that_all_parameters_were_measured():
    assert "Net: all 9 parameters." in words(str(answered([5.0], network="Net")))


def test_what_speaks_against_the_numbers_is_said_where_it_does():
    plain = words(str(answered([5.0])))
    assert "in 4 of 1,000 draws" in plain
    assert "few sequences make most of the noise" not in plain
    assert "extrapolated" not in plain
    heavy = answered([5.0])
    heavy.data["tail_index"][:] = 0.9
    assert "A few sequences make most of the noise" in words(str(heavy))
    slow = answered([5.0])
    slow.data["exponent"][:] = 7.0
    assert "A few sequences make most of the noise" in words(str(slow))
    untold = answered([5.0])
    untold.data["exponent"][:] = np.nan
    assert "few sequences make most" not in str(untold)
    far = answered([5.0], n_sequences=5000, caveats="11 sequences repeat half of another one.")
    assert "5,000 sequences are extrapolated: 100 were read." in words(str(far))
    assert "11 sequences repeat" in str(far)


def test_a_model_no_better_than_a_constant_is_said_first():
    """Its own errors show a gradient that no data asked for."""
    no_better = answered([5.0], source="error", beats_constant=0).answer().first
    assert "That need not be a dependence in the data: the model predicts no better" in no_better
    for better in ({"source": "error", "beats_constant": 1}, {"beats_constant": -1}):
        assert "no dependence in the data" not in answered([5.0], **better).answer().first


def test_bands_are_said_as_bands():
    banded = answered([5.0, 20.0, 300.0], n_sequences=100, length=40)
    banded.data["lag_to"] = ("lag", [1, 9, 39])
    banded = Diagnosis(banded.data.assign_coords(lag=[1, 2, 10]))
    assert "all there is to learn reaches back 2–9 steps" in banded.answer().first
    assert banded.window(100) == (2, 2, 9)
    lags = banded.answer().table["lag"].tolist()
    assert lags == ["1", "2–9 together", "10–39 together"]
    assert "not looked at" not in str(banded)
    assert banded.by_lag()[["lag", "lag_to"]].to_numpy().tolist() == [[1, 1], [2, 9], [10, 39]]


def test_a_stretch_out_of_reach_has_a_line_for_what_is_detected_and_one_for_what_is_not():
    """The line of the detected lags says "not enough" of no other."""
    far = 3 * 10**9
    mixed = [5.0, INFINITE, far, INFINITE, INFINITE, far, far, INFINITE]
    low = [2.0, far, 10**8, far, far, 10**8, 10**8, far]
    found = answered(mixed, low=low)
    table = found.answer().table.to_numpy().tolist()
    assert table[1:] == [
        ["2, … 8", "–", "none detected"],
        ["3, 6–7", "over 10⁹", "not enough"],
    ]
    text = words(str(found))
    assert "2, … 8 – none detected" in text
    assert "by_lag() has each" in text
    page = BeautifulSoup(found._repr_html_(), "html.parser")
    rows = [[cell.get_text() for cell in row.select("td")] for row in page.table.select("tr")]
    assert rows[1:] == table
    left, _ = found.plot().axes
    crosses = [line.get_xdata().tolist() for line in left.lines if line.get_marker() == "x"]
    assert [2, 4, 5, 8] in crosses


@given(st.lists(st.sampled_from("dfun0"), min_size=1, max_size=40))
def test_a_line_of_the_table_speaks_of_lags_of_one_verdict(kinds):
    """Lags that are detected, or detected far out of reach, undecided, without a signal, cut."""
    needed = {"d": 500.0, "f": 3e9}
    lows = {"d": 200.0, "f": 2e8, "u": 0.5, "n": 3e9, "0": INFINITE}
    values = [needed.get(kind, INFINITE) for kind in kinds]
    found = answered(values, low=[lows[kind] for kind in kinds])
    verdicts = {row.first: row.verdict for row in found.rows}
    for lags, _, verdict in found.answer().table.to_numpy().tolist():
        if verdict not in list(Verdict):
            continue  # what is beyond the table
        named = [int(lag) for lag in re.findall(r"\d+", lags)]
        assert {verdicts[lag] for lag in named} == {verdict}
        if "…" not in lags and "," not in lags:
            stretch = range(named[0], named[-1] + 1)
            assert {verdicts[lag] for lag in stretch} == {verdict}


def test_a_window_is_not_rounded():
    """It is a lag that was measured, and a row of the table."""
    assert reach_of((128, 64, 200), []) == "128 steps [64, 200]"
    assert reach_of((1, 1, 1), []) == "1 step"


def test_another_number_of_sequences_can_be_asked_about():
    found = answered([5.0, 50.0, 500.0])
    assert re.match("From 100 sequences .* reaches back 2 steps", found.answer().first)
    assert re.match("From 1,000 sequences .* reaches back 3 steps", found.answer(1000).first)
    with pytest.raises(ValueError, match="n_sequences = 0"):
        found.answer(0)


@given(
    st.lists(
        st.tuples(st.sampled_from("dun0"), st.floats(0.01, 1e12), st.floats(1, 100)),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 10**7),
)
def test_any_numbers_make_a_small_table_and_lines_of_80_letters(kinds, n_sequences):
    """Lags that are detected, undecided, without a signal or without a gradient, in any order."""
    needed = [count if kind == "d" else INFINITE for kind, count, _ in kinds]
    bounds = {"u": lambda *_: 0.5, "n": lambda *_: 2e7, "0": lambda *_: INFINITE}
    low = [bounds.get(kind, lambda c, f: c / f)(count, wide) for kind, count, wide in kinds]
    high = [count * wide if kind == "d" else INFINITE for kind, count, wide in kinds]
    found = answered(needed, low, high, n_sequences, length=len(kinds) + 3)
    answer = found.answer()
    assert len(answer.table) <= MOST_ROWS + 1
    assert max(map(len, answer.text().splitlines())) <= 80
    window = found.window(n_sequences)
    assert f"{n_sequences:,} sequences " in answer.first
    assert reach_of(window, []) in answer.first
    covered = sum(" looked" not in cell for cell in answer.table.iloc[:, 2])
    assert covered >= 1
    assert "nan" not in answer.text()
    BeautifulSoup(found._repr_html_(), "html.parser")
