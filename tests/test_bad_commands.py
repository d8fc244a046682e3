"""Bad command lines and bad files: status 2, one message that names what is wrong, no traceback,
and nothing written or run.

Files are made once, in a folder that is read only by habit; a command runs in it.
"""

import os
import re
from pathlib import Path

import h5py
import pytest
from typer.testing import CliRunner

import lwcore
from lwcore import cli
from lwcore.cli import app

SMOKE = (Path(lwcore.__file__).parent / "configs" / "smoke.toml").read_bytes()
POINT = b'base = "smoke"\n[[axes.a]]\nlabel = 1\nchanges.task.lenght = 30'


# A configuration each, and what must be said of it.
TOML = {
    "misspelt": (SMOKE.replace(b"noise", b"nose"), r"task\.nose: .*not permitted \(given: 0\.3\)"),
    "own-base": (b'base = "own-base.toml"', r"recursion depth exceeded"),
    "bad-point": (POINT, r"task\.lenght: Extra"),
}
LINES = {
    **{f"run {name}.toml --directory out": says for name, (_, says) in TOML.items()},
    "run nonsense": "name = 'nonsense': must be one of",
    "run pipe.toml": "path = 'pipe.toml': must be a file",
    "run smoke --directory text.txt": "(File exists|Not a directory): '.*text.txt",
    "run smoke --scheduler tcp://127.0.0.1:1": "scheduler = 'tcp://127.0.0.1:1': no Dask scheduler",
    "run smoke --scheduler a:1 --executor processes": "executor = 'processes': must be left out",
    "show nothing.nc": "path = 'nothing.nc': there is no such result file",
    "show plain.h5": "path = 'plain.h5': must be a result of this package",
    "show damaged.nc": "path = 'damaged.nc': not a whole result file",
    "claims --ledger empty.json": r"empty\.json: not a ledger .*must be a list",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the files that the lines name."""
    folder = tmp_path_factory.mktemp("files")
    for name, (content, _) in TOML.items():
        (folder / f"{name}.toml").write_bytes(content)
    (folder / "text.txt").write_text("a few words")
    (folder / "empty.json").write_text("{}")
    os.mkfifo(folder / "pipe.toml")
    (folder / "damaged.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100)
    with h5py.File(folder / "plain.h5", "w") as file:
        file["a"] = 1.0
    return folder


def tree(folder):
    """Every file below a folder, with its size and time of change."""
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.parametrize("line", LINES)
def test_bad_commands_are_explained_and_write_nothing(line, here, monkeypatch):
    monkeypatch.chdir(here)
    monkeypatch.setattr(cli, "PATIENCE", 0.5)
    before = tree(here)
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "1000", "TERM": "dumb"})
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 2
    unframed = " ".join(re.sub("[│╭╮╰╯─]", " ", result.output).split())
    assert re.search(LINES[line], unframed)
    assert "Traceback" not in result.output
    assert tree(here) == before
