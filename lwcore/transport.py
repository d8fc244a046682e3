"""How gates carry the gradient back: one-step Jacobians, their products' diagonals, and the
envelope.

``M_{t,ℓ} = J_t J_{t−1} ⋯ J_{t−ℓ+1} = ∂s_t/∂s_{t−ℓ}`` transports the loss gradient at time t back ℓ
steps. The diagonal of its block ``∂h_t/∂h_{t−ℓ}``, for the LSTM ``∂h_t/∂c_{t−ℓ}``, is the effective
learning rate μ(ℓ, q) of neuron q, per unit of the optimiser's global learning rate. It comes in
three orders: the product of the retentions alone (``"zeroth"``), with its first-order correction in
the recurrent couplings (``"first"``), and the diagonal itself (``"exact"``), so that the expansion
never has to be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lwcore.arguments import increasing_integers, instance_of, integer_in, lag_list, one_of
from lwcore.tensors import floating
from lwcore.trace import Neurons, Trace

ORDERS = ("zeroth", "first", "exact")
# entries of the products carried back together, and of the rates: they stay in a core's cache
_PRODUCT_ENTRIES = 2**18
_RATE_ENTRIES = 2**17
_CONDENSED_ENTRIES = 2**23  # entries of the Jacobians that are kept for many products
# lags between two looks at the size of what is carried back: (2^−24)^5, of the least 1 − σ, is a
# float32
_RESCALED = 5


def step_jacobian(trace: Trace, t: int) -> Float[Tensor, "B S S"]:
    """Form the one-step Jacobian ``J_t = ∂s_t/∂s_{t−1}`` of every sequence."""
    return (
        instance_of("trace", trace, Trace).jacobian(integer_in("t", t, 0, trace.length - 1)).dense()
    )


def split(
    trace: Trace, steps: slice | Tensor
) -> tuple[Float[Tensor, "B n S S"], Float[Tensor, "B n S S"]]:
    """Split one-step Jacobians of a cell of `lwcore.cells` into retention and mixing, ``J_t = A_t +
    R_t``.

    A is what is *kept*, R what is *seen* through the recurrent weights. It is the split of Eqs.
    (11) and (23).
    """
    whole, neurons = trace.jacobian(steps).dense(), trace.neurons.of((slice(None), steps))
    if not whole.shape[1]:
        raise ValueError(
            f"steps = {steps}: must hold at least one of the {trace.length} steps of the trace."
        )
    kept = torch.diag_embed(neurons.retention)
    if neurons.head is not None:
        kept = torch.cat([neurons.head.unsqueeze(-1) * kept, kept], dim=-2)
        kept = torch.cat([torch.zeros_like(kept), kept], dim=-1)
    return kept, whole - kept


def default_ends(trace: Trace, lags: Sequence[int]) -> list[int]:
    """List the end points t from which every lag fits into the sequence: max(lags), …, T−1."""
    return list(
        range(lag_list("lags", lags, instance_of("trace", trace, Trace).length)[-1], trace.length)
    )


def checked_ends(ends: Sequence[int] | None, lags: Sequence[int], length: int) -> Tensor:
    """Give end points, all if None, as an index tensor after checking that they increase and leave
    room for every lag."""
    every = range(lags[-1], length)
    return torch.tensor(
        increasing_integers(
            "ends", every if ends is None else ends, lags[-1], length - 1, what="end point"
        )
    )


class Scaled(NamedTuple):
    """Numbers that may lie far below the smallest float: ``mantissa · 2^exponent``; the exponents
    broadcast with the mantissas."""

    mantissa: Tensor
    exponent: Tensor

    def value(self) -> Tensor:
        """Give the numbers themselves; 0 where they underflow."""
        return self.mantissa * torch.exp2(self.exponent)

    def log(self) -> Tensor:
        """Give the logarithm of their absolute values; −inf for 0."""
        return self.mantissa.abs().log() + self.exponent * math.log(2)

    def rescaled(self) -> Scaled:
        """Bring mantissas close to 1, one power of two for all that share an exponent."""
        size = self.mantissa.abs()
        shared = [d for d in range(size.ndim) if self.exponent.shape[d] < size.shape[d]]
        # of no dimension at all, PyTorch would take the whole maximum
        size = size.amax(shared, keepdim=True) if shared else size
        # beyond, the power of two itself would be infinite
        most = math.frexp(torch.finfo(size.dtype).max)[1] - 1
        # integers would make torch compute with float32
        shift = torch.frexp(size).exponent.clamp(min=-most).to(size)
        return Scaled(self.mantissa * torch.exp2(-shift), self.exponent + shift)


def effective_rates(
    trace: Trace, lags: Sequence[int], order: str = "exact", ends: Sequence[int] | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Compute the effective learning rates ``μ^{(q)}_{t,ℓ} = diag(M_{t,ℓ})_q``; first-order and
    exact ones may be negative.

    Zeroth order is ``γ = ∏_j A_j``, the product of what the neuron itself keeps: of ``1 − s`` or
    ``1 − z``, for the LSTM of f, shown by ``e_t``. First order adds the diagonal of ``Σ_j A_t ⋯
    A_{j+1} R_j A_{j−1} ⋯ A_{t−ℓ+1}``. Implements Eqs. (12)–(14), (23), (24) and the scalar-gate
    rates that follow Eqs. (48), (50) and (52). Lags and end points increase; all end points t ≥
    max(lags) if None.

    Examples:
        A constant gate of 1/4 keeps 3/4 of the state at every step:

        >>> from lwcore.cells import ConstGate
        >>> cell = ConstGate(input_size=2, hidden_size=5, gate_init=0.25, dtype=torch.float64)
        >>> trace = cell.trace(torch.zeros(3, 20, 2, dtype=torch.float64))
        >>> rates = effective_rates(trace, lags=[1, 2, 3], order="zeroth")
        >>> tuple(rates.shape)
        (3, 17, 3, 5)
        >>> print(rates[0, 0, :, 0].numpy())
        [0.75     0.5625   0.421875]
    """
    groups = stream_rates(trace, lags, order, ends)
    return torch.cat(
        [torch.stack([rates.value() for rates in at_lags], dim=2) for _, at_lags in groups]
    )


