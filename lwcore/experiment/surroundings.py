"""What surrounds a run and could change its bits: held at fixed values, or told apart by a digest.

A configuration says what is computed. The last digits depend on more: on the number of threads, on
modes of PyTorch that are in force where a run is called, on the processor, and on variables of the
environment that libraries read as they are loaded. `held` sets what can be set, and gives it back.
`arithmetic` is a digest of what comes out of small computations here, so that whatever changes
their bits changes it, and no network is trained in two arithmetics.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
import xarray as xr
from threadpoolctl import threadpool_limits

from lwcore import cells, results
from lwcore.ambient import gradients_followed

# What is held is in part the process's, so one network at a time is trained in a process. A thread
# that has the lock may take it again.
_LOCK = threading.RLock()


@contextmanager
def held() -> Iterator[None]:
    """Hold everything in this process that could change bits, one thread for all libraries first.

    What was there before is there again afterwards. Threads of one process take turns, because most
    of this belongs to the process.
    """
    os.getcwd()  # an error where that folder is gone, in which MKL would end the process
    with _LOCK, ExitStack() as stack:
        # first, so that it is left last: PyTorch gives back what the process had, not this thread
        stack.enter_context(threadpool_limits(limits=1))
        stack.enter_context(_plain_pytorch())
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        stack.enter_context(plain_xarray())
        stack.enter_context(warnings.catch_warnings())
        # PyTorch's own, when it loads its forward derivatives: no error of a run's, whatever the
        # filters
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        yield


def plain_xarray() -> xr.set_options:
    """Return a context in which xarray joins and keeps attributes as it does by default.

    A reader's `xarray.set_options` would otherwise decide what a result's attributes are.
    """
    options: Any = {"arithmetic_join": "inner", "keep_attrs": "default"}
    if "use_new_combine_kwarg_defaults" in xr.get_options():  # of some versions
        options["use_new_combine_kwarg_defaults"] = False
    return xr.set_options(**options)


@contextmanager
def _plain_pytorch() -> Iterator[None]:
    """Hold PyTorch's modes: one thread, gradients, full single precision, on the processor.

    Numbers below the normal range stay as they are: code compiled with ``-ffast-math`` takes them
    for zero as soon as it is loaded.
    """
    threads = torch.get_num_threads()
    flushed = float(np.float32(1e-40) * np.float32(1)) == 0
    dtype = torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    of_onednn: Any = torch.backends.mkldnn
    products = of_onednn.matmul
    precision = products.fp32_precision
    enabled, of_onednn_deterministic, *_ = of_onednn.set_flags(True, False, None, None)
    with ExitStack() as stack:
        stack.enter_context(gradients_followed())
        if torch.get_default_device().type != "cpu":  # every call would go through Python
            stack.enter_context(torch.device("cpu"))
        torch.set_num_threads(1)
        torch.set_flush_denormal(False)
        torch.set_default_dtype(torch.float32)
        if deterministic:  # to set it imports a compiler, which takes seconds
            torch.use_deterministic_algorithms(False)
        products.fp32_precision = "ieee"
        try:
            yield
        finally:
            of_onednn.set_flags(enabled, of_onednn_deterministic, None, None)
            products.fp32_precision = "none"  # whatever PyTorch as a whole has
            if products.fp32_precision != precision:
                products.fp32_precision = precision
            if deterministic:
                torch.use_deterministic_algorithms(True, warn_only=warn_only)
            torch.set_default_dtype(dtype)
            torch.set_flush_denormal(flushed)
            torch.set_num_threads(threads)


def fingerprint() -> str:
    """Return eight hexadecimal digits that change with code, versions and arithmetic.

    Unfinished work of a run is used only where they are the same.
    """
    made_by = (results.code_fingerprint(), results.versions(), arithmetic())
    return hashlib.sha256("\n".join(made_by).encode()).hexdigest()[:8]


@functools.cache
def arithmetic() -> str:
    """Return eight hexadecimal digits that change with what computes here, down to the last digit.

    Two processes that agree in them may share a run: products, sums and functions by each library,
    scans and gradients by the compiled kernels, and the names of the processor.
    """
    from llvmlite.binding import get_host_cpu_name

    processor = f"{torch.backends.cpu.get_cpu_capability()} {get_host_cpu_name()}"
    digest = hashlib.sha256(f"{processor} {cells.kernels.ENABLED}".encode())
    with held():
        generator = torch.Generator().manual_seed(0)
        for dtype in (torch.float32, torch.float64):
            for size in (7, 24, 64, 130):
                numbers = torch.randn(2 * size, size, generator=generator, dtype=dtype)
                for result in _of_every_library(numbers):
                    digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()[:8]


def _of_every_library(numbers: torch.Tensor) -> list[Any]:
    """Return products, sums and functions of a matrix, by PyTorch, by NumPy, and by our kernels."""
    array = numbers.numpy()
    generator = torch.Generator().manual_seed(0)
    cell = cells.GRU(len(array.T), 12, layernorm=True, generator=generator, dtype=numbers.dtype)
    states = cell(numbers.unsqueeze(0))
    gradients = torch.autograd.grad(states.square().sum(), list(cell.parameters()))
    return [
        numbers.T @ numbers,
        numbers @ numbers[0],
        numbers.sum(),
        numbers.std(0),
        numbers.tanh(),
        numbers.exp(),
        numbers.sigmoid(),
        numbers.sqrt(),
        array.T @ array,
        np.exp(array),
        np.tanh(array),
        np.log(abs(array)),
        states.detach(),
        *gradients,
    ]
