"""The house around the package: its lock, what it imports, and that a notebook test can fail."""

import hashlib
import json
import re
import shutil
import socket
import subprocess
import sys

import pytest
import yaml

from tests.built_book import ROOT

LOCK = (ROOT / "constraints.txt").read_text().splitlines()


def locked(name):
    """Versions the lock gives a package, one for each range of Python versions."""
    return {
        line.partition("==")[2].partition(" ;")[0] for line in LOCK if line.startswith(f"{name}==")
    }


THEORY = ["stats", "stable", "detection", "window", "elman.descent", "elman.kernel", "elman.bounds"]
HEAVY = {"torch", "matplotlib", "pandas", "xarray", "rich", "typer", "scipy.stats"}
STEPS = {"lwcore": HEAVY | {"numpy", "scipy"}}
STEPS |= {f"lwcore.{name}": HEAVY | {"scipy.optimize"} for name in THEORY}
STEPS |= {"lwcore.cli": {"torch"}}


def test_importing_modules_one_by_one_loads_no_more_than_they_need():
    """What is loaded stays: a module is seen beside those before it, which need no more than it."""
    code = "".join(f"import {module}\nprint(*sys.modules)\n" for module in STEPS)
    printed = subprocess.check_output([sys.executable, "-c", f"import sys\n{code}"], text=True)
    for (module, without), line in zip(STEPS.items(), printed.splitlines(), strict=True):
        loaded = set(line.split())
        assert module in loaded
        assert not without & loaded, module


def test_nothing_needs_the_network():
    with (
        pytest.raises(PermissionError, match="nothing may need the network"),
        socket.socket() as leaving,
    ):
        leaving.connect(("192.0.2.1", 80))  # an address that documentation may use, and nobody has


def test_lock_holds_nothing_but_released_versions():
    assert [
        line for line in LOCK if not re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [^+:@]+)?", line)
    ] == []
    assert [line for line in LOCK if line.startswith(("cuda-", "nvidia-", "triton"))] == []


def test_conda_environment_carries_the_same_pins():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pins = dict(entry.split("=") for entry in conda if isinstance(entry, str) and "=" in entry)
    assert pins.pop("python") == "3.11"
    assert {"numpy", "scipy", "pytorch-cpu"} == pins.keys()
    for name, version in pins.items():
        assert version in locked(name.replace("pytorch-cpu", "torch"))
    assert conda[-1] == {"pip": ["-c constraints.txt", "-e .[book,test]"]}


HEAD = "---\nkernelspec:\n  display_name: Python 3\n  name: python3\n---\n"
CELL = "\n```{code-cell} ipython3\n:tags: [nbval-check-output]\n\nSOURCE\n```\n"
# what cells have on record; each prints a third
RECORDED = {
    "print(1 / 3)": "0.3333333333\n",
    "print(2 / 6)": "0.3333339999\n",  # digits beyond the fourth are masked
    "print(3 / 9)": "0.3343333333\n",
}
FAIL = ["print(1.25)", "import warnings; warnings.warn('too few')", "1 / 0", "print(1 / 3)"]


def test_notebook_is_compared_with_its_reference(tmp_path):
    """Under this project's collector: a cell passes as recorded, and fails with a wrong record,
    without one, or if it raises."""
    beside = "constraints.txt", "tests/reference_outputs/sanitize.cfg"
    for name in ("conftest.py", "book/_ext/executed.py", *beside):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    # an ordinary kernel: these cells need no library that is worth to be forked with
    (tmp_path / "book/_ext/forked_kernels.py").write_text("use_forked_kernels = print\n")
    references = {}
    for source, text in RECORDED.items():
        key = hashlib.sha256(source.encode()).hexdigest()[:16]
        references[key] = [{"name": "stdout", "output_type": "stream", "text": text}]
    (tmp_path / "tests/reference_outputs/one.json").write_text(json.dumps(references))
    cells = [CELL.replace("SOURCE", source) for source in (*RECORDED, *FAIL)]
    (tmp_path / "book/one.md").write_text(HEAD + "".join(cells))
    command = [sys.executable, "-m", "pytest", "book/one.md", "-v"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    ends = re.findall(r"^book/one.md::Cell \d+ (PASSED|FAILED)", done.stdout, re.M)
    assert ends == ["PASSED"] * 2 + ["FAILED"] * 5
    for reason in (
        "book/one.md:19: this cell prints something else than is recorded",  # the fence's line
        "stdout:\n@@ -1 +1 @@\n-0.3343\n+0.3333\n",
        "book/one.md:25: what this cell prints is to be checked, and nothing is recorded.",
        "To record it: .venv/bin/python -m pytest book/one.md --refresh-references",
        "book/one.md:31: this cell warns, and a page may hold no warning:",
        "book/one.md:37: this cell failed.",
        "book/one.md:43: this cell was not run: one above it failed",
    ):
        assert reason in done.stdout
