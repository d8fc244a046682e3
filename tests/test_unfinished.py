"""Unfinished work: one process a task, whoever dies, and a folder that goes when the result is there."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import xarray as xr

from lwcore import experiment, unfinished
from lwcore.config import Config
from lwcore.experiment import run
from lwcore.unfinished import Busy, Gone, Job, claim

SMOKE = Config.named("smoke").but(models=["ConstGate"])


@pytest.fixture
def folder(tmp_path):
    unfinished.begin(tmp_path / "work", "{}")
    return tmp_path / "work"


@pytest.fixture
def trained(monkeypatch):
    """Members whose training began, in their order."""
    found, original = [], experiment._train

    def train(config, model, seed, *rest, **options):
        found.append((model, seed))
        return original(config, model, seed, *rest, **options)

    monkeypatch.setattr(experiment, "_train", train)
    return found


def test_a_task_is_claimed_once_at_a_time(folder):
    with claim(folder, "a"), claim(folder, "b"), ThreadPoolExecutor(1) as other, pytest.raises(Busy):
        other.submit(claim(folder, "a", wait=False).__enter__).result()
    with claim(folder, "a", wait=False):
        pass


@pytest.mark.interruption
def test_claim_of_a_killed_process_vanishes(folder):
    program = (
        "import sys; from pathlib import Path; from lwcore.unfinished import claim\n"
        "with claim(Path(sys.argv[1]), 'a'): print(1, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"1\n"
        with pytest.raises(Busy), claim(folder, "a", wait=False):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        with claim(folder, "a", wait=False):
            pass


def test_what_others_are_at_comes_last(folder):
    """Here and on an executor; and a waiting claim gets its turn."""
    jobs = [Job(folder, name, lambda folder, name=name: (name, folder)) for name in "abc"]
    for do in (unfinished.here, lambda jobs: unfinished.on_executor(ThreadPoolExecutor(1), jobs)):
        with ThreadPoolExecutor(1) as other:
            let_go, held = threading.Event(), claim(folder, "a")
            other.submit(held.__enter__).result()
            other.submit(lambda: (let_go.wait(), held.__exit__(None, None, None)))  # noqa: B023
            found = []
            for job, made in do(jobs):
                assert made == (job.name, folder)
                found.append(job.name)
                if len(found) == 2:
                    let_go.set()
        assert found == ["b", "c", "a"]


def test_closed_folder_lets_those_inside_out_and_nobody_in(folder):
    with ThreadPoolExecutor(3) as others:
        inside = claim(folder, "a")
        holder = ThreadPoolExecutor(1)
        holder.submit(inside.__enter__).result()
        waiting = others.submit(claim(folder, "a").__enter__)
        closing = others.submit(unfinished.close, folder, ["a", "b"])
        while unfinished.is_open(folder):
            time.sleep(0.001)
        with pytest.raises(Gone, match="was removed while work in it went on"), claim(folder, "b"):
            pass
        assert not closing.done()
        holder.submit(inside.__exit__, None, None, None).result()
        closing.result()
        with pytest.raises(Gone):
            waiting.result()
        holder.shutdown()
    assert not folder.exists()


def test_two_at_the_same_run_do_every_member_once(tmp_path, trained):
    alone = run(SMOKE, directory=tmp_path / "alone", progress=False)
    assert len(trained) == 2
    del trained[:]
    with ThreadPoolExecutor(2) as both:
        first = both.submit(run, SMOKE, directory=tmp_path / "both", progress=False)
        while not trained:
            time.sleep(0.001)
        with pytest.raises(FileExistsError, match="another process is at 'ConstGate-1'"):
            run(SMOKE, directory=tmp_path / "both", progress=False, resume=False)
        for one in (first, both.submit(run, SMOKE, directory=tmp_path / "both", progress=False)):
            xr.testing.assert_identical(one.result(), alone)
    assert sorted(trained) == sorted((model, seed) for model, seed in SMOKE.members)
    assert (tmp_path / "both" / "smoke.nc").read_bytes() == (tmp_path / "alone" / "smoke.nc").read_bytes()
    assert [path.name for path in (tmp_path / "both").iterdir()] == ["smoke.nc"]


def test_folder_removed_from_outside_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "run_member", lambda config, model, seed, folder, **_: (folder / unfinished.MARKER).unlink())
    with pytest.raises(Gone, match=r"smoke-.*\.partial was removed while work in it went on. Start again"):
        run(SMOKE, directory=tmp_path, progress=False)
