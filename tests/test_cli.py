"""The command line: what each command prints and stores, an interrupt, and the start without
PyTorch."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor as Pool

import pytest
from typer.testing import CliRunner

from lwcore.cli import app
from lwcore.experiment import running
from lwcore.experiment.config import Config, shipped

MINE = 'base = "smoke"\nname = "mine"\nmodels = ["ConstGate"]\nseeds = [1]\n'
NOISES = "[axes]\nnoisy = [{label = 1, changes = {}}, {label = 2, changes.task.noise = 0.2}]\n"


def lw(*arguments):
    """Run a command; its exit code and all it printed, unwrapped."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


@pytest.fixture
def mine(tmp_path):
    """A file with the smallest configuration."""
    (tmp_path / "größe · 長さ.toml").write_text(MINE)
    return tmp_path / "größe · 長さ.toml"


def test_list_names_what_ships():
    code, output = lw("list")
    listed = [line.split(maxsplit=1) for line in output.splitlines()]
    assert (code, listed) == (0, [[name, Config.named(name).description] for name in shipped()])


def test_run_stores_shows_and_does_nothing_the_second_time(mine, tmp_path):
    command = ("run", mine, "--directory", tmp_path / "out")
    there = tmp_path / "out" / "mine.nc"
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
    mine.write_text(MINE.replace("seeds = [1]", "seeds = [2]"))
    code, output = lw(*command)
    assert (code, "holds another configuration" in output) == (2, True), output


# steps enough to be met at one in the middle
LONG = f"{MINE}measured = false\n[training]\nsteps = 200\ncheckpoint_every = 10\n{NOISES}"


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on_to_the_same_bits_on_processes(mine, tmp_path, monkeypatch):
    """A real process, in the middle of a training; then one that is a worker: it takes seconds to
    start."""
    monkeypatch.setattr(running, "ProcessPoolExecutor", lambda _, *rest: Pool(1, *rest))
    mine.write_text(LONG)
    there = tmp_path / "there"
    start = "from lwcore.cli import app; app()"
    command = [sys.executable, "-c", start, "run", str(mine), "--directory", str(there)]
    with subprocess.Popen(command) as process:
        while process.poll() is None and not list(there.rglob("*.checkpoint")):
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    (checkpoint,) = there.rglob("*.checkpoint")
    assert 0 < running.load_checkpoint(checkpoint)[0].step < 200
    code, output = lw("run", mine, "--directory", there, "--executor", "processes")
    assert (code, "mine.nc: the result" in output) == (0, True), output
    assert [path.name for path in there.iterdir()] == ["mine.nc"]
    assert lw("run", mine, "--directory", tmp_path)[0] == 0
    assert (there / "mine.nc").read_bytes() == (tmp_path / "mine.nc").read_bytes()


def test_an_interrupted_figure_leaves_the_file_of_before(mine, tmp_path, monkeypatch):
    assert lw("run", mine, "--directory", tmp_path)[0] == 0
    (figure := tmp_path / "figure.png").write_bytes(b"of before")

    def half(_, path, **__):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", half)
    code, output = lw("show", tmp_path / "mine.nc", "--figure", figure)
    assert (code, output.splitlines()[-1][:12]) == (130, "Interrupted.")
    assert figure.read_bytes() == b"of before"
    assert not list(tmp_path.glob(".*"))
