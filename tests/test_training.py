"""Networks that chapters share: what is recorded is what their settings train, once."""

import torch

from book.chapters import training
from lwcore import experiment
from lwcore.experiment import Config

LIVE = Config.named("live")


def test_a_recorded_network_is_the_one_that_its_settings_train():
    config = LIVE.replace(models=["ConstGate"], seeds=[212])
    assert set(training.networks(LIVE)) == set(LIVE.members)
    (recorded,) = training.networks(config).values()
    (trained,) = experiment.networks(config).values()
    (fresh,) = training.networks(config, trained=False).values()
    inputs, _ = experiment.fresh_sequences(config, 212, 4)
    torch.testing.assert_close(recorded(inputs), trained(inputs), rtol=1e-3, atol=1e-3)
    assert (recorded(inputs) - fresh(inputs)).abs().max() > 0.1


def test_what_is_not_recorded_is_trained_once_for_its_settings(tmp_path, monkeypatch):
    config = LIVE.replace(models=["ConstGate", "LSTM"], seeds=[7], training={"steps": 3})
    begun, networks = [], experiment.networks

    def noted(config, trained=True):
        begun.extend(config.members if trained else ())
        return networks(config, trained)

    monkeypatch.setattr(training, "RECORDED", tmp_path / "networks")
    monkeypatch.setattr(experiment, "networks", noted)
    first = training.networks(config.replace(models=["LSTM"]))
    both = training.networks(config.replace(name="other", diagnostics={"sequences": 64}))
    assert begun == [("LSTM", 7), ("ConstGate", 7)]
    for member, network in networks(config).items():
        for found in (first, both):
            if member in found:
                state = found[member].state_dict()
                torch.testing.assert_close(state, network.state_dict(), rtol=0, atol=0)
    training.networks(config.replace(models=["LSTM"], training={"steps": 4}))
    assert begun[2:] == [("LSTM", 7)]
