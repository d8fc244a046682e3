"""The gradient's doors: transport, its expansion and orders, the gradient by lag, the matched statistic."""

from __future__ import annotations

import torch
import xarray as xr

from lwcore import bptt, expansion, matched, orders, transport
from tests.bad_inputs.networks import CELL, TIMES, TORCH_RNG
from tests.bad_inputs.rows import Argument, Bad, Door, array, generator, integer, lags, numbers, object_of, real, tensor, word, wrong
from tests.networks import draw, make

TRACE = CELL.trace(draw(2, 6, 3))
GRU = make("GRU").trace(draw(2, 6, 3))
NORMED = make("LSTM+norm").trace(draw(2, 6, 3))
trace = object_of(TRACE, CELL)
steps = lags([1, 2], 6)
ENDS = Argument(
    [2, 5],
    (
        Bad([1, 5], ValueError, r"ends\[0\] = 1"),
        Bad([2, 6], ValueError, r"ends\[1\] = 6"),
        Bad([5, 2], ValueError, r"\[5, 2\]"),
        Bad([3, 3], ValueError, r"\[3, 3\]"),
        Bad([], ValueError, r"\[\]"),
        Bad([2.0], TypeError, r"ends\[0\] = 2\.0"),
        Bad(3, TypeError, "3"),
        Bad("25", TypeError, "'25'"),
    ),
)
DELTA = tensor(draw(2, 6, 4), (2, 6, 3), (2, 5, 4), (6, 4), dtype=ValueError).also(
    Bad(draw(2, 6, 4) * torch.nan, ValueError, "48 of 48 entries are NaN")
)
MOVED = tensor(draw(2, 6, 8), (2, 6, 4), (2, 5, 8), dtype=ValueError)
DIRECTION = Argument(
    bptt.random_direction(CELL),
    (
        Bad(None, TypeError, "None"),
        Bad("w", TypeError, "'w'"),
        Bad({}, ValueError, r"\{\}"),
        Bad(bptt.random_direction(make("GRU")), ValueError, r"\(12, 3\)"),
        Bad({name: part * torch.inf for name, part in bptt.random_direction(CELL).items()}, ValueError, "NaN or infinite"),
        Bad({name: part.float() for name, part in bptt.random_direction(CELL).items()}, ValueError, "float32"),
        Bad({name: part.tolist() for name, part in bptt.random_direction(CELL).items()}, ValueError, "list"),
    ),
)
ORDER = word("exact")
RATES = tensor(draw(2, 3, 2, 4), (2, 3, 2, 5), (2, 4), (0, 3, 2, 4))
SIGNS = tensor(torch.ones(2, 4, dtype=torch.float64), (4, 2), (8,))
KEPT, MIXING = (
    tensor(draw(2, 3, 4, 4, seed=seed), (2, 3, 4, 3), (4, 4), (0, 3, 4, 4)).also(Bad(draw(2, 3, 4, 4) * torch.nan, ValueError, "96 of 96"))
    for seed in (1, 2)
)
TERMS = matched.lag_terms(TRACE, draw(2, 6, 4), bptt.random_direction(CELL), [1, 2])
COMPARED = orders.compare_orders({("LSTM", 1): TRACE}, [1, 2])
LEVEL = real(0.1, "(0, inf)")
terms = object_of(TERMS, tuple(TERMS))
no_dataset = (
    wrong(None, TypeError, "NoneType"),
    wrong("x.nc", TypeError, "str"),
    wrong({}, TypeError, "dict"),
    Bad(xr.Dataset(), ValueError, "holds nothing"),
)

