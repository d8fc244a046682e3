"""What importing the package costs, counted in modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "matplotlib", "pandas", "xarray", "rich", "typer"}


def loaded_by(statement):
    """Names of the top-level packages that a statement imports in a fresh interpreter."""
    code = f"import sys; {statement}; print(' '.join({{name.partition('.')[0] for name in sys.modules}}))"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_package_itself_imports_nothing():
    assert not loaded_by("import lwcore") & (HEAVY | {"numpy", "scipy"})


@pytest.mark.parametrize(
    "module", ["stable", "detection", "window", "elman.descent", "elman.kernel", "elman.bounds"]
)
def test_theory_half_knows_nothing_of_networks(module):
    loaded = loaded_by(f"import lwcore.{module}")
    assert "numpy" in loaded
    assert not loaded & HEAVY


def test_command_line_answers_without_pytorch():
    assert "torch" not in loaded_by("import lwcore.cli")
