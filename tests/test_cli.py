"""The command line."""

from __future__ import annotations

import errno
import inspect
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

import lwcore
from book import claims
from book.claims import claim
from lwcore import experiment
from lwcore.cli import Found, Kind, Paper, app
from lwcore.config import Config, Sweep, shipped
from tests.built_book import ROOT


def lw(*arguments):
    """Run a command; its exit code and all it printed, unwrapped."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


ENTRY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["lw"].replace(":", " import ")
COMMAND = f"import sys\n{{}}\nfrom {ENTRY} as main\nsys.exit(main())"


def on_a_screen(*arguments):
    """What a command of its own shows on a terminal of 80 columns: its lines."""
    screen = {"COLUMNS": "80", "TTY_COMPATIBLE": "1", "TERM": "dumb", "NO_COLOR": "1"}
    command = [sys.executable, "-c", COMMAND.format(""), *arguments]
    done = subprocess.run(command, env=os.environ | screen, capture_output=True, text=True, check=True)
    return re.sub(r"\x1b\[[\d;]*m", "", done.stdout).splitlines()


def left_and_right(lines, heading):
    """Two columns, each as the entries that begin at its left edge."""
    start = lines[0].index(heading)
    assert {line[start - 1 : start] for line in lines} <= {" ", ""}
    return [line[:start].rstrip() for line in lines], [line[start:].rstrip() for line in lines]


def test_list_names_what_ships_and_fits_a_screen():
    lines = on_a_screen("list")
    assert max(map(len, lines)) <= 80
    second = next(k for k, line in enumerate(lines) if line.startswith(" sweep"))
    described = (
        {name: Config.named(name).description for name in shipped()},
        {name: Sweep.named(name).description for name in shipped("sweeps")},
    )
    for part, descriptions in zip((lines[:second], lines[second:]), described, strict=True):
        left, right = left_and_right(part, "what it is")
        begins = [k for k, word in enumerate(left) if word]
        assert [left[k].strip() for k in begins[1:]] == list(descriptions)
        for begin, end, description in zip(begins[1:], [*begins[2:], len(part)], descriptions.values(), strict=True):
            assert " ".join(right[begin:end]).startswith(description)
            assert end - begin <= 4
    text = " ".join(" ".join(lines).split())
    assert "ConstGate, SharedGate, DiagGate seeds 2, T 16, H 6, steps 30" in text


@pytest.mark.slow
def test_claims_fit_a_screen_with_their_places():
    lines = on_a_screen("claims")
    assert max(map(len, lines)) <= 80
    end = next(k for k, line in enumerate(lines) if re.match(r" +\d+ holds$", line))
    left, right = left_and_right(lines[:end], "verdict")
    found = claims.outcomes(claims.registry().values())
    assert " ".join(" ".join(left[2:]).split()) == " ".join(f"{name} {outcome.claim.place}" for name, outcome in found.items())
    assert [line.strip() for line in left if line[:2].strip()] == ["claim", *found], "a claim's name is in one piece, at the left edge"
    assert [word for word in " ".join(right).split() if word.upper() in claims.Verdict.__members__] == [
        outcome.verdict.name.lower() for outcome in found.values()
    ]


@pytest.fixture
def mine(tmp_path):
    """A file with the smallest configuration: of `smoke`, one cell and one seed."""
    smoke = Path(lwcore.__file__).parent / "configs" / "smoke.toml"
    text = smoke.read_text().replace('name = "smoke"', 'name = "mine"').replace("seeds = [1, 2]", "seeds = [1]")
    (tmp_path / "mine.toml").write_text(re.sub("models = .*", 'models = ["ConstGate"]', text))
    return tmp_path / "mine.toml"


def test_run_stores_shows_and_does_nothing_the_second_time(mine, tmp_path):
    command, there = ("run", mine, "--directory", tmp_path / "out"), tmp_path / "out" / "mine.nc"
    code, output = lw(*command)
    assert code == 0, output
    assert f"Stored {there}" in output
    code, output = lw(*command)
    assert code == 0
    assert "is there already, with this very configuration, made by this very code" in output
    code, output = lw("show", there)
    assert code == 0
    for word in ("revision", "[training]\nsequences = 64", "ConstGate", "seeds = (1,)"):
        assert word in output
    assert lw("show", there, "--figure", tmp_path / "picture.png")[0] == 0
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    code, output = lw("show", there, "--figure", tmp_path / "picture.xyz")
    assert code == 2
    assert "picture.xyz" in output
    code, output = lw(*command, "--seeds", 2)
    assert code == 2
    assert "holds another configuration" in output
    code, output = lw(*command, "--no-resume")
    assert "Stored" in output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "not valid TOML"),
        ('name = "x"\nspeed = 3', "speed: Extra inputs are not permitted (given: 3)"),
        ('name = "x"', "models: Field required\n"),
    ],
)
def test_bad_files_are_explained(tmp_path, text, message):
    (tmp_path / "bad.toml").write_text(text)
    code, output = lw("run", tmp_path / "bad.toml", "--directory", tmp_path)
    assert code == 2
    assert message in output
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


def test_unknown_names_files_and_seeds_are_explained(tmp_path):
    assert lw("run", "nope", "--directory", tmp_path) == (
        2,
        f"name = 'nope': must be one of {', '.join(shipped())}, or the path of a TOML file.\n",
    )
    assert "No such file" in lw("run", "nope.toml", "--directory", tmp_path)[1]
    assert "seeds: must not name anything twice" in lw("run", "smoke", "--seeds", 1, "--seeds", 1, "--directory", tmp_path)[1].replace(
        "Value error, ", ""
    )
    assert "there is no such result file" in lw("show", tmp_path / "nope.nc")[1]


def test_full_disk_is_named_with_the_way_on(tmp_path, monkeypatch):
    def full(path, content):
        with path.open("wb") as part:
            part.write(content[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    code, output = lw("run", "smoke", "--seeds", 1, "--directory", tmp_path)
    assert code == 2
    assert "No space left on device: '" in output
    assert "What was finished is kept. The same command goes on from here" in output
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.slow
def test_interrupt_leaves_a_clean_state_and_says_how_to_go_on(mine, tmp_path):
    """SIGINT to a real process, in the middle of a training; then the same command."""
    mine.write_text(mine.read_text().replace("steps = 30", "steps = 200"))
    there = tmp_path / "there"
    command = [sys.executable, "-c", "from lwcore.cli import app; app()", "run", str(mine), "--directory", str(there)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"}) as process:
        while process.poll() is None and not list(there.rglob("*.checkpoint")):
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130
    assert f"Interrupted. The same command goes on from here; unfinished work is in {there}." in said
    assert "Traceback" not in said
    (partial,) = there.iterdir()
    for path in partial.iterdir():
        assert path.suffix in {".nc", ".checkpoint"}, path
    for path in partial.glob("*.checkpoint"):
        assert experiment.load_checkpoint(path)
    for folder in (there, tmp_path / "alone"):
        assert lw("run", mine, "--directory", folder)[0] == 0
    assert (there / "mine.nc").read_bytes() == (tmp_path / "alone" / "mine.nc").read_bytes()


class Interrupts:
    """Sends SIGINT to its own process when some module is imported."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("lwcore.cli", ["list"]), ("typer", ["list"]), ("pydantic", ["list"]), ("torch", ["run", "smoke"]), ("torch", ["diagnose"])],
)
@pytest.mark.interruption
def test_an_interrupt_while_modules_are_imported_is_told_in_a_line(module, arguments, tmp_path):
    if arguments == ["diagnose"]:
        arguments = ["diagnose", "--checkpoint", "none.pt", "--data", "none.npz"]
    finder = f"import os, signal\n{inspect.getsource(Interrupts)}\nsys.meta_path.insert(0, Interrupts({module!r}))"
    done = subprocess.run([sys.executable, "-c", COMMAND.format(finder), *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "stored", "said"),
    [
        ([], False, "The same command goes on from here; unfinished work is in {0}."),
        (
            ["--no-resume"],
            False,
            "With --no-resume the same command starts anew; without it, it goes on from here; unfinished work is in {0}.",
        ),
    ],
)
def test_what_is_said_of_going_on_is_true(options, stored, said, mine, tmp_path, monkeypatch):
    folder = tmp_path / "there"
    if stored:
        assert lw("run", mine, "--directory", folder)[0] == 0
    with monkeypatch.context() as patched:
        patched.setattr("lwcore.experiment.measure", interrupt)
        code, output = lw("run", mine, "--directory", folder, *options)
    assert code == 130
    assert f"Interrupted. {said.format(folder)}\n" in output
    (partial,) = folder.glob("*.partial")
    kept = {path: path.stat().st_mtime_ns for path in partial.glob("*.checkpoint")}
    assert kept
    with monkeypatch.context() as patched:  # the same command with and without --no-resume; training is begun anew, or not
        patched.setattr("lwcore.experiment.measure", interrupt)
        code, output = lw("run", mine, "--directory", folder)
        assert ("is there already" in output) == stored
        assert {path: path.stat().st_mtime_ns for path in partial.glob("*.checkpoint")} == kept
        if options:
            lw("run", mine, "--directory", folder, *options)
            assert {path: path.stat().st_mtime_ns for path in partial.glob("*.checkpoint")} != kept