DOORS = [
    Door(transport.step_jacobian, trace=trace, t=integer(1, 0, 5)),
    Door(transport.default_ends, trace=trace, lags=steps),
    Door(transport.checked_ends, ends=ENDS, lags=[1, 2], length=6),
    Door(transport.effective_rates, trace=trace, lags=steps, order=ORDER, ends=ENDS, reading=word("expansion").also(wrong("paper_v2"))),
    Door(transport.log_effective_rates, trace=trace, lags=steps, order=ORDER, ends=ENDS, reading=word("expansion")),
    Door(
        transport.stream_rates,
        trace=trace,
        lags=steps,
        order=ORDER,
        ends=ENDS,
        reading=word("expansion"),
        weights=tensor(draw(2, 2, 4), (2, 3, 4), (2, 4)).only_bad(lambda bad: bad.value is not None),
    ),
    Door(transport.exact_rates_and_share, trace=trace, lags=steps, ends=ENDS),
    Door(transport.envelope, rates=tensor(draw(2, 3, 2, 4), (2, 4), (0, 3, 2, 4))),
    Door(
        expansion.split,
        trace=trace,
        times=TIMES.only_bad(lambda bad: not isinstance(bad.value, int)).also(
            Bad(slice(3, 3), ValueError, "slice"), Bad(slice(0, 99), ValueError, "99")
        ),
    ),
    Door(expansion.scaled_product, kept=KEPT, mixing=MIXING, epsilon=real(0.5, "(-inf, inf)")),
    Door(expansion.coefficients, kept=KEPT, mixing=MIXING, orders=integer(1, 0)),
    Door(expansion.remainders, kept=KEPT, mixing=MIXING, epsilons=array([0.1, 0.2])),
    Door(expansion.orders_needed, kept=KEPT, mixing=MIXING, level=LEVEL),
    Door(expansion.falls_for_sure, trace=object_of(GRU).also(Bad(TRACE, ValueError, "LSTMTrace")), last=integer(2, 2, 5), ends=ENDS),
    Door(
        orders.compare_orders,
        traces=Argument(
            {("LSTM", 1): TRACE},
            (
                Bad({}, ValueError, r"\{\}"),
                Bad([TRACE], TypeError, "list"),
                Bad({("LSTM", 1): CELL}, TypeError, "LSTM"),
                Bad({("LSTM", 1): TRACE, ("GRU", 2): GRU}, ValueError, r"\('GRU', 1\)"),
            ),
        ),
        lags=steps,
        ends=ENDS,
        orders=Argument(["zeroth"], (Bad(["second"], ValueError, "'second'"), wrong(3, TypeError), wrong("zeroth", TypeError))),
    ),
    Door(
        orders.passing_lag,
        error=Argument(
            COMPARED.error,
            (
                wrong(None, TypeError, "NoneType"),
                Bad(COMPARED.coupling, ValueError, "lag"),
                Bad(COMPARED.error.values, TypeError, "ndarray"),
            ),
        ),
        level=LEVEL,
    ),
    Door(orders.without_output_gate, trace=object_of(TRACE, GRU)),
    Door(orders.product_of_diagonals, trace=object_of(GRU, TRACE).also(Bad(make("GRU-after").trace(draw(2, 6, 3)), ValueError, "after"))),
    Door(orders.without_norm, trace=object_of(NORMED).also(Bad(TRACE, ValueError, "LSTMTrace"))),
    Door(orders.span, values=numbers([1.0, 2.0]).also(Bad([], ValueError, "0"))),
    Door(
        orders.table,
        values=Argument(
            COMPARED.coupling, (wrong(None, TypeError, "NoneType"), Bad(COMPARED.lag, ValueError, "model"), Bad([1.0], TypeError, "list"))
        ),
    ),
    Door(orders.crossings, compared=Argument(COMPARED, no_dataset), level=LEVEL),
    Door(
        orders.reach,
        compared=Argument(
            {"as trained": COMPARED},
            (wrong(None, TypeError), Bad(COMPARED, TypeError, "Dataset"), Bad({"a": xr.Dataset()}, ValueError, "holds nothing")),
        ),
        at=lags([1]).also(Bad([9], ValueError, "at = 9")),
        level=LEVEL,
    ),
    Door(bptt.random_direction, cell=object_of(CELL, TRACE), generator=TORCH_RNG),
    Door(bptt.immediate_sensitivity, trace=trace, direction=DIRECTION),
    Door(bptt.total_sensitivity, trace=trace, direction=DIRECTION),
    Door(bptt.adjoints, trace=trace, loss_gradients=DELTA),
    Door(bptt.projected_gradient, trace=trace, loss_gradients=DELTA, direction=DIRECTION),
    Door(bptt.transported, trace=trace, loss_gradients=DELTA, lags=lags([1, 2], 6, least=0), first=integer(0, 0, 5)),
    Door(bptt.total_transport, trace=trace, loss_gradients=DELTA, sensitivity=MOVED, lags=steps, ends=ENDS),
    Door(bptt.lag_gradients, trace=trace, loss_gradients=DELTA, lags=lags([1, 2], 6, least=0)),
    Door(bptt.lag_vectors, trace=trace, loss_gradients=DELTA, lags=lags([1, 2], 6, least=0)),
    Door(
        bptt.alignment,
        loss_gradients=tensor(draw(2, 6, 4), (2, 6, 3), (6, 4)),
        sensitivity=tensor(draw(2, 6, 4), (2, 6, 3), (6, 4)),
        lags=steps,
        ends=ENDS,
    ),
    Door(bptt.matched_statistic, rates=RATES, alignments=RATES, signs=SIGNS.also(Bad(draw(2, 4), ValueError, "signs"))),
    Door(
        bptt.lag_statistic,
        trace=trace,
        loss_gradients=DELTA,
        sensitivity=MOVED,
        signs=tensor(torch.ones(2, 4, dtype=torch.float64), (4, 2), dtype=ValueError),
        lags=steps,
        order=ORDER,
        ends=ENDS,
    ),
    Door(
        matched.lag_terms,
        trace=trace,
        loss_gradients=tensor(draw(2, 6, 4), (2, 6, 3), (2, 5, 4), (6, 4)),
        direction=DIRECTION,
        lags=steps,
        order=ORDER,
    ),
    Door(TERMS.statistic, signs=SIGNS.only_bad(lambda bad: bad.value is not None)),
    Door(matched.agreement, terms=terms, rng=generator()),
    Door(matched.factorisation, terms=terms, signs=SIGNS, rng=generator()),
    Door(matched.own_sign_means, terms=terms, n_sequences=integer(1, 1, 2)),
    Door(matched.own_sign_bias, terms=terms, n_sequences=integer(1, 1)),
    Door(matched.effective_samples, series=tensor(draw(2, 3, 2), (2, 3), (0, 3, 2)), rng=generator()),
    Door(matched.bootstrap, statistic=lambda mean: mean, samples=array([[1.0], [2.0]]), rng=generator()),
]
