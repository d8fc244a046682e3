"""The command line: ``lw list``, ``lw run``, ``lw sweep``, ``lw show``, ``lw diagnose``, ``lw claims``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table

from lwcore.config import Config, Sweep, shipped
from lwcore.console import computing, err, explained, fail, failing, interruptible, out
from lwcore.entry import INTERRUPTED

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from matplotlib.figure import Figure
    from pandas import DataFrame

    from lwcore.diagnose import Diagnosis

_WIDE = 110  # columns from which on a claim goes on one line

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Learnability windows of gated recurrent networks: run and read experiments.",
)


class Source(StrEnum):
    """What makes the loss gradients."""

    error = "error"
    target = "target"


class Found(StrEnum):
    """What was found of a claim, in one word."""

    holds = "holds"
    condition = "condition"
    later = "later"
    misprint = "misprint"
    part = "part"
    refuted = "refuted"
    open = "open"


class Kind(StrEnum):
    """What stands behind a claim, in one word."""

    identity = "identity"
    theorem = "theorem"
    simulation = "simulation"
    network = "network"


class Paper(StrEnum):
    """Who makes a claim: the paper, its companion, the paper's public code, or this book."""

    livi = "livi"
    cayci = "cayci"
    code = "code"
    ours = "ours"


class Where(StrEnum):
    """Where the members of a run are computed."""

    here = "here"
    processes = "processes"


@app.command("list")
def list_configurations() -> None:
    """List the configurations that ship with the package."""
    table = Table("name", "what it is", box=None, header_style="bold")
    for name in shipped():
        config = Config.named(name)
        sizes = f"seeds {len(config.seeds)}, T {config.task.length}, H {config.network.hidden_size}, steps {config.training.steps}"
        table.add_row(name, Group(escape(config.description), ", ".join(config.models), sizes))
    out.print(table)
    grids = Table("sweep", "what it is", box=None, header_style="bold")
    for name in shipped("sweeps"):
        sweep = Sweep.named(name)
        grid = " × ".join(f"{len(variants)} {axis}" for axis, variants in sweep.axes.items())
        grids.add_row(name, Group(escape(sweep.description), grid))
    out.print(grids)


@app.command("run")
def run_configuration(
    name: Annotated[str, typer.Argument(help="A name from `lw list`, or the path of a TOML file.")],
    seeds: Annotated[
        list[int] | None, typer.Option(help="Run these seeds instead of the configuration's; repeat the option for several.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Use what an earlier run has left, its result included; --no-resume starts anew.")] = True,
    executor: Annotated[Where, typer.Option(help="This process, or a process for every core.")] = Where.here,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, whose workers do it.")] = None,
    directory: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
) -> None:
    """Train and measure every network of a configuration and store the result as netCDF."""
    config = _read(Config, name)
    if seeds:
        with explained(name):
            config = config.but(seeds=tuple(seeds))
    path = directory / f"{config.name}.nc"
    from lwcore import experiment, results  # import PyTorch, which `lw list` and --help do without

    before = path.stat().st_mtime_ns if path.exists() else None
    with computing(path, resume), _executor(executor, scheduler) as pool:
        dataset = experiment.run(config, pool, resume, directory)
    if before == path.stat().st_mtime_ns:
        made_by = (
            "this very code" if dataset.attrs["code"] == results.code_fingerprint() else f"other code, revision {dataset.attrs['revision']}"
        )
        out.print(f"{path} is there already, with this very configuration, made by {made_by}. --no-resume computes it anew.")
    else:
        out.print(f"Stored {path}.")


@app.command("sweep")
def run_sweep(
    name: Annotated[str, typer.Argument(help="A name from `lw list`, or the path of a TOML file.")],
    resume: Annotated[bool, typer.Option(help="Use what an earlier run has left, its result included; --no-resume starts anew.")] = True,
    executor: Annotated[Where, typer.Option(help="This process, or a process for every core.")] = Where.here,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, whose workers do it.")] = None,
    directory: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
) -> None:
    """Run a configuration at every point of a grid of changes and store the result as netCDF."""
    sweep = _read(Sweep, name)
    from lwcore import experiment

    path = directory / f"{sweep.name}.nc"
    with computing(path, resume), _executor(executor, scheduler) as pool:
        experiment.run(sweep, pool, resume, directory)
    out.print(f"The result is in {path}.")


