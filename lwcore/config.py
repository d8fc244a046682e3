"""What a run is: a validated configuration, or a sweep of them, read from TOML.

Unknown keys, bad values and pieces that do not fit are refused by name.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import tomllib
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from lwcore.arguments import one_of

Model = Literal["ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM"]
Order = Literal["zeroth", "first", "exact"]
Start = Literal["orthogonal", "uniform"]
Optimizer = Literal["sgd", "adamw"]

_MOST_POINTS = 10_000  # of a sweep: every one is a run


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    """Refuse a list that repeats a value or is out of order."""
    if any(after <= before for before, after in pairwise(values)):
        raise ValueError("must be strictly increasing")
    return values


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse a list that names the same thing twice."""
    if len(set(values)) != len(values):
        raise ValueError("must not name anything twice")
    return values


def _some(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse an empty list; pydantic's ``min_length`` calls a list of bad entries empty, too."""
    if not values:
        raise ValueError("must hold at least 1 item")
    return values


# Strictness is for numbers: a list may stand for a tuple, as in TOML there are only lists.
_NUMBERS = (Field(strict=False), AfterValidator(_some), AfterValidator(_increasing))
_NAMES = (Field(strict=False), AfterValidator(_some), AfterValidator(_distinct))
Counts = Annotated[tuple[PositiveInt, ...], *_NUMBERS]
Models = Annotated[tuple[Model, ...], *_NAMES]
Orders = Annotated[tuple[Order, ...], *_NAMES]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0, lt=2**63)], ...], *_NAMES]


Steps = Annotated[tuple[NonNegativeInt, ...], Field(strict=False), AfterValidator(_increasing)]


class _Section(BaseModel):
    """Common rules: no unknown key, no infinite or NaN number, no text or 1.0 for an integer."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class _File(_Section):
    """What stands in a TOML file of its own, the user's or one that ships with the package."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100, description="Name of files.")
    description: str = Field(description="What it is for.")
    _folder: ClassVar[str]

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Settings that a TOML file holds; a ValueError names all that are wrong."""
        if Path(path).exists() and not Path(path).is_file():
            raise ValueError(f"path = {str(path)!r}: must be a file.")
        try:
            settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"path = {str(path)!r}: not valid TOML ({error}).") from None
        return cls.model_validate(settings)

    @classmethod
    def named(cls, name: str) -> Self:
        """Settings that ship with the package, under one of the names that `shipped` lists.

        Examples:
            >>> config = Config.named("quick")
            >>> config.models
            ('ConstGate', 'SharedGate', 'DiagGate')
        """
        known = shipped(cls._folder)
        if name not in known:
            allowed = f"must be one of {', '.join(known)}, or the path of a TOML file"
            raise ValueError(f"name = {name!r}: {allowed}.")
        file = resources.files("lwcore") / cls._folder / f"{name}.toml"
        return cls.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))


class TaskSettings(_Section):
    """The delayed regression of Eq. (40)."""

    length: int = Field(ge=2, description="Number of time steps T.")
    input_size: PositiveInt = Field(description="Input dimension D.")
    lags: Counts = Field(description="Delays of the target, steps.")
    coefficients: tuple[float, ...] = Field(strict=False, description="Weight of each delay.")
    noise: float = Field(ge=0, description="Standard deviation of the target's noise.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.coefficients) != len(self.lags):
            given = f"{len(self.coefficients)} given for {len(self.lags)} lags"
            raise ValueError(f"coefficients: {given}; there must be one a lag")
        if self.lags[-1] >= self.length:
            fit = f"does not fit into sequences of length {self.length}"
            raise ValueError(f"lags: {self.lags[-1]} {fit}")
        return self


class NetworkSettings(_Section):
    """The cell's size and start."""

    hidden_size: PositiveInt = Field(description="Number of neurons H.")
    gate_init: float = Field(
        gt=0, lt=1, description="Share of the state replaced in a step at first."
    )
    gate_spread: float = Field(
        default=0.1, ge=0, description="Scale of its initial weights, the candidate's 1."
    )
    layernorm: bool = Field(default=False, description="Normalise the candidate's pre-activation.")
    init: Start = Field(default="orthogonal", description="Weights; uniform is PyTorch's.")


