"""The house around the package: its lock, its wheel, and that a notebook test can fail."""

import json
import re
import shutil
import socket
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml

from tests.built_book import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = sorted(
    {
        re.match(r"[\w.-]+", requirement)[0]
        for group in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
        for requirement in group
    }
)
LOCK = (ROOT / "constraints.txt").read_text().splitlines()


def locked(name):
    """Versions the lock gives a package, one for each range of Python versions."""
    return {line.partition("==")[2].partition(" ;")[0] for line in LOCK if line.startswith(f"{name}==")}


@pytest.mark.parametrize("name", DIRECT)
def test_dependency_is_locked_and_explained(name):
    assert locked(name)
    assert (ROOT / "CONTRIBUTING.md").read_text().count(f"\n| `{name}` |") == 1


def test_nothing_needs_the_network():
    with pytest.raises(PermissionError, match="nothing may need the network"), socket.socket() as leaving:
        leaving.connect(("192.0.2.1", 80))  # an address that documentation may use, and nobody has


def test_lock_holds_nothing_but_released_versions():
    assert [line for line in LOCK if not re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [^+:@]+)?", line)] == []
    assert [line for line in LOCK if line.startswith(("cuda-", "nvidia-", "triton"))] == []


def test_conda_environment_carries_the_same_pins():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pins = dict(entry.split("=") for entry in conda if isinstance(entry, str) and "=" in entry)
    assert pins.pop("python") == "3.11"
    assert {"numpy", "scipy", "pytorch-cpu"} == pins.keys()
    for name, version in pins.items():
        assert version in locked(name.replace("pytorch-cpu", "torch"))
    assert conda[-1] == {"pip": ["-c constraints.txt", "-e .[book,test]"]}


def test_wheel_ships_types_configurations_and_the_command(tmp_path):
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True, capture_output=True)
    wheel = zipfile.ZipFile(next(tmp_path.glob("*.whl")))
    shipped = set(wheel.namelist())
    assert {path.relative_to(ROOT).as_posix() for path in ROOT.glob("lwcore/**/*") if path.suffix in (".py", ".toml", ".typed")} <= shipped
    assert {"lwcore/py.typed", "lwcore/configs/quick.toml"} <= shipped
    assert not any(name.startswith(("tests/", "book/")) for name in shipped)
    assert "lw = lwcore.entry:main" in wheel.read(f"lwcore-{PROJECT['version']}.dist-info/entry_points.txt").decode()


def test_names_on_the_notation_page_are_those_of_the_code():
    rows = [line.split(" | ") for line in (ROOT / "book" / "notation.md").read_text().splitlines() if line.startswith("| ")]
    names = {name for row in rows for code in re.findall(r"`([^`]+)`", row[-1]) for name in re.findall(r"[A-Za-z_]{2,}", code)}
    source = "".join(path.read_text() for path in ROOT.glob("lwcore/**/*.py"))
    assert len(names) > 20
    assert {name for name in names if not re.search(rf"\b{name}\b", source)} == set()


NOTEBOOK = """---
kernelspec:
  display_name: Python 3
  name: python3
---

```{code-cell} ipython3
:tags: [nbval-check-output]

SOURCE
```
"""


@pytest.fixture
def notebook(tmp_path):
    """Give a function that runs a one-cell notebook under this project's collector and returns (exit status, output)."""
    references = tmp_path / "tests" / "reference_outputs"
    for name in ("conftest.py", "constraints.txt", "book/_ext/executed.py", "tests/reference_outputs/sanitize.cfg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(source, *options):
        (tmp_path / "book" / "one.md").write_text(NOTEBOOK.replace("SOURCE", source))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "book/one.md", *options], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    run.recorded = references / "one.json"
    run.log = tmp_path / "_build" / "executions.jsonl"
    return run


def test_notebook_without_a_reference_fails(notebook):
    status, output = notebook("print(1.25)")
    assert status == 1
    assert "no output was recorded" in output


@pytest.mark.parametrize(("recorded", "status"), [("0.3333333333\n", 0), ("0.3333339999\n", 0), ("0.3343333333\n", 1), ("", 1)])
def test_notebook_is_compared_with_its_reference(notebook, recorded, status):
    assert notebook("print(1 / 3)", "--refresh-references")[0] == 0
    reference = json.loads(notebook.recorded.read_text())
    (outputs,) = reference.values()
    assert outputs[0]["text"].startswith("0.333333")
    outputs[0]["text"] = recorded
    notebook.recorded.write_text(json.dumps(reference))
    assert notebook("print(1 / 3)")[0] == status
    assert len(notebook.log.read_text().splitlines()) == 1, "the second test used what the first had executed"


def test_notebook_that_raises_fails(notebook):
    status, output = notebook("1 / 0")
    assert status == 1
    assert "ZeroDivisionError" in output


def test_explained_mutants_are_of_lines_that_stand():
    for entry in tomllib.loads((ROOT / "tests" / "mutation" / "explained.toml").read_text())["survivor"]:
        assert entry["line"] in [line.strip() for line in (ROOT / entry["module"]).read_text().splitlines()]
        assert entry["kind"] in ("equivalent", "tolerance", "performance")
        assert entry["why"]
