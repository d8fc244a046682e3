"""Files that chance has spoiled: read as they were, or refused by name; never another error, a
hang, a crash, or code that is run."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lwcore
from lwcore import adapter, experiment
from lwcore.cells import DiagGate
from lwcore.config import Config, Sweep, shipped
from lwcore.network import Network
from lwcore.train import Progress
from tests.commands import Runs

FILES = {
    (kind, folder, name): (Path(lwcore.__file__).parent / folder / f"{name}.toml").read_text(
        encoding="utf-8"
    )
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
        [
            "1979-05-27T07:32:00Z",
            "07:32:00",
            "[]",
            "{}",
            "[[[]]]",
            "{a = {b = 1}}",
            '""',
            "[1, 'a']",
            "0x_",
            "1_000",
            "'",
            '"""',
        ]
    ),
    st.lists(st.integers(-3, 300), max_size=4).map(str),
)


def outcome(make):
    """What a call gives, or the words of a ValueError, pydantic's and TOML's among them; other
    errors go through."""
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


@given(
    st.sampled_from([Config, Sweep]),
    st.one_of(st.text(), st.binary(), st.text("[]{}=.\"'#\n\r\t \\01ae-", max_size=80)),
)
def test_any_text_is_read_or_refused(folder, kind, text):
    assert_read_or_refused(kind, text, folder)


@given(st.data())
def test_spoiled_settings_are_read_or_refused(folder, data):
    which = data.draw(st.sampled_from(sorted(FILES, key=str)))
    lines = FILES[which].split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[at].partition(" = ")
        spoil = data.draw(
            st.sampled_from(["value", "delete", "repeat", "swap", "key", "section", "cut"])
        )
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
                at,
                f"{data.draw(st.sampled_from(['self', 'name', 'steps', 'task', 'changes', 'x', '__class__']))} = {data.draw(VALUES)}",
            )
        elif spoil == "section":
            lines.insert(
                at,
                f"[{data.draw(st.sampled_from(['task', 'training', 'changes', 'axes', 'axes.x', 'x', 'task.x']))}]",
            )
        else:
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
    assert_read_or_refused(which[0], "\n".join(lines), folder)


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=8), inner, max_size=3)
            ),
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


def test_spoiled_checkpoints_are_refused_by_name(tmp_path):
    network = Network(DiagGate(2, 3, generator=torch.Generator().manual_seed(0)))
    path, rng = tmp_path / "a.checkpoint", np.random.default_rng(0)
    experiment.save_checkpoint(path, Progress(3, [1.0], network.state_dict(), {}), {})
    whole, good = path.read_bytes(), experiment.load_checkpoint(path)[0]
    for _ in range(30):
        path.write_bytes(spoiled(whole, rng))
        found = outcome(lambda: experiment.load_checkpoint(path)[0])
        if isinstance(found, str):
            assert str(path) in found
        else:
            assert (found.step, found.losses) == (good.step, good.losses)
            assert all(
                torch.equal(value, found.network[name]) for name, value in good.network.items()
            )


@pytest.mark.parametrize(
    "write",
    [
        lambda file: torch.save([Runs()], file),
        lambda file: file.write(pickle.dumps(Runs(), protocol=2)),
    ],
    ids=["torch", "pickle"],
)
def test_no_checkpoint_runs_code(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    write(content := io.BytesIO())
    path = tmp_path / "a.checkpoint"
    path.write_bytes(content.getvalue())
    with pytest.raises(ValueError, match=r"must hold weights alone"):
        adapter.load_weights(path)
    with pytest.raises(ValueError, match="cannot be read"):
        experiment.load_checkpoint(path)
    assert not (tmp_path / "marker").exists()
