"""Networks that chapters share: what is recorded is what their settings train."""

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
