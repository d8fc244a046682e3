"""The gradient's doors: transport, its orders, the gradient by lag, the matched statistic."""

from __future__ import annotations

import torch
import xarray as xr

from book.chapters import expansion, matched, orders
from lwcore import gradient
from tests.bad_inputs.networks import CELL
from tests.bad_inputs.rows import (
    Argument,
    Bad,
    Door,
    array,
    generator,
    integer,
    lags,
    numbers,
    object_of,
    real,
    tensor,
    word,
    wrong,
)
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
DELTA = tensor(draw(2, 6, 4), (2, 6, 3), (2, 5, 4), (6, 4)).also(
    Bad(draw(2, 6, 4) * torch.nan, ValueError, "48 of 48 entries are NaN")
)
MOVED = tensor(draw(2, 6, 8), (2, 6, 4), (2, 5, 8))
DIRECTION = Argument(
    gradient.random_direction(CELL),
    (
        Bad(None, TypeError, "None"),
        Bad("w", TypeError, "'w'"),
        Bad({}, ValueError, r"\{\}"),
        Bad(gradient.random_direction(make("GRU")), ValueError, r"\(12, 3\)"),
        Bad(
            {name: part * torch.inf for name, part in gradient.random_direction(CELL).items()},
            ValueError,
            "NaN or infinite",
        ),
    ),
)
ORDER = word("exact")
RATES = Argument(
    draw(2, 3, 2, 4),
    tuple(
        Bad(draw(*shape), ValueError, r"do not fit")
        for shape in ((2, 3, 2, 5), (2, 4), (0, 3, 2, 4))
    ),
)
SIGNS = Argument(
    torch.ones(2, 4, dtype=torch.float64),
    (Bad(draw(4, 2), ValueError, "do not fit"), Bad(draw(8), ValueError, "do not fit")),
)
KEPT, MIXING = (
    Argument(
        draw(2, 3, 4, 4, seed=seed),
        tuple(
            Bad(draw(*shape), ValueError, str(shape[-1]))
            for shape in ((2, 3, 4, 3), (4, 4), (0, 3, 4, 4))
        ),
    )
    for seed in (1, 2)
)
TERMS = matched.lag_terms(TRACE, draw(2, 6, 4), gradient.random_direction(CELL), [1, 2])
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
    Door(expansion.remainders, kept=KEPT, mixing=MIXING, epsilons=array([0.1, 0.2])),
    Door(expansion.orders_needed, kept=KEPT, mixing=MIXING, level=LEVEL),
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
        orders=Argument(
            ["zeroth"],
            (
                Bad(["second"], ValueError, "'second'"),
                wrong(3, TypeError),
                wrong("zeroth", TypeError),
            ),
        ),
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
    Door(orders.without_output_gate, trace=object_of(TRACE).also(Bad(GRU, TypeError, "GRU"))),
    Door(
        orders.product_of_diagonals,
        trace=object_of(GRU).also(
            Bad(TRACE, TypeError, "LSTM"),
            Bad(make("GRU-after").trace(draw(2, 6, 3)), ValueError, "after"),
        ),
    ),
    Door(orders.without_norm, trace=object_of(NORMED).also(Bad(TRACE, ValueError, "LSTM"))),
    Door(orders.span, values=numbers([1.0, 2.0]).also(Bad([], ValueError, "0"))),
    Door(
        orders.table,
        values=Argument(
            COMPARED.coupling,
            (
                wrong(None, TypeError, "NoneType"),
                Bad(COMPARED.lag, ValueError, "model"),
                Bad([1.0], TypeError, "list"),
            ),
        ),
    ),
    Door(orders.crossings, compared=Argument(COMPARED, no_dataset), level=LEVEL),
    Door(
        orders.reach,
        compared=Argument(
            {"as trained": COMPARED},
            (
                wrong(None, TypeError),
                Bad(COMPARED, TypeError, "Dataset"),
                Bad({"a": xr.Dataset()}, ValueError, "holds nothing"),
            ),
        ),
        at=lags([1]).also(Bad([9], ValueError, "at = 9")),
        level=LEVEL,
    ),
    Door(
        matched.lag_terms,
        trace=trace,
        loss_gradients=tensor(draw(2, 6, 4), (2, 6, 3), (2, 5, 4), (6, 4)),
        direction=DIRECTION,
        lags=steps,
        order=ORDER,
    ),
    Door(TERMS.statistic, signs=SIGNS),
    Door(matched.agreement, terms=terms, rng=generator()),
    Door(matched.factorisation_ratio, terms=terms, signs=SIGNS, rng=generator()),
    Door(matched.own_sign_means, terms=terms, n_sequences=integer(1, 1, 2)),
    Door(matched.own_sign_bias, terms=terms, n_sequences=integer(1, 1)),
    Door(
        matched.effective_samples, series=tensor(draw(2, 3, 2), (2, 3), (0, 3, 2)), rng=generator()
    ),
    Door(
        matched.bootstrap,
        statistic=lambda mean: mean,
        samples=array([[1.0], [2.0]]),
        rng=generator(),
    ),
]