def log_effective_rates(
    trace: Trace, lags: Sequence[int], order: str = "exact", ends: Sequence[int] | None = None
) -> tuple[Float[Tensor, "B ends lags H"], Float[Tensor, "B ends lags H"]]:
    """Compute ``log |μ|``, −inf for 0, and the sign of μ, for lags at which rates are too small for
    a float."""
    groups = [list(at_lags) for _, at_lags in stream_rates(trace, lags, order, ends)]
    logs = torch.cat([torch.stack([rates.log() for rates in at_lags], dim=2) for at_lags in groups])
    return logs, torch.cat(
        [torch.stack([rates.mantissa.sign() for rates in at_lags], dim=2) for at_lags in groups]
    )


def stream_rates(
    trace: Trace, lags: Sequence[int], order: str = "exact", ends: Sequence[int] | None = None
) -> Iterator[tuple[slice, Iterator[Scaled]]]:
    """Give the effective rates a few sequences at a time, (b, ends, H) lag by lag, so that they
    need not all fit into memory."""
    one_of("order", order, ORDERS)
    steps = lag_list("lags", lags, instance_of("trace", trace, Trace).length)
    last = checked_ends(ends, steps, trace.length)
    if order == "exact":
        for sequence in range(len(trace.inputs)):
            yield slice(sequence, sequence + 1), _exact_diagonals(trace, sequence, steps, last)
        return
    at_once = max(1, _RATE_ENTRIES // (len(last) * trace.hidden_size))
    for first in range(0, len(trace.inputs), at_once):
        part = slice(first, first + at_once)
        yield part, _expanded_diagonals(trace.neurons.of(part), steps, last, first=order == "first")


def _expanded_diagonals(
    neurons: Neurons, lags: list[int], ends: Tensor, *, first: bool
) -> Iterator[Scaled]:
    """Zeroth or first order of the rates at each wanted lag, (b, ends, H).

    ``∏(A + εR)`` is multiplied out up to first order in ε, one factor at a time, Eq. (45); see
    `Neurons`. Unlike a sum of ``R/A`` this also holds where a gate is open all the way, A = 0, and
    such a step spoils no window that does not contain it.
    """
    zeroth = (
        torch.ones_like(at_steps(neurons.retention, ends))
        if neurons.head is None
        else at_steps(neurons.head, ends)
    )
    slope, exponent = torch.zeros_like(zeroth), torch.zeros_like(zeroth)
    for lag in range(1, lags[-1] + 1):
        retention = at_steps(neurons.retention, ends - lag + 1)
        before, zeroth = zeroth, zeroth * retention
        if first:
            kept = slope * retention
            slope = torch.addcmul(kept, before, at_steps(neurons.mixing, ends - lag + 1))
            if lag == 1 and neurons.lead is not None:
                slope = slope + at_steps(neurons.lead, ends)
        if lag in lags:
            yield Scaled(
                zeroth + (kept if neurons.delayed else slope) if first else zeroth, exponent
            )
        if lag % _RESCALED == 0:
            (zeroth, slope), (exponent,) = Scaled(
                torch.stack([zeroth, slope]), exponent.unsqueeze(0)
            ).rescaled()


def _index(times: Tensor) -> slice | Tensor:
    """Index increasing steps by a slice where they are evenly spaced, which makes no copy."""
    first, last, count = int(times[0]), int(times[-1]), len(times)
    spacing = (last - first) // max(count - 1, 1) or 1
    even = torch.equal(times, torch.arange(first, last + 1, spacing))
    return slice(first, last + 1, spacing) if even else times


def at_steps(values: Float[Tensor, "B T ..."], times: Tensor) -> Tensor:
    """Choose increasing steps, without a copy where they are evenly spaced."""
    return values[:, _index(times)]


def _products(
    trace: Trace, sequence: int, lags: list[int], ends: Tensor
) -> Iterator[Iterator[Scaled]]:
    """Carry the identity back from each end point of a sequence, a group of end points after the
    other.

    For each group an iterator over the wanted lags, of ``∂h_t/∂h_{t−ℓ}`` or ``∂h_t/∂c_{t−ℓ}``,
    (group, H, H), with one exponent a row. Where many products are taken with each Jacobian, its
    mixing matrices are formed once, if those of all steps fit into memory.
    """
    first, last = int(ends[0]) - lags[-1] + 1, int(ends[-1])
    eye = trace.lifted(
        torch.eye(trace.hidden_size, dtype=trace.history.dtype, device=trace.history.device)
    )
    count = last - first + 1
    pays = count < lags[-1] * len(ends) and count * eye.numel() <= _CONDENSED_ENTRIES
    jacobians = trace.jacobian(slice(first, last + 1), sequence).condensed() if pays else None

    def carry(group: Tensor) -> Iterator[Scaled]:
        carried = Scaled(
            eye.expand(len(group), -1, -1), torch.zeros_like(eye[..., :1]).expand(len(group), -1, 1)
        )
        for lag in range(1, lags[-1] + 1):
            steps = group - lag + 1
            jacobian = (
                trace.jacobian(steps, sequence)
                if jacobians is None
                else jacobians.of(_index(steps - first))
            )
            carried = carried._replace(mantissa=jacobian.pull(carried.mantissa))
            if lag in lags:
                yield carried._replace(mantissa=trace.carried(carried.mantissa))
            if lag % _RESCALED == 0:
                carried = carried.rescaled()

    return (carry(group) for group in ends.split(max(1, _PRODUCT_ENTRIES // eye.numel())))


def _exact_diagonals(
    trace: Trace, sequence: int, lags: list[int], ends: Tensor
) -> Iterator[Scaled]:
    """Diagonals of the products themselves, of one sequence: (1, ends, H) for each wanted lag;
    computed whole."""
    groups = [
        [_diagonal(block) for block in group] for group in _products(trace, sequence, lags, ends)
    ]
    for at_lag in zip(*groups, strict=True):
        yield Scaled(*(torch.cat(parts).unsqueeze(0) for parts in zip(*at_lag, strict=True)))


def _diagonal(block: Scaled) -> Scaled:
    """Take the diagonals of matrices with one exponent a row."""
    return Scaled(block.mantissa.diagonal(dim1=-2, dim2=-1).clone(), block.exponent.squeeze(-1))


def exact_rates_and_share(
    trace: Trace, lags: Sequence[int], ends: Sequence[int] | None = None
) -> tuple[Float[Tensor, "B ends lags H"], Float[Tensor, "B ends lags"]]:
    """Compute the exact rates, and in the same pass how much of the transport they leave out, ``‖M
    − diag M‖_F / ‖M‖_F``.

    M is the block whose diagonal the rates are; the share lies in [0, 1], and is NaN where M is 0.
    Lags and ends as for `effective_rates`.
    """
    steps = lag_list("lags", lags, instance_of("trace", trace, Trace).length)
    last = checked_ends(ends, steps, trace.length)
    rates: list[Tensor] = []
    shares: list[Tensor] = []
    for sequence in range(len(trace.inputs)):
        groups = [
            [(_diagonal(block).value(), _share_beside_diagonal(block)) for block in group]
            for group in _products(trace, sequence, steps, last)
        ]
        for found, part in ((rates, 0), (shares, 1)):
            found.append(
                torch.cat(
                    [torch.stack([block[part] for block in group], dim=1) for group in groups]
                )
            )
    return torch.stack(rates), torch.stack(shares)


def _share_beside_diagonal(block: Scaled) -> Tensor:
    """Give ``‖M − diag M‖_F / ‖M‖_F`` of matrices with one exponent a row."""
    mantissa, exponent = block.rescaled()
    squares = torch.ldexp(mantissa, exponent - exponent.amax(-2, keepdim=True)).square()
    beside = squares.clone()
    beside.diagonal(dim1=-2, dim2=-1).zero_()
    return (beside.sum((-2, -1)) / squares.sum((-2, -1))).sqrt()


def envelope(rates: Float[Tensor, "B ends lags H"]) -> Float[Tensor, " lags"]:
    """Average the 1-norm of the rates over sequences and end points: the envelope f(ℓ), Eq. (29)'s
    ``‖μ_{t,ℓ}‖₁``.

    Examples:
        >>> rates = torch.tensor([0.5, -0.25]).expand(4, 10, 3, 2)
        >>> envelope(rates)
        tensor([0.7500, 0.7500, 0.7500])
    """
    if floating("rates", rates).ndim != 4 or rates.numel() == 0:
        raise ValueError(
            f"rates has shape {tuple(rates.shape)}: must be (B, ends, lags, H), none of them 0."
        )
    return rates.abs().sum(-1).mean((0, 1))


def reset_rates(
    trace: Trace, lags: Sequence[int], ends: Sequence[int] | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Compute a GRU's reset rates ``ρ + η``, ``ρ = ∏_j r_j`` and ``η = ∏_j (1 − z_j) r_j``.
    Implements Eq. (25).

    Eq. (26) adds them to the rates of zeroth or first order. They are no terms of the expansion.
    """
    reset = instance_of("trace", trace, Trace).gates.reset
    if reset is None:
        raise ValueError(
            f"trace is of a {type(trace.recurrence).__name__}: must be of a GRU, which has a "
            "reset gate."
        )
    steps = lag_list("lags", lags, trace.length)
    last = checked_ends(ends, steps, trace.length)
    products = []
    for gates in (reset, trace.gates.keep * reset):
        log = torch.nn.functional.pad(gates.log().cumsum(1), (0, 0, 1, 0))
        products.append(
            torch.stack([(log[:, last + 1] - log[:, last + 1 - lag]).exp() for lag in steps], dim=2)
        )
    return products[0] + products[1]


def scaled_product(
    kept: Float[Tensor, "*batch steps S S"],
    mixing: Float[Tensor, "*batch steps S S"],
    epsilon: float | Tensor,
) -> Float[Tensor, "*batch S S"]:
    """Multiply ``P(ε) = ∏_j (A_j + ε R_j)``, oldest step first; ε = 0 leaves retentions alone, 1 is
    the network. Implements Eq. (44)."""
    _same_stacks(kept, mixing)
    product, *rest = (kept + epsilon * mixing).unbind(-3)
    for factor in rest:
        product = factor @ product
    return product


def coefficients(
    kept: Float[Tensor, "*batch steps S S"],
    mixing: Float[Tensor, "*batch steps S S"],
    orders: int = 1,
) -> Float[Tensor, "orders+1 *batch S S"]:
    """Compute the coefficients of ``P(ε) = Σ_k ε^k P_k``: ``P_0 = P(0)``, ``P_1 = L_P`` the Fréchet
    derivative, and as many more as wanted.

    Built one factor at a time by the product rule, ``P_k ← A P_k + R P_{k−1}``. Implements Eqs.
    (43), (45) and (46), the last without its remainder if `orders` is the number of steps.
    """
    _same_stacks(kept, mixing)
    identity = torch.eye(kept.shape[-1], dtype=kept.dtype, device=kept.device).expand(
        *kept.shape[:-3], -1, -1
    )
    terms = torch.stack([identity, *[torch.zeros_like(identity)] * integer_in("orders", orders, 0)])
    for a, r in zip(kept.unbind(-3), mixing.unbind(-3), strict=True):
        grown = a @ terms
        grown[1:] += r @ terms[:-1]
        terms = grown
    return terms


def _same_stacks(kept: Tensor, mixing: Tensor) -> None:
    """Refuse stacks of matrices that do not belong together."""
    if (
        kept.shape != mixing.shape
        or kept.ndim < 3
        or kept.shape[-1] != kept.shape[-2]
        or kept.numel() == 0
    ):
        raise ValueError(
            f"kept and mixing have shapes {tuple(kept.shape)} and {tuple(mixing.shape)}: must be "
            "the same (..., steps, S, S)."
        )


def falls_for_sure(trace: Trace, last: int, ends: Sequence[int]) -> Bool[Tensor, "B ends last-1 H"]:
    """Say where a first-order rate cannot rise: where ``|R_qq| γ ≤ (1 − A_q) μ`` at the step that
    the next lag adds.

    From ``|μ_{ℓ+1}| = |A μ_ℓ + R γ_ℓ| ≤ A μ_ℓ + (1 − A) μ_ℓ = μ_ℓ``, at lags 1..L−1, of a cell
    whose state is h. Wherever mixing is positive and no more than what the gate replaces, ``0 ≤
    R_qq ≤ 1 − A_q``, this holds at every lag; and from any start until ``Σ |R_qq|/A_q`` reaches ``1
    − max |R_qq|/(1 − A_q)``.
    """
    neurons = instance_of("trace", trace, Trace).neurons
    if neurons.delayed:
        raise ValueError(
            f"trace is of a {type(trace.recurrence).__name__}: must be of a cell whose state is h."
        )
    lags = list(range(1, integer_in("last", last, 2, trace.length - 1) + 1))
    zeroth, first = (
        effective_rates(trace, lags, order=order, ends=ends)[:, :, :-1]
        for order in ("zeroth", "first")
    )
    added = torch.tensor(ends).unsqueeze(1) - torch.tensor(lags[:-1])
    return neurons.mixing[:, added].abs() * zeroth <= (1 - neurons.retention[:, added]) * first
