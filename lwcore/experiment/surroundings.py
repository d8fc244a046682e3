"""What surrounds a run and could change its bits: held at fixed values, or refused by name.

A configuration says what is computed. The last digits depend on more: on the number of threads, on
modes of PyTorch that are in force where a run is called, on variables of the environment that
libraries read as they are loaded. `held` sets what can be set and gives it back afterwards.
`refuse_variables` names the others. `arithmetic` tells machines and libraries apart whose digits
differ, so that no network is trained in two arithmetics.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
from threadpoolctl import threadpool_limits

from lwcore import results
from lwcore.cells import kernels

# With some value, and on some processor, each makes a run end with other bits, or not at all. They
# are read when a library is loaded, which is too late for a run to set them. Numba's are worse:
# code that was compiled under one may be kept, and be used without it. OPENBLAS_CORETYPE is not
# among them: some processors need it, and `arithmetic` sees what it changes.
VARIABLES = {
    "ATEN_CPU_CAPABILITY": "PyTorch then uses other instructions",
    "MKL_CBWR": "MKL then uses other instructions",
    "MKL_ENABLE_INSTRUCTIONS": "MKL then uses other instructions",
    "ONEDNN_DEFAULT_FPMATH_MODE": "oneDNN may then round to fewer digits",
    "DNNL_DEFAULT_FPMATH_MODE": "oneDNN may then round to fewer digits",
    "ONEDNN_MAX_CPU_ISA": "oneDNN then uses other instructions",
    "DNNL_MAX_CPU_ISA": "oneDNN then uses other instructions",
    "NPY_DISABLE_CPU_FEATURES": "NumPy then uses other instructions",
    "NPY_ENABLE_CPU_FEATURES": "NumPy then uses other instructions",
    "NUMBA_CPU_NAME": "Numba then compiles for another processor",
    "NUMBA_CPU_FEATURES": "Numba then compiles for another processor",
    "NUMBA_ENABLE_AVX": "Numba then compiles for another processor",
    "NUMBA_OPT": "Numba then compiles in another way",
    "NUMBA_LOOP_VECTORIZE": "Numba then compiles in another way",
    "NUMBA_SLP_VECTORIZE": "Numba then compiles in another way",
    "NUMBA_BOUNDSCHECK": "Numba then compiles in another way",
    "NUMBA_DEBUGINFO": "Numba then compiles in another way",
    "NUMBA_DISABLE_JIT": "Numba then compiles nothing",
}
# The C library's choice of instructions is one of several things that this variable sets.
C_LIBRARY = "GLIBC_TUNABLES"

# What is held is in part the process's, so one network at a time is trained in a process. A thread
# that has the lock may take it again.
_LOCK = threading.RLock()


def _new_lock() -> None:
    """Begin a forked process with a lock that no thread of its parent holds."""
    global _LOCK
    _LOCK = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def refuse_variables() -> None:
    """Refuse variables of the environment that would change bits, by name, with the way out.

    And a working directory that is gone, in which PyTorch cannot compute.
    """
    try:
        os.getcwd()
    except FileNotFoundError:  # MKL would end the process
        raise FileNotFoundError(
            "The folder in which this process works has been removed: change to another one."
        ) from None
    reasons = {name: why for name, why in VARIABLES.items() if os.environ.get(name)}
    if "glibc.cpu" in os.environ.get(C_LIBRARY, ""):
        reasons[C_LIBRARY] = "the C library then uses other instructions"
    for name, why in reasons.items():
        raise RuntimeError(
            f"{name} = {os.environ[name]!r} is set in the environment: {why}, and a run's bits "
            f"would be others. Unset it before Python starts: env -u {name} lw run ..."
        )


@contextmanager
def held() -> Iterator[None]:
    """Hold everything in this process that could change bits, one thread for all libraries first.

    More threads sum in another order. What was there before is there again afterwards. Threads of
    one process take turns: the number of threads, PyTorch's default type and some of its modes
    belong to the process, and two that hold them at once would give back what the other has set.
    """
    refuse_variables()
    with _LOCK, ExitStack() as stack:
        # first, so that it is left last: PyTorch gives back what the process had, not this thread
        stack.enter_context(threadpool_limits(limits=1))
        stack.enter_context(_one_thread_in_pytorch())
        stack.enter_context(_plain_arithmetic())
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
def _one_thread_in_pytorch() -> Iterator[None]:
    """Hold PyTorch, and the MKL inside it, at one thread.

    threadpoolctl sees PyTorch's OpenMP. It cannot see MKL, which is linked into PyTorch's own
    library, and which ``MKL_NUM_THREADS`` makes independent of OpenMP. ``torch.set_num_threads``
    sets both. Afterwards MKL gets back what it had: no setting of this thread's, as a rule.
    """
    threads = _threads_of_the_process()
    set_of_this_thread = _mkl_setter()
    before = set_of_this_thread(1) if set_of_this_thread else None
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if set_of_this_thread:
            set_of_this_thread(before)


def _threads_of_the_process() -> int:
    """Return PyTorch's number of threads as a new thread finds it.

    Each thread takes it over at its first call of PyTorch. One that did while another was held at
    one thread would say 1 ever after, and 1 would be given back to all.
    """
    with ThreadPoolExecutor(1) as new_thread:
        return new_thread.submit(torch.get_num_threads).result()


@functools.cache
def _mkl_setter() -> Callable[..., int] | None:
    """Return MKL's function that sets the threads of the calling thread and returns the last."""
    try:
        library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
        return ctypes.CDLL(str(library)).MKL_Set_Num_Threads_Local
    except (OSError, AttributeError):  # a PyTorch without MKL, or one that keeps it to itself
        return None


