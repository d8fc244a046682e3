"""What a run is: a validated configuration, or a sweep of them, read from TOML.

Unknown keys, bad values and pieces that do not fit are refused by name.
"""

from __future__ import annotations

import hashlib
import itertools
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.types import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from lwcore.signatures import checked, require

_PACKAGE = Path(__file__).parent

Model = Literal["ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM"]
Order = Literal["zeroth", "first", "exact"]
Start = Literal["orthogonal", "uniform"]
Optimizer = Literal["sgd", "adamw"]
Point = tuple[int | float | str, ...]  # of a sweep, by its labels on the axes
Entry = TypeVar("Entry")


def _increasing(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values, unless one repeats or is out of order."""
    if list(values) != sorted(set(values)):
        raise ValueError("must be strictly increasing")
    return values


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values, unless one repeats."""
    if len(set(values)) < len(values):
        raise ValueError("must not name anything twice")
    return values


# Strictness is for numbers: a list may stand for a tuple, as in TOML there are only lists.
_LIST = Field(strict=False, min_length=1)
Counts = Annotated[tuple[PositiveInt, ...], _LIST, AfterValidator(_increasing)]
Distinct = Annotated[tuple[Entry, ...], _LIST, AfterValidator(_distinct)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Steps = Annotated[tuple[NonNegativeInt, ...], Field(strict=False), AfterValidator(_increasing)]
Share = Annotated[float, Field(gt=0, lt=1)]


class _Section(BaseModel):
    """Common rules: no unknown key, no infinite or NaN number, no text or 1.0 for an integer."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class _File(_Section):
    """What stands in a TOML file of its own, the user's or one that ships with the package."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100, description="Name of files.")
    description: str = Field(description="What it is for.")
    _folder: ClassVar[Literal["configs", "sweeps"]]

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Settings in a TOML file; a ValueError names all that are wrong."""
        require("path", str(path), Path(path).is_file() or not Path(path).exists(), "a file")
        try:
            settings = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"path = {str(path)!r}: not valid TOML ({error}).") from None
        return cls.model_validate(settings)

    @classmethod
    def named(cls, name: str) -> Self:
        """Settings that ship with the package, under a name that `shipped` lists.

        Examples:
            >>> config = Config.named("quick")
            >>> config.models
            ('ConstGate', 'SharedGate', 'DiagGate')
        """
        known = shipped(cls._folder)
        words = f"one of {', '.join(known)}, or the path of a TOML file"
        require("name", name, name in known, words)
        return cls.from_toml(_PACKAGE / cls._folder / f"{name}.toml")

    def points(self) -> dict[Point, Any]:
        """The configurations to run: of one, which is a sweep without axes, itself."""
        return {(): self}

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a configuration to run does."""
        others = "".join(one.fingerprint for one in self.points().values() if one is not self)
        return hashlib.sha256((self.model_dump_json() + others).encode()).hexdigest()[:12]


class TaskSettings(_Section):
    """The delayed regression of Eq. (40)."""

    length: int = Field(ge=2, description="Number of time steps T.")
    input_size: PositiveInt = Field(description="Input dimension D.")
    lags: Counts = Field(description="Delays of the target, steps.")
    coefficients: tuple[float, ...] = Field(strict=False, description="Weight of each delay.")
    noise: NonNegativeFloat = Field(description="Standard deviation of the target's noise.")


class NetworkSettings(_Section):
    """The cell's size and start."""

    hidden_size: PositiveInt = Field(description="Number of neurons H.")
    gate_init: Share = Field(description="Share of the state replaced in a step at first.")
    gate_spread: NonNegativeFloat = Field(default=0.1, description="Scale of its first weights.")
    layernorm: bool = Field(default=False, description="Normalise the candidate's pre-activation.")
    init: Start = Field(default="orthogonal", description="Weights; PyTorch's are uniform.")


class TrainingSettings(_Section):
    """How the networks are trained."""

    sequences: PositiveInt = Field(description="Number of training sequences.")
    batch_size: PositiveInt = Field(description="Sequences a step.")
    steps: NonNegativeInt = Field(description="Optimiser steps; 0 to measure networks at start.")
    optimizer: Optimizer = Field(default="adamw", description="Gradient descent, or AdamW.")
    learning_rate: PositiveFloat = Field(description="Global learning rate μ.")
    weight_decay: NonNegativeFloat = Field(default=0.0, description="Decoupled, of AdamW.")
    clip: PositiveFloat | None = Field(default=None, description="Largest 2-norm of the gradient.")
    checkpoint_every: PositiveInt = Field(default=200, description="Steps between checkpoints.")
    snapshots: Steps = Field(default=(), description="Steps after which time scales are measured.")
    # recorded runs name how many steps were scanned at a time, on which no result depends
    chunk: Annotated[None, BeforeValidator(lambda given: None)] = Field(default=None, exclude=True)


class DiagnosticSettings(_Section):
    """What is measured on the trained networks, on fresh sequences."""

    sequences: int = Field(ge=32, description="Fresh sequences; half for signs, half measured.")
    lags: Counts = Field(description="Lags at which rates and statistic are taken, steps.")
    ends: PositiveInt = Field(description="Number of end points t at which orders are compared.")
    orders: Distinct[Order] = Field(
        ("zeroth", "first", "exact"), description="Orders of transport."
    )
    directions: PositiveInt = Field(description="Number of random directions w in parameter space.")
    error: float = Field(default=0.1, gt=0, lt=0.5, description="Detection error ε.")
    significance: Share = Field(default=0.01, description="Chance of a false detection.")
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
    models: Distinct[Model] = Field(description="Cells.")
    seeds: Distinct[Seed] = Field(description="All models of one share its task and sequences.")
    task: TaskSettings = Field(description="The task.")
    network: NetworkSettings = Field(description="Size and start of the cells.")
    training: TrainingSettings = Field(description="How they are trained.")
    diagnostics: DiagnosticSettings = Field(description="What is measured on them.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        task, training, asked = self.task, self.training, self.diagnostics
        given, lags, size = task.coefficients, task.lags, training.batch_size
        words = f"one for each of {len(lags)} lags"
        require("task.coefficients", given, len(given) == len(lags), words)
        below = f"below the length of {task.length}"
        require("task.lags", lags, lags[-1] < task.length, below)
        require("diagnostics.lags", asked.lags, asked.lags[-1] < task.length, below)
        room = task.length - asked.lags[-1]
        words = f"at most {room}, behind the longest lag"
        require("diagnostics.ends", asked.ends, asked.ends <= room, words)
        late, words = max(training.snapshots, default=0), f"at most {training.steps}, the steps"
        require("training.snapshots", training.snapshots, late <= training.steps, words)
        words = f"at most {training.sequences}, the training sequences"
        require("training.batch_size", size, size <= training.sequences, words)
        return self

    def __str__(self) -> str:
        """The settings, section by section, named as in the TOML file."""
        top, sections = ["[run]"], []
        for name, value in self.model_dump().items():
            if isinstance(value, dict):
                sections += [f"[{name}]", *(f"{key} = {one}" for key, one in value.items())]
            else:
                top.append(f"{name} = {value}")
        return "\n".join(top + sections)

    @property
    def members(self) -> list[tuple[Model, int]]:
        """The (model, seed) pairs."""
        return [(model, seed) for model in self.models for seed in self.seeds]

    def but(self, /, **changes: Any) -> Self:
        """Configuration with new values by name, for a section those of its settings that change.

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
    axes: dict[str, Annotated[tuple[Variant, ...], _LIST]] = Field(
        min_length=1, description="The axes of the grid, each a list of variants."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for axis, variants in self.axes.items():
            labels = [variant.label for variant in variants]
            require(f"axes.{axis}", labels, len(set(labels)) == len(labels), "labels, none twice")
        self.points()
        return self

    def points(self) -> dict[Point, Config]:
        """The configuration of every point, by the labels of the axes in their order."""
        base, grid = Config.named(self.base).but(**self.changes), {}
        for number, variants in enumerate(itertools.product(*self.axes.values())):
            config = base.but(name=f"{self.name}-{number}", description=self.description)
            for variant in variants:
                config = config.but(**variant.changes)
            grid[tuple(variant.label for variant in variants)] = config
        return grid


@checked
def shipped(kind: Literal["configs", "sweeps"] = "configs") -> list[str]:
    """Sorted names of the configurations or sweeps that ship with the package."""
    return sorted(path.stem for path in (_PACKAGE / kind).glob("*.toml"))
