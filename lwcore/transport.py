"""Transport of gradients by gates: one-step Jacobians, effective learning rates, the envelope.

The loss gradient at time t reaches the state ℓ steps earlier through a product of Jacobians,
``M_{t,ℓ} = J_t J_{t−1} ⋯ J_{t−ℓ+1} = ∂s_t/∂s_{t−ℓ}``. What arrives at neuron q is the diagonal
entry of its block ``∂h_t/∂h_{t−ℓ}`` (for the LSTM ``∂h_t/∂c_{t−ℓ}``): the effective learning rate
``μ^{(q)}_{t,ℓ}``, per unit of the optimiser's global learning rate.

The letters here: B sequences, T steps, H neurons, S entries of a state (H, or 2H for the LSTM); t
an end point, ℓ a lag in steps. A step's Jacobian is ``J = A + R``, retention plus mixing.

Which order to take:

* ``"exact"`` is the diagonal of the product itself: what the network does. It costs a matrix
  product for each step, end point and sequence.
* ``"zeroth"`` is the product of the retentions A alone: what the gates keep. It is cheap, never
  negative, and the order of the paper's closed forms.
* ``"first"`` adds the terms with one mixing R among the retentions: the paper's approximation. It
  is nearly as cheap, and good where mixing is small; it may be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import own_precision
from lwcore.signatures import Finite, Index, Lags, checked, require
from lwcore.trace import Neurons, Trace

Order = Literal["zeroth", "first", "exact"]

# How many numbers are worked on at once. The first two keep an array in a core's cache.
_PRODUCT_ENTRIES = 2**18  # entries of products that are carried back together
_RATE_ENTRIES = 2**17  # rates of the zeroth and first order
_CONDENSED_ENTRIES = 2**23  # entries of the Jacobians that are kept for many products


@checked
def step_jacobian(trace: Trace, t: Index) -> Float[Tensor, "B S S"]:
    """Return the one-step Jacobian ``J_t = ∂s_t/∂s_{t−1}`` of every sequence, as dense matrices.

    Takes one step t, counted from 0. For products with J use `Trace.jacobian`, which forms no
    matrix.
    """
    require("t", t, t < trace.length, f"one of the {trace.length} steps, counted from 0")
    return trace.jacobian(int(t)).dense()


@checked
def split(
    trace: Trace, steps: slice | Tensor
) -> tuple[Float[Tensor, "B n S S"], Float[Tensor, "B n S S"]]:
    """Split the Jacobians of some steps into retention and mixing, ``J_t = A_t + R_t``.

    A is what a neuron keeps of itself, R all that passes through the recurrent weights. This is
    the split of Eqs. (11) and (23). Needs a cell of `lwcore.cells`.
    """
    jacobian = trace.jacobian(steps).dense()
    neurons = trace.neurons.select((slice(None), steps))
    require("steps", steps, jacobian.shape[1], f"some of the {trace.length} steps of the trace")
    retention = torch.diag_embed(neurons.retention)
    if neurons.head is not None:
        # An LSTM's state is (h, c), and only c is kept: A = [[0, E F], [0, F]] of Eq. (11).
        expressed = neurons.head.unsqueeze(-1) * retention
        of_cell = torch.cat([expressed, retention], dim=-2)
        retention = torch.cat([torch.zeros_like(of_cell), of_cell], dim=-1)
    return retention, jacobian - retention


def lags_and_ends(length: int, lags: Lags, ends: Lags | None = None) -> tuple[list[int], Tensor]:
    """Return lags and end points as whole numbers; refuse those that do not fit into sequences.

    Without `ends`, end points are all steps that have the longest lag behind them.
    """
    steps = [int(lag) for lag in lags]
    longest = steps[-1]
    require("lags", steps, longest < length, f"below {length}, the number of steps")
    if ends is None:
        return steps, torch.arange(longest, length)
    last = [int(end) for end in ends]
    fit = last[0] >= longest and last[-1] < length
    require("ends", last, fit, f"from {longest}, the longest lag, to {length - 1}")
    return steps, torch.tensor(last)


@checked
def effective_rates(
    trace: Trace, lags: Lags, order: Order = "exact", ends: Lags | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Return effective learning rates ``μ^{(q)}_{t,ℓ}``: how much of a gradient crosses ℓ steps.

    A rate is the factor by which the loss gradient in neuron q's output at step t arrives at the
    same neuron ℓ steps earlier: ``μ^{(q)}_{t,ℓ} = diag(M_{t,ℓ})_q`` with ``M_{t,ℓ} = J_t ⋯
    J_{t−ℓ+1}``. A rate of 1 passes the gradient on whole, 0 loses it. It is a pure number, and
    multiplies the learning rate of the optimiser. Its three orders write ``J_j = A_j + R_j`` and
    multiply out:

    * ``"zeroth"``: ``γ = ∏_j A_j``, what the neuron itself keeps in every step: the product of ``1
      − s``, for a GRU of ``1 − z``, for an LSTM of f, times the expression ``e_t`` of the cell in
      the output.
    * ``"first"``: γ, and the diagonal of ``Σ_j A_t ⋯ A_{j+1} R_j A_{j−1} ⋯ A_{t−ℓ+1}``: the
      gradient may pass through the recurrent weights once.
    * ``"exact"``: all paths. This is what the network does; the other two explain it.

    The first order and the exact rates may be negative. Implements Eqs. (12)–(14), (23), (24) and
    the scalar-gate rates that follow Eqs. (48), (50) and (52).

    Args:
        lags: Lags ℓ ≥ 1 in steps, increasing.
        ends: End points t from max(lags) to T − 1; all of these if None.

    Raises:
        ArgumentError: If lags or end points do not fit into the sequences, or an order other than
            the exact one is asked of a recurrence without a closed form.

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
    steps, last = lags_and_ends(trace.length, lags, ends)
    groups = stream_rates(trace, steps, last, order)
    return _join(by_lag for _, by_lag in groups)


def _join(groups: Iterable[Iterable[Tensor]]) -> Tensor:
    """Join results of groups of sequences, each lag by lag, into one array (B, ends, lags, …)."""
    parts = []
    for by_lag in groups:
        parts.append(torch.stack(list(by_lag), dim=2))
    return torch.cat(parts)


def stream_rates(
    trace: Trace, lags: list[int], ends: Tensor, order: str
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Yield groups of sequences, each with its rates (b, ends, H) lag by lag, to bound memory."""
    if order == "exact":
        yield from _stream_products(trace, lags, ends, _copy_diagonal)
        return
    n_at_once = max(1, _RATE_ENTRIES // (len(ends) * trace.hidden_size))
    for start in range(0, len(trace.inputs), n_at_once):
        group = slice(start, start + n_at_once)
        neurons = trace.neurons.select(group)
        yield group, _expanded_diagonals(neurons, lags, ends, first_order=order == "first")


def _copy_diagonal(block: Tensor) -> Tensor:
    """Copy the diagonals, so that the products themselves can be freed."""
    return block.diagonal(dim1=-2, dim2=-1).clone()


def _expanded_diagonals(
    neurons: Neurons, lags: list[int], ends: Tensor, *, first_order: bool
) -> Iterator[Tensor]:
    """Yield the zeroth or first order of the rates at each wanted lag, (b, ends, H).

    ``∏_j (A_j + εR_j)`` is multiplied out up to first order in ε, one factor at a time, Eq. (45);
    see `Neurons`. Unlike a sum of ``R/A`` this also holds where a gate is open all the way, A = 0.
    """
    # γ = ∏ A, Eqs. (13) and (24). An LSTM's begins with e_t, the expression of c in h.
    has_head = neurons.head is not None
    if neurons.head is not None:
        gamma = at_steps(neurons.head, ends)
    else:
        gamma = torch.ones_like(at_steps(neurons.retention, ends))
    # The diagonal of Σ_j A_t ⋯ A_{j+1} R_j A_{j−1} ⋯ A_{t−ℓ+1}, Eqs. (12) and (23).
    mixed = torch.zeros_like(gamma)
    for lag in range(1, lags[-1] + 1):
        step = ends - lag + 1  # the step that this lag adds
        retention = at_steps(neurons.retention, step)
        if first_order:
            # The product rule: A meets the terms that have an R already, R the product of all As.
            mixed_before = mixed * retention
            mixed = torch.addcmul(mixed_before, gamma, at_steps(neurons.mixing, step))
            if lag == 1 and neurons.lead is not None:
                mixed = mixed + at_steps(neurons.lead, ends)
        gamma = gamma * retention
        if lag not in lags:
            continue
        if not first_order:
            yield gamma
        elif has_head:  # the R of this step went through h, and reaches c one lag later
            yield gamma + mixed_before
        else:
            yield gamma + mixed


def _index(times: Tensor) -> slice | Tensor:
    """Return increasing steps as a slice where they are evenly spaced, which makes no copy."""
    first = int(times[0])
    last = int(times[-1])
    spacing = (last - first) // max(len(times) - 1, 1) or 1
    even = torch.arange(first, last + 1, spacing)
    if torch.equal(times, even):
        return slice(first, last + 1, spacing)
    return times


def at_steps(values: Float[Tensor, "B T ..."], times: Tensor) -> Tensor:
    """Select values at increasing steps, without a copy where these are evenly spaced."""
    return values[:, _index(times)]


def _stream_products(
    trace: Trace, lags: list[int], ends: Tensor, read: Callable[[Tensor], Tensor]
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Yield groups of sequences, each with `read` of its blocks of M, (b, ends, …), lag by lag.

    The blocks are ``∂h_t/∂h_{t−ℓ}``, or ``∂h_t/∂c_{t−ℓ}``. They are carried back for groups of end
    points, of several sequences where these are small: their Jacobians have to be copied.
    """
    block_entries = trace.hidden_size * trace.history.shape[-1]
    n_at_once = max(1, _PRODUCT_ENTRIES // block_entries)
    n_sequences = max(1, n_at_once // (4 * len(ends)))
    for sequences in torch.arange(len(trace.inputs)).split(n_sequences):
        groups = [
            _carry_back(trace, sequences, some_ends, lags, read)
            for some_ends in ends.split(n_at_once)
        ]
        by_lag = (torch.cat(parts, dim=1) for parts in zip(*groups, strict=True))
        yield slice(int(sequences[0]), int(sequences[-1]) + 1), by_lag


def _carry_back(
    trace: Trace,
    sequences: Tensor,
    ends: Tensor,
    lags: list[int],
    read: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """Return `read` of the products of one group at each wanted lag.

    All pairs of a sequence and an end point are carried back together: rows of h at the end point,
    times one Jacobian more at each lag. Where the end points are so close that most Jacobians take
    part in many products, all are condensed once, if they fit into memory.
    """
    longest = lags[-1]
    eye = trace.lifted(torch.eye(trace.hidden_size).to(trace.history))
    first_step = int(ends[0]) - longest + 1
    n_steps = int(ends[-1]) - first_step + 1
    sequence, end = torch.cartesian_prod(sequences, ends).unbind(1)

    condensed = None
    shared = n_steps < longest * len(ends)
    if shared and len(sequences) * n_steps * eye.numel() <= _CONDENSED_ENTRIES:
        steps = torch.arange(first_step, first_step + n_steps)
        every = torch.cartesian_prod(sequences, steps)
        condensed = trace.jacobian(every[:, 1], every[:, 0]).condensed()
    place = (sequence - sequences[0]) * n_steps + end - first_step  # of (sequence, end) in these

    products = eye.expand(len(end), -1, -1)
    results = []
    for lag in range(1, longest + 1):
        if condensed is None:
            products = trace.jacobian(end - lag + 1, sequence).pull(products)
        else:
            products = condensed(_index(place - lag + 1), products)
        if lag in lags:
            result = read(trace.carried(products))
            results.append(result.unflatten(0, (len(sequences), -1)))
    return results


@checked
def exact_rates_and_share(
    trace: Trace, lags: Lags, ends: Lags | None = None
) -> tuple[Float[Tensor, "B ends lags H"], Float[Tensor, "B ends lags"]]:
    """Return exact rates, and the share of the transport that passes between different neurons.

    The share is ``‖M − diag M‖_F / ‖M‖_F``, M the block whose diagonal the rates are. It lies in
    [0, 1]: 0 where every neuron's gradient stays with that neuron, and NaN where M is 0. Use it to
    see how much of the transport the rates leave out. Lags and end points are those of
    `effective_rates`.
    """
    steps, last = lags_and_ends(trace.length, lags, ends)

    def diagonal_and_share(block: Tensor) -> Tensor:
        # Scaled by a power of 2, which rounds nothing, so that no square underflows.
        largest = torch.frexp(block.abs().amax((-2, -1), keepdim=True)).exponent.to(block)
        squares = (block * torch.exp2(-largest)).square()
        off_diagonal = squares.clone()
        off_diagonal.diagonal(dim1=-2, dim2=-1).zero_()
        share = (off_diagonal.sum((-2, -1)) / squares.sum((-2, -1))).sqrt()
        return torch.cat([block.diagonal(dim1=-2, dim2=-1), share.unsqueeze(-1)], dim=-1)

    groups = _stream_products(trace, steps, last, diagonal_and_share)
    joined = _join(by_lag for _, by_lag in groups)
    return joined[..., :-1], joined[..., -1]


@checked
def envelope(rates: Float[Tensor, "B ends lags H"]) -> Float[Tensor, " lags"]:
    """Return the envelope f(ℓ): how much gradient crosses ℓ steps, summed over all neurons.

    ``f(ℓ) = ‖μ_{t,ℓ}‖₁ = Σ_q |μ^{(q)}_{t,ℓ}|`` in Eq. (29), here its mean over sequences and end
    points. It has the unit of the rates, and no upper bound of 1: H neurons that keep everything
    have f = H.

    Examples:
        >>> rates = torch.tensor([0.5, -0.25]).expand(4, 10, 3, 2)
        >>> envelope(rates)
        tensor([0.7500, 0.7500, 0.7500])
    """
    require("rates", rates, rates.numel(), "of at least one sequence, end point, lag and neuron")
    return rates.abs().sum(-1).mean((0, 1))


@checked
def reset_rates(
    trace: Trace, lags: Lags, ends: Lags | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Return the reset rates of a GRU, ``ρ + η``: ``ρ = ∏_j r_j`` and ``η = ∏_j (1 − z_j) r_j``.

    Implements Eq. (25). The paper's Eq. (26) adds them to the rates. They are no terms of the
    expansion of M, so `effective_rates` leaves them out: add them to reproduce Eq. (26).
    """
    steps, last = lags_and_ends(trace.length, lags, ends)
    reset = trace.gates.reset
    name = type(trace.recurrence).__name__
    require("trace.recurrence", name, reset is not None, "a GRU, which has a reset gate")

    def over_lags(gates: Tensor) -> Tensor:
        """Multiply gates over the ℓ steps that end at each end point."""
        by_lag = [gates.unfold(1, lag, 1)[:, last + 1 - lag].prod(-1) for lag in steps]
        return torch.stack(by_lag, dim=2)

    rho = over_lags(reset)
    eta = over_lags(trace.gates.keep * reset)
    return rho + eta


@checked
@own_precision
def scaled_product(
    kept: Float[Tensor, "*batch steps S S"],
    mixing: Float[Tensor, "*batch steps S S"],
    epsilon: Finite | Float[Tensor, ""],
) -> Float[Tensor, "*batch S S"]:
    """Multiply ``P(ε) = ∏_j (A_j + ε R_j)``, the product with mixing of a chosen strength.

    ε = 0 leaves retentions alone, ε = 1 is the network. Implements Eq. (44). Steps are given oldest
    first, and the newest stands on the left of the product. `split` returns `kept` and `mixing`.
    """
    require("kept", kept, kept.numel(), "of at least one step")
    product, *later_factors = (kept + epsilon * mixing).unbind(-3)
    for factor in later_factors:
        product = factor @ product
    return product


@checked
@own_precision
def coefficients(
    kept: Float[Tensor, "*batch steps S S"],
    mixing: Float[Tensor, "*batch steps S S"],
    orders: Index = 1,
) -> Float[Tensor, "{orders}+1 *batch S S"]:
    """Return the coefficients of ``P(ε) = Σ_k ε^k P_k``, up to a highest order k.

    ``P_0 = P(0)`` is the product of retentions, ``P_1`` the Fréchet derivative, all terms with one
    mixing. Built one factor at a time by the product rule, ``P_k ← A P_k + R P_{k−1}``. Implements
    Eqs. (43), (45) and (46), the last without its remainder if `orders` is the number of steps.
    """
    require("kept", kept, kept.numel(), "of at least one step")
    identity = torch.eye(kept.shape[-1]).to(kept).expand(*kept.shape[:-3], -1, -1)
    terms = torch.stack([identity] + [torch.zeros_like(identity)] * orders)
    for retention, mix in zip(kept.unbind(-3), mixing.unbind(-3), strict=True):
        extended = retention @ terms
        extended[1:] += mix @ terms[:-1]
        terms = extended
    return terms
