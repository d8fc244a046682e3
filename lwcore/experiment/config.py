"""What a run is: a validated configuration, with axes a sweep of them, read from TOML.

`Config.named` reads a configuration that ships with the package, or a file of yours;
`Config.replace` changes settings of one; `config_of` gives the configuration of a stored result.
Unknown keys, bad values and pieces that do not fit are refused by name.
"""

from __future__ import annotations

import hashlib
import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.types import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from lwcore.signatures import ArgumentError, require

_SHIPPED = Path(__file__).parents[1] / "configs"

# The row of a cell: a class of `lwcore.cells.gated` of this name. Colours and tests follow from it.
Model = Literal["ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM"]
Order = Literal["zeroth", "first", "exact"]
Start = Literal["orthogonal", "uniform"]
Optimizer = Literal["sgd", "adamw"]
# Names of dimensions, coordinates and variables, none of which an axis may have: of every result,
# and of those with measurements or snapshots. A test tries a run.
_IN_EVERY_RESULT = """model seed step delay unit loss test_loss target_variance learned planted
    base_rate"""
_IN_MEASURED_RESULTS = """lag noise order probe source view sequence rate envelope negative
    time_scale statistic projection signal signal_error scale alpha deviation exponent n_measured
    snapshot task_lag course_learned retention course_time_scale course_envelope"""
Point = tuple[int | float | str, ...]  # a point of a sweep's grid: its label on each axis
Entry = TypeVar("Entry")
# The fields that all points of a sweep share.
_OF_THE_WHOLE = frozenset(["axes", "name", "description"])


