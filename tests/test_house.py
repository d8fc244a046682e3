"""The house around the package: its lock, its layers, and that a notebook test can fail."""

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib

import executed
import pytest
import yaml

from lwcore import __version__
from tests.built_book import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = sorted(
    {
        re.match(r"[\w.-]+", requirement)[0]
        for group in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
        for requirement in group
        if not requirement.startswith("lwcore[")
    }
)
HOUSES = ("lwcore", "book", "benchmarks")
MODULES = sorted(path for house in HOUSES for path in (ROOT / house).rglob("*.py"))
PAGES = [path for path in ROOT.glob("*/*.md") if "\nkernelspec:" in path.read_text()]
LOCK = (ROOT / "constraints.txt").read_text().splitlines()


def locked(name):
    """Versions the lock gives a package, one for each range of Python versions."""
    return {
        line.partition("==")[2].partition(" ;")[0] for line in LOCK if line.startswith(f"{name}==")
    }


@pytest.mark.parametrize("name", DIRECT)
def test_dependency_is_locked_and_explained(name):
    assert locked(name)
    assert (ROOT / "CONTRIBUTING.md").read_text().count(f"\n| `{name}` |") == 1


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check ."])
def test_style(command):
    called = [sys.executable, "-m", *command.split()]
    done = subprocess.run(called, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_import_those_below_them_only():
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_arrays_in_shapes_are_classes():
    """From NumPy 2.5 on, `NDArray[…]` is an alias that jaxtyping cannot read."""
    trees = {path: ast.parse(path.read_text()) for path in MODULES}
    aliases = set().union(*map(aliases_of_arrays, trees.values()))
    for path, tree in trees.items():
        here = aliases_of_arrays(tree) | (names_imported(tree) & aliases)
        assert shapes_of(tree, here) == [], path


def test_a_shape_of_an_alias_is_found():
    tree = ast.parse("""Array = NDArray[np.float64]
Own = np.ndarray
def one(x: Float[Array, "n"], y: Float[Own, "n"]) -> Int[NDArray[np.intp], "n k"]: ...""")
    found = shapes_of(tree, aliases_of_arrays(tree))
    assert sorted(found) == ["Float[Array, 'n']", "Int[NDArray[np.intp], 'n k']"]


def aliases_of_arrays(tree):
    """Names that a module gives to NumPy's `NDArray[…]`."""
    return {
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("NDArray[")
    }


def names_imported(tree):
    """Names that a module imports from others."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def shapes_of(tree, aliases):
    """Shapes such as ``Float[Array, "n"]`` in a module whose array is one of these, or NDArray."""
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple)):
            continue
        array, *shape = map(ast.unparse, node.slice.elts or [ast.Constant(None)])
        is_shape = len(shape) == 1 and shape[0].startswith("'")
        if is_shape and (array in aliases or array.startswith("NDArray[")):
            found.append(ast.unparse(node))
    return found


THEORY = ["stats", "stable", "detection", "window", "elman.descent", "elman.kernel", "elman.bounds"]
SLOW = {"scipy.stats", "scipy.optimize"}
HEAVY = {"torch", "matplotlib", "pandas", "xarray", "rich", "typer"} | SLOW


@pytest.mark.parametrize(
    "steps",
    [
        {
            "lwcore": HEAVY | {"numpy", "scipy"},
            **{f"lwcore.{name}": HEAVY for name in THEORY},  # knows nothing of networks
            "lwcore.cli": {"torch"},
        },
        {"lwcore.diagnose": {"pydantic", "matplotlib", "typer", "rich"}},
    ],
)
def test_importing_modules_one_by_one_loads_no_more_than_they_need(steps):
    """What is loaded stays: a module is seen beside those before it, which need no more than it."""
    code = "".join(f"import {module}\nprint(*sys.modules)\n" for module in steps)
    printed = subprocess.check_output([sys.executable, "-c", f"import sys\n{code}"], text=True)
    for (module, without), line in zip(steps.items(), printed.splitlines(), strict=True):
        loaded = set(line.split())
        assert module in loaded
        assert not without & loaded, module


def test_package_does_not_know_of_the_book():
    """But for the command that measures claims, which says so where there is no checkout."""
    outside = re.compile(r"^ *(?:from|import) (book|tests|benchmarks)\b", re.MULTILINE)
    modules = (ROOT / "lwcore").rglob("*.py")
    assert {path.name for path in modules if outside.search(path.read_text())} == {"cli.py"}


def test_tests_of_the_package_know_nothing_of_the_book():
    folders = {path.name for path in (ROOT / "lwcore").iterdir() if path.is_dir()}
    modules = {path.stem for path in (ROOT / "lwcore").rglob("*.py")} | folders
    shared = {"networks", "oracles", "elman_oracles"}
    of_the_book = {path.stem for path in (ROOT / "book" / "chapters").glob("*.py")}
    tried = 0
    for path in (ROOT / "tests").glob("*.py"):
        about = path.stem.removeprefix("test_")
        if about in of_the_book:
            continue
        if about in modules | shared or about.partition("_")[0] in folders:
            tried += 1
            assert not re.search(r"^ *(from|import) book\b", path.read_text(), re.MULTILINE), path
    assert tried > 20


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


LINK = re.compile(r"\]\(([^)]+)\)|(?:src|href)=\"([^\"]+)\"")


def links(path):
    """Where the links and pictures of a text lead."""
    return ["".join(found) for found in LINK.findall(path.read_text())]


def test_links_of_the_readme_lead_to_files():
    leads = links(ROOT / "README.md")
    assert "notebooks/11_your_network.md" in leads
    assert [link for link in leads if not (ROOT / link).is_file()] == []


def test_a_package_index_shows_a_text_without_pictures_and_links_of_the_repository():
    assert PROJECT["readme"] != "README.md"
    assert [link for link in links(ROOT / PROJECT["readme"]) if "://" not in link] == []


def test_citation_and_package_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["keywords"] == PROJECT["keywords"]
    assert [one["name"] for one in citation["authors"]] == [
        one["name"] for one in PROJECT["authors"]
    ]


def test_every_python_that_is_promised_is_tried():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
    tried = set()
    for job in workflow["jobs"].values():
        tried |= set(job.get("strategy", {}).get("matrix", {}).get("python-version", ()))
        tried |= {
            step["with"]["python-version"]
            for step in job["steps"]
            if "setup-python" in step.get("uses", "")
        }
    kind = "Programming Language :: Python :: "
    promised = {one.removeprefix(kind) for one in PROJECT["classifiers"] if one.startswith(kind)}
    assert {one for one in tried if "matrix" not in one} == promised
    for page in ("README.md", PROJECT["readme"], "Makefile"):
        assert "Python 3.11 to 3.14" in (ROOT / page).read_text(), page


def test_what_is_kept_between_runs_is_kept_for_all_that_notebooks_reach():
    workflow = (ROOT / ".github" / "workflows" / "book.yml").read_text()
    keys = re.findall(r"hashFiles\((.*)\)", workflow)
    assert len(keys) == workflow.count("actions/cache@")
    reached = set().union(*map(executed.reach, PAGES))
    for key in keys:
        patterns = [pattern.replace("/**", "/**/*") for pattern in re.findall(r"'([^']+)'", key)]
        files = set().union(*(ROOT.glob(pattern) for pattern in patterns))
        assert {path.relative_to(ROOT).as_posix() for path in reached - files} == set()


HEAD = "---\nkernelspec:\n  display_name: Python 3\n  name: python3\n---\n"
CELL = "\n```{code-cell} ipython3\n:tags: [nbval-check-output]\n\nSOURCE\n```\n"
RECORDED = {  # what a cell that prints a third has on record, and whether it passes
    "print(1 / 3)": ("0.3333333333\n", True),
    "print(2 / 6)": ("0.3333339999\n", True),  # digits beyond the fourth are masked
    "print(3 / 9)": ("0.3343333333\n", False),
    "print(4 / 12)": ("", False),
}


def test_notebook_is_compared_with_its_reference(tmp_path):
    """Under this project's collector: a cell passes as recorded, and fails with a wrong record,
    without one, or if it raises."""
    references = tmp_path / "tests" / "reference_outputs"
    beside = "book/_ext/executed.py", "tests/reference_outputs/sanitize.cfg"
    for name in ("conftest.py", "constraints.txt", *beside):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(sources, *options):
        cells = "".join(CELL.replace("SOURCE", source) for source in sources)
        (tmp_path / "book" / "one.md").write_text(HEAD + cells)
        command = [sys.executable, "-m", "pytest", "book/one.md", "-v", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        ends = re.findall(r"^book/one.md::Cell \d+ (PASSED|FAILED)", done.stdout, re.M)
        return done.stdout, [end == "PASSED" for end in ends]

    assert run(RECORDED, "--refresh-references")[1] == [True] * 4
    log = tmp_path / "_build" / "executions.jsonl"
    assert len(log.read_text().splitlines()) == 1
    reference = json.loads((references / "one.json").read_text())
    for outputs, (text, _) in zip(reference.values(), RECORDED.values(), strict=True):
        assert outputs[0]["text"].startswith("0.333333")
        outputs[0]["text"] = text
    (references / "one.json").write_text(json.dumps(reference))
    assert run(RECORDED)[1] == [passes for _, passes in RECORDED.values()]
    assert len(log.read_text().splitlines()) == 1, "the second run used what the first had executed"
    warns = "import warnings; warnings.warn('too few')"
    output, passed = run([*RECORDED, "print(1.25)", warns, "1 / 0", "print(1 / 3)"])
    assert passed == [passes for _, passes in RECORDED.values()] + [False] * 4
    record = ".venv/bin/python -m pytest book/one.md --refresh-references"
    for reason in (
        "book/one.md:19: this cell prints something else than is recorded",  # the fence's line
        "stdout:\n@@ -1 +1 @@\n-0.3343\n+0.3333\n",
        f"If this change is meant, record it: {record}",
        "book/one.md:31: what this cell prints is to be checked, and nothing is recorded",
        f"To record it: {record}",
        "book/one.md:37: this cell warns, and a page may hold no warning:",
        "UserWarning: too few",
        "book/one.md:43: this cell failed.",
        "ZeroDivisionError",
        "book/one.md:49: this cell was not run: one above it failed",
    ):
        assert reason in output
