"""Files that chance has spoiled: read as they were, or refused by name; never another error, a
hang, a crash, or code that is run."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lwcore import experiment
from lwcore.config import Config
from lwcore.network import Network, Progress
from tests.networks import make
from tests.test_bad_commands import Runs

KEYS = st.sampled_from(["self", "name", "base", "steps", "task", "axes", "x", "__class__"])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "spoiled.toml"


def outcome(make):
    """What a call gives, or the words of a ValueError, pydantic's and TOML's among them; other
    errors go through."""
    try:
        return make()
    except ValueError as error:
        return str(error)


def assert_read_or_refused(make):
    """A valid configuration, or an error that the command line prints."""
    found = outcome(make)
    assert isinstance(found, Config) or len(found) > 10


@given(st.one_of(st.text(), st.binary(), st.text("[]{}=.\"'#\n\r\t \\01ae-", max_size=80)))
def test_any_text_is_read_or_refused(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    assert_read_or_refused(lambda: Config.named(str(path)))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
TREES = st.recursive(LEAVES, lambda of: st.lists(of) | st.dictionaries(st.text(max_size=8), of))


@given(st.dictionaries(st.text(max_size=8) | KEYS, TREES, max_size=3))
def test_changes_of_any_kind_are_taken_or_refused(changes):
    assert_read_or_refused(lambda: Config.named("smoke").but(**changes))


def spoiled(whole: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut out, insert, repeat or cut off some bytes."""
    at, length = int(rng.integers(len(whole))), int(2 ** rng.uniform(0, 8))
    piece, rest = whole[at : at + length], whole[at + length :]
    flipped = bytes(byte ^ 1 << rng.integers(8) for byte in piece)
    middles = [flipped + rest, rest, rng.bytes(length) + piece + rest, 2 * piece + rest, b""]
    return whole[:at] + middles[rng.integers(5)]


def test_spoiled_checkpoints_are_refused_by_name_and_none_runs_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, rng = tmp_path / "a.checkpoint", np.random.default_rng(0)
    state = Progress(3, [1.0], Network(make("DiagGate")).state_dict(), {})
    experiment.save_checkpoint(path, state, {})
    whole, refused = path.read_bytes(), 0
    for _ in range(40):
        path.write_bytes(spoiled(whole, rng))
        found = outcome(lambda: experiment.load_checkpoint(path)[0])
        if isinstance(found, str):
            assert str(path) in found
            refused += 1
        else:
            assert (found.step, found.losses) == (3, [1.0])
            assert all(torch.equal(found.network[key], state.network[key]) for key in state.network)
    assert refused > 20
    torch.save([Runs()], tmp_path / "torch")
    (tmp_path / "pickle").write_bytes(pickle.dumps(Runs(), protocol=2))
    for name in ("torch", "pickle"):
        assert "cannot be read" in outcome(
            lambda at=name: experiment.load_checkpoint(tmp_path / at)
        )
    assert not (tmp_path / "marker").exists()
