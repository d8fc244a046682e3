"""The expansion behind the effective rates (Appendix A), and how far it can be trusted.

A one-step Jacobian is what each neuron keeps plus what the recurrent matrices mix, ``J = A + R``. Scale the second part,
``P(ε) = ∏_j (A_j + ε R_j)``, and the product over ℓ steps is a polynomial in ε: zeroth order is its constant term, first order adds the
linear one, and the network itself stands at ε = 1. Products run over the steps axis, oldest first, and put the newest on the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lwcore import cells, tasks, train
from lwcore.arguments import finite_array, integer_in, lag_list, one_of, real_in
from lwcore.cells import Trace
from lwcore.config import Config
from lwcore.decay import matching
from lwcore.network import Network
from lwcore.transport import ORDERS, default_ends, effective_rates, off_diagonal_share

MODELS = ("ConstGate", "SharedGate", "DiagGate", "GRU", "LSTM")


def split(trace: Trace, times: slice | Tensor) -> tuple[Tensor, Tensor]:
    """Split one-step Jacobians into retention and mixing, ``J_t = A_t + R_t``. Implements Eqs. (11), (23) and the split of Appendix B.

    Args:
        trace: A scan of B sequences.
        times: A slice or an index tensor of steps in 0..T−1.

    Returns:
        A and R, each of shape (B, steps, S, S).
    """
    whole, factors = trace.jacobian(times).dense(), trace.neurons.at(times)
    kept = torch.diag_embed(factors.retention)
    if factors.head is not None:
        kept = torch.cat([factors.head.unsqueeze(-1) * kept, kept], dim=-2)
        kept = torch.cat([torch.zeros_like(kept), kept], dim=-1)
    return kept, whole - kept


def _checked(kept: Tensor, mixing: Tensor) -> None:
    """Refuse stacks of matrices that do not belong together."""
    if kept.shape != mixing.shape or kept.ndim < 3 or kept.shape[-1] != kept.shape[-2] or kept.numel() == 0:
        raise ValueError(f"kept and mixing have shapes {tuple(kept.shape)} and {tuple(mixing.shape)}: must be the same (..., steps, S, S).")


def scaled_product(kept: Tensor, mixing: Tensor, epsilon: float | Tensor) -> Tensor:
    """Multiply ``P(ε) = ∏_j (A_j + ε R_j)``. Implements Eq. (44).

    Args:
        kept: A, shape (..., steps, S, S), the oldest step first.
        mixing: R, of the same shape.
        epsilon: ε; 0 leaves the retentions alone, 1 is the network.

    Returns:
        P, shape (..., S, S).
    """
    _checked(kept, mixing)
    factors = (kept + epsilon * mixing).unbind(-3)
    product = factors[0]
    for factor in factors[1:]:
        product = factor @ product
    return product


def coefficients(kept: Tensor, mixing: Tensor, orders: int = 1) -> Tensor:
    """Compute the coefficients of ``P(ε) = Σ_k ε^k P_k``: ``P_0 = P(0)``, ``P_1 = L_P`` the Fréchet derivative, and as many more as wanted.

    Built one factor at a time, by the product rule: ``P_k ← A P_k + R P_{k−1}``. Implements Eqs. (43), (45) and (46), the last without its
    remainder if `orders` is the number of steps.

    Args:
        kept: A, shape (..., steps, S, S), the oldest step first.
        mixing: R, of the same shape.
        orders: The largest k, at least 0.

    Returns:
        Shape (orders + 1, ..., S, S).
    """
    _checked(kept, mixing)
    identity = torch.eye(kept.shape[-1], dtype=kept.dtype, device=kept.device).expand(*kept.shape[:-3], -1, -1)
    terms = torch.stack([identity, *[torch.zeros_like(identity)] * integer_in("orders", orders, 0)])
    for a, r in zip(kept.unbind(-3), mixing.unbind(-3), strict=True):
        grown = a @ terms
        grown[1:] += r @ terms[:-1]
        terms = grown
    return terms


def remainders(kept: Tensor, mixing: Tensor, epsilons: Sequence[float]) -> Tensor:
    """Measure what first order leaves out, ``‖P(ε) − P(0) − ε L_P‖_F / ‖P(0)‖_F``: the ``O(ε²)`` of Eq. (46).

    Args:
        kept: A, shape (..., steps, S, S), the oldest step first.
        mixing: R, of the same shape.
        epsilons: Values of ε.

    Returns:
        Shape (number of ε, ...).
    """
    constant, linear = coefficients(kept, mixing)
    left = torch.stack([scaled_product(kept, mixing, e) - constant - e * linear for e in epsilons])
    return torch.linalg.matrix_norm(left) / torch.linalg.matrix_norm(constant)


def fidelity(trace: Trace, lags: Sequence[int], ends: Sequence[int] | None = None) -> xr.Dataset:
    """Compare the orders of transport with the exact diagonal, and the diagonal with the rest.

    The error of an order at a lag is ``Σ |μ_order − μ_exact| / Σ |μ_exact|``, both sums over sequences, end points and neurons. A ratio of
    sums, because single exact rates pass through zero; and since ``|f_order − f_exact| ≤ error · f_exact``, it bounds the envelope's error.

    Args:
        trace: A scan of B sequences.
        lags: Lags ℓ, strictly increasing, each in 1..T−1.
        ends: End points t, strictly increasing, each in max(lags)..T−1; all of them if None.

    Returns:
        Over `order` and `lag`: `error`, as above; `rises`, the share of (sequence, end point, neuron) whose ``|μ|`` is larger than at the
        lag before (NaN at the first); with `sequence` besides, `envelope`, f of each sequence. Over `lag`: `off_diagonal`, the mean share
        of the transport off the diagonal. A number: `coupling`, the mean of ``‖R_t‖_F / ‖A_t‖_F``.
    """
    steps = lag_list("lags", lags, trace.length)
    at = default_ends(trace, steps) if ends is None else list(ends)
    rates = {order: effective_rates(trace, steps, order=order, ends=at) for order in ORDERS}
    exact, over = rates["exact"], (0, 1, 3)
    data: dict[str, list[Tensor]] = {"envelope": [], "error": [], "rises": []}
    for mu in rates.values():
        size = mu.abs()
        data["envelope"].append(size.sum(-1).mean(1))
        data["error"].append((mu - exact).abs().sum(over) / exact.abs().sum(over))
        grown = (size[:, :, 1:] > size[:, :, :-1]).to(mu.dtype).mean(over)
        data["rises"].append(torch.cat([grown.new_full((1,), torch.nan), grown]))
    kept, mixing = (torch.linalg.matrix_norm(part) for part in split(trace, slice(1, None)))
    variables: dict[str, Any] = {name: (("order", "lag"), torch.stack(data[name]).numpy()) for name in ("error", "rises")}
    variables["envelope"] = (("order", "sequence", "lag"), torch.stack(data["envelope"]).numpy())
    variables["off_diagonal"] = ("lag", off_diagonal_share(trace, steps, at).mean((0, 1)).numpy())
    variables["coupling"] = float((mixing / kept).mean())
    return xr.Dataset(variables, coords={"order": list(ORDERS), "lag": ("lag", steps, {"units": "steps"})})


def falls_for_sure(trace: Trace, last: int, ends: Sequence[int]) -> Tensor:
    """Say where a first-order rate cannot rise: where ``|R_qq| γ ≤ (1 − A_q) μ`` at the step that the next lag adds.

    From ``|μ_{ℓ+1}| = |A μ_ℓ + R γ_ℓ| ≤ A μ_ℓ + (1 − A) μ_ℓ = μ_ℓ``. Wherever mixing is positive and no more than what the gate replaces,
    ``0 ≤ R_qq ≤ 1 − A_q``, this holds at every lag; and from any start until ``Σ |R_qq|/A_q`` reaches ``1 − max |R_qq|/(1 − A_q)``.

    Args:
        trace: A scan of a cell whose state is h: scalar gates or GRU.
        last: The longest lag L, at least 2.
        ends: End points t, strictly increasing, each in L..T−1.

    Returns:
        For lags 1..L−1, whether the condition holds there; shape (B, ends, L − 1, H).

    Raises:
        ValueError: If the trace is that of an LSTM, whose mixing reaches the rates a lag later.
    """
    factors = trace.neurons
    if factors.delayed:
        raise ValueError(f"trace is a {type(trace).__name__}: the condition is for cells whose state is h.")
    lags = list(range(1, integer_in("last", last, 2, trace.length - 1) + 1))
    zeroth, first = (effective_rates(trace, lags, order=order, ends=ends)[:, :, :-1] for order in ORDERS[:2])
    added = torch.tensor(ends).unsqueeze(1) - torch.tensor(lags[:-1])
    return factors.mixing[:, added].abs() * zeroth <= (1 - factors.retention[:, added]) * first


def first_lag_beyond(lags: Iterable[int], error: ArrayLike, level: float = 0.1) -> float:
    """Find the first lag at which an error exceeds a level.

    Args:
        lags: Lags ℓ ≥ 1, strictly increasing.
        error: One error a lag, shape (lags,).
        level: The level, at least 0.

    Returns:
        The lag; infinite if the error exceeds the level at none.
    """
    lag, values = matching(lags, "error", finite_array("error", error, ndim=1), axis=0)
    beyond = lag[values > real_in("level", level, "[0, inf)")]
    return float(beyond[0]) if beyond.size else float("inf")


class Example(NamedTuple):
    """A small network and what it was shown.

    Attributes:
        network: A cell with its readout, float64.
        trace: A scan of 16 fresh sequences by the cell.
        targets: The task's targets for them, shape (B, T).
    """

    network: Network
    trace: Trace
    targets: Tensor


def example(model: str, seed: int, steps: int = 0, **network: Any) -> Example:
    """Make a small network, trained if wanted, and let it scan fresh sequences.

    Task, size and training are those of the configuration ``quick``, with half its sequences and batches; task, weights, training and fresh
    sequences come from independent streams of the seed, the same for all models.

    Args:
        model: Name of the cell.
        seed: The seed.
        steps: Training steps; 0 leaves the network as it was initialised.
        **network: Options of the cell, `hidden_size` included, in place of those of ``quick``.

    Returns:
        The network, a trace of its cell and the targets.
    """
    config = Config.named("quick")
    of_task, of_weights, of_training, of_trace = (
        np.random.default_rng(stream) for stream in np.random.SeedSequence(integer_in("seed", seed, 0)).spawn(4)
    )
    direction = of_task.standard_normal(config.task.input_size)
    task = tasks.DelayedRegression(**config.task.model_dump(exclude={"input_size"}), direction=direction)
    generator = torch.Generator().manual_seed(int(of_weights.integers(2**63)))
    options = config.network.model_dump() | network
    make = getattr(cells, one_of("model", model, MODELS))
    whole = Network(make(config.task.input_size, generator=generator, **options), generator)
    if steps:
        settings = config.training
        sequences, batch = tasks.sample(task, settings.sequences // 2, of_training), settings.batch_size // 2
        train.fit(whole, sequences, steps=steps, batch_size=batch, seed=seed, learning_rate=settings.learning_rate, clip=settings.clip)
    whole = whole.double()
    inputs, targets = tasks.sample(task, 16, of_trace, dtype=torch.float64)
    return Example(whole, whole.cell.trace(inputs), targets)


def survey(examples: Mapping[str, Sequence[Example]], lags: Sequence[int], ends: Sequence[int] | None = None) -> xr.Dataset:
    """Measure the `fidelity` of several examples of each model.

    Args:
        examples: For each model, one example a seed.
        lags: Lags, as for `fidelity`.
        ends: End points, as for `fidelity`.

    Returns:
        The dataset of `fidelity`, over `model` and `seed` (their number) as well.
    """
    by_model = [xr.concat([fidelity(one.trace, lags, ends) for one in ones], dim="seed") for ones in examples.values()]
    return xr.concat(by_model, dim="model").assign_coords(model=list(examples))


def crossings(measured: xr.Dataset, level: float = 0.1) -> pd.DataFrame:
    """Tabulate the first lag at which each error of a survey passes a level.

    Args:
        measured: What `survey` gives.
        level: The level.

    Returns:
        A row a model, as by `over_seeds`: error of zeroth and of first order, ``|f/f_exact − 1|`` of both, and the off-diagonal share.
    """
    envelope = measured.envelope.mean("sequence")
    ratio = abs(envelope / envelope.sel(order="exact") - 1)
    errors = {
        f"{order}: {name}": e.sel(order=order, drop=True) for name, e in (("rates", measured.error), ("f", ratio)) for order in ORDERS[:2]
    }
    errors["off-diagonal share"] = measured.off_diagonal
    lags = measured.lag.values.tolist()
    found = xr.concat(
        [xr.apply_ufunc(lambda e: first_lag_beyond(lags, e, level), e, input_core_dims=[["lag"]], vectorize=True) for e in errors.values()],
        dim=xr.Variable("past", list(errors)),
    )
    return over_seeds(found, "{:.0f}").replace("inf", f"> {lags[-1]}", regex=True)


def over_seeds(values: xr.DataArray, digits: str = "{:.2f}") -> pd.DataFrame:
    """Tabulate a quantity by model and one more dimension: the median over seeds and, in brackets where they differ, the least and largest.

    Args:
        values: Over `model`, `seed` and one more dimension.
        digits: How a number is written.

    Returns:
        A row a model, a column a place along the other dimension.
    """
    (other,) = set(values.dims) - {"model", "seed"}
    ordered = np.sort(values.transpose("model", other, "seed").values, axis=-1)

    def words(seeds: NDArray[np.float64]) -> str:
        middle, least, largest = (digits.format(seeds[i]) for i in (len(seeds) // 2, 0, -1))
        return middle if least == largest else f"{middle} ({least} to {largest})"

    table = [[words(seeds) for seeds in row] for row in ordered]
    return pd.DataFrame(table, index=pd.Index(values.model.values, name="model"), columns=values[other].values.tolist())
