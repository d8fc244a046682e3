"""What a run is: a validated configuration, with axes a sweep of them, read from TOML.

Unknown keys, bad values and pieces that do not fit are refused by name.
"""

from __future__ import annotations

import hashlib
import itertools
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.types import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from lwcore.signatures import ArgumentError, require, require_path

_SHIPPED = Path(__file__).parents[1] / "configs"

Model = Literal["ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM"]
Order = Literal["zeroth", "first", "exact"]
Start = Literal["orthogonal", "uniform"]
Optimizer = Literal["sgd", "adamw"]
# Names of a result's dimensions, coordinates and variables, none of which an axis may have: of
# every result, of those with measurements, of those with snapshots. A test tries a run.
_IN_EVERY_RESULT = frozenset(
    [
        "model",
        "seed",
        "step",
        "delay",
        "unit",
        "loss",
        "test_loss",
        "target_variance",
        "learned",
        "planted",
        "base_rate",
        "final_loss",
        "still_falling",
    ]
)
_IN_MEASURED_RESULTS = frozenset(
    [
        "lag",
        "noise",
        "order",
        "probe",
        "source",
        "view",
        "sequence",
        "rate",
        "envelope",
        "negative",
        "time_scale",
        "statistic",
        "projection",
        "signal",
        "signal_error",
        "scale",
        "alpha",
        "deviation",
        "exponent",
        "n_measured",
    ]
)
_IN_RESULTS_WITH_SNAPSHOTS = frozenset(
    [
        "lag",
        "order",
        "snapshot",
        "task_lag",
        "course_learned",
        "retention",
        "saturated",
        "course_time_scale",
        "course_envelope",
    ]
)
# Settings with a default that every stored configuration names. One that the package gets later is
# left out where it has its default: results from before stay results of the same configuration, and
# versions from before can read files that are written after.
_IN_EVERY_STORED_CONFIGURATION = frozenset(
    [
        "gate_spread",
        "layernorm",
        "init",
        "optimizer",
        "weight_decay",
        "clip",
        "checkpoint_every",
        "snapshots",
        "orders",
        "error",
        "significance",
        "keep_numbers",
        "measured",
        "axes",
    ]
)
Point = tuple[int | float | str, ...]  # of a sweep, by its labels on the axes
Entry = TypeVar("Entry")


