"""What surrounds a run changes no bit of it: it is held, and given back, or refused by name."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
import xarray as xr
from threadpoolctl import threadpool_limits

from lwcore.experiment import Config, run_member, surroundings

ONE = Config.named("smoke").replace(models=["DiagGate"], seeds=[1], training={"steps": 10})
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


ENTERED = {
    "no gradients": (torch.no_grad, torch.is_grad_enabled),
    "inference mode": (torch.inference_mode, torch.is_inference_mode_enabled),
    "autocast": (lambda: torch.autocast("cpu"), lambda: torch.is_autocast_enabled("cpu")),
    "default device": (lambda: torch.device("meta"), lambda: torch.get_default_device().type),
    "NumPy's errors": (lambda: np.errstate(all="raise"), np.geterr),
    "xarray's options": (
        lambda: xr.set_options(arithmetic_join="exact", keep_attrs=False),
        lambda: xr.get_options()["arithmetic_join"],
    ),
}
SET = {
    "default type": (torch.set_default_dtype, torch.get_default_dtype, torch.float64),
    "flush denormal": (torch.set_flush_denormal, flushes, True),
    "deterministic": (
        torch.use_deterministic_algorithms,
        torch.are_deterministic_algorithms_enabled,
        True,
    ),
    "products in bfloat16": (
        lambda value: setattr(PRODUCTS, "fp32_precision", value),
        lambda: PRODUCTS.fp32_precision,
        "bf16",
    ),
    "no oneDNN": (torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled, False),
    "PyTorch's threads": (torch.set_num_threads, torch.get_num_threads, 3),
}


@pytest.mark.parametrize("name", [*ENTERED, *SET])
def test_what_is_in_force_where_a_member_is_computed_changes_no_bit_and_stays(undisturbed, name):
    if name in ENTERED:
        enter, read = ENTERED[name]
    else:
        put, read, value = SET[name]
        enter = partial(setting, read, put, value)
    default = read()
    with enter():
        before = read()
        assert before != default, "otherwise nothing would be tried"
        member = run_member(ONE, "DiagGate", 1)
        assert read() == before
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


def test_threads_take_turns_with_the_same_bits(undisturbed):
    with ThreadPoolExecutor(2) as pool:
        members = list(pool.map(lambda seed: run_member(ONE, "DiagGate", seed), (1, 2, 1)))
    for member in (members[0], members[2]):
        xr.testing.assert_identical(member, undisturbed)
