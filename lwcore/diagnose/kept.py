"""What a model was, so that it can be put back."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class _KeptTensor(NamedTuple):
    """A parameter, buffer or attribute, and a copy of what it held."""

    name: str
    tensor: Tensor
    copied: Tensor

    @property
    def is_changed(self) -> bool:
        """Whether it holds something else now; NaN is NaN."""
        now, was = self.tensor, self.copied
        if now.shape != was.shape:
            return True
        same = (now == was) | ((now != now) & (was != was))
        return not bool(same.all())


class Kept:
    """What a module was: its parameters, buffers and attributes."""

    def __init__(self, model: nn.Module) -> None:
        """Keep copies of all tensors and containers, and other attributes as they are."""
        self.parts = dict(model.named_modules())
        self.tensors: list[_KeptTensor] = []
        self.attributes: dict[str, dict[str, Any]] = {}
        self.containers: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        for name, part in self.parts.items():
            own = vars(part)
            self.attributes[name] = dict(own)
            for key, value in {**own, **part._parameters, **part._buffers}.items():
                if isinstance(value, dict | list | set):
                    self.containers.append((value, copy.copy(value)))
                elif isinstance(value, Tensor) and id(value) not in seen:
                    seen.add(id(value))
                    copied = value.detach().clone()
                    self.tensors.append(_KeptTensor(_dotted(name, key), value, copied))

    def changed(self) -> list[str]:
        """Return the names of tensors and plain attributes that are no longer what they were."""
        found = [one.name for one in self.tensors if one.is_changed]
        for name, part in self.parts.items():
            now, was = vars(part), self.attributes[name]
            for key in {*now, *was}:
                is_container = isinstance(was.get(key), dict | list | set)
                if not is_container and now.get(key, self) is not was.get(key, self):
                    found.append(_dotted(name, key))
        return found

    def restore(self) -> None:
        """Put back what has changed."""
        for name, part in self.parts.items():
            _refill(vars(part), self.attributes[name])
        for held, was in self.containers:
            _refill(held, was)
        with torch.no_grad():
            for one in self.tensors:
                if one.is_changed:
                    one.tensor.data.copy_(one.copied)


def _refill(held: Any, was: Any) -> None:
    """Put back the entries of a container."""
    if isinstance(held, list):
        held[:] = was
        return
    if [*held] != [*was]:  # else it is never empty, for whoever looks from another thread
        held.clear()
    held.update(was)


def _dotted(module: str, key: str) -> str:
    """Return the name of what a module holds, as PyTorch writes it."""
    return f"{module}.{key}" if module else key


@contextmanager
def kept_as_it_was(model: nn.Module) -> Iterator[Kept]:
    """Put parameters, buffers and attributes of a model back in the end."""
    kept = Kept(model)
    try:
        yield kept
    finally:
        kept.restore()
