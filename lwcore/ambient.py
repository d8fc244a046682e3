"""What surrounds a call: it changes no number of ours, and nothing of it is changed.

A reader may call from within ``torch.no_grad()``, ``torch.inference_mode()`` or
``torch.autocast(…)``, and between two epochs of a training that draws random numbers.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.func import jvp

Function = TypeVar("Function", bound=Callable[..., Any])

_DEVICES = ("cpu", "cuda", "mps", "xpu")
_WITHOUT_DOUBLES = ("mps",)
_PACKAGE = Path(__file__).parent.as_posix()
# Libraries that may stand between a reader's line and ours.
_BETWEEN = {"contextlib", "functools", "concurrent", "threading", "torch", "xarray"}


def own_precision(function: Function) -> Function:
    """Keep a function out of ambient autocast: its tensors say in which precision it computes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not autocasts():
            return function(*args, **kwargs)
        with without_autocast():
            return function(*args, **kwargs)

    return typing.cast(Function, call)


def autocasts() -> bool:
    """Return whether the caller is in autocast, on whatever device."""
    on = torch.is_autocast_enabled
    return on("cpu") or on("cuda") or on("mps") or on("xpu")


@contextmanager
def without_autocast() -> Iterator[None]:
    """Leave autocast for a while, on all devices."""
    with ExitStack() as stack:
        for device in _DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def gradients_followed() -> Iterator[None]:
    """Follow gradients, in the precision of the tensors, whatever mode the caller is in."""
    with torch.inference_mode(False), torch.enable_grad(), without_autocast():
        yield


def followable(tensor: Tensor) -> Tensor:
    """Return a tensor that autograd can keep: a copy of one that was made in inference mode."""
    made_in_inference_mode = tensor.is_inference() and not torch.is_inference_mode_enabled()
    return tensor.clone() if made_in_inference_mode else tensor


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Leave the random numbers of Python, NumPy and PyTorch where they were.

    What is ours draws from generators of its own. But a reader's model, loss or loader may draw,
    and a loader of PyTorch's draws a seed for its workers whenever it begins.
    """
    of_python = random.getstate()
    of_numpy = np.random.get_state()  # noqa: NPY002
    of_torch = torch.get_rng_state()
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
        torch.set_rng_state(of_torch)
        if of_gpus is not None:
            torch.cuda.set_rng_state_all(of_gpus)


class _ForwardMode:
    """The turn of one thread at `torch.func.jvp`, a context.

    PyTorch counts the levels of forward mode for all threads together: two at once get in each
    other's way.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ready = False

    def __enter__(self) -> None:
        self.lock.acquire()
        if self.ready:
            return
        # At its first use PyTorch loads rules that it compiles by what it has deprecated itself.
        with warnings.catch_warnings(), random_states_kept():
            warnings.simplefilter("ignore")
            number = torch.ones(1)
            jvp(torch.sin, (number,), (number,))
        self.ready = True

    def __exit__(self, *_: object) -> None:
        self.lock.release()


FORWARD_MODE = _ForwardMode()


def in_double(tensor: Tensor) -> Tensor:
    """Return a tensor in float64, on the CPU if its own device has no such numbers."""
    has_doubles = tensor.device.type not in _WITHOUT_DOUBLES
    return tensor.double() if has_doubles else tensor.cpu().double()


def placed(tensor: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor on a device. It is rounded before it moves: not all devices have float64."""
    wanted = tensor.dtype if dtype is None else dtype
    if wanted == torch.float64 and device.type in _WITHOUT_DOUBLES:
        wanted = torch.float32
    return tensor.to(wanted).to(device)


def warn(message: str) -> None:
    """Warn at the reader's own line that led here: the nearest one outside of this package."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame is not None:
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        is_own = Path(frame.f_code.co_filename).as_posix().startswith(f"{_PACKAGE}/")
        if not is_own and module not in _BETWEEN:
            break
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
