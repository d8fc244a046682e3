"""How gates carry the gradient back: one-step Jacobians, their products' diagonals, and the envelope.

``M_{t,ℓ} = J_t J_{t−1} ⋯ J_{t−ℓ+1} = ∂s_t/∂s_{t−ℓ}`` transports the loss gradient at time t back ℓ steps. The diagonal of its block
``∂h_t/∂h_{t−ℓ}``, for the LSTM ``∂h_t/∂c_{t−ℓ}``, is the effective learning rate μ(ℓ, q), neuron by neuron. Three orders of it are
offered: the product of the retentions alone (``"zeroth"``), with its first-order correction in the recurrent couplings (``"first"``), and
the diagonal itself (``"exact"``), so that the expansion never has to be trusted. Rates are given per unit of the optimiser's global
learning rate (μ = 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from lwcore.arguments import increasing_integers, instance_of, integer_in, lag_list, one_of
from lwcore.cells import GRUTrace, NeuronFactors, Trace
from lwcore.tensors import floating

ORDERS = ("zeroth", "first", "exact")
READINGS = ("expansion", "paper_v2")
_PRODUCT_ENTRIES = 2**18  # entries of the products carried back together, and of the rates: they stay in a core's cache
_MATRIX_ENTRIES = 2**20  # entries of the mixing matrices formed together
_RATE_ENTRIES = 2**17
_RESCALED = 4  # lags from one rescaling to the next: so few factors stay in the range of a float


def step_jacobian(trace: Trace, t: int) -> Tensor:
    """Form the one-step Jacobian ``J_t = ∂s_t/∂s_{t−1}`` of every sequence. Implements Eqs. (9)–(11), (19)–(22), (48), (50) and (52).

    Args:
        trace: A scan of B sequences.
        t: Step, 0..T−1.

    Returns:
        J, shape (B, S, S).
    """
    return instance_of("trace", trace, Trace).jacobian(integer_in("t", t, 0, trace.length - 1)).dense()


def default_ends(trace: Trace, lags: Sequence[int]) -> list[int]:
    """List the end points t from which every lag fits into the sequence.

    Args:
        trace: A scan.
        lags: Lags, strictly increasing, each in 1..T−1.

    Returns:
        max(lags), …, T−1.
    """
    return list(range(lag_list("lags", lags, instance_of("trace", trace, Trace).length)[-1], trace.length))


def checked_ends(ends: Sequence[int] | None, lags: Sequence[int], length: int) -> Tensor:
    """Give end points, all if None, as an index tensor after checking that they increase and leave room for every lag."""
    every = range(lags[-1], length)
    return torch.tensor(increasing_integers("ends", every if ends is None else ends, lags[-1], length - 1, what="end point"))


class Scaled(NamedTuple):
    """Numbers that may lie far below the smallest float: ``mantissa · 2^exponent``.

    Attributes:
        mantissa: Of ordinary size.
        exponent: Whole numbers that broadcast with the mantissas; None for 0.
    """

    mantissa: Tensor
    exponent: Tensor | None

    def value(self) -> Tensor:
        """Give the numbers themselves; 0 where they underflow."""
        return self.mantissa if self.exponent is None else torch.ldexp(self.mantissa, self.exponent)

    def log(self) -> Tensor:
        """Give the logarithm of their absolute values; −inf for 0."""
        log = self.mantissa.abs().log()
        return log if self.exponent is None else log + self.exponent * math.log(2)


def effective_rates(
    trace: Trace, lags: Sequence[int], order: str = "exact", ends: Sequence[int] | None = None, reading: str = "expansion"
) -> Tensor:
    """Compute the effective learning rates ``μ^{(q)}_{t,ℓ} = diag(M_{t,ℓ})_q``, per unit of global learning rate.

    Zeroth order is ``γ = ∏_j A_j``, the product of what the neuron itself keeps: of ``1 − s`` or ``1 − z``, for the LSTM of f, shown by
    ``e_t``. First order adds the diagonal of ``Σ_j A_t ⋯ A_{j+1} R_j A_{j−1} ⋯ A_{t−ℓ+1}``. Implements Eqs. (12)–(14) and (23)–(26), and
    the scalar-gate rates that follow Eqs. (48), (50) and (52).

    Args:
        trace: A scan of B sequences.
        lags: Lags ℓ, strictly increasing, each in 1..T−1.
        order: ``"zeroth"``, ``"first"`` or ``"exact"``.
        ends: End points t, strictly increasing, each in max(lags)..T−1; all of them if None.
        reading: ``"expansion"``, or for a GRU ``"paper_v2"``, which adds the reset rates ``ρ = ∏_j r_j`` and ``η = ∏_j (1 − z_j) r_j`` of
            Eq. (25) to zeroth and first order as Eq. (26) does; they are no terms of the expansion.

    Returns:
        μ, shape (B, number of ends, number of lags, H). First-order and exact rates may be negative.

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
    groups = stream_rates(trace, lags, order, ends, reading)
    return torch.cat([torch.stack([rates.value() for rates in at_lags], dim=2) for _, at_lags in groups])


