"""The command line: what each command prints and stores, an interrupt, and the start without
PyTorch."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lwcore
from book import claims
from book.claims import ledger
from lwcore import experiment
from lwcore.cli import app
from lwcore.config import Config, Sweep, shipped

COMMAND = [sys.executable, "-c", "from lwcore.cli import app; app()"]


def lw(*arguments):
    """Run a command; its exit code and all it printed, unwrapped."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture
def mine(tmp_path):
    """A file with the smallest configuration: of `smoke`, one cell and one seed."""
    smoke = Path(lwcore.__file__).parent / "configs" / "smoke.toml"
    text = (
        smoke.read_text()
        .replace('name = "smoke"', 'name = "mine"')
        .replace("seeds = [1, 2]", "seeds = [1]")
    )
    (tmp_path / "mine.toml").write_text(re.sub("models = .*", 'models = ["ConstGate"]', text))
    return tmp_path / "mine.toml"


SWEEP = (
    'name = "grid"\ndescription = "Two noises."\nbase = "smoke"\nchanges = {models = ["ConstGate"], seeds = [1]}\n'
    + "".join(
        f"[[axes.noise]]\nlabel = {noise}\nchanges = {{task = {{noise = {noise}}}}}\n"
        for noise in (0.1, 0.2)
    )
)


def test_list_names_what_ships():
    code, output = lw("list")
    described = {name: Config.named(name) for name in shipped()} | {
        name: Sweep.named(name) for name in shipped("sweeps")
    }
    assert code == 0
    assert [line.split(maxsplit=1) for line in output.splitlines()] == [
        [name, one.description] for name, one in described.items()
    ]


@pytest.mark.parametrize("argument", ["--help", "list"])
def test_help_and_list_do_without_pytorch(argument):
    code = f"import sys; from lwcore.cli import app; app([{argument!r}], standalone_mode=False); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_run_stores_shows_and_does_nothing_the_second_time(mine, tmp_path):
    command, there = ("run", mine, "--directory", tmp_path / "out"), tmp_path / "out" / "mine.nc"
    code, output = lw(*command)
    assert (code, f"{there}: the result" in output) == (0, True), output
    made = there.stat().st_mtime_ns
    assert lw(*command)[0] == 0
    assert there.stat().st_mtime_ns == made
    code, output = lw("show", there, "--figure", tmp_path / "picture.png")
    assert code == 0
    for word in ("revision: ", '"sequences":64', "ConstGate", "share of the variance"):
        assert word in output
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    code, output = lw("show", there, "--figure", tmp_path / "picture.xyz")
    assert (code, "'xyz' is not supported" in output) == (2, True), output
    mine.write_text(mine.read_text().replace("seeds = [1]", "seeds = [2]"))
    code, output = lw(*command)
    assert (code, "holds another configuration" in output) == (2, True), output
    assert lw(*command, "--no-resume")[0] == 0
    assert there.stat().st_mtime_ns != made


@pytest.mark.slow
def test_a_sweep_is_run_by_the_same_command_on_processes(tmp_path):
    (tmp_path / "grid.toml").write_text(SWEEP)
    code, output = lw(
        "run", tmp_path / "grid.toml", "--directory", tmp_path, "--executor", "processes"
    )
    assert (code, "grid.nc: the result" in output) == (0, True), output
    code, output = lw("show", tmp_path / "grid.nc")
    assert (code, '"axes":' in output) == (0, True), output


@pytest.mark.slow
def test_interrupt_leaves_a_clean_state_from_which_a_run_goes_on(mine, tmp_path):
    """SIGINT to a real process, in the middle of a training; then the same command."""
    mine.write_text(mine.read_text().replace("steps = 30", "steps = 200"))
    there = tmp_path / "there"
    command = [*COMMAND, "run", str(mine), "--directory", str(there)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"COLUMNS": "200"}
    ) as process:
        while process.poll() is None and not list(there.rglob("*.checkpoint")):
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("Interrupted.")
    assert "Traceback" not in said
    (partial,) = there.iterdir()
    for path in partial.iterdir():
        assert path.suffix in {".nc", ".checkpoint"}, path
    for path in partial.glob("*.checkpoint"):
        assert experiment.load_checkpoint(path)
    for folder in (there, tmp_path / "alone"):
        assert lw("run", mine, "--directory", folder)[0] == 0
    assert (there / "mine.nc").read_bytes() == (tmp_path / "alone" / "mine.nc").read_bytes()


def test_claims_shows_the_ledger_and_one_claim_in_full(tmp_path):
    known = claims.registry()
    name, other = "immediate-not-total-derivative", "a-step-follows-the-gradient"
    numbers = {one: [claims.exactly(1)] * len(known[one].readings) for one in (name, other)}
    ledger.write([claims.Outcome(known[one], tuple(numbers[one])) for one in numbers], tmp_path)
    code, output = lw("claims", "--ledger", tmp_path / "ledger.json")
    assert code == 0
    assert [line.partition(":")[0] for line in output.splitlines()[:2]] == [name, other]
    assert re.search(r"^ +2 refuted as stated$", output, re.MULTILINE)
    code, output = lw("claims", "--ledger", tmp_path / "ledger.json", "--id", name)
    assert code == 0
    for word in ("as stated: ", "must be ≤ 1e-10: fails", "instead: ", "smallest counterexample: "):
        assert word in output
    code, output = lw("claims", "--ledger", tmp_path / "ledger.json", "--id", "nonsense")
    assert (code, "id = 'nonsense': must be one of" in output) == (2, True)
