"""Bad command lines and bad files: status 2, one message that names what is wrong, no traceback,
and nothing written or run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr
from typer.testing import CliRunner

from lwcore import results
from lwcore.cli import app
from lwcore.config import Config
from tests.commands import LINES, make_files

SECONDS = 60  # against hanging, not a speed


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


def tree(folder):
    """Every file below a folder, with its size and time of change."""
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


def typed(line, here):
    return [argument.format(here=here) for argument in line.arguments]


def problems(output, line):
    """What is wrong with a message."""
    flat = " ".join(re.sub("[│╭╮╰╯─]", " ", output).split())
    return [pattern for pattern in line.says if not re.search(pattern, flat)] + (
        ["no traceback"] if "Traceback" in output else []
    )


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.label)
def test_bad_commands_are_explained_and_write_nothing(line, here, monkeypatch):
    monkeypatch.chdir(here)
    before = tree(here)

    def too_long(*_):
        raise TimeoutError(f"no answer within {SECONDS} s")

    previous = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        result = CliRunner().invoke(app, typed(line, here), env={"COLUMNS": "1000", "TERM": "dumb"})
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(
        result.exception
    )
    assert (result.exit_code, problems(result.output, line)) == (2, []), result.output[:2000]
    assert tree(here) == before


def test_unreadable_files_have_lines_unless_root_types_them():
    assert any("unreadable" in line.label for line in LINES) == (os.geteuid() != 0)


@pytest.mark.parametrize("command", ["run", "show"])  # the others load much before they answer
def test_a_bad_command_ends_so_in_a_process_of_its_own(command, here):
    line = next(one for one in LINES if one.arguments[0] == command and len(one.arguments) > 1)
    before = tree(here)
    done = subprocess.run(
        [sys.executable, "-c", "from lwcore.cli import app; app()", *typed(line, here)],
        capture_output=True,
        text=True,
        cwd=here,
        timeout=120,
    )
    assert (done.returncode, done.stdout, problems(done.stderr, line)) == (2, "", [])
    assert tree(here) == before


def test_unicode_names_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "größe und länge · 長さ.toml"
    path.write_text(Path(results.__file__).with_name("configs").joinpath("smoke.toml").read_text())
    assert Config.from_toml(path) == Config.named("smoke")
    stored = tmp_path / "ergebnis · 結果.nc"
    results.save(xr.Dataset(attrs={"fingerprint": "0" * 12}), stored)
    assert results.load(stored).attrs["fingerprint"] == "0" * 12


def test_results_are_read_through_a_link_and_never_written_through_it(tmp_path):
    """A result that is a link out of the folder is what somebody has put there to read; a new one
    takes the link's place."""
    outside, link = tmp_path / "outside.nc", tmp_path / "results" / "smoke.nc"
    link.parent.mkdir()
    results.save(xr.Dataset({"a": 1.0}, attrs={"fingerprint": "0" * 12}), outside)
    link.symlink_to(outside)
    assert results.load(link).a == 1
    kept = outside.read_bytes()
    results.save(xr.Dataset({"a": 2.0}, attrs={"fingerprint": "0" * 12}), link)
    assert outside.read_bytes() == kept
    assert not link.is_symlink()
    assert results.load(link).a == 2
