"""Transport of gradients by gates: one-step Jacobians, effective learning rates, the envelope.

The loss gradient at time t reaches the state ℓ steps earlier through a product of Jacobians,
``M_{t,ℓ} = J_t J_{t−1} ⋯ J_{t−ℓ+1} = ∂s_t/∂s_{t−ℓ}``. What arrives at neuron q is the diagonal
entry of its block ``∂h_t/∂h_{t−ℓ}`` (for the LSTM ``∂h_t/∂c_{t−ℓ}``): the effective learning rate
``μ^{(q)}_{t,ℓ}``, per unit of the optimiser's global learning rate μ. The paper has that factor in
front, Eq. (14): what is written μ^{(q)} here is the paper's μ^{(q)}/μ.

The letters here: B sequences, T steps, H neurons, S entries of a state (H, or 2H for the LSTM); t
an end point, ℓ a lag in steps. A step's Jacobian is ``J = A + R``, retention plus mixing.

Take the order ``"exact"`` for what the network does, ``"zeroth"`` for what its gates keep, and
``"first"`` for the paper's approximation: see `effective_rates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lwcore.ambient import own_precision
from lwcore.signatures import Finite, Index, Lags, checked, require
from lwcore.trace import Neurons, Trace, select_each

Order = Literal["zeroth", "first", "exact"]

# How many numbers are worked on at once. The first two keep an array in a core's cache.
_PRODUCT_ENTRIES = 2**18  # entries of products that are carried back together
_RATE_ENTRIES = 2**17  # rates of the zeroth and first order
_CONDENSED_ENTRIES = 2**23  # entries of the Jacobians that are kept for many products
_ARRAYS_A_PRODUCT = 4  # of a product's size, where its Jacobians come from several sequences


@checked
def step_jacobian(trace: Trace, t: Index) -> Float[Tensor, "B S S"]:
    """Return the one-step Jacobian ``J_t = ∂s_t/∂s_{t−1}`` of every sequence, as dense matrices.

    For products with J use `Trace.jacobian`, which forms no matrix.
    """
    require("t", t, t < trace.length, f"one of the {trace.length} steps, counted from 0")
    return trace.jacobian(t).dense()


@checked
def split(
    trace: Trace, steps: slice | Tensor
) -> tuple[Float[Tensor, "B steps S S"], Float[Tensor, "B steps S S"]]:
    """Split the Jacobians of some steps into retention and mixing, ``J_t = A_t + R_t``.

    A is what a neuron keeps of itself, R all that passes through the recurrent weights, as in
    Eqs. (11) and (23). Needs a cell of `lwcore.cells`.
    """
    jacobian = trace.jacobian(steps).dense()
    neurons = select_each(trace.neurons, (slice(None), steps))
    require("steps", steps, jacobian.shape[1], f"some of the {trace.length} steps of the trace")
    retention = torch.diag_embed(neurons.retention)
    if neurons.head is not None:
        # An LSTM's state is (h, c), and only c is kept: A = [[0, E F], [0, F]] of Eq. (11).
        expressed = neurons.head.unsqueeze(-1) * retention
        from_c = torch.cat([expressed, retention], dim=-2)
        from_h = torch.zeros_like(from_c)
        retention = torch.cat([from_h, from_c], dim=-1)
    return retention, jacobian - retention


def lags_and_ends(length: int, lags: Lags, ends: Lags | None = None) -> tuple[list[int], Tensor]:
    """Return lags and end points as whole numbers; refuse those that do not fit into sequences.

    Without `ends`, end points are all steps t for which t − ℓ is a step for every lag.
    """
    whole_lags = [int(lag) for lag in lags]
    longest = whole_lags[-1]
    require("lags", whole_lags, longest < length, f"below {length}, the number of steps")
    if ends is None:
        return whole_lags, torch.arange(longest, length)
    end_steps = [int(end) for end in ends]
    in_range = longest <= end_steps[0] and end_steps[-1] < length
    require("ends", end_steps, in_range, f"from {longest}, the longest lag, to {length - 1}")
    return whole_lags, torch.tensor(end_steps)


@checked
def effective_rates(
    trace: Trace, lags: Lags, order: Order = "exact", ends: Lags | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Return effective learning rates ``μ^{(q)}_{t,ℓ}``: how much of a gradient crosses ℓ steps.

    Put a gradient of 1 on the output of neuron q alone at step t, and carry it back ℓ steps. The
    rate is what then stands at the same neuron: a diagonal entry of the block ``∂h_t/∂h_{t−ℓ}``
    (LSTM: ``∂h_t/∂c_{t−ℓ}``) of ``M_{t,ℓ} = J_t ⋯ J_{t−ℓ+1}``. A rate of 1 passes the gradient on
    whole, 0 loses it. What neurons send to one another is left out: `exact_rates_and_share` says
    how much that is. A rate is a pure number, and multiplies the learning rate of the optimiser.
    Two of its three orders write ``J_j = A_j + R_j`` and multiply out:

    * ``"zeroth"``: ``γ = ∏_j A_j``, Eqs. (13) and (24): what the neuron itself keeps, step by step.
      It is the product of the gate ``Gates.keep``: 1 − s in the scalar-gate cells, whose rates
      follow Eqs. (48), (50) and (52), 1 − z in a GRU, and f in an LSTM, there times
      ``e_t = ∂h_t/∂c_t = o_t (1 − tanh² c_t)``. Never negative, and cheap.
    * ``"first"``: ``γ + ζ``, Eqs. (14) and (23), ζ the diagonal of Eq. (12)'s sum ``Σ_j A_t ⋯
      A_{j+1} R_j A_{j−1} ⋯ A_{t−ℓ+1}``: the gradient may pass through the recurrent weights once.
      The paper's approximation, good where mixing is small. It may be negative. An LSTM's at lag 1
      is γ.
    * ``"exact"``: all paths; this is what the network does. It may be negative, and costs most.

    Implements Eqs. (12)–(14), (23) and (24), of Eq. (12) the diagonal. For Eq. (26)
    add `reset_rates`. The result holds B × ends × lags × H numbers, without their
    gradients; where memory is short, `lwcore.gradient.lag_statistics` takes rates lag by lag.

    Args:
        trace: A forward pass, as `Cell.trace` gives it.
        lags: Lags ℓ ≥ 1 in steps, increasing.
        order: As above.
        ends: End points t from max(lags) to T − 1, increasing, so that t − ℓ is a step and not the
            initial state; all of these if None.

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
    whole_lags, end_steps = lags_and_ends(trace.length, lags, ends)
    return _assemble(stream_rates(trace, whole_lags, end_steps, order))


def _assemble(groups: Iterable[tuple[slice, Iterator[Tensor]]]) -> Tensor:
    """Return one array (B, ends, lags, …) from groups of sequences that come lag by lag."""
    of_groups = [torch.stack(list(by_lag), dim=2) for _, by_lag in groups]
    return torch.cat(of_groups)


def stream_rates(
    trace: Trace, lags: list[int], ends: Tensor, order: Order
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Yield groups of sequences, and for each an iterator over its rates (b, ends, H), lag by lag.

    Neither all sequences nor all lags are held at once.
    """
    if order == "exact":
        yield from _stream_products(trace, lags, ends, _copy_diagonal)
        return
    expand = _zeroth_order if order == "zeroth" else _first_order
    n_at_once = max(1, _RATE_ENTRIES // (len(ends) * trace.hidden_size))
    for start in range(0, len(trace.inputs), n_at_once):
        group = slice(start, start + n_at_once)
        yield group, expand(select_each(trace.neurons, group), lags, ends)


def _copy_diagonal(block: Tensor) -> Tensor:
    return block.diagonal(dim1=-2, dim2=-1).clone()  # so that the products can be freed


def _zeroth_order(neurons: Neurons, lags: list[int], ends: Tensor) -> Iterator[Tensor]:
    """Yield γ at each of the lags, (b, ends, H): products of retentions, Eqs. (13) and (24)."""
    gamma = _at_lag_zero(neurons, ends)
    for lag in range(1, lags[-1] + 1):
        gamma = gamma * at_steps(neurons.retention, ends - lag + 1)
        if lag in lags:
            yield gamma


def _first_order(neurons: Neurons, lags: list[int], ends: Tensor) -> Iterator[Tensor]:
    """Yield ``γ + ζ`` at each of the lags, (b, ends, H), Eqs. (14) and (23).

    ζ is the diagonal of Eq. (12)'s sum, whose summands are paths that mix once. It is built one
    step at a time, Eq. (45): at step j the paths that have mixed keep, and those that have not may
    mix now. Unlike a sum of ``R/A`` this also holds where a gate is open all the way, A = 0.
    """
    gamma = _at_lag_zero(neurons, ends)
    zeta = torch.zeros_like(gamma)
    for lag in range(1, lags[-1] + 1):
        step = ends - lag + 1  # j, the step that this lag adds
        retention = at_steps(neurons.retention, step)
        mixing = at_steps(neurons.mixing, step)
        # ζ_ℓ = ζ_{ℓ−1} A_j + γ_{ℓ−1} R_j, the product rule
        zeta_kept = zeta * retention
        zeta = torch.addcmul(zeta_kept, gamma, mixing)
        if lag == 1 and neurons.lead is not None:
            zeta = zeta + at_steps(neurons.lead, ends)
        gamma = gamma * retention
        if lag not in lags:
            continue
        # An LSTM's path that mixes at j itself ends in h_{j−1}. The rate is that of c_{j−1}, and
        # the path comes from h to c with the next step back. So at lag 1 the first order is γ.
        yield gamma + (zeta if neurons.head is None else zeta_kept)


def _at_lag_zero(neurons: Neurons, ends: Tensor) -> Tensor:
    """Return γ at lag 0, with which its products begin: ``e_t = ∂h_t/∂c_t`` of an LSTM, else 1."""
    if neurons.head is not None:
        return at_steps(neurons.head, ends)
    return torch.ones_like(at_steps(neurons.retention, ends))


def _index(times: Tensor) -> slice | Tensor:
    """Return increasing steps as a slice where they are evenly spaced, which makes no copy."""
    first = int(times[0])
    last = int(times[-1])
    n_gaps = max(len(times) - 1, 1)
    spacing = max((last - first) // n_gaps, 1)
    evenly_spaced = torch.arange(first, last + 1, spacing)
    if torch.equal(times, evenly_spaced):
        return slice(first, last + 1, spacing)
    return times


def at_steps(values: Float[Tensor, "B T ..."], times: Tensor) -> Tensor:
    """Select values at increasing steps, without a copy where these are evenly spaced."""
    return values[:, _index(times)]


def _stream_products(
    trace: Trace, lags: list[int], ends: Tensor, extract: Callable[[Tensor], Tensor]
) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Yield groups of sequences, each with what `extract` takes from blocks of M, lag by lag.

    The blocks are ``∂h_t/∂h_{t−ℓ}``, or ``∂h_t/∂c_{t−ℓ}``; of each, results are (b, ends, …). A
    group holds one sequence where its end points alone make up `_PRODUCT_ENTRIES`, and more where
    they are few: then one call does more, though Jacobians are copied side by side for it.
    """
    block_entries = trace.hidden_size * trace.history.shape[-1]
    n_at_once = max(1, _PRODUCT_ENTRIES // block_entries)
    n_sequences = max(1, n_at_once // (_ARRAYS_A_PRODUCT * len(ends)))
    for sequences in torch.arange(len(trace.inputs)).split(n_sequences):
        of_groups = []
        for end_group in ends.split(n_at_once):
            of_groups.append(_products_by_lag(trace, sequences, end_group, lags, extract))
        by_lag = (torch.cat(at_lag, dim=1) for at_lag in zip(*of_groups, strict=True))
        yield slice(int(sequences[0]), int(sequences[-1]) + 1), by_lag


def _products_by_lag(
    trace: Trace,
    sequences: Tensor,
    ends: Tensor,
    lags: list[int],
    extract: Callable[[Tensor], Tensor],
) -> list[Tensor]:
    """Return what `extract` takes from the products of one group, at each of the lags.

    All pairs of a sequence and an end point are carried back together: rows of h at the end point,
    times one Jacobian more at each lag, ``M_{t,ℓ} = M_{t,ℓ−1} J_{t−ℓ+1}``.
    """
    longest = lags[-1]
    n_pairs = len(sequences) * len(ends)
    pull = _pull_by_lag(trace, sequences, ends, longest)
    rows_of_h = trace.lifted(torch.eye(trace.hidden_size).to(trace.history))
    products = rows_of_h.expand(n_pairs, -1, -1)
    results = []
    for lag in range(1, longest + 1):
        products = pull(lag, products)
        if lag in lags:
            result = extract(trace.carried(products))
            results.append(result.unflatten(0, (len(sequences), -1)))
    return results


def _pull_by_lag(
    trace: Trace, sequences: Tensor, ends: Tensor, longest: int
) -> Callable[[int, Tensor], Tensor]:
    """Return a function of a lag ℓ and rows that multiplies those of all pairs by ``J_{t−ℓ+1}``.

    A pair is a sequence and an end point t. Jacobians that take part in several products are each
    condensed once (see `StepJacobian.condensed`), if all fit into memory.
    """
    sequence, end = torch.cartesian_prod(sequences, ends).unbind(1)

    def pull_each(lag: int, rows: Tensor) -> Tensor:
        return trace.jacobian(end - lag + 1, sequence).pull(rows)

    # All steps that take part: t − ℓ + 1 … t of all end points t.
    first_step = int(ends[0]) - longest + 1
    n_steps = int(ends[-1]) - first_step + 1
    n_jacobians = len(sequences) * n_steps
    block_entries = trace.hidden_size * trace.history.shape[-1]
    are_shared = n_steps < longest * len(ends)  # each end point takes `longest` of them
    if not are_shared or n_jacobians * block_entries > _CONDENSED_ENTRIES:
        return pull_each

    steps = torch.arange(first_step, first_step + n_steps)
    sequence_of_each, step_of_each = torch.cartesian_prod(sequences, steps).unbind(1)
    condensed = trace.jacobian(step_of_each, sequence_of_each).condensed()
    # They stand sequence after sequence, step by step: here the J_t of each pair.
    place_of_end = (sequence - sequences[0]) * n_steps + end - first_step

    def pull_condensed(lag: int, rows: Tensor) -> Tensor:
        return condensed(_index(place_of_end - lag + 1), rows)

    return pull_condensed


@checked
def exact_rates_and_share(
    trace: Trace, lags: Lags, ends: Lags | None = None
) -> tuple[Float[Tensor, "B ends lags H"], Float[Tensor, "B ends lags"]]:
    """Return exact rates, and the share of the transport that passes between different neurons.

    The share is ``‖M − diag M‖_F / ‖M‖_F``, M the block whose diagonal the rates are. It lies in
    [0, 1]: 0 where every neuron's gradient stays with that neuron, and NaN where M is 0. Lags and
    end points are those of `effective_rates`.
    """
    whole_lags, end_steps = lags_and_ends(trace.length, lags, ends)
    joined = _assemble(_stream_products(trace, whole_lags, end_steps, _diagonal_and_share))
    return joined[..., :-1], joined[..., -1]


def _diagonal_and_share(block: Tensor) -> Tensor:
    """Return the diagonals of matrices, (…, H), with ``‖M − diag M‖_F / ‖M‖_F`` behind them."""
    largest = block.abs().amax((-2, -1), keepdim=True)
    squares = (block / largest).square()  # of which none underflows
    whole = squares.sum((-2, -1))
    squares.diagonal(dim1=-2, dim2=-1).zero_()
    off_diagonal = squares.sum((-2, -1))
    share = (off_diagonal / whole).sqrt()
    return torch.cat([_copy_diagonal(block), share.unsqueeze(-1)], dim=-1)


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
    over_neurons = rates.abs().sum(-1)
    return over_neurons.mean((0, 1))


@checked
def reset_rates(
    trace: Trace, lags: Lags, ends: Lags | None = None
) -> Float[Tensor, "B ends lags H"]:
    """Return the reset rates of a GRU, ``ρ + η``: ``ρ = ∏_j r_j`` and ``η = ∏_j (1 − z_j) r_j``.

    Implements Eq. (25). The paper's Eq. (26) adds them to the rates; they are no terms of the
    expansion of M, so `effective_rates` leaves them out.
    """
    whole_lags, end_steps = lags_and_ends(trace.length, lags, ends)
    reset = trace.gates.reset
    name = type(trace.recurrence).__name__
    require("trace.recurrence", name, reset is not None, "a GRU, which has a reset gate")
    keep_and_reset = trace.gates.keep * reset
    by_lag = []
    for lag in whole_lags:
        first_steps = end_steps - lag + 1
        rho = reset.unfold(1, lag, 1)[:, first_steps].prod(-1)
        eta = keep_and_reset.unfold(1, lag, 1)[:, first_steps].prod(-1)
        by_lag.append(rho + eta)
    return torch.stack(by_lag, dim=2)


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
    batch = kept.shape[:-3]
    size = kept.shape[-1]
    terms = kept.new_zeros(orders + 1, *batch, size, size)
    terms[0] = torch.eye(size)  # the empty product
    for retention, mix in zip(kept.unbind(-3), mixing.unbind(-3), strict=True):
        extended = retention @ terms
        extended[1:] += mix @ terms[:-1]
        terms = extended
    return terms