def _held(words: str, holds: Callable[[tuple[Any, ...]], bool]) -> AfterValidator:
    """A rule for lists, with the words that its breach is told in."""

    def held(values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not holds(values):
            raise ValueError(words)
        return values

    return AfterValidator(held)


_increasing = _held("must be strictly increasing", lambda given: list(given) == sorted({*given}))
_distinct = _held("must not name anything twice", lambda given: len({*given}) == len(given))
# Strictness is for numbers: a list may stand for a tuple, as in TOML there are only lists.
_LIST = Field(strict=False, min_length=1)
Counts = Annotated[tuple[PositiveInt, ...], _LIST, _increasing]
Distinct = Annotated[tuple[Entry, ...], _LIST, _distinct]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Steps = Annotated[tuple[NonNegativeInt, ...], Field(strict=False), _increasing]
Share = Annotated[float, Field(gt=0, lt=1)]


class _Section(BaseModel):
    """Common rules: no unknown key, no infinite or NaN number, no text or 1.0 for an integer."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Dump the settings, except those that came later and have their default."""
        settings: dict[str, Any] = dump(self)
        for name, field in type(self).model_fields.items():
            came_later = name not in _IN_EVERY_STORED_CONFIGURATION and not field.is_required()
            if came_later and getattr(self, name) == field.get_default(call_default_factory=True):
                settings.pop(name, None)
        return settings


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


class Config(_Section):
    """A whole run: which networks, on what task, how trained, what measured.

    Every (model, seed) pair is one member, independent of the others. With axes it is a sweep: the
    same run at every point of their grid.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100, description="Name of files.")
    description: str = Field(description="What it is for.")
    models: Distinct[Model] = Field(description="Cells.")
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
        another file, whose path is taken from the folder of the file that names it. A ValueError
        names all that is wrong.

        Examples:
            >>> config = Config.named("quick")
            >>> config.models
            ('ConstGate', 'SharedGate', 'DiagGate')
        """
        require("name", name, isinstance(name, str | Path), "a name, or the path of a TOML file")
        return cls._read(Path(name), ())

    @classmethod
    def _read(cls, path: Path, named_by: tuple[Path, ...]) -> Self:
        """Read a file, or a configuration that ships, for the files that name it as their base."""
        require_path("base" if named_by else "name", str(path))
        if path.suffix == ".toml":
            if named_by:
                path = named_by[-1].parent / path
            if path.resolve() in [other.resolve() for other in named_by]:
                chain = " → ".join(map(str, (*named_by, path)))
                raise ValueError(f"base = {str(path)!r}: must not lead back to itself ({chain}).")
        else:
            known = ", ".join(shipped())
            name = str(path)
            words = f"one of {known}, or the path of a TOML file"
            require("base" if named_by else "name", name, name in shipped(), words)
            path = _SHIPPED / f"{name}.toml"
        require("path", str(path), path.is_file() or not path.exists(), "a file")
        if named_by and not path.exists():
            raise FileNotFoundError(
                f"base = {str(path)!r}: there is no such file ({named_by[-1]} names it)."
            )
        try:
            # a byte order mark, with which some editors begin a file, is no part of its text
            settings = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"path = {str(path)!r}: not valid TOML ({error}).") from None
        if "base" not in settings:
            return cls.model_validate(settings)
        base = settings.pop("base")
        words = "text, the name of a configuration that ships or the path of a TOML file"
        require("base", base, isinstance(base, str) and base.strip() != "", words)
        return cls._read(Path(base), (*named_by, path)).but(**settings)

    @classmethod
    def stored(cls, attributes: Mapping[Any, Any]) -> Self:
        """Read the configuration that a result's attributes hold, of whatever version."""
        try:
            return cls.model_validate_json(attributes["configuration"])
        except KeyError:
            raise ValueError("The result holds no configuration: it is not one of a run.") from None
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            versions = attributes.get("versions", "an unknown version")
            raise ValueError(
                f"The result's configuration is not one that this version reads "
                f"({'; '.join(faults)}). It was made by {versions}."
            ) from error

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
        for axis, variants in self.axes.items():
            self._check_axis(axis, variants)
        points = self.points().values()  # refuses the changes that fit nowhere
        taken = _IN_EVERY_RESULT
        if any(point.measured for point in points):
            taken |= _IN_MEASURED_RESULTS
        if any(point.training.snapshots for point in points):
            taken |= _IN_RESULTS_WITH_SNAPSHOTS
        clash = sorted(taken & {*self.axes})
        words = f"named otherwise than what a result holds ({', '.join(clash)})"
        require("axes", [*self.axes], not clash, words)
        followed = [point for point in points if point.measured or point.training.snapshots]
        orders = sorted({", ".join(point.diagnostics.orders) for point in followed})
        words = "the same at all points that are measured or have snapshots"
        require("diagnostics.orders", orders, len(orders) <= 1, words)
        # Points stand side by side in one array. Probes and sequences have no labels there.
        measured = [point.diagnostics for point in points if point.measured]
        directions = sorted({settings.directions for settings in measured})
        words = "one number at all points that are measured"
        require("diagnostics.directions", directions, len(directions) <= 1, words)
        kept = sorted({settings.sequences for settings in measured if settings.keep_numbers})
        words = "one number at all points whose numbers are kept (keep_numbers)"
        require("diagnostics.sequences", kept, len(kept) <= 1, words)
        return self

    @staticmethod
    def _check_axis(axis: str, variants: tuple[Variant, ...]) -> None:
        """Refuse an axis that a result could not store: by its name, its labels, its changes."""
        # netCDF's rule for names
        starts = axis[:1].isalnum() or axis[:1] == "_" or axis[:1] > "\x7f"
        plain = _storable(axis) and "/" not in axis and axis == axis.strip()
        words = "a name that begins with a letter, a digit or _, without / and control characters"
        require("axes", axis, starts and plain, words)
        labels = [variant.label for variant in variants]
        named = f"axes.{axis}"
        texts = [isinstance(label, str) for label in labels]
        require(named, labels, all(texts) or not any(texts), "labels of one kind, text or numbers")
        if any(texts):
            storable = all(_storable(str(label)) for label in labels)
            require(named, labels, storable, "labels without control characters")
        else:
            # stored as whole numbers, or all as floats if one of them is
            whole = all(isinstance(label, int) for label in labels)
            fits = all(-(2**63) <= label < 2**63 for label in labels if isinstance(label, int))
            require(named, labels, fits, "labels in the range of 64-bit integers")
            if not whole:
                exact = all(float(label) == label for label in labels)
                require(named, labels, exact, "labels that are floats exactly, as one of them is")
        require(named, labels, len({*labels}) == len(labels), "labels, none twice")
        for variant in variants:
            fixed = sorted({"axes", "name", "description"} & variant.changes.keys())
            words = f"changes of a point's settings, not of {', '.join(fixed)}, which all share"
            require(f"{named}.changes", variant.changes, not fixed, words)

    def __str__(self) -> str:
        """The settings, section by section, named as in the TOML file."""
        lines = ["[run]"]
        for name, value in self.model_dump().items():
            if isinstance(value, dict) and value:
                lines += [f"[{name}]", *(f"{key} = {one}" for key, one in value.items())]
            elif value != type(self).model_fields[name].default:
                lines.append(f"{name} = {value}")
        return "\n".join(lines)

    @property
    def members(self) -> list[tuple[Model, int]]:
        """The (model, seed) pairs."""
        return [(model, seed) for model in self.models for seed in self.seeds]

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever a setting does."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]

    def but(self, /, **changes: Any) -> Self:
        """Configuration with new values by name, for a section those of its settings that change.

        Examples:
            >>> config = Config.named("quick").but(models=["LSTM"], training={"steps": 50})
            >>> config.models, config.training.steps
            (('LSTM',), 50)
        """
        settings = self.model_dump()
        for name, value in changes.items():
            old = settings.get(name)
            both = isinstance(old, dict) and isinstance(value, dict)
            settings[name] = old | value if both else value
        return type(self).model_validate(settings)

    def points(self) -> dict[Point, Self]:
        """The configuration of every point of the grid, by the labels of its axes in their order.

        Without axes it has one point, which bears no label.
        """
        grid, alike = {}, self.model_copy(update={"axes": {}})
        for variants in itertools.product(*self.axes.values()):
            point = alike
            for variant in variants:
                point = point.but(**variant.changes)
            grid[tuple(variant.label for variant in variants)] = point
        return grid


def _storable(text: str) -> bool:
    """Return whether a netCDF file can hold a text: neither control characters nor half symbols."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text)


def shipped() -> list[str]:
    """Sorted names of the configurations that ship with the package."""
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
