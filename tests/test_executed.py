"""Executions are used again while all that the notebook can reach is the same, and never
otherwise."""

import os
import shutil

import executed
import pytest

import conftest

HEAD = "---\nkernelspec:\n  display_name: Python 3\n  name: python3\n---\n\n"
CODE = "```{{code-cell}} ipython3\n{}\n```\n"
READS = """import sys
sys.path.insert(0, "..")
from lwcore.above import one
print(one, open("../book/results/run.txt").read())"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A small checkout: a notebook, a package of which it reaches two modules of three, two records
    of which it reads one."""
    for name, text in {
        "lwcore/__init__.py": "",
        "lwcore/above.py": "from lwcore import below\none = below.one\n",
        "lwcore/below.py": "one = 1\n",
        "lwcore/aside.py": "",
        "book/results/run.txt": "7",
        "book/results/other.txt": "8",
        "constraints.txt": "",
        "notebooks/one.md": f"{HEAD}Some prose.\n\n{CODE.format(READS)}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1e9, 1e9))
    monkeypatch.setattr(executed, "ROOT", tmp_path)
    monkeypatch.setattr(executed, "STORE", tmp_path / "_build" / "cache")
    # an ordinary kernel: these notebooks need no library that is worth to be forked with
    monkeypatch.setattr(executed, "use_forked_kernels", lambda: None)
    return tmp_path


def edit(path, old, new):
    """Change a file, and the time of its last change by more than the second that Python's compiled
    modules go by."""
    changed = path.stat().st_mtime_ns + 2_000_000_000
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(changed, changed))


@pytest.mark.parametrize(
    ("name", "old", "new", "same"),
    [
        ("notebooks/one.md", "Some prose", "Other prose", True),
        ("notebooks/one.md", "print(", "print(2, ", False),
        ("lwcore/below.py", "1", "2", False),
        ("lwcore/aside.py", "", "x = 1", True),
        ("book/results/run.txt", "7", "9", False),
        ("book/results/other.txt", "8", "9", True),
        ("constraints.txt", "", "numpy==1\n", False),
    ],
)
def test_an_execution_holds_while_all_that_it_read_is_the_same(checkout, name, old, new, same):
    path = checkout / "notebooks" / "one.md"
    executed.executed(path)
    before = executed.key(path)
    edit(checkout / name, old, new)
    assert (executed.key(path) == before) is same


def test_a_notebook_is_executed_once_until_something_it_reads_changes(checkout, monkeypatch):
    path = checkout / "notebooks" / "one.md"
    runs = []
    run = executed.run
    monkeypatch.setattr(executed, "run", lambda *what: runs.append(what) or run(*what))
    assert executed.find(path) is None
    for _ in range(2):
        (cell,) = executed.executed(path).cells
        assert cell.outputs[0].text == "1 7\n"
    edit(checkout / "lwcore/below.py", "1", "2")
    assert executed.find(path) is None, "what is stale is gone"
    (cell,) = executed.executed(path).cells
    assert cell.outputs[0].text == "2 7\n"
    assert len(runs) == 2

    # a checkout that was moved takes its executions along
    moved = checkout.with_name("moved")
    shutil.move(checkout, moved)
    monkeypatch.setattr(executed, "ROOT", moved)
    monkeypatch.setattr(executed, "STORE", moved / "_build" / "cache")
    (found,) = executed.find(moved / "notebooks" / "one.md").cells
    assert found.outputs[0].text == "2 7\n"
    twin = moved / "book" / "twin.md"  # the same code in another folder may read other files
    twin.write_text((moved / "notebooks" / "one.md").read_text())
    assert executed.find(twin) is None


def test_an_execution_holds_for_the_same_files_and_python_alone(checkout, monkeypatch):
    path = checkout / "notebooks" / "one.md"
    executed.executed(path)
    with monkeypatch.context() as other:
        other.setattr(executed.sys, "version", "2.7")
        assert executed.key(path) is None
    executed.executed(path)
    (checkout / "book/results/new.txt").touch()  # it may have looked for what was not there
    assert executed.key(path) is None


def test_an_execution_during_which_a_file_was_edited_is_not_kept(checkout):
    path = checkout / "notebooks" / "one.md"
    edit(path, "import sys", "import os, sys; os.utime('../lwcore/below.py')")
    executed.executed(path)
    assert executed.key(path) is None


def test_what_a_cell_prints_is_recorded_when_that_is_asked_for_and_compared(checkout, monkeypatch):
    page = checkout / "notebooks" / "one.md"
    edit(page, "ipython3\n", "ipython3\n:tags: [nbval-check-output]\n\n")
    shutil.copy(conftest.REFERENCES / "sanitize.cfg", checkout)
    monkeypatch.setattr(conftest, "REFERENCES", checkout)

    def ends(*more):
        how = f"-p conftest -p no:cacheprovider -c {os.devnull} --rootdir {checkout} {page}"
        return int(pytest.main([*how.split(), *more]))

    assert [ends(), ends("--refresh-references"), ends()] == [1, 0, 0]
    edit(checkout / "lwcore" / "below.py", "1", "2")
    assert ends() == 1