@app.command("show")
def show_results(
    path: Annotated[Path, typer.Argument(help="A result file.")],
    figure: Annotated[Path | None, typer.Option(help="Draw the result in one picture, here; the ending chooses the format.")] = None,
) -> None:
    """Print what a result file holds: its provenance, and how well its networks predict or what a diagnosis found."""
    from lwcore import results

    with failing(OSError, ValueError):
        dataset = results.load(path)
    told = ("name", "description", "revision", "versions", "machine", "configuration")
    if missing := [key for key in told if key not in dataset.attrs]:
        fail(f"path = {str(path)!r}: says no {', '.join(missing)}; must be a result that this package has stored.")
    for key in told[:-1]:
        out.print(f"[bold]{key}[/bold] {escape(str(dataset.attrs[key]))}")
    if "measured_on" in dataset.attrs:
        _show_diagnosis(path, figure)
        return
    if "step" not in dataset.dims:  # a sweep
        out.print(dataset.attrs["configuration"], markup=False)
        return
    with explained(str(path)):
        out.print(str(Config.model_validate_json(dataset.attrs["configuration"])), markup=False)
    from lwcore.tables import training

    try:
        models = training(dataset)
    except (AttributeError, KeyError) as error:
        fail(f"path = {str(path)!r}: {error}; must be a result of lw run, with all its variables.")
    table = Table("model", *models.columns, box=None, header_style="bold")
    for model, row in models.iterrows():
        table.add_row(str(model), *(f"{value:.3f}" for value in row))
    out.print(table)
    if figure is not None:
        from lwcore import figures

        _draw(lambda: figures.summary(dataset), figure)


def _show_diagnosis(path: Path, figure: Path | None) -> None:
    """Print a stored diagnosis."""
    from lwcore.diagnose import Diagnosis

    try:
        found = Diagnosis.load(path)
        _tell(found)
    except (AttributeError, KeyError) as error:
        fail(f"path = {str(path)!r}: {error}; must be a diagnosis as lw diagnose or Diagnosis.save stores it, with all its variables.")
    if figure is not None:
        _draw(found.plot, figure)


def _tell(found: Diagnosis) -> None:
    """Print a diagnosis: what was found, and windows."""
    out.print(str(found), markup=False)
    windows = found.table().reset_index()
    table = Table(*windows.columns, box=None, header_style="bold")
    for row in windows.itertuples(index=False):
        table.add_row(*row)
    out.print(table, markup=False)


@app.command("diagnose")
def diagnose_network(
    checkpoint: Annotated[
        Path, typer.Option(help="Weights: a state dictionary (.pt) or .safetensors. Only weights are read, no pickled code is run.")
    ],
    data: Annotated[Path, typer.Option(help="An .npz file with inputs (B, T, D) or (B, T), and targets, B in front.")],
    lags: Annotated[list[str] | None, typer.Option(help="Lags to measure, as in 1,5,10; the option may be repeated.")] = None,
    recurrent: Annotated[str | None, typer.Option(help="Name of the recurrent module in the checkpoint, if there are several.")] = None,
    readout: Annotated[str | None, typer.Option(help="Name of the linear readout, if several fit; 'none' for none.")] = None,
    nonlinearity: Annotated[str, typer.Option(help="What an nn.RNN applies, tanh or relu; weights do not say.")] = "tanh",
    every_step: Annotated[
        bool | None,
        typer.Option(help="Targets at every step, or one behind the last; by default their shape says."),
    ] = None,
    source: Annotated[Source, typer.Option(help="The loss as it is, or as if nothing had been learned: the target.")] = Source.error,
    n_sequences: Annotated[int | None, typer.Option(help="Number of sequences N that the answer speaks of.")] = None,
    output: Annotated[Path | None, typer.Option(help="Store all numbers here, as netCDF.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw them in one picture, here; the ending chooses the format.")] = None,
) -> None:
    """Measure the learnability window of your own LSTM, GRU or RNN: how far back its gradient can be seen, from how many sequences."""
    import warnings

    from lwcore import results
    from lwcore.diagnose import checkpoint as files
    from lwcore.diagnose import diagnose

    told = (OSError, ValueError, TypeError, RuntimeError, ImportError, MemoryError)
    with interruptible("Interrupted before there was a result."), failing(*told):
        if output is not None:
            results.check_writable("output", output)
        if figure is not None:
            results.check_writable("figure", figure, _figure_endings())
        inputs, targets = files.load_data(data)
        each = targets.shape[1:2] == inputs.shape[1:2] if every_step is None else every_step
        module, head = files.network(files.load_weights(checkpoint), recurrent, readout, nonlinearity, every_step=each)
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always", UserWarning)
            batch, wanted = (inputs, targets), _integers("lags", lags)
            found = diagnose(module, batch, wanted, head=head, loss=files.loss_of, source=source.value, n_sequences=n_sequences)
        for note in noted:
            err.print(str(note.message), style="yellow", markup=False)
        if output is not None:
            found.save(output)
        if figure is not None:
            _draw(found.plot, figure)
    _tell(found)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


