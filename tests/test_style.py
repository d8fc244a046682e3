"""Lint, format and types, beside the other tests."""

import subprocess
import sys

import pytest

from tests.built_book import ROOT


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "mypy"])
def test_style(command):
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
