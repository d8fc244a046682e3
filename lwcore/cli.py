"""The command line ``lw``: list · run · show · claims. Most do without PyTorch."""

from __future__ import annotations

import asyncio
import re
import socket
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError
from typer import Argument, Option
from typer.core import TyperGroup

from lwcore import __version__, program
from lwcore.experiment.config import Config, shipped
from lwcore.signatures import require

Drawn = Annotated[Path | None, Option(help="Draw it here; the ending chooses the format.")]
PATIENCE = 10  # seconds, for a Dask scheduler that answers
# Errors whose words are for the user. Others are faults of ours, and are shown with their trace.
_WITH_MESSAGE = (
    ValueError,
    TypeError,
    OSError,
    RuntimeError,
    ArithmeticError,
    MemoryError,
    ImportError,
    Warning,
)


class _Commands(TyperGroup):
    """Commands that end with status 2 and the words of an error, or with 130 when interrupted."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print a warning or an error as words, without the place in the code."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _echo_warning
                return super().invoke(ctx)
        except (typer.Exit, BrokenPipeError):  # errors by their kind, and not ours: Typer ends them
            raise
        except BaseException as error:
            # A library may have made another error of the interrupt.
            if isinstance(error, KeyboardInterrupt) or program.was_interrupted:
                typer.echo(program.INTERRUPTED, err=True)
                raise typer.Exit(program.STATUS) from None
            if isinstance(error, ValidationError):
                message = "; ".join(map(_fault, error.errors()))
            elif isinstance(error, _WITH_MESSAGE):
                message = str(error) or type(error).__name__
            else:
                raise
        typer.echo(message, err=True)
        raise typer.Exit(2)


def _fault(details: Any) -> str:
    """Say which setting is wrong, why, and what was given, from pydantic's details of a fault."""
    setting = ".".join(map(str, details["loc"]))
    return f"{setting}: {details['msg']} (given: {details['input']!r:.50})"


def _echo_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line on standard error."""
    typer.echo(f"Warning: {message}", err=True)


app = typer.Typer(
    cls=_Commands,
    help="Learnability windows of gated recurrent networks: run and read experiments.",
    no_args_is_help=True,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    """Print the version and end, where the option asks for it."""
    if wanted:
        typer.echo(f"lw {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command("list")
def list_shipped() -> None:
    """List the configurations that ship with the package."""
    for name in shipped():
        typer.echo(f"{name:24}{Config.named(name).description}")


@app.command()
def run(
    name: Annotated[str, Argument(help="A name from `lw list`, or the path of a TOML file.")],
    resume: Annotated[bool, Option(help="Use what an earlier run has left.")] = True,
    executor: Annotated[Literal["here", "processes"], Option(help="One, or one a core.")] = "here",
    scheduler: Annotated[str | None, Option(help="Address of a Dask scheduler.")] = None,
    directory: Annotated[Path, Option(help="Folder of the results.")] = Path("results"),
) -> None:
    """Train and measure every network of a configuration, and store the result."""
    config = Config.named(name)
    if scheduler is not None:
        require("executor", executor, executor == "here", "left out beside --scheduler")
        _check_scheduler(scheduler)
    from lwcore.experiment import process_pool
    from lwcore.experiment import run as run_config

    with ExitStack() as stack:
        pool = None
        if scheduler is not None:
            client = _dask_client(scheduler)
            stack.enter_context(client)
            typer.echo(f"Dashboard: {client.dashboard_link}", err=True)
            pool = client.get_executor()
        elif executor == "processes":
            pool = stack.enter_context(process_pool())
        stack.enter_context(program.interruptible())
        result = run_config(config, pool, resume, directory)
    revision = result.attrs["revision"]
    typer.echo(f"{directory / config.name}.nc: the result, made by revision {revision}.")


@app.command()
def show(path: Annotated[Path, Argument(help="A result file.")], figure: Drawn = None) -> None:
    """Print what a result file holds, a diagnosis too: what was found, and its provenance."""
    from lwcore import results

    if figure is not None:
        _require_drawable(figure)
    data = results.load(path)
    try:
        if "measured_on" in data.attrs:
            _show_diagnosis(data, figure)
        else:
            _show_run(path, data, figure)
    except (AttributeError, KeyError) as error:  # of xarray, for a variable that is not there
        raise _incomplete(path, error) from error


def _incomplete(path: Path, error: Exception) -> ValueError:
    """Return the refusal of a file that holds less than a result does, or something else."""
    return ValueError(f"path = {str(path)!r}: lacks something that a whole result has ({error}).")


def _show_diagnosis(data: Any, figure: Path | None) -> None:
    """Print the answer of a diagnosis, and below it what made it; draw it if a file is named."""
    from lwcore.diagnose import Diagnosis
    from lwcore.results import environment

    diagnosis = Diagnosis(data)
    typer.echo(f"{diagnosis}\n")
    for key in ("fingerprint", *environment()):
        typer.echo(f"{key}: {data.attrs[key]}")
    _draw(diagnosis.plot, figure)


def _show_run(path: Path, data: Any, figure: Path | None) -> None:
    """Print what made a run or a sweep, and the errors of a run's networks.

    An error is also printed as a share of the target's variance, which is that of a constant. The
    run is drawn if a file is named; a sweep is not.
    """
    from lwcore import figures
    from lwcore.tables import summary

    is_run = "step" in data.dims  # and no sweep
    has_figure = figure is None or is_run
    require("figure", str(figure), has_figure, "left out: a sweep is drawn by the book alone")
    for key, value in data.attrs.items():
        typer.echo(f"{key}: {value}")
    if is_run:
        try:
            share = data.test_loss / data.target_variance
            columns = {"error": data.test_loss, "share of the variance": share}
            table = summary(columns, ("model",), {"share of the variance": "share"})
        except (TypeError, ValueError) as error:  # as of text in the place of numbers
            raise _incomplete(path, error) from error
        typer.echo(table.to_string())
        _draw(lambda: figures.overview(data), figure)


@app.command()
def claims(
    id: Annotated[list[str] | None, Option(help="Only this claim, in full; repeat it.")] = None,
    ledger: Annotated[Path | None, Option(help="The ledger.json of another build.")] = None,
) -> None:
    """Give the verdict on every claim of the papers, as the book's last build measured it."""
    try:
        from book.claims import ledger as book
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "book":
            raise
        raise RuntimeError(
            "The ledger of claims belongs to the book, and is not installed with the package: "
            "clone the book's repository, run `make book` in it, and call its .venv/bin/lw claims."
        ) from None

    outcomes = book.read(ledger or book.BUILT)
    if id:
        for name in id:
            require("id", name, name in outcomes, f"one of {', '.join(outcomes)}")
            typer.echo(book.in_full(outcomes[name]))
    else:
        for name, outcome in outcomes.items():
            claim = outcome.claim
            number = outcome.measured[claim.telling(outcome.measured)]
            typer.echo(f"{name}: {outcome.verdict}: {number} ({claim.place})")
    listed = [outcomes[name] for name in id or outcomes]
    for verdict, count in book.counts(listed).items():
        typer.echo(f"{count:4d} {verdict}")