def interrupt(*_, **__):
    """Stand in the place of a function in which Ctrl-C is pressed."""
    raise KeyboardInterrupt


def test_claims_shows_the_ledger_and_one_claim_in_full(tmp_path):
    code, output = lw("claims")
    assert code == 0
    assert "gradient-is-a-sum-over-lags" in output
    assert re.search(r"^ +\d+ refuted as stated$", output, re.MULTILINE)
    assert re.search(r"^ +\d+ open$", output, re.MULTILINE)
    code, output = lw("claims", "--id", "immediate-not-total-derivative")
    assert code == 0
    for word in ("as stated: ", "must be ≤ 1e-10: fails", "instead: ", "smallest counterexample: "):
        assert word in output
    code, output = lw("claims", "--id", "nonsense")
    assert code == 2
    assert "id = 'nonsense'" in output
    assert "`lw claims` lists them" in output
    code, output = lw("claims", "--directory", tmp_path)
    assert code == 2
    assert "no ledger has been recorded there" in output
    assert lw("claims", "--run", "--id", "gradient-is-a-sum-over-lags", "--directory", tmp_path)[0] == 0
    assert (tmp_path / "claims.json").exists()


def test_a_claim_misspelt_is_met_with_those_near_it():
    code, output = lw("claims", "--id", "gradient-is-sum-over-lag")
    assert code == 2
    assert "did you mean gradient-is-a-sum-over-lags" in output
    assert output.count(" or ") <= 2
    assert len(output) < 300


