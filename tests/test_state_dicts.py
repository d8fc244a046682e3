"""State dictionaries of another kind of network: refused in our words, before anything changes."""

import copy
import itertools
import shutil

import pytest
import torch

from lwcore.experiment import Config, run, run_member, running
from lwcore.experiment.measure import course
from lwcore.network import Network, Progress, train
from lwcore.signatures import ArgumentError
from tests.networks import EVERY, make
from tests.test_train import SETTINGS, setting

SMOKE = Config.named("smoke")


def network_of(kind, **sizes):
    """A network with a cell of a kind."""
    return Network(make(kind, **sizes))


def layout(module):
    """Names, shapes and types of parameters."""
    return {name: (value.shape, value.dtype) for name, value in module.state_dict().items()}


PAIRS = [(a, b) for a, b in itertools.permutations(EVERY, 2)]


@pytest.mark.parametrize(("own", "other"), PAIRS)
def test_a_state_of_another_kind_is_refused_and_one_that_fits_is_taken(own, other):
    """Of a network and of a cell, for every pair of families: taken if and only if all agrees."""
    for mine, theirs in ((network_of(own), network_of(other)), (make(own), make(other))):
        before = copy.deepcopy(mine.state_dict())
        if layout(mine) == layout(theirs):
            mine.load_state_dict(theirs.state_dict())
            continue
        with pytest.raises(ArgumentError, match=r"^state_dict is not a state of ") as caught:
            mine.load_state_dict(theirs.state_dict())
        assert "Error(s) in loading" not in str(caught.value)
        for name, value in mine.state_dict().items():
            assert torch.equal(value, before[name])


SPOILED = {
    "is missing": lambda state: state.pop("cell.bias"),
    "it has no weight_ih_l0": lambda state: state.update(weight_ih_l0=torch.ones(2)),
    "cell.bias has shape": lambda state: state.update({"cell.bias": torch.ones(2)}),
    "and must be a tensor": lambda state: state.update({"cell.bias": [1.0]}),
    "cell.bias must hold its numbers": lambda state: state.update(
        {"cell.bias": torch.ones(16, dtype=torch.float64, device="meta")}
    ),
    "cell.bias must hold its numbers, and as the module does": lambda state: state.update(
        {"cell.bias": torch.ones(16, dtype=torch.float64).to_sparse()}
    ),
    "cell.bias is of torch.int64": lambda state: state.update(
        {"cell.bias": torch.ones(16, dtype=torch.int64)}
    ),
    "cell.bias is of torch.complex128": lambda state: state.update(
        {"cell.bias": torch.ones(16, dtype=torch.complex128)}
    ),
}


@pytest.mark.parametrize("words", SPOILED)
def test_what_does_not_fit_is_named(words):
    network = network_of("LSTM")
    state = dict(network.state_dict())
    SPOILED[words](state)
    with pytest.raises(
        ArgumentError, match=r"^state_dict is not a state of Network of LSTM: "
    ) as e:
        network.load_state_dict(state)
    assert words in str(e.value)
    with pytest.raises(ArgumentError, match=r"^resume_from\.network is not a state of Network of"):
        train(network, setting("LSTM")[1], **SETTINGS, resume_from=Progress(1, [0.0], state, {}))


@pytest.mark.parametrize("state", [None, [], 3, "weights.pt"])
def test_what_is_no_dictionary_is_refused(state):
    with pytest.raises(
        ArgumentError, match=r"^state_dict = .*: must be a state dictionary of LSTM"
    ):
        make("LSTM").load_state_dict(state)


def test_names_may_differ_where_the_reader_says_so():
    """As PyTorch has it, with `strict` off; shapes may not."""
    cell = make("GRU-after")
    found = cell.load_state_dict(make("GRU", seed=3).state_dict(), strict=False)
    assert found.missing_keys == ["bias_hh"]
    with pytest.raises(ArgumentError, match="weight_ih has shape"):
        cell.load_state_dict(make("LSTM").state_dict(), strict=False)


def states(optimizer, steps=3):
    """A training's state after some steps."""
    network, data = setting()
    kept = []
    train(network, data, **SETTINGS | {"steps": steps}, optimizer=optimizer, on_step=kept.append)
    return copy.deepcopy(kept[-1])


def test_training_goes_on_with_a_state_that_fits_alone():
    network, data = setting()
    for optimizer, other in (("adamw", "sgd"), ("sgd", "adamw")):
        good = states(optimizer)
        train(network, data, **SETTINGS | {"steps": 5}, optimizer=optimizer, resume_from=good)
        with pytest.raises(ArgumentError, match=r"^resume_from\.optimizer is not a state of"):
            train(network, data, **SETTINGS, optimizer=other, resume_from=good)
    rounded = states("adamw")
    rounded.network = {name: value.float() for name, value in rounded.network.items()}
    with pytest.raises(ArgumentError, match=r"float32 and must be of torch\.float64"):
        train(network, data, **SETTINGS, resume_from=rounded)
    of_gru = states("adamw")
    of_gru.network = network_of("DiagGate").state_dict()
    of_gru.optimizer["state"][0]["exp_avg"] = torch.ones(3)
    with pytest.raises(ArgumentError, match=r"exp_avg of parameter 0 must have shape"):
        train(network, data, **SETTINGS, resume_from=of_gru)


def test_a_snapshot_of_another_network_is_refused():
    network = running._start(SMOKE, "LSTM", 1)
    other = running._start(SMOKE, "GRU", 1).state_dict()
    task, fresh = running.task_of(SMOKE, 1), running.fresh_sequences(SMOKE, 1)
    with pytest.raises(ArgumentError, match="not a state of Network of LSTM"):
        course(network, {0: other}, fresh, task, SMOKE.diagnostics)


# What is measured of them has no part in it.
FOUR = SMOKE.replace(
    models=["GRU", "LSTM"],
    seeds=[1, 2],
    training={"steps": 6, "checkpoint_every": 3},
    measured=False,
)


@pytest.fixture(scope="module")
def undisturbed():
    return run(FOUR, progress=False)


@pytest.mark.parametrize("other", [("LSTM", 1), ("GRU", 2)])
@pytest.mark.parametrize("ending", [".checkpoint", ".nc"])
def test_a_file_under_the_name_of_another_member_is_named_and_not_used(
    undisturbed, tmp_path, ending, other
):
    """Another family's, and another seed's, which has the same shapes."""
    config = FOUR
    digits = running.surroundings.fingerprint()
    partial = tmp_path / f"{config.name}-{config.fingerprint}-{digits}.partial"
    partial.mkdir()
    foreign = partial / f"0-GRU-1{ending}"
    if ending == ".nc":
        running.results.save(run_member(config, "GRU", 1), foreign)
    else:
        run_member(config, "GRU", 1, foreign)
    shutil.move(foreign, partial / f"0-{other[0]}-{other[1]}{ending}")
    with pytest.warns(UserWarning, match="What it held is computed anew"):
        found = run(config, directory=tmp_path, progress=False)
    assert found.identical(undisturbed)
