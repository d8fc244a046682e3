"""Bad command lines and bad files: status 2, one message that names what is wrong, no traceback,
and nothing written or run.

Files are made once, in a folder that is read only by habit; a command runs in it.
"""

import os
import re
from pathlib import Path

import h5py
import pytest
import xarray as xr
from typer.testing import CliRunner

import lwcore
from lwcore import results
from lwcore.cli import app

SMOKE = (Path(lwcore.__file__).parent / "configs" / "smoke.toml").read_bytes()
POINT = b'base = "smoke"\n[[axes.a]]\nlabel = 1\nchanges.task.lenght = 30'


# A configuration each, and what must be said of it.
TOML = {
    "misspelt": (SMOKE.replace(b"noise", b"nose"), r"task\.nose: .*not permitted \(given: 0\.3\)"),
    "twice": (SMOKE.replace(b"[network]", b"noise = 1\n[network]"), "not valid TOML .*overwrite"),
    "no-utf-8": (b"# \xff\n" + SMOKE, "not valid TOML .*0xff"),
    "empty": (b"", "name: Field required"),
    "deep": (b"a = " + b"[" * 20_000, r"deep\.toml.*not valid TOML \(.*recursion"),
    "huge": (b"a = " + b"9" * 5000, r"huge\.toml.*not valid TOML \(Exceeds the limit"),
    "number-with-unit": (SMOKE.replace(b"= 0.3", b'= "3 %"'), r"noise: .*number \(given: '3 %'\)"),
    "unknown-base": (b'base = "x"', "base = 'x': must be one of"),
    "no-base": (b"base = 3", "base = 3: must be text"),
    "bad-base": (b'base = "gone.toml"', r"base = '.*gone\.toml': there is no such file"),
    "own-base": (
        b'base = "own-base.toml"',
        r"must not lead back to itself \(own-base.toml → own-base.toml\)",
    ),
    "bad-axis": (
        b'base = "smoke"\n[[axes.loss]]\nlabel = 1\nchanges = {}',
        "axes = .'loss'.: must",
    ),
    "bad-point": (POINT, r"task\.lenght: Extra"),
}

ROOT = os.geteuid() == 0  # to whom every file is readable
NOT_MADE = "(File exists|Not a directory): '.*"
LINES = {
    **{f"run {name}.toml --directory out": says for name, (_, says) in TOML.items()},
    "run": "Missing argument",
    "run nonsense": "name = 'nonsense': must be one of",
    "run ../configs/smoke": r"name = '\.\./configs/smoke': must be one of",
    "run nothing.toml": "No such file.*nothing.toml",
    "run pipe.toml": "path = 'pipe.toml': must be a file",
    "run smoke --executor moon": "--executor.*'moon'.*'here'",
    "run smoke --speed 3": "No such option.*--speed",
    "run smoke --directory text.txt": f"{NOT_MADE}text.txt",
    "run smoke --scheduler garbage": "scheduler = 'garbage': must be the address of a Dask sched",
    "run smoke --scheduler=": "scheduler = '': must be the address",
    "run smoke --scheduler tcp://127.0.0.1:99999": "address .* whose port is below 65536",
    "run smoke --scheduler ftp://127.0.0.1:1": "must be reached by tcp:// or tls://",
    "run smoke --scheduler 127.0.0.1:1": "scheduler = '127.0.0.1:1': nothing answers there",
    "run smoke --scheduler a:1 --executor processes": "executor = 'processes': must be left out",
    "show nothing.nc": "path = 'nothing.nc': there is no such result file",
    "show text.txt": "path = 'text.txt': not a whole result file",
    "show plain.h5": "path = 'plain.h5': must be a result of this package",
    "show damaged.nc": "path = 'damaged.nc': not a whole result file",
    "show part.nc": "path = 'part.nc': lacks something that a whole result has .*test_loss",
    "show texts.nc": r"path = 'texts.nc': lacks something that a whole result has \(",
    "show one-model.nc": r"path = 'one-model.nc': lacks something that a whole result has \(.*model",
    "show nothing.nc --figure found.xyz": r"figure = 'found\.xyz': must be a file that ends in one of",
    "show nothing.nc --figure found.pgf": r"figure = 'found\.pgf': must be a file that ends in one of",
    "show nothing.nc --figure found": "figure = 'found': must be a file that ends in one of",
    "show nothing.nc --figure gone/a.png": "figure = 'gone/a.png': must be in a folder that exists",
    "diagnose --checkpoint weights.pt": "No such command 'diagnose'",
    "claims --ledger nothing": "nothing: no ledger",
    "claims --ledger text.txt": "text.txt: not a ledger",
    "claims --ledger empty.json": r"empty\.json: not a ledger .*must be a list",
} | ({} if ROOT else {"run unreadable.toml": "Permission denied.*unreadable.toml"})


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the files that the lines name."""
    folder = tmp_path_factory.mktemp("files")
    for name, (content, _) in TOML.items():
        (folder / f"{name}.toml").write_bytes(content)
    (folder / "text.txt").write_text("a few words")
    (folder / "empty.json").write_text("{}")
    os.mkfifo(folder / "pipe.toml")
    (folder / "unreadable.toml").touch(0)
    (folder / "damaged.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100)
    part = xr.Dataset({"loss": (("model", "step"), [[1.0]])}, {"model": ["GRU"]})
    results.save(part.assign_attrs(fingerprint="0"), folder / "part.nc")
    texts = part.assign(test_loss=("model", ["a"]), target_variance=("model", [1.0]))
    results.save(texts.assign_attrs(fingerprint="0"), folder / "texts.nc")
    numbers = part.assign(test_loss=("model", [1.0]), target_variance=("model", [1.0]))
    one_model = numbers.isel(model=0, drop=True).assign_attrs(fingerprint="0")
    results.save(one_model, folder / "one-model.nc")
    with h5py.File(folder / "plain.h5", "w") as file:
        file["a"] = 1.0
    return folder


def tree(folder):
    """Every file below a folder, with its size and time of change."""
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.parametrize("line", LINES)
def test_bad_commands_are_explained_and_write_nothing(line, here, monkeypatch):
    monkeypatch.chdir(here)
    before = tree(here)
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "1000", "TERM": "dumb"})
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 2
    unframed = " ".join(re.sub("[│╭╮╰╯─]", " ", result.output).split())
    assert re.search(LINES[line], unframed)
    assert "Traceback" not in result.output
    assert tree(here) == before