@contextmanager
def _plain_arithmetic() -> Iterator[None]:
    """Hold rounding to the nearest number, and numbers below the normal range as they are.

    Both are settings of the thread's processor, which a library may have changed: code compiled
    with ``-ffast-math`` flushes small numbers to zero as soon as it is loaded.
    """
    flushed = float(np.float32(1e-40) * np.float32(1)) == 0
    torch.set_flush_denormal(False)
    try:
        rounding = ctypes.CDLL(None)
        mode = rounding.fegetround()
        rounding.fesetround(0)
    except (AttributeError, OSError, TypeError):
        rounding = None
    try:
        yield
    finally:
        if rounding is not None:
            rounding.fesetround(mode)
        torch.set_flush_denormal(flushed)


@contextmanager
def _plain_pytorch() -> Iterator[None]:
    """Hold PyTorch's modes: gradients, single precision throughout, on the processor.

    They may be in force where a run is called: inside `torch.no_grad`, autocast, or with another
    default type or device.
    """
    dtype = torch.get_default_dtype()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(_full_precision())
        if torch.get_default_device().type != "cpu":  # every call would go through Python
            stack.enter_context(torch.device("cpu"))
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
            torch.set_default_dtype(dtype)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Hold matrix products in single precision at single precision, by oneDNN where it helps."""
    flags: Any = torch.backends.mkldnn
    products = flags.matmul
    precision = products.fp32_precision
    enabled, deterministic, *_ = flags.set_flags(True, False, None, None)
    products.fp32_precision = "ieee"
    try:
        yield
    finally:
        flags.set_flags(enabled, deterministic, None, None)
        products.fp32_precision = "none"  # whatever PyTorch as a whole has
        if products.fp32_precision != precision:
            products.fp32_precision = precision


def fingerprint() -> str:
    """Return eight hexadecimal digits that change with code, versions and arithmetic.

    Unfinished work of a run is used only where they are the same.
    """
    made_by = (results.code_fingerprint(), results.versions(), arithmetic())
    return hashlib.sha256("\n".join(made_by).encode()).hexdigest()[:8]


@functools.cache
def arithmetic() -> str:
    """Return eight hexadecimal digits that change with what computes here, down to the last digit.

    They are those of some small products, sums and functions by each library, and of the names of
    the processor. Two processes that agree in them may share a run.
    """
    from llvmlite.binding import get_host_cpu_name

    processor = f"{torch.backends.cpu.get_cpu_capability()} {get_host_cpu_name()}"
    digest = hashlib.sha256(f"{processor} {kernels.ENABLED}".encode())
    with held():
        generator = torch.Generator().manual_seed(0)
        for dtype in (torch.float32, torch.float64):
            for size in (7, 24, 64, 130):
                numbers = torch.randn(2 * size, size, generator=generator, dtype=dtype)
                for result in _of_every_library(numbers):
                    digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()[:8]


def _of_every_library(numbers: torch.Tensor) -> list[Any]:
    """Return products, sums and functions of a matrix, by PyTorch and then by NumPy."""
    array = numbers.numpy()
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
    ]