@pytest.mark.parametrize(
    ("paper", "kind", "verdict"),
    [(None, None, None), *((p, None, v) for p in Paper for v in Found), *((None, k, None) for k in Kind), ("livi", "network", "holds")],
)
def test_claims_are_chosen_by_paper_kind_and_verdict(paper, kind, verdict):
    chosen = {"--paper": paper, "--kind": kind, "--verdict": verdict}
    options = [word for option, value in chosen.items() if value for word in (option, value)]
    code, output = lw("claims", *options)
    assert code == 0
    found = claims.outcomes(claims.registry().values())
    wanted = [
        name
        for name, outcome in found.items()
        if (outcome.claim.paper == paper or not paper)
        and (outcome.claim.kind.name.lower() == kind or not kind)
        and (outcome.verdict.name.lower() == verdict or not verdict)
    ]
    listed = [line.split()[0] for line in output.splitlines() if line.split()[0] in found]
    assert listed == wanted, "a line a claim, each with its whole name"
    assert wanted or output.strip() == "There is no such claim."


def test_choices_of_the_command_are_those_of_the_ledger():
    assert [name.upper() for name in Found] == list(claims.Verdict.__members__)
    assert [name.upper() for name in Kind] == list(claims.Kind.__members__)
    assert set(Paper) == set(get_args(claim.Paper))
