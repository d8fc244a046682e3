"""A worker that is killed costs what it was at."""

import os
import signal
import threading
import time

import pytest

from lwcore.experiment import Config, run
from tests.test_cli import lw


@pytest.mark.interruption
def test_a_dask_worker_that_is_killed_costs_what_it_was_at(tmp_path):
    """Two real processes, reached by the scheduler's address, as the command reaches them."""
    distributed = pytest.importorskip("distributed")
    (toml := tmp_path / "mine.toml").write_text(
        'base = "smoke"\nname = "mine"\nmodels = ["ConstGate", "DiagGate"]\nseeds = [1]\n'
        "[training]\nsteps = 200\ncheckpoint_every = 10"
    )
    two = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**two) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            pid = next(iter(client.run(os.getpid).values()))

        def kill():
            while not list(tmp_path.rglob("*.checkpoint")):
                time.sleep(0.005)
            os.kill(pid, signal.SIGKILL)

        (killer := threading.Thread(target=kill)).start()
        there = ("--directory", tmp_path / "there", "--scheduler", cluster.scheduler_address)
        code, output = lw("run", toml, *there)
        killer.join()
    assert code == 0, output
    run(Config.named(str(toml)), directory=tmp_path, progress=False)
    assert (tmp_path / "mine.nc").read_bytes() == (tmp_path / "there" / "mine.nc").read_bytes()