def _check_scheduler(address: str) -> None:
    """Refuse, at once and in words, an address at which nothing answers.

    Dask itself tries for many seconds, and prints where in its code it gave up.
    """
    # protocol://host:port, where a host of IPv6 stands in brackets
    parts = re.fullmatch(r"(?:(\w+)://)?(\[[0-9a-fA-F:.]+\]|[^:/\s\[\]]+):(\d{1,5})/?", address)
    requirement = "the address of a Dask scheduler, as in tcp://127.0.0.1:8786"
    require("scheduler", address, parts is not None, requirement)
    protocol, host, port_in_text = parts.groups() if parts else ("", "", "")
    port = int(port_in_text)
    require("scheduler", address, port < 2**16, f"{requirement}, whose port is below {2**16}")
    require("scheduler", address, protocol in (None, "tcp", "tls"), "reached by tcp:// or tls://")
    try:
        socket.create_connection((host.strip("[]"), port), timeout=5).close()
    except OSError as error:
        raise ConnectionError(
            f"scheduler = {address!r}: nothing answers there ({error})."
        ) from None


def _dask_client(address: str) -> Any:
    """Connect to a Dask scheduler; refuse in words what answers and is none.

    It is asked first by a connection of its own, which gives up after `PATIENCE` seconds.
    """
    try:
        from distributed import Client, Security
        from distributed.core import connect
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"--scheduler needs Dask ({error}): pip install 'lwcore[cluster]'."
        ) from None

    async def greet() -> None:
        """Connect and close. A client that cannot would try on in threads, and print where."""
        arguments = Security().get_connection_args("client")
        connection = await asyncio.wait_for(connect(address, **arguments), PATIENCE)
        await connection.close()

    try:
        asyncio.run(greet())
    except Exception as error:  # whatever comes of talking to something else
        raise ConnectionError(
            f"scheduler = {address!r}: what answers there is no Dask scheduler, or one of another "
            f"version ({type(error).__name__}: {error})."
        ) from None
    return Client(address, timeout=PATIENCE, set_as_default=False)


def _require_drawable(path: Path) -> None:
    """Refuse, before any work, a path to which no figure can be written."""
    from matplotlib.backend_bases import FigureCanvasBase

    # PGF is drawn by a TeX that may be missing.
    known = sorted(set(FigureCanvasBase.get_supported_filetypes()) - {"pgf"})
    ending = path.suffix.removeprefix(".").lower()
    require("figure", str(path), ending in known, f"a file that ends in one of {', '.join(known)}")
    require("figure", str(path), path.parent.is_dir(), "in a folder that exists")
    require("figure", str(path), not path.is_dir(), "a file, and no folder")


def _draw(plot: Callable[[], Any], path: Path | None) -> None:
    """Draw a figure into a file, if one is named, on white: it may be seen on any ground."""
    if path is None:
        return
    from lwcore.results import write_atomically

    ending = path.suffix.removeprefix(".").lower()
    options: Any = {"format": ending, "dpi": 150, "facecolor": "white"}
    with program.interruptible():
        from lwcore.figures import use_book_style

        use_book_style()
        figure = plot()
        write_atomically(path, lambda temporary: figure.savefig(temporary, **options))
