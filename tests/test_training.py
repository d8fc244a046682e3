"""Networks that chapters share: the same as trained alone, once, and anew for other settings or code."""

import torch
from joblib import Memory

from book.chapters import training
from lwcore import experiment
from lwcore.experiment import Config

CONFIG = Config.named("live").replace(
    models=["ConstGate", "LSTM"], seeds=[7], training={"steps": 3}
)


def test_a_network_is_trained_once_for_settings_and_code(tmp_path, monkeypatch):
    begun, train = [], experiment.networks
    here = Memory(tmp_path, verbose=0)
    monkeypatch.setattr(training, "MEMORY", here)
    monkeypatch.setattr(training, "_trained", here.cache(training._trained.func, ignore=["config"]))
    monkeypatch.setattr(experiment, "networks", lambda one: begun.append(one.members) or train(one))
    first = training.networks(CONFIG)
    again = training.networks(CONFIG.replace(name="other", diagnostics={"sequences": 64}))
    assert begun == [[("ConstGate", 7)], [("LSTM", 7)]]
    for member, network in train(CONFIG).items():
        for found in (first[member], again[member]):
            torch.testing.assert_close(found.state_dict(), network.state_dict(), rtol=0, atol=0)
    training.networks(CONFIG.replace(models=["LSTM"], training={"steps": 4}))
    monkeypatch.setattr(training, "code_fingerprint", lambda: "edited")
    training.networks(CONFIG.replace(models=["LSTM"]))
    assert begun[2:] == [[("LSTM", 7)]] * 2
