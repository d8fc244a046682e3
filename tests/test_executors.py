"""Executors: Dask's workers and processes give the same bits, and a worker that is killed costs what it was at."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
import xarray as xr

from lwcore import executors, experiment
from lwcore.config import Config, Sweep
from lwcore.experiment import run
from lwcore.sweep import run_sweep
from tests.test_cli import lw

SWEEP = Sweep.model_validate(
    {
        "name": "spread",
        "description": "for tests",
        "base": "smoke",
        "changes": {"models": ["ConstGate", "DiagGate"], "seeds": [1], "training": {"steps": 200, "checkpoint_every": 20}},
        "axes": {"lag_of_task": [{"label": lag, "changes": {"task": {"lags": [lag], "coefficients": [1.0]}}} for lag in (2, 5)]},
    }
)


def counted(log, do, folder):
    """Do a member's job; if it is trained, and not just found done, say which it is and who does it."""
    (config, model, seed), train = do.args, experiment._train

    def logged(*arguments, **options):
        with Path(log).open("a") as file:
            file.write(f"{config.name}:{model}-{seed} {os.getpid()}\n")
        return train(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "_train", logged)
        return do(folder)


@pytest.mark.interruption
def test_worker_killed_in_the_middle_of_a_sweep_costs_what_it_was_at(tmp_path, monkeypatch):
    """Two real processes; the third member to be begun is killed with its worker, when another one is finished."""
    pytest.importorskip("distributed")
    log = tmp_path / "log"
    log.touch()
    alone = run_sweep(SWEEP, directory=tmp_path / "alone")
    made = experiment.jobs
    monkeypatch.setattr(
        experiment, "jobs", lambda *a, **o: [job._replace(do=functools.partial(counted, str(log), job.do)) for job in made(*a, **o)]
    )
    killed = []

    def kill():
        while len(lines := log.read_text().splitlines()) < 3:
            time.sleep(0.01)
        member, pid = lines[2].split()
        killed.append(member)
        os.kill(int(pid), signal.SIGKILL)

    said, counts = [], []
    with executors.dask(say=said.append, workers=2) as workers:
        killer = threading.Thread(target=kill)
        killer.start()
        result = run_sweep(SWEEP, workers, directory=tmp_path / "dask", advance=counts.append)
        killer.join()
    begun = [line.split() for line in log.read_text().splitlines()]
    assert sum(counts) == 2
    assert str(os.getpid()) not in {pid for _, pid in begun}
    assert said[0].startswith("Dashboard: http://")
    xr.testing.assert_identical(result, alone)
    assert (tmp_path / "dask" / "spread.nc").read_bytes() == (tmp_path / "alone" / "spread.nc").read_bytes()
    assert [path.name for path in (tmp_path / "dask").iterdir()] == ["spread.nc"]
    assert Counter(member for member, _ in begun) == {
        f"{config.name}:{model}-1": 1 for config in SWEEP.points().values() for model in config.models
    } | {killed[0]: 2}


@pytest.mark.interruption
def test_the_programs_scheduler_and_worker_are_reached_by_their_address(tmp_path):
    pytest.importorskip("distributed")
    address, one = tmp_path / "scheduler.json", ("run", "smoke", "--directory")
    dask = (sys.executable, "-m", "dask")
    with ExitStack() as stack:
        for program in (
            ("scheduler", "--port", "0", "--host", "127.0.0.1", "--dashboard-address", ":0"),
            ("worker", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path)),
        ):
            process = stack.enter_context(subprocess.Popen([*dask, *program, "--scheduler-file", address], stderr=subprocess.DEVNULL))
            stack.callback(process.terminate)
            while not (address.exists() and address.stat().st_size):  # written by the scheduler once it listens
                assert process.poll() is None
                time.sleep(0.05)
        scheduler = json.loads(address.read_text())["address"]
        code, output = lw(*one, tmp_path, "--scheduler", scheduler)
    assert code == 0, output
    assert "Dashboard: http://" in output
    alone = run(Config.named("smoke"), directory=tmp_path / "alone", progress=False)
    assert len(alone.model) == 3
    assert (tmp_path / "smoke.nc").read_bytes() == (tmp_path / "alone" / "smoke.nc").read_bytes()


def test_workers_with_other_code_are_refused(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "code_fingerprint", os.getpid)
    with pytest.raises(RuntimeError, match="another version of lwcore"), executors.dask(workers=1, say=str):
        pass
