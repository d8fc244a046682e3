"""What surrounds a run changes no bit of it: it is held, and given back, or refused by name."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import xarray as xr
from threadpoolctl import threadpool_info, threadpool_limits

from lwcore import experiment
from lwcore.experiment import Config, run, run_member, surroundings

ONE = Config.named("smoke").replace(models=["DiagGate"], seeds=[1])
PRODUCTS = torch.backends.mkldnn.matmul


@pytest.fixture(scope="module")
def undisturbed():
    """A member, computed where nothing is set."""
    return run_member(ONE, "DiagGate", 1)


@contextmanager
def setting(get, put, value):
    """A setting of the process at another value."""
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


def flushes():
    """Whether numbers below the normal range are taken for 0."""
    return float(np.float32(1e-40) * np.float32(1)) == 0


AMBIENT = {
    "no gradients": (torch.no_grad, torch.is_grad_enabled),
    "inference mode": (torch.inference_mode, torch.is_inference_mode_enabled),
    "autocast": (lambda: torch.autocast("cpu"), lambda: torch.is_autocast_enabled("cpu")),
    "default device": (lambda: torch.device("meta"), lambda: torch.get_default_device().type),
    "default type": (
        lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
        torch.get_default_dtype,
    ),
    "flush denormal": (lambda: setting(flushes, torch.set_flush_denormal, True), flushes),
    "deterministic": (
        lambda: setting(
            torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True
        ),
        torch.are_deterministic_algorithms_enabled,
    ),
    "products in bfloat16": (
        lambda: setting(
            lambda: PRODUCTS.fp32_precision,
            lambda value: setattr(PRODUCTS, "fp32_precision", value),
            "bf16",
        ),
        lambda: PRODUCTS.fp32_precision,
    ),
    "no oneDNN": (
        lambda: setting(torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, False),
        torch._C._get_mkldnn_enabled,
    ),
    "PyTorch's threads": (
        lambda: setting(torch.get_num_threads, torch.set_num_threads, 3),
        torch.get_num_threads,
    ),
    "NumPy's errors": (lambda: np.errstate(all="raise"), np.geterr),
    "xarray's options": (
        lambda: xr.set_options(arithmetic_join="exact", keep_attrs=False),
        lambda: xr.get_options()["arithmetic_join"],
    ),
}


@pytest.mark.parametrize("name", AMBIENT)
def test_what_is_in_force_where_a_member_is_computed_changes_no_bit_and_stays(undisturbed, name):
    enter, read = AMBIENT[name]
    with enter():
        before = read()
        member = run_member(ONE, "DiagGate", 1)
        assert read() == before
    xr.testing.assert_identical(member, undisturbed)


def test_every_setting_that_is_tried_is_another_than_the_default():
    """Otherwise nothing would be tried."""
    for enter, read in AMBIENT.values():
        default = read()
        with enter():
            assert read() != default
        assert read() == default


def test_settings_are_given_back_after_an_error():
    with torch.no_grad(), pytest.raises(ValueError, match="model"):
        run_member(ONE, "nonsense", 1)
    assert torch.is_grad_enabled()


PRINTS_THREADS_AND_BITS = """
import re, torch
from lwcore.experiment import surroundings
def threads():
    return re.search(r"mkl_get_max_threads\\(\\) : (\\d+)", torch.__config__.parallel_info())[1]
before = threads()
with surroundings.held():
    inside = threads()
print(before, inside, threads(), surroundings.arithmetic())
"""


@pytest.mark.slow
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="this PyTorch has no MKL")
def test_mkl_inside_pytorch_has_one_thread_whatever_the_environment_says():
    """And the threads that the environment says afterwards; arithmetic is that of this process."""
    environment = os.environ | {"MKL_NUM_THREADS": "4", "MKL_DYNAMIC": "FALSE"}
    command = [sys.executable, "-c", PRINTS_THREADS_AND_BITS]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.split() == ["4", "1", "4", surroundings.arithmetic()]


@pytest.mark.parametrize("name", surroundings.VARIABLES)
def test_variables_that_would_change_bits_are_refused_by_name_before_any_work(
    tmp_path, monkeypatch, name
):
    monkeypatch.setenv(name, "1")
    words = f"{name} = '1' is set in the environment: .* Unset it .*env -u {name}"
    for compute in (
        lambda: run(ONE, directory=tmp_path / "new"),
        lambda: run_member(ONE, "DiagGate", 1),
        lambda: experiment.networks(ONE),
    ):
        with pytest.raises(RuntimeError, match=words):
            compute()
    assert not (tmp_path / "new").exists()
    monkeypatch.setenv(name, "")
    surroundings.refuse_variables()


def test_the_c_library_may_be_tuned_but_not_to_other_instructions(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=3")
    surroundings.refuse_variables()
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2")
    with pytest.raises(RuntimeError, match="GLIBC_TUNABLES"):
        surroundings.refuse_variables()


def test_members_in_threads_take_turns_with_the_same_bits_and_give_back_all_threads(undisturbed):
    """Two at once would give back what the other has set: the last one, one thread for good."""

    def of_a_new_thread():
        with ThreadPoolExecutor(1) as new_thread:
            return new_thread.submit(torch.get_num_threads).result()

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2):
            before = [one["num_threads"] for one in threadpool_info()]
            with ThreadPoolExecutor(2) as pool:
                members = list(pool.map(lambda seed: run_member(ONE, "DiagGate", seed), (1, 2, 1)))
            assert [one["num_threads"] for one in threadpool_info()] == before
            assert of_a_new_thread() == 2
    finally:
        torch.set_num_threads(threads)
    for member in (members[0], members[2]):
        xr.testing.assert_identical(member, undisturbed)


def test_arithmetic_is_told_apart_by_processor_and_kernels_and_is_the_same_otherwise(monkeypatch):
    here = surroundings.arithmetic.__wrapped__
    usual = here()
    with (
        torch.inference_mode(),
        threadpool_limits(2),
        setting(flushes, torch.set_flush_denormal, True),
    ):
        assert here() == usual
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    others = [here()]
    monkeypatch.undo()
    exact_tanh = torch.Tensor.tanh
    monkeypatch.setattr(torch.Tensor, "tanh", lambda x: exact_tanh(x.double()).to(x.dtype))
    others.append(here())
    assert len({usual, *others}) == 3


def test_a_working_directory_that_is_gone_is_refused(tmp_path, monkeypatch):
    """In it MKL ends the process."""
    (folder := tmp_path / "gone").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(FileNotFoundError, match="works has been removed: change to another one"):
        surroundings.refuse_variables()
