"""Files that chance has spoiled: read as they were, or refused by name; never another error, a hang, a crash, or code that is run."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import lwcore
from lwcore import adapter, checkpoints, results
from lwcore.cells import DiagGate
from lwcore.config import Config, Sweep, shipped
from lwcore.network import Network
from lwcore.train import Progress
from tests.bad_inputs.commands import Runs

FILES = {
    (kind, folder, name): (Path(lwcore.__file__).parent / folder / f"{name}.toml").read_text(encoding="utf-8")
    for kind, folder in ((Config, "configs"), (Sweep, "sweeps"))
    for name in shipped(folder)
}

# What a value of TOML may be, written as TOML.
VALUES = st.one_of(
    st.integers().map(str),
    st.integers(10**20, 10**40).map(str),
    st.floats().map(lambda x: {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(str(x), str(x))),
    st.booleans().map(lambda b: str(b).lower()),
    st.text(max_size=20).map(json.dumps),
    st.sampled_from(
        ["1979-05-27T07:32:00Z", "07:32:00", "[]", "{}", "[[[]]]", "{a = {b = 1}}", '""', "[1, 'a']", "0x_", "1_000", "'", '"""']
    ),
    st.lists(st.integers(-3, 300), max_size=4).map(str),
)


def outcome(make):
    """What a call gives, or the words of a ValueError, pydantic's and TOML's among them; other errors go through."""
    try:
        return make()
    except ValueError as error:
        return str(error)


def assert_read_or_refused(kind, text, folder):
    """A valid configuration, or an error that the command line prints."""
    path = folder / "spoiled.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    found = outcome(lambda: kind.from_toml(path))
    assert isinstance(found, kind) or len(found) > 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@given(st.sampled_from([Config, Sweep]), st.one_of(st.text(), st.binary(), st.text("[]{}=.\"'#\n\r\t \\01ae-", max_size=80)))
def test_any_text_is_read_or_refused(folder, kind, text):
    assert_read_or_refused(kind, text, folder)


@given(st.data())
def test_spoiled_settings_are_read_or_refused(folder, data):
    which = data.draw(st.sampled_from(sorted(FILES, key=str)))
    lines = FILES[which].split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[at].partition(" = ")
        spoil = data.draw(st.sampled_from(["value", "delete", "repeat", "swap", "key", "section", "cut"]))
        if spoil == "value" and equals:
            lines[at] = f"{key} = {data.draw(VALUES)}"
        elif spoil == "delete":
            lines[at] = ""
        elif spoil == "repeat":
            lines.insert(data.draw(st.integers(0, len(lines))), lines[at])
        elif spoil == "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        elif spoil == "key":
            lines.insert(
                at, f"{data.draw(st.sampled_from(['self', 'name', 'steps', 'task', 'changes', 'x', '__class__']))} = {data.draw(VALUES)}"
            )
        elif spoil == "section":
            lines.insert(at, f"[{data.draw(st.sampled_from(['task', 'training', 'changes', 'axes', 'axes.x', 'x', 'task.x']))}]")
        else:
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
    assert_read_or_refused(which[0], "\n".join(lines), folder)


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=3,
    )
)
def test_changes_of_any_kind_are_taken_or_refused(changes):
    found = outcome(lambda: Config.named("smoke").but(**changes))
    assert isinstance(found, Config) or len(found) > 10


def spoiled(whole: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut, insert, repeat or move some bytes."""
    if not whole:
        return whole
    content = bytearray(whole)
    for _ in range(rng.integers(1, 4)):
        at, length = int(rng.integers(len(content) + 1)), int(2 ** rng.uniform(0, 8))
        way = rng.integers(5)
        if way == 0:
            for place in rng.integers(len(content), size=min(length, 8)) if content else ():
                content[place] ^= 1 << rng.integers(8)
        elif way == 1:
            del content[at : at + length]
        elif way == 2:
            content[at:at] = rng.bytes(length)
        elif way == 3:
            content[at:at] = content[at : at + length]
        else:
            del content[at:]
    return bytes(content)


LOADS = """
import os, pickle, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import xarray as xr
from lwcore import adapter, checkpoints, results
good = results.load("good.nc")
for path in sorted(Path(".").glob("spoiled-*.nc")):
    print(path, end=" ", flush=True)
    try:
        same = xr.Dataset.identical(results.load(path), good)
        print("same" if same else "other", flush=True)
    except ValueError as error:
        print("refused" if str(path) in str(error) else f"unnamed: {error}", flush=True)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}".replace("\\n", " "), flush=True)
"""
MUTANTS = 100


def test_spoiled_results_are_refused_by_name(tmp_path):
    """In a process of its own: what kills the interpreter shall be seen."""
    rng = np.random.default_rng(0)
    data = xr.Dataset(
        {"a": (("seed", "lag"), rng.normal(size=(3, 4))), "b": ("model", ["GRU", "LSTM"])}, {"lag": [1, 2, 4, 8]}, {"fingerprint": "0" * 12}
    )
    results.save(data, tmp_path / "good.nc")
    whole = (tmp_path / "good.nc").read_bytes()
    for number in range(MUTANTS):
        (tmp_path / f"spoiled-{number:03}.nc").write_bytes(spoiled(whole, rng))
    done = subprocess.run([sys.executable, "-c", LOADS], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    said = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"the interpreter ended with {done.returncode} at {said[-1:]}: {done.stderr[-500:]}"
    assert [pair for pair in said if pair[1] not in ("same", "refused")] == []
    assert len(said) == MUTANTS
    assert sum(words == "refused" for _, words in said) > MUTANTS // 2


@pytest.fixture
def network():
    return Network(DiagGate(2, 3, generator=torch.Generator().manual_seed(0)))


def test_spoiled_checkpoints_are_left_out_with_a_warning(tmp_path, network):
    path = tmp_path / "a.checkpoint"
    checkpoints.write(path, Progress(3, [1.0], network.state_dict(), {}), {})
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    assert checkpoints.latest(path) is not None
    for _ in range(30):
        path.write_bytes(other := spoiled(whole, rng))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = checkpoints.latest(path)
        assert (found is None) == (other != whole)
        assert found is not None or any(str(path) in str(one.message) for one in caught)


@pytest.mark.parametrize(
    "write",
    [lambda file: torch.save([Runs()], file), lambda file: file.write(pickle.dumps(Runs(), protocol=2))],
    ids=["torch", "pickle"],
)
def test_no_checkpoint_runs_code(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    write(content := io.BytesIO())
    path = tmp_path / "a.checkpoint"
    path.write_bytes(content.getvalue())
    with pytest.raises(ValueError, match=r"must hold weights alone"):
        adapter.load_weights(path)
    path.write_bytes(results.sealed(content.getvalue()))  # written by somebody who knows what a checkpoint ends with
    with pytest.raises(ValueError, match="cannot be read"):
        checkpoints.read(path)
    assert not (tmp_path / "marker").exists()