def log_effective_rates(
    trace: Trace, lags: Sequence[int], order: str = "exact", ends: Sequence[int] | None = None, reading: str = "expansion"
) -> tuple[Tensor, Tensor]:
    """Compute the effective learning rates by logarithm and sign, for lags at which they are too small for a float.

    Args:
        trace: A scan of B sequences.
        lags: As for `effective_rates`, like the rest.
        order: The order.
        ends: End points.
        reading: The reading of Eq. (26).

    Returns:
        ``log |μ|`` (−inf for a rate of 0) and the sign of μ, each (B, number of ends, number of lags, H).
    """
    groups = [list(at_lags) for _, at_lags in stream_rates(trace, lags, order, ends, reading, rescale=True)]
    logs = torch.cat([torch.stack([rates.log() for rates in at_lags], dim=2) for at_lags in groups])
    return logs, torch.cat([torch.stack([rates.mantissa.sign() for rates in at_lags], dim=2) for at_lags in groups])


def stream_rates(
    trace: Trace,
    lags: Sequence[int],
    order: str = "exact",
    ends: Sequence[int] | None = None,
    reading: str = "expansion",
    *,
    weights: Tensor | None = None,
    rescale: bool = False,
) -> Iterator[tuple[slice, Iterator[Scaled]]]:
    """Give the effective learning rates a few sequences at a time and lag by lag, so that they need not all fit into memory.

    Args:
        trace: A scan of B sequences.
        lags: As for `effective_rates`, like the rest.
        order: The order.
        ends: End points.
        reading: The reading of Eq. (26).
        weights: Factors of the rates, shape (B, number of ends, H); 1 if None. Carrying them along costs nothing.
        rescale: Keep the mantissas of ordinary size, whatever the lag; otherwise there are no exponents.

    Yields:
        Which sequences, and for each lag their rates, shape (number of these sequences, number of ends, H).

    Raises:
        ValueError: If `reading` is ``"paper_v2"`` and there is no reset gate or the order is exact.
    """
    one_of("order", order, ORDERS)
    one_of("reading", reading, READINGS)
    steps = lag_list("lags", lags, instance_of("trace", trace, Trace).length)
    last = checked_ends(ends, steps, trace.length)
    if weights is not None:
        floating("weights", weights, (len(trace.history), len(last), trace.hidden_size), "B, ends, H")
    if reading == "paper_v2" and (order == "exact" or not isinstance(trace, GRUTrace)):
        raise ValueError(
            f"reading = {reading!r}: must be of a GRU at zeroth or first order, as Eq. (26) is, not {order!r} of {type(trace).__name__}."
        )
    if order == "exact":
        for part in _parts(trace, steps, last):
            yield part, _exact_diagonals(trace, part, steps, last, None if weights is None else weights[part], rescale=rescale)
        return
    at_once = max(1, _RATE_ENTRIES // (len(last) * trace.hidden_size))
    for first in range(0, len(trace.states), at_once):
        part = slice(first, first + at_once)
        start = None if weights is None else weights[part]
        every = _expanded_diagonals(trace.neurons.of(part), steps, last, start, first=order == "first", rescale=rescale)
        if isinstance(trace, GRUTrace) and reading == "paper_v2":
            every = map(_added, every, _reset_rates(trace, part, steps, last, start, rescale=rescale))
        yield part, every


def _expanded_diagonals(
    factors: NeuronFactors, lags: list[int], ends: Tensor, start: Tensor | None, *, first: bool, rescale: bool
) -> Iterator[Scaled]:
    """Zeroth or first order of the rates at each wanted lag, (B, ends, H), times `start`.

    ``∏(A + εR)`` is multiplied out up to first order in ε, one factor at a time, Eq. (45); see `NeuronFactors`. Unlike a sum of ``R/A``
    this also holds where a gate is open all the way, A = 0, and such a step spoils no window that does not contain it.

    Yields:
        The rates at the next wanted lag.
    """
    zeroth = torch.ones_like(at_steps(factors.retention, ends)) if factors.head is None else at_steps(factors.head, ends)
    lead = torch.zeros_like(zeroth) if factors.lead is None else at_steps(factors.lead, ends)
    if start is not None:
        zeroth, lead = zeroth * start, lead * start
    slope, exponent, back = torch.zeros_like(zeroth), None, _backwards(ends)
    for lag in range(1, lags[-1] + 1):
        retention = factors.retention[:, back(lag - 1)]
        before, zeroth = zeroth, zeroth * retention
        if first:
            kept = slope * retention
            slope = torch.addcmul(kept, before, factors.mixing[:, back(lag - 1)])
            if lag == 1:
                slope = slope + lead
        if lag in lags:
            yield Scaled(zeroth + (kept if factors.delayed else slope) if first else zeroth, exponent)
        if rescale and lag % _RESCALED == 0:
            (zeroth, slope), exponent = _rescaled([zeroth, slope], exponent)


def _index(times: Tensor) -> slice | Tensor:
    """Index increasing steps by a slice where they are evenly spaced, which makes no copy."""
    first, last, count = int(times[0]), int(times[-1]), len(times)
    spacing = (last - first) // max(count - 1, 1) or 1
    even = torch.equal(times, torch.arange(first, last + 1, spacing))
    return slice(first, last + 1, spacing) if even else times


def _backwards(times: Tensor) -> Callable[[int], slice | Tensor]:
    """Give a function that indexes what lies some steps before, as `_index` does."""
    index = _index(times)
    if isinstance(index, slice):
        first, end, spacing = index.start, index.stop, index.step
        return lambda steps: slice(first - steps, end - steps, spacing)
    return lambda steps: times - steps


def at_steps(values: Tensor, times: Tensor) -> Tensor:
    """Choose steps, without a copy where they are evenly spaced.

    Args:
        values: Shape (B, T, ...).
        times: Increasing steps.

    Returns:
        Shape (B, number of steps, ...).
    """
    return values[:, _index(times)]


def _rescaled(values: list[Tensor], exponent: Tensor | None) -> tuple[list[Tensor], Tensor]:
    """Divide by one power of two, entry by entry, so that the largest of the values is between one half and one."""
    size = values[0].abs()
    for value in values[1:]:
        size = torch.maximum(size, value.abs())
    shift = _binary_exponent(size)
    return [torch.ldexp(value, -shift) for value in values], shift if exponent is None else exponent + shift


def _binary_exponent(size: Tensor) -> Tensor:
    """Give the power of two just above each number, in its own dtype: integers would make torch compute with float32."""
    return torch.frexp(size).exponent.to(size)


def _reset_rates(trace: GRUTrace, part: slice, lags: list[int], ends: Tensor, start: Tensor | None, *, rescale: bool) -> Iterator[Scaled]:
    """The reset rates ``ρ + η = ∏ r + ∏ (1 − z) r`` at each wanted lag, (B, ends, H), times `start`: Eq. (25)."""
    reset = mixed = torch.ones_like(at_steps(trace.reset_gate[part], ends)) if start is None else start
    exponent, back = None, _backwards(ends)
    for lag in range(1, lags[-1] + 1):
        gate = trace.reset_gate[part, back(lag - 1)]
        reset, mixed = reset * gate, mixed * gate * (1 - trace.update_gate[part, back(lag - 1)])
        if lag in lags:
            yield Scaled(reset + mixed, exponent)
        if rescale and lag % _RESCALED == 0:
            (reset, mixed), exponent = _rescaled([reset, mixed], exponent)


def _added(one: Scaled, other: Scaled) -> Scaled:
    """Add two scaled numbers."""
    if one.exponent is None or other.exponent is None:
        return Scaled(one.value() + other.value(), None)
    exponent = torch.maximum(one.exponent, other.exponent)
    return Scaled(torch.ldexp(one.mantissa, one.exponent - exponent) + torch.ldexp(other.mantissa, other.exponent - exponent), exponent)


def _parts(trace: Trace, lags: list[int], ends: Tensor) -> Iterator[slice]:
    """Give the sequences whose products are carried back together: as many as stay small, at least one."""
    matrix, steps = trace.hidden_size * trace.states.shape[-1], int(ends[-1]) - int(ends[0]) + lags[-1]
    at_once = max(1, min(_PRODUCT_ENTRIES // (len(ends) * matrix), _MATRIX_ENTRIES // (steps * matrix)))
    count = len(trace.history)
    return (slice(start, min(start + at_once, count)) for start in range(0, count, at_once))


def _products(trace: Trace, part: slice, lags: list[int], ends: Tensor, *, rescale: bool) -> Iterator[Iterator[Scaled]]:
    """Carry the identity back from each end point of some sequences, a group of end points after the other.

    Many products are taken with each Jacobian, so its mixing matrices are formed once.

    Returns:
        For each group an iterator over the wanted lags, of ``∂h_t/∂h_{t−ℓ}`` or ``∂h_t/∂c_{t−ℓ}``, (group · sequences, H, H), end points
        first, with one exponent a row.
    """
    many, size = part.stop - part.start, trace.states.shape[-1]
    steps = torch.arange(int(ends[0]) - lags[-1] + 1, int(ends[-1]) + 1)
    sequences = torch.arange(part.start, part.stop)
    jacobians = trace.jacobians.of((sequences.repeat(len(steps)), steps.repeat_interleave(many))).condensed()

    def carry(group: Tensor) -> Iterator[Scaled]:
        back = _backwards(((group - steps[0]).unsqueeze(1) * many + torch.arange(many)).flatten())
        identity = torch.eye(trace.hidden_size, size, dtype=trace.states.dtype, device=trace.states.device)
        rows = identity.expand(len(group) * many, -1, -1)
        exponent = rows.new_zeros(len(rows), trace.hidden_size, 1) if rescale else None
        for lag in range(1, lags[-1] + 1):
            rows = jacobians.of(back((lag - 1) * many)).pull(rows)
            if exponent is not None and lag % _RESCALED == 0:
                shift = _binary_exponent(rows.abs().amax(-1, keepdim=True))
                rows, exponent = torch.ldexp(rows, -shift), exponent + shift
            if lag in lags:
                yield Scaled(trace.carried(rows), exponent)

    return (carry(group) for group in ends.split(max(1, _PRODUCT_ENTRIES // (trace.hidden_size * size))))


def _exact_diagonals(
    trace: Trace, part: slice, lags: list[int], ends: Tensor, weights: Tensor | None, *, rescale: bool
) -> Iterator[Scaled]:
    """Diagonals of the products themselves, (sequences, ends, H) for each wanted lag; computed whole."""
    groups = [[_diagonal(block) for block in group] for group in _products(trace, part, lags, ends, rescale=rescale)]
    mantissa = _by_sequence([[one.mantissa for one in group] for group in groups], part)
    exponent = _by_sequence([[cast(Tensor, one.exponent) for one in group] for group in groups], part) if rescale else None
    for i in range(len(lags)):
        yield Scaled(
            mantissa[:, :, i] if weights is None else mantissa[:, :, i] * weights,
            None if exponent is None else exponent[:, :, i],
        )


def _diagonal(block: Scaled) -> Scaled:
    """Take the diagonals of matrices with one exponent a row."""
    exponent = None if block.exponent is None else block.exponent.squeeze(-1)
    return Scaled(block.mantissa.diagonal(dim1=-2, dim2=-1).clone(), exponent)


def _by_sequence(groups: list[list[Tensor]], part: slice) -> Tensor:
    """Lay out what comes by groups of end points and by lags, (group · sequences, ...), as (sequences, ends, lags, ...)."""
    together = torch.stack([torch.cat(at_lag) for at_lag in zip(*groups, strict=True)], dim=1)
    return together.unflatten(0, (-1, part.stop - part.start)).transpose(0, 1)


def exact_rates_and_share(trace: Trace, lags: Sequence[int], ends: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
    """Compute the exact rates, and how much of the transport they leave out, ``‖M − diag M‖_F / ‖M‖_F``.

    Args:
        trace: A scan of B sequences.
        lags: Lags ℓ, strictly increasing, each in 1..T−1.
        ends: End points t, strictly increasing, each in max(lags)..T−1; all of them if None.

    Returns:
        μ, as `effective_rates` gives it, and shares in [0, 1], NaN where M is 0, of the block whose diagonal the rates are; shape (B,
        number of ends, number of lags).
    """
    steps = lag_list("lags", lags, instance_of("trace", trace, Trace).length)
    last = checked_ends(ends, steps, trace.length)
    rates, shares = [], []
    for part in _parts(trace, steps, last):
        groups = [
            [(_diagonal(block).value(), _share_beside_diagonal(block)) for block in group]
            for group in _products(trace, part, steps, last, rescale=True)
        ]
        rates.append(_by_sequence([[rate for rate, _ in group] for group in groups], part))
        shares.append(_by_sequence([[share for _, share in group] for group in groups], part))
    return torch.cat(rates), torch.cat(shares)


def _share_beside_diagonal(block: Scaled) -> Tensor:
    """Give ``‖M − diag M‖_F / ‖M‖_F`` of matrices with one exponent a row."""
    exponent = cast(Tensor, block.exponent)
    squares = torch.ldexp(block.mantissa, exponent - exponent.amax(-2, keepdim=True)).square()
    diagonal = squares.diagonal(dim1=-2, dim2=-1)
    on = diagonal.sum(-1)
    diagonal.zero_()
    beside = squares.sum((-2, -1))
    return (beside / (on + beside)).sqrt()


def envelope(rates: Tensor) -> Tensor:
    """Average the 1-norm of the rates over sequences and end points: the envelope f(ℓ). Implements Eq. (29)'s ``f(ℓ) = ‖μ_{t,ℓ}‖₁``.

    Args:
        rates: μ, shape (B, ends, lags, H).

    Returns:
        f, shape (lags,), at least 0.

    Raises:
        ValueError: If `rates` has another number of dimensions or is empty.

    Examples:
        >>> rates = torch.tensor([0.5, -0.25]).expand(4, 10, 3, 2)
        >>> envelope(rates)
        tensor([0.7500, 0.7500, 0.7500])
    """
    if floating("rates", rates).ndim != 4 or rates.numel() == 0:
        raise ValueError(f"rates has shape {tuple(rates.shape)}: must be (B, ends, lags, H), none of them 0.")
    return rates.abs().sum(-1).mean((0, 1))