class TrainingSettings(_Section):
    """How the networks are trained."""

    sequences: PositiveInt = Field(description="Number of training sequences.")
    batch_size: PositiveInt = Field(description="Sequences a step.")
    steps: NonNegativeInt = Field(
        description="Optimiser steps; 0 to measure networks as they start."
    )
    optimizer: Optimizer = Field(default="adamw", description="Gradient descent, or AdamW.")
    learning_rate: float = Field(gt=0, description="Global learning rate μ.")
    weight_decay: float = Field(default=0.0, ge=0, description="Decoupled weight decay (AdamW).")
    clip: float | None = Field(default=None, gt=0, description="Largest 2-norm of the gradient.")
    checkpoint_every: PositiveInt = Field(default=200, description="Steps between checkpoints.")
    snapshots: Steps = Field(default=(), description="Steps after which time scales are measured.")

    @model_validator(mode="before")
    @classmethod
    def _without_chunk(cls, given: Any) -> Any:
        """Recorded runs say how many steps were scanned at a time; no result depends on it."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if name != "chunk"}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.snapshots and self.snapshots[-1] > self.steps:
            raise ValueError(f"snapshots: {self.snapshots[-1]} is more than the {self.steps} steps")
        if self.batch_size > self.sequences:
            most = f"the {self.sequences} training sequences"
            raise ValueError(f"batch_size: {self.batch_size} is more than {most}")
        return self


class DiagnosticSettings(_Section):
    """What is measured on the trained networks, on fresh sequences."""

    sequences: int = Field(
        ge=32, description="Fresh sequences; one half fixes signs, one is measured."
    )
    lags: Counts = Field(description="Lags at which rates and statistic are taken, steps.")
    ends: PositiveInt = Field(description="Number of end points t at which orders are compared.")
    orders: Orders = Field(default=("zeroth", "first", "exact"), description="Orders of transport.")
    directions: PositiveInt = Field(description="Number of random directions w in parameter space.")
    error: float = Field(
        default=0.1, gt=0, lt=0.5, description="Detection error ε of N(ℓ) sequences."
    )
    significance: float = Field(
        default=0.01, gt=0, lt=1, description="Chance of a false detection."
    )
    budgets: Counts = Field(description="Numbers of sequences N.")
    keep_numbers: bool = Field(default=False, description="Store each sequence's numbers, too.")


class Variant(_Section):
    """A value of an axis: its label, and the settings it stands for, as for `Config.but`."""

    label: int | float | str
    changes: dict[str, Any]


class Config(_File):
    """A whole run: which networks, on what task, how trained, what measured.

    Every (model, seed) pair is one member, independent of the others.
    """

    _folder = "configs"
    axes: ClassVar[dict[str, tuple[Variant, ...]]] = {}
    measured: ClassVar[bool] = True
    models: Models = Field(description="Cells.")
    seeds: Seeds = Field(description="Seeds; all models of one share their task and sequences.")
    task: TaskSettings = Field(description="The task.")
    network: NetworkSettings = Field(description="Size and start of the cells.")
    training: TrainingSettings = Field(description="How they are trained.")
    diagnostics: DiagnosticSettings = Field(description="What is measured on them.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        length, lag, ends = self.task.length, self.diagnostics.lags[-1], self.diagnostics.ends
        if lag >= length:
            raise ValueError(
                f"diagnostics.lags: {lag} does not fit into sequences of length {length}"
            )
        if ends > length - lag:
            fit = f"only {length - lag} leave room for the longest lag"
            raise ValueError(f"diagnostics.ends: {ends} asked for, but {fit}")
        return self

    def __str__(self) -> str:
        """The settings, section by section, named as in the TOML file."""
        sections = [("run", self), *(part for part in self if isinstance(part[1], _Section))]
        lines = []
        for title, section in sections:
            plain = (part for part in section if not isinstance(part[1], _Section))
            lines += [f"[{title}]", *(f"{key} = {value}" for key, value in plain)]
        return "\n".join(lines)

    def points(self) -> dict[tuple[int | float | str, ...], Config]:
        """The only point, itself, of a configuration, which is a sweep without axes."""
        return {(): self}

    @property
    def members(self) -> list[tuple[Model, int]]:
        """The (model, seed) pairs."""
        return [(model, seed) for model in self.models for seed in self.seeds]

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever anything in the configuration does."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def but(self, /, **changes: Any) -> Self:
        """Another configuration: new values by name, for a section those of its settings that
        change.

        Examples:
            >>> config = Config.named("quick").but(models=["LSTM"], training={"steps": 50})
            >>> config.models, config.training.steps
            (('LSTM',), 50)
        """
        settings = self.model_dump()
        for name, value in changes.items():
            section = isinstance(value, dict) and isinstance(settings.get(name), dict)
            settings[name] = settings[name] | value if section else value
        return type(self).model_validate(settings)


class Sweep(_File):
    """A grid of configurations; a point that is no valid one is refused when it is read."""

    _folder = "sweeps"
    base: str = Field(description="Configuration that all points start from.")
    changes: dict[str, Any] = Field(default={}, description="What all points change in it.")
    measured: bool = Field(default=False, description="Measure rates and windows, too.")
    axes: dict[str, Annotated[tuple[Variant, ...], Field(strict=False)]] = Field(
        min_length=1, description="The axes of the grid, each a list of variants."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for axis, variants in self.axes.items():
            labels = [variant.label for variant in variants]
            if not labels or len(set(labels)) != len(labels):
                wanted = "must be at least one, none of them twice"
                raise ValueError(f"axes.{axis}: labels {labels} given; {wanted}")
        points = math.prod(map(len, self.axes.values()))
        if points > _MOST_POINTS:
            raise ValueError(f"axes: {points} points given; must be at most {_MOST_POINTS}")
        self.points()
        return self

    def points(self) -> dict[tuple[int | float | str, ...], Config]:
        """Make the configuration of every point, by the labels of the axes in their order."""
        base = Config.named(self.base)
        grid = {}
        for number, variants in enumerate(itertools.product(*self.axes.values())):
            config = base.but(**self.changes)
            config = config.but(name=f"{self.name}-{number}", description=self.description)
            for variant in variants:
                config = config.but(**variant.changes)
            grid[tuple(variant.label for variant in variants)] = config
        return grid

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a point's configuration does."""
        digest = hashlib.sha256(self.model_dump_json().encode())
        for config in self.points().values():
            digest.update(config.fingerprint.encode())
        return digest.hexdigest()[:12]


def shipped(kind: str = "configs") -> list[str]:
    """Sorted names of the ``"configs"`` or ``"sweeps"`` that ship with the package."""
    one_of("kind", kind, ("configs", "sweeps"))
    names = (path.name for path in (resources.files("lwcore") / kind).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))
