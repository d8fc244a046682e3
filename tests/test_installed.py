"""The wheel, installed where nobody has the repository: what each extra brings is enough."""

import email
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lwcore import __version__
from tests.built_book import ROOT

ASKS = """
import lwcore
from lwcore import detection, elman, printing, stable, stats, window
print(hasattr(lwcore, "cells"), hasattr(lwcore, "stable"), detection.rate_exponent(2.0))
help(lwcore)
import lwcore.cells
"""
# one network is enough to be compiled for: what it learns is tried elsewhere
ONE = """
base = "smoke"
name = "one"
models = ["ConstGate"]
seeds = [1]
training.steps = 1
measured = false
"""


def requirements(name, wheel):
    """What a distribution asks for; of this package, what its wheel says."""
    if canonicalize_name(name) != "lwcore":
        return distribution(name).requires or []
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(path)).get_all("Requires-Dist")


def needed(line, wheel):
    """All distributions that a requirement leads to, but for this package itself."""
    found, waiting = set(), [Requirement(line)]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        asked = {(name, extra) for extra in requirement.extras or {""}}
        for _, extra in asked - found:
            for part in map(Requirement, requirements(name, wheel)):
                if part.marker is None or part.marker.evaluate({"extra": extra}):
                    waiting.append(part)
        found |= asked
    return {name for name, _ in found} - {"lwcore"}


def link(names, site_packages):
    """Lay installed distributions into another environment, without the network."""
    for name in names:
        files = distribution(name).files
        tops = {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            target = Path(distribution(name).locate_file(top))
            if not (site_packages / top).exists():
                (site_packages / top).symlink_to(target)


def lend_compiled(site_packages):
    """Lay the kernels that were compiled for this checkout into another installation, which would
    compile them for half a minute; Numba takes them where the source has the same time."""
    here, there = ROOT / "lwcore" / "cells", site_packages / "lwcore" / "cells"
    shutil.copystat(here / "kernels.py", there / "kernels.py")
    (there / "__pycache__").mkdir(exist_ok=True)
    for compiled in (here / "__pycache__").glob("kernels.*.nb*"):
        shutil.copy(compiled, there / "__pycache__")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_what_each_extra_brings_is_enough_without_a_checkout(wheel, tmp_path):
    """The theory works with its own dependencies; with all others a configuration runs."""
    theory = needed("lwcore", wheel)
    everything = needed("lwcore[all]", wheel)
    assert not {"torch", "pandas", "numba", "xarray"} & theory
    assert {"torch", "numba", "pydantic", "matplotlib"} <= everything
    venv.create(tmp_path / "env", with_pip=False)
    programs = tmp_path / "env" / "bin"
    (site_packages,) = tmp_path.glob("env/lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site_packages)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*arguments):
        command = [str(programs / "python"), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    link(theory, site_packages)
    asked = run("-c", ASKS)
    assert asked.stdout.startswith("False True 2.0\n"), asked.stdout + asked.stderr
    assert "No module named 'torch'" in asked.stderr

    link(everything, site_packages)
    lend_compiled(site_packages)
    (tmp_path / "one.toml").write_text(ONE)
    done = run("-c", "from lwcore.cli import app; app()", "run", "one.toml", "--directory", "made")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "made" / "one.nc").is_file()


def test_wheel_ships_types_configurations_and_the_command(wheel):
    archive = zipfile.ZipFile(wheel)
    shipped = set(archive.namelist())
    files = [path for path in ROOT.glob("lwcore/**/*") if path.suffix in (".py", ".toml", ".typed")]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= shipped
    assert {"lwcore/py.typed", "lwcore/configs/quick.toml"} <= shipped
    assert not any(name.startswith(("tests/", "book/")) for name in shipped)
    entry_points = archive.read(f"lwcore-{__version__}.dist-info/entry_points.txt")
    assert b"lw = lwcore.cli:app" in entry_points
