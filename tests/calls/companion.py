"""Good calls: The companion's network, and diagnoses."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from lwcore import advice, diagnose, recurrent, uses
from lwcore.elman import bounds, descent, kernel, network
from lwcore.files import from_files

rng = np.random.default_rng(0)
net = network.symmetric_initialisation(4, 2, 0.5, rng)
inputs, targets = np.full((2, 3, 2), 0.5), np.ones((2, 3))
maps = kernel.TransportMaps(np.sign, np.cos, 1.0, 2.0)
problem = bounds.Problem("tanh", 0.5, 3, 2, 0.4, 0.6)
read = {"network": net, "inputs": inputs}
start = {"width": 4, "dimension": 2, "alpha": 0.5, "rng": rng, "activation": "relu"}
placed = {"activation": "tanh", "recurrent_bound": 0.5, "length": 3, "dimension": 2, "alpha": 0.4}
limit = {"alpha": 0.5, "activation": "logistic"}
step = {"step_size": 0.1, "steps": 2, "radii": (1.0, 2.0)}
bounded = {"problem": problem, "width": 4, "as_printed": False}
posed = {name: getattr(problem, name) for name in problem.__dataclass_fields__}

module = nn.GRU(1, 2, batch_first=True).eval()
batch = torch.randn(40, 3, 1), torch.randn(40, 2)
found = diagnose.diagnose(module, batch, head=lambda states: states[:, -1], progress=False)
settings = {"source": "error", "sequences": 40, "n_sequences": 7, "seed": 0}
asked = settings | {"progress": False, "loss": nn.functional.mse_loss}
folder = Path(tempfile.mkdtemp())
torch.save(module.state_dict(), folder / "a.pt")
np.savez(folder / "a.npz", inputs=batch[0].numpy(), targets=batch[1].numpy())
files = {"checkpoint": folder / "a.pt", "data": str(folder / "a.npz"), "nonlinearity": "relu"}
whole = {"model": module, "head": lambda states: states[:, -1]}


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(1, 2)

    def forward(self, x):
        state = x.new_zeros(len(x), 2)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return state


steps = Steps().eval()
CALLS: list = [
    (recurrent.Recurrent, whole | {"batch": batch}),
    (uses.Uses, whole | {"batch": batch, "parameters": ["weight_ih_l0"]}),
    (recurrent.Loop, {"model": steps, "batch": batch, "module": steps.cell}),
    (from_files, files),
    (advice.advice, {"data": found.data}),
    (diagnose.diagnose, whole | asked | {"batches": batch, "lags": [1, 2]}),
    (found.window, {"n_sequences": 3, "definition": "first_passage", "rate": "mean"}),
    (network.ElmanNetwork, {"parameters": net.parameters, "readout": net.readout}),
    (net.hidden, {"inputs": inputs}),
    (net.outputs, {"inputs": inputs}),
    (network.symmetric_initialisation, start),
    (network.empirical_risk, read | {"targets": targets}),
    (network.hidden_gradients, read),
    (network.output_gradients, read),
    (network.linear_model, {"initial": net, "parameters": net.parameters, "inputs": inputs}),
    (descent.risk_gradient, read | {"targets": targets}),
    (descent.gradient_descent, {"initial": net, "inputs": inputs, "targets": targets} | step),
    (kernel.finite_kernel, read),
    (kernel.limiting_kernel, limit | {"inputs": inputs, "as_printed": True, "tolerance": 0.1}),
    (kernel.TransportMaps, vars(maps)),
    (kernel.transported, {"initial": net, "maps": maps}),
    (kernel.transport_target, {"maps": maps, "inputs": inputs} | limit),
    (bounds.log_mu, {"z": 0.5, "length": 3}),
    (bounds.local_constants, placed | {"as_printed": False}),
    (bounds.log_output_bound, {"log_lipschitz": 1.0, "radii": (0.0, 1.0)}),
    (bounds.Problem, posed),
    (bounds.approximation_bound, bounded),
    (bounds.linearisation_bound, bounded),
    (bounds.network_approximation_bound, bounded),
    (bounds.theorem_1, bounded | {"steps": 3, "radii": (1.0, 2.0)}),
    (bounds.corollary_1, bounded | {"steps": 3}),
    (bounds.theorem_2, {"problem": problem, "error": 0.1, "as_printed": False}),
]
