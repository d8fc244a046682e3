"""Executors: processes and Dask's workers give the same bits, and a worker that is killed costs
what it was at."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from lwcore.experiment import Config, processes, run
from tests.test_cli import lw

LONGER = Config.named("smoke").but(
    models=["ConstGate", "DiagGate"], seeds=[1], training={"steps": 200, "checkpoint_every": 10}
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    run(LONGER, directory=folder, progress=False)
    return (folder / "smoke.nc").read_bytes()


@pytest.mark.slow
def test_processes_give_the_same_bits(tmp_path, alone):
    with processes(1) as pool:
        run(LONGER, pool, directory=tmp_path, progress=False)
    assert (tmp_path / "smoke.nc").read_bytes() == alone


@pytest.mark.interruption
def test_a_dask_worker_that_is_killed_costs_what_it_was_at(tmp_path, alone):
    """Two real processes, reached by the scheduler's address, as the command reaches them."""
    distributed = pytest.importorskip("distributed")
    (toml := tmp_path / "smoke.toml").write_text(as_toml(LONGER))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            pid = next(iter(client.run(os.getpid).values()))

        def kill():
            while not list(tmp_path.rglob("*.checkpoint")):
                time.sleep(0.005)
            os.kill(pid, signal.SIGKILL)

        (killer := threading.Thread(target=kill)).start()
        code, output = lw(
            "run", toml, "--directory", tmp_path, "--scheduler", cluster.scheduler_address
        )
        killer.join()
    assert code == 0, output
    assert (tmp_path / "smoke.nc").read_bytes() == alone


def as_toml(config):
    """A configuration as a file: JSON's texts, numbers and lists are TOML's."""
    import json

    whole = config.model_dump(mode="json", exclude_none=True)
    top = {key: value for key, value in whole.items() if not isinstance(value, dict)}
    sections = {"": top} | {
        f"[{key}]": value for key, value in whole.items() if isinstance(value, dict)
    }
    return "\n".join(
        f"{head}\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in body.items())
        for head, body in sections.items()
    )