def _increasing(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse a list that does not increase strictly."""
    if list(values) != sorted(set(values)):
        raise ValueError("must be strictly increasing")
    return values


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse a list that names an entry twice."""
    if len(set(values)) != len(values):
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
    """Settings that cannot be changed. No key is unknown, no number infinite, no integer 1.0."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class TaskSettings(_Section):
    """The delayed regression of Eq. (40).

    The target is a sum of what one combination of the inputs was at several delays, each with its
    coefficient, and of noise. So it is known what there is to learn across each lag.
    """

    length: int = Field(ge=2, description="Number of time steps T.")
    input_size: PositiveInt = Field(description="Input dimension D.")
    lags: Counts = Field(description="Delays of the target, steps.")
    coefficients: tuple[float, ...] = Field(strict=False, description="Weight of each delay.")
    noise: NonNegativeFloat = Field(description="Standard deviation of the target's noise.")


class NetworkSettings(_Section):
    """The cell's size and start.

    `gate_init` sets how far a network reaches back before it is trained: a gate that replaces the
    share s forgets in about 1/s steps. With a spread of 0 all neurons begin with the same gate.
    """

    hidden_size: PositiveInt = Field(description="Number of neurons H.")
    gate_init: Share = Field(description="Share of the state replaced in a step at first.")
    gate_spread: NonNegativeFloat = Field(default=0.1, description="Scale of its first weights.")
    layernorm: bool = Field(default=False, description="Normalise the candidate's pre-activation.")
    init: Start = Field(default="orthogonal", description="Weights; PyTorch's are uniform.")


class TrainingSettings(_Section):
    """How the networks are trained.

    Use ``"sgd"`` for the gradient descent that the theory speaks of, and ``"adamw"`` for what is
    done in practice. Snapshots cost a measurement each; they show how time scales develop.
    """

    sequences: PositiveInt = Field(description="Number of training sequences.")
    batch_size: PositiveInt = Field(description="Sequences a step.")
    steps: NonNegativeInt = Field(description="Optimiser steps; 0 to measure networks at start.")
    optimizer: Optimizer = Field(default="adamw", description="Gradient descent, or AdamW.")
    learning_rate: PositiveFloat = Field(description="Global learning rate μ.")
    weight_decay: NonNegativeFloat = Field(default=0.0, description="Decoupled, of AdamW.")
    clip: PositiveFloat | None = Field(default=None, description="Largest 2-norm of the gradient.")
    checkpoint_every: PositiveInt = Field(default=200, description="Steps between checkpoints.")
    snapshots: Steps = Field(default=(), description="Steps after which time scales are measured.")


class DiagnosticSettings(_Section):
    """What is measured on the trained networks, on fresh sequences.

    More sequences make N(ℓ) surer, more end points the rates, more directions the windows of the
    paper's views. `lwcore.inference` takes another error, significance or budget without a new run.
    """

    sequences: int = Field(ge=32, description="Fresh sequences; half for signs, half measured.")
    lags: Counts = Field(description="Lags at which rates and statistic are taken, steps.")
    ends: PositiveInt = Field(description="Number of end points t at which orders are compared.")
    orders: Distinct[Order] = Field(
        ("zeroth", "first", "exact"), description="Orders of transport."
    )
    directions: PositiveInt = Field(description="Number of random directions w in parameters.")
    error: float = Field(default=0.1, gt=0, lt=0.5, description="Detection error ε.")
    significance: Share = Field(default=0.01, description="Chance of a false detection.")
    budgets: Counts = Field(description="Numbers of sequences N.")
    keep_numbers: bool = Field(default=False, description="Store each sequence's numbers, too.")


class Variant(_Section):
    """A value of an axis: its label, and the settings it stands for, as for `Config.replace`."""

    label: int | float | str
    changes: dict[str, Any]


class Config(_Section):
    """A whole run: which networks, on what task, how trained, what measured.

    Every (model, seed) pair is one member, independent of the others. With axes it is a sweep: the
    same run at every point of their grid. A configuration cannot be changed; `replace` makes
    another one.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100, description="Name of files.")
    description: str = Field(pattern=r"^[^\x00]*$", description="What it is for.")
    models: Distinct[Model] = Field(description="Cells of the paper (so no MinGRU, no MinLSTM).")
    seeds: Distinct[Seed] = Field(description="All models of one share its task and sequences.")
    task: TaskSettings = Field(description="The task.")
    network: NetworkSettings = Field(description="Size and start of the cells.")
    training: TrainingSettings = Field(description="How they are trained.")
    diagnostics: DiagnosticSettings = Field(description="What is measured on them.")
    measured: bool = Field(default=True, description="Measure rates and windows, too.")
    axes: dict[str, Annotated[tuple[Variant, ...], _LIST]] = Field(
        default={}, description="The axes of a sweep's grid, each a list of variants."
    )

    @classmethod
    def named(cls, name: str | Path) -> Self:
        """Read a configuration that ships with the package (`shipped`), or a TOML file by its path.

        A file that names a ``base`` says what it changes in that: a configuration that ships, or
        another file, whose path is taken from the folder of the file that names it.

        Raises:
            ValueError: If settings are wrong. The message names all of them.

        Examples:
            >>> config = Config.named("quick")
            >>> config.models
            ('ConstGate', 'SharedGate', 'DiagGate')
        """
        require("name", name, isinstance(name, str | Path), "a name, or the path of a TOML file")
        return cls._read(Path(name), None)

    @classmethod
    def _read(cls, name: Path, named_by: Path | None) -> Self:
        """Read a file, or a configuration that ships; `named_by` is the file it is a base of."""
        path = _path_of(name, named_by)
        require("path", str(path), path.is_file() or not path.exists(), "a file")
        if named_by and not path.exists():
            raise FileNotFoundError(
                f"base = {str(path)!r}: there is no such file ({named_by} names it)."
            )
        try:
            # A byte order mark, with which some editors begin a file, is no part of its text.
            settings = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"path = {str(path)!r}: not valid TOML ({error}).") from None
        if "base" not in settings:
            return cls.model_validate(settings)
        base = settings.pop("base")
        is_name = isinstance(base, str) and base.strip() != ""
        requirement = "text, the name of a configuration that ships or the path of a TOML file"
        require("base", base, is_name, requirement)
        return cls._read(Path(base), path).replace(**settings)

    @classmethod
    def stored(cls, attributes: Mapping[Any, Any]) -> Self:
        """Read the configuration that a result's attributes hold, of whatever version.

        Raises:
            ValueError: If there is none, or one with settings that this version does not know.
        """
        try:
            return cls.model_validate_json(attributes["configuration"])
        except KeyError:
            raise ValueError("The result holds no configuration: it is not one of a run.") from None
        except ValidationError as error:
            versions = attributes.get("versions", "an unknown version")
            raise ValueError(
                f"The result's configuration, made by {versions}, is not one that this version "
                f"reads: {error}"
            ) from error

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse settings that do not fit each other, in this order: sections, axes, points."""
        self._check_sections()
        for axis, variants in self.axes.items():
            _check_axis(axis, variants)
        points = list(self.points().values())  # refuses the changes that fit nowhere
        _check_points(self.axes, points)
        return self

    def _check_sections(self) -> None:
        """Refuse lags, end points, snapshots and batches for which task and training are short."""
        task = self.task
        n_lags = len(task.lags)
        one_each = len(task.coefficients) == n_lags
        require("task.coefficients", task.coefficients, one_each, f"one for each of {n_lags} lags")
        below = f"below the length of {task.length}"
        require("task.lags", task.lags, task.lags[-1] < task.length, below)

        lags = self.diagnostics.lags
        require("diagnostics.lags", lags, lags[-1] < task.length, below)
        ends = self.diagnostics.ends
        room = task.length - lags[-1]
        require("diagnostics.ends", ends, ends <= room, f"at most {room}, behind the longest lag")

        training = self.training
        last = max(training.snapshots, default=0)
        by_the_end = f"at most {training.steps}, the steps"
        require("training.snapshots", training.snapshots, last <= training.steps, by_the_end)
        size = training.batch_size
        no_more = f"at most {training.sequences}, the training sequences"
        require("training.batch_size", size, size <= training.sequences, no_more)

    @property
    def members(self) -> list[tuple[Model, int]]:
        """The (model, seed) pairs, one for each network; all seeds of a model stand together."""
        return [(model, seed) for model in self.models for seed in self.seeds]

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a setting does, its description too."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def replace(self, /, **changes: Any) -> Self:
        """Return a configuration with some values replaced; of a section, only those given.

        All is checked anew, as if it had been read from a file.

        Examples:
            >>> config = Config.named("quick").replace(models=["LSTM"], training={"steps": 50})
            >>> config.models, config.training.steps
            (('LSTM',), 50)
        """
        settings = self.model_dump()
        for name, value in changes.items():
            old = settings.get(name)
            if isinstance(old, dict) and isinstance(value, dict):
                settings[name] = old | value
            else:
                settings[name] = value
        return type(self).model_validate(settings)

    def points(self) -> dict[Point, Self]:
        """Return the configuration of every point of the grid, by its labels on the axes.

        Labels stand in the order of the axes, the last of which varies fastest.
        """
        without_axes = self.model_copy(update={"axes": {}})
        grid = {}
        for variants in itertools.product(*self.axes.values()):
            point = without_axes
            for variant in variants:
                point = point.replace(**variant.changes)
            labels = tuple(variant.label for variant in variants)
            grid[labels] = point
        return grid


def _path_of(name: Path, named_by: Path | None) -> Path:
    """Return the file that a name or a path stands for; refuse an unknown name."""
    argument = "base" if named_by else "name"
    if name.suffix != ".toml":
        known = shipped()
        requirement = f"one of {', '.join(known)}, or the path of a TOML file"
        require(argument, str(name), str(name) in known, requirement)
        return _SHIPPED / f"{name}.toml"
    return named_by.parent / name if named_by else name


def _check_axis(axis: str, variants: tuple[Variant, ...]) -> None:
    """Refuse an axis that a result could not store: by its name, its labels, its changes."""
    require("axes", axis, axis.isidentifier(), "a name of letters, digits and _")
    labels = [variant.label for variant in variants]
    array = np.array(labels)
    # what an array gives back as it was: neither mixed nor beyond 64 bits
    is_exact = array.dtype.kind in "ifU" and array.tolist() == labels
    has_nul = any("\0" in str(label) for label in labels)  # at which HDF5 ends a text
    is_distinct = len(set(labels)) == len(labels)
    requirement = "labels of one kind, text or numbers, none twice, that an array holds exactly"
    require(f"axes.{axis}", labels, is_exact and is_distinct and not has_nul, requirement)
    for variant in variants:
        fixed = sorted(_OF_THE_WHOLE & variant.changes.keys())
        requirement = f"changes of a point's settings, not of {', '.join(fixed)}, which all share"
        require(f"axes.{axis}.changes", variant.changes, not fixed, requirement)


def _check_points(axes: Iterable[str], points: Sequence[Config]) -> None:
    """Refuse points whose results cannot stand side by side in one array.

    No axis may have the name of something that they hold. Orders are labels there and must be the
    same. Probes and sequences have no labels, so that their numbers must agree.
    """
    taken = set(_IN_EVERY_RESULT.split())
    kept: dict[str, set[Any]] = {"orders": set(), "directions": set(), "sequences": set()}
    for point in points:
        settings = point.diagnostics
        if point.measured or point.training.snapshots:
            taken.update(_IN_MEASURED_RESULTS.split())
            kept["orders"].add(", ".join(settings.orders))
        if point.measured:
            kept["directions"].add(settings.directions)
        if point.measured and settings.keep_numbers:
            kept["sequences"].add(settings.sequences)
    for axis in axes:
        require("axes", axis, axis not in taken, "named otherwise than what a result holds")
    for name, values in kept.items():
        requirement = "the same at all points of which it is kept"
        require(f"diagnostics.{name}", sorted(values), len(values) <= 1, requirement)


def shipped() -> list[str]:
    """Return the sorted names of the configurations that ship with the package."""
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def config_of(results: Any) -> Config:
    """Return the configuration of a run's result, an xarray dataset; of a sweep, its first point's.

    Raises:
        ArgumentError: If `results` is not the result of a run.
    """
    attributes = getattr(results, "attrs", {})
    if "configuration" not in attributes:
        variables = ", ".join(map(str, getattr(results, "variables", ()))) or "nothing"
        raise ArgumentError(
            f"results holds {variables}: it must hold the result of a run, with its configuration."
        )
    config = Config.stored(attributes)
    return next(iter(config.points().values()))
