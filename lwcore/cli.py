"""The command line ``lw``: list · run · show · claims. Most do without PyTorch."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError
from typer import Argument, Option
from typer.core import TyperGroup

from lwcore import __version__
from lwcore.experiment.config import Config, shipped
from lwcore.printing import write_legibly
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
        for stream in (sys.stdout, sys.stderr):
            write_legibly(stream)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _echo_warning
                return super().invoke(ctx)
        except (typer.Exit, BrokenPipeError):  # errors by their kind, and not ours: Typer ends them
            raise
        except KeyboardInterrupt:
            typer.echo("Interrupted. `lw run` takes up what it has left unfinished.", err=True)
            raise typer.Exit(130) from None  # 128 and the signal's number, as shells have it
        except ValidationError as error:
            message = "; ".join(map(_fault, error.errors()))
        except _WITH_MESSAGE as error:
            message = str(error) or type(error).__name__
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
    from lwcore.experiment import process_pool
    from lwcore.experiment import run as run_config
    from lwcore.network import keep_freed_memory

    keep_freed_memory()
    with ExitStack() as stack:
        pool = None
        if scheduler is not None:
            client = _dask_client(scheduler)
            stack.enter_context(client)
            typer.echo(f"Dashboard: {client.dashboard_link}", err=True)
            pool = client.get_executor()
        elif executor == "processes":
            pool = stack.enter_context(process_pool())
        result = run_config(config, pool, resume, directory)
    revision = result.attrs["revision"]
    typer.echo(f"{directory / config.name}.nc: the result, made by revision {revision}.")


@app.command()
def show(path: Annotated[Path, Argument(help="A result file.")], figure: Drawn = None) -> None:
    """Print what a result file holds, a diagnosis too: what was found, and its provenance."""
    from lwcore import results

    data = results.load(path)
    is_diagnosis = "measured_on" in data.attrs
    is_drawn = is_diagnosis or "step" in data.dims
    requirement = "left out: a sweep is drawn by the book alone"
    require("figure", str(figure), figure is None or is_drawn, requirement)
    try:
        plot = _show_diagnosis(data) if is_diagnosis else _show_run(data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # where a part is missing
        raise ValueError(f"path = {str(path)!r}: not a whole result ({error!r}).") from error
    if figure is not None:
        _draw(plot, figure)


def _show_diagnosis(data: Any) -> Callable[[], Any]:
    """Print the answer of a diagnosis, and below it what made it; return what draws it."""
    from lwcore.diagnose import Diagnosis
    from lwcore.results import environment

    diagnosis = Diagnosis(data)
    typer.echo(f"{diagnosis}\n")
    for key in ("fingerprint", *environment()):
        typer.echo(f"{key}: {data.attrs[key]}")
    return diagnosis.plot


def _show_run(data: Any) -> Callable[[], Any]:
    """Print what made a run or a sweep, and the errors of a run's networks; return what draws them.

    An error is also printed as a share of the target's variance, which is that of a constant.
    """
    from lwcore.stats import span

    for key, value in data.attrs.items():
        typer.echo(f"{key}: {value}")
    if "step" in data.dims:  # a run, and no sweep
        share = data.test_loss / data.target_variance
        for model in data.model.values:
            error = span(data.test_loss.sel(model=model))
            of_variance = span(share.sel(model=model), "share")
            typer.echo(f"{model}: error {error}; share of the variance {of_variance}")

    def overview() -> Any:
        from lwcore import figures  # here: where matplotlib fails, the file is sound

        return figures.overview(data)

    return overview


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
            typer.echo(f"{name}: {outcome.verdict}: {claim.says} ({claim.place})")
    listed = [outcomes[name] for name in id or outcomes]
    for verdict, count in book.counts(listed).items():
        typer.echo(f"{count:4d} {verdict}")


def _dask_client(address: str) -> Any:
    """Connect to a Dask scheduler."""
    from distributed import Client

    try:
        return Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"scheduler = {address!r}: no Dask scheduler ({error}).") from None


def _draw(plot: Callable[[], Any], path: Path) -> None:
    """Draw a figure into a file, on white: it may be seen on any ground."""
    from lwcore.figures import use_book_style
    from lwcore.results import write_atomically

    ending = path.suffix.removeprefix(".").lower()
    options: Any = {"format": ending, "dpi": 150, "facecolor": "white"}
    use_book_style()
    figure = plot()
    write_atomically(path, lambda temporary: figure.savefig(temporary, **options))
