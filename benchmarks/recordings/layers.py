"""Sequence architectures that nobody here wrote, each as a network of about 3,000 parameters.

A layer is taken as its package exports it, once, between a linear front where it reads vectors
only, and a linear readout. A package is imported where its layer is asked for: none is needed to
build the book. To make them all, install what `ARCHITECTURES` names beside ``lwcore``, with
``pip install --no-deps`` where a package asks for other versions of what is there.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

PARAMETERS = 3000
WITHIN = 0.1  # by which share their number may differ


def first(body: nn.Module, inputs: Tensor) -> Tensor:
    """Return outputs at all steps, of a layer that may give its state beside them."""
    result = body(inputs)
    return result[0] if isinstance(result, tuple) else result


def steps_first(body: nn.Module, inputs: Tensor) -> Tensor:
    """Return outputs at all steps, of a layer that wants the axis of steps in front."""
    return first(body, inputs.transpose(0, 1)).transpose(0, 1)


def from_rest(body: Any, inputs: Tensor) -> Tensor:
    """Return outputs at all steps, of a layer that goes on from its last call if not reset."""
    body.reset_state()
    return body(inputs)


def in_turn(cell: Any, inputs: Tensor) -> Tensor:
    """Return outputs at all steps, of a cell called once a step, from a state of zeros."""
    state = inputs.new_zeros(len(inputs), cell.state_size)
    outputs = []
    for x in inputs.unbind(1):
        output, state = cell(x, state)
        outputs.append(output)
    return torch.stack(outputs, 1)


def causal(encoder: nn.Module, inputs: Tensor) -> Tensor:
    """Return outputs at all steps, of an encoder that sees no later step.

    Sinusoids of the step are added to the inputs: attention knows no order by itself.
    """
    _, length, width = inputs.shape
    rates = 1e3 ** -torch.linspace(0, 1, width // 2)
    angles = torch.arange(length)[:, None] * rates
    placed = inputs + torch.cat([angles.sin(), angles.cos()], -1)
    mask = nn.Transformer.generate_square_subsequent_mask(length)
    return encoder(placed, mask=mask, is_causal=True)


class Architecture(NamedTuple):
    """What kind of layer it is, whose, how wide, and how it is called.

    Attributes:
        kind: Family, for the chapter's tables.
        package: Distribution with the layer, and its version.
        width: Numbers that it gives at a step.
        front: Whether a linear layer stands before it, and it reads as many numbers a step as it is
            wide; else it reads the series itself.
        call: Gives the layer's outputs at all steps.
    """

    kind: str
    package: str
    width: int
    front: bool = True
    call: Callable[[Any, Tensor], Tensor] = first


ARCHITECTURES = {
    "RNN": Architecture("recurrent", "torch", 53, front=False),
    "GRU": Architecture("recurrent", "torch", 30, front=False),
    "LSTM": Architecture("recurrent", "torch", 26, front=False),
    "two-layer LSTM": Architecture("recurrent", "torch", 15, front=False),
    "CfC": Architecture("recurrent", "ncps==1.0.1", 20, front=False),
    "LTC": Architecture("recurrent", "ncps==1.0.1", 24, front=False, call=in_turn),
    "sLSTM": Architecture("recurrent", "xlstm==2.0.6", 26),
    "echo state": Architecture("recurrent, fixed", "resdag==6.0.0", 53, False, from_rest),
    "minGRU": Architecture("linear recurrence", "minGRU-pytorch==0.2.1", 38),
    "minLSTM": Architecture("linear recurrence", "minGRU-pytorch==0.2.1", 31),
    "mLSTM": Architecture("linear recurrence", "xlstm==2.0.6", 18),
    "Mamba": Architecture("linear recurrence", "mambapy==1.2.0", 17),
    "GateLoop": Architecture("linear recurrence", "gateloop-transformer==0.2.5", 31),
    "RetNet": Architecture("linear recurrence", "yet-another-retnet==0.5.1", 16),
    "LRU": Architecture("linear recurrence", "lru-pytorch==0.1.3", 24),
    "S5": Architecture("linear recurrence", "s5-pytorch==0.2.1", 27),
    "SRU": Architecture("linear recurrence", "sru==2.6.0", 21, call=steps_first),
    "transformer": Architecture("attention", "torch", 20, call=causal),
    "rotary transformer": Architecture("attention", "x-transformers==2.31.10", 16),
    "TCN": Architecture("convolution", "pytorch-tcn==1.2.3", 11, front=False),
}


def layer(name: str, width: int) -> nn.Module:
    """Make an architecture's layer; its package is imported only where it is asked for."""
    match name:
        case "RNN" | "GRU" | "LSTM":
            return getattr(nn, name)(1, width, batch_first=True)
        case "two-layer LSTM":
            return nn.LSTM(1, width, num_layers=2, batch_first=True)
        case "CfC":
            return import_module("ncps.torch").CfC(1, width, backbone_units=28)
        case "LTC":
            wiring = import_module("ncps.wirings").FullyConnected(width)
            wiring.build(1)
            return import_module("ncps.torch").LTCCell(wiring)
        case "sLSTM" | "mLSTM":
            xlstm = import_module("xlstm")
            options: dict[str, Any] = {"backend": "vanilla", "dtype": "float32"}
            if name == "mLSTM":
                options = {"context_length": 48, "round_proj_up_to_multiple_of": 4}
            new_config = getattr(xlstm, f"{name}LayerConfig")
            new_layer = getattr(xlstm, f"{name}Layer")
            body = new_layer(new_config(embedding_dim=width, num_heads=2, **options))
            body.reset_parameters()
            return body
        case "echo state":
            return import_module("resdag.layers").ESNLayer(width, 1, spectral_radius=0.95)
        case "minGRU" | "minLSTM":
            return getattr(import_module(f"minGRU_pytorch.{name}"), name)(width)
        case "Mamba":
            mamba = import_module("mambapy.mamba")
            return mamba.Mamba(mamba.MambaConfig(d_model=width, n_layers=1, d_state=8))
        case "GateLoop":
            return import_module("gateloop_transformer").SimpleGateLoopLayer(width)
        case "RetNet":
            retnet = import_module("yet_another_retnet.retnet")
            return retnet.RetNetDecoder(retnet.RetNetDecoderLayer(width, 2, 44, dropout=0.0), 1)
        case "LRU":
            return import_module("LRU_pytorch").LRU(width, width, width)
        case "S5":
            return import_module("s5").S5(width)
        case "SRU":
            return import_module("sru").SRU(width, width)
        case "transformer":
            encoder = nn.TransformerEncoderLayer(width, 2, 28, dropout=0.0, batch_first=True)
            return nn.TransformerEncoder(encoder, 1, enable_nested_tensor=False)
        case "rotary transformer":
            decoder = import_module("x_transformers").Decoder
            return decoder(dim=width, depth=1, heads=2, attn_dim_head=8, rotary_pos_emb=True)
        case "TCN":
            options = {"use_norm": "layer_norm", "input_shape": "NLC", "dropout": 0.0}
            new_layer = import_module("pytorch_tcn").TCN
            return new_layer(1, [width] * 4, kernel_size=3, dilations=[1, 2, 4, 8], **options)
    raise KeyError(name)


class Network(nn.Module):
    """An architecture behind a linear front, if it needs one, and before a linear readout."""

    def __init__(self, name: str) -> None:
        """Start all parts as their packages start them."""
        super().__init__()
        architecture = ARCHITECTURES[name]
        width = architecture.width
        self.front = nn.Linear(1, width) if architecture.front else nn.Identity()
        self.body = layer(name, width)
        self.out = nn.Linear(width, 1)
        self.call = architecture.call

    def forward(self, inputs: Tensor) -> Tensor:
        """Return predictions at all steps."""
        return self.out(self.call(self.body, self.front(inputs)))


def numbers(network: nn.Module) -> int:
    """Count the parameters of a network, and weights that are fixed, as in an echo-state network.

    A complex number counts as two.
    """
    count = 0
    for parameter in network.parameters():
        count += parameter.numel() * (2 if parameter.is_complex() else 1)
    return count