@app.command("claims")
def show_claims(
    id: Annotated[list[str] | None, typer.Option(help="Only this claim, in full; repeat the option for several.")] = None,
    paper: Annotated[Paper | None, typer.Option(help="Only claims of this paper.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only claims of this kind.")] = None,
    verdict: Annotated[Found | None, typer.Option(help="Show only claims of which this was found; with --run, after measuring.")] = None,
    run: Annotated[bool, typer.Option(help="Measure anew and record it; without this, what was recorded is shown.")] = False,
    directory: Annotated[
        Path | None, typer.Option(help="Folder of the recorded runs and measurements; the repository's by default.")
    ] = None,
) -> None:
    """Give the verdict on every claim of the papers that can be checked."""
    from rich.progress import track

    try:
        from book import claims
        from book.claims import record
    except ModuleNotFoundError:
        fail("The claims are measured in a checkout of the book: there is none here.")

    folder = directory or record.FOLDER
    wanted = claims.registry()
    with interruptible(f"Interrupted. What was measured before is in {folder / record.NAME}."), failing(OSError, ValueError):
        if id:
            wanted = {name: wanted[_known(name, wanted)] for name in id}
        if paper:
            wanted = {name: claim for name, claim in wanted.items() if claim.paper == paper}
        if kind:
            wanted = {name: claim for name, claim in wanted.items() if claim.kind.name.lower() == kind}
        if run:
            runs = claims.Runs(folder)
            for claim in track(list(wanted.values()), "measuring", console=err):
                record.record([claims.measure(claim, runs)], folder)
        found = record.outcomes(wanted.values(), folder)
    if verdict:
        found = {name: outcome for name, outcome in found.items() if outcome.verdict.name.lower() == verdict}
    if not found:
        out.print("There is no such claim.")
    if id:
        for outcome in found.values():
            out.print(record.in_full(outcome), markup=False)
    if id or not found:
        return
    screen = Console(highlight=False, width=None if out.is_terminal else 1000)  # a line a claim, for grep and its like
    screen.print(_ledger(record.table(found).assign(verdict=[outcome.verdict.name.lower() for outcome in found.values()]), screen.width))
    for one, count in record.counts(found).items():
        if count:
            short = one.name.lower()
            out.print(f"{count:4d} {one}" if one.startswith(short) else f"{count:4d} {short}: {one}")


def _ledger(overview: DataFrame, width: int) -> Table:
    """Make the table of claims: a line each, or two where the screen is narrow."""
    longest = max(map(len, overview.index))
    if width >= _WIDE:
        rows = Table(Column("claim", no_wrap=True), "verdict", "measured", "place", box=None, header_style="bold")
        for name, row in overview.iterrows():
            rows.add_row(str(name), row.verdict, row.measured, row.place)
        return rows
    rows = Table(Column("claim\n  place", min_width=min(longest, width - 24)), "verdict\nmeasured", box=None, header_style="bold")
    for name, row in overview.iterrows():
        rows.add_row(Group(str(name), Padding(row.place, (0, 0, 0, 2))), Group(row.verdict, row.measured))
    return rows


def _known(id: str, claims: Iterable[str]) -> str:
    """Give a claim's name back, or say which ones come near it."""
    names = list(claims)
    if id not in names:
        near = " or ".join(get_close_matches(id, names, n=3))
        raise ValueError(f"id = {id!r}: there is no such claim; {f'did you mean {near}?' if near else '`lw claims` lists them.'}")
    return id


Settings = TypeVar("Settings", Config, Sweep)


def _read(kind: type[Settings], name: str) -> Settings:
    """Read a configuration or a sweep, or end with what is wrong with it."""
    with explained(name, kind):
        return kind.from_toml(name) if name.endswith(".toml") else kind.named(name)


@contextmanager
def _executor(where: Where, scheduler: str | None) -> Iterator[Executor | None]:
    """Make the executor, shut down when the run ends."""
    if scheduler:
        try:
            from distributed import Client, KilledWorker
        except ImportError:
            fail("--scheduler needs Dask: pip install 'lwcore[cluster]'")
        with Client(scheduler, timeout="10s", set_as_default=False) as client:
            err.print(f"Dashboard: {client.dashboard_link}")
            try:
                yield client.get_executor()
            except KilledWorker as error:
                raise RuntimeError(str(error)) from error
    elif where is Where.processes:
        from lwcore.experiment import processes

        with processes() as pool:
            yield pool
    else:
        yield None


def _integers(name: str, given: list[str] | None) -> list[int] | None:
    """Read integers, separated by commas or given one by one."""
    if given is None:
        return None
    try:
        return [int(part) for some in given for part in some.split(",")]
    except ValueError:
        raise ValueError(f"{name} = {','.join(given)!r}: must be integers with commas between them, as in 1,5,10.") from None


def _figure_endings() -> list[str]:
    """The endings of files that a figure can be written to."""
    from matplotlib.backend_bases import FigureCanvasBase

    return list(FigureCanvasBase.get_supported_filetypes())


def _draw(plot: Callable[[], Figure], path: Path) -> None:
    """Draw a figure into a file, or end with why not."""
    import matplotlib as mpl

    from lwcore import figures, results

    figures.use_book_style()
    mpl.rcParams["figure.facecolor"] = mpl.rcParams["savefig.facecolor"] = "white"  # a file may be looked at on any ground
    with interruptible("Interrupted before the figure was drawn."):
        try:
            results.check_writable("figure", path, _figure_endings())
            results.write_atomically(path, lambda part: plot().savefig(part, dpi=150, format=path.suffix[1:].lower()))
        except (OSError, ValueError) as error:
            fail(str(error) if str(error).startswith("figure = ") else f"figure = {str(path)!r}: {error}")
