"""Claims of Section 6.2 on windows, and what a window must not hang on. Networks are those of the
recorded runs."""

from __future__ import annotations

import numpy as np

from book.chapters import controls
from book.claims.checks import Facts, Runs, measures
from book.claims.claim import Measured, estimate, share
from book.claims.recorded import (
    numbers,
)
from lwcore.inference import LETTER, false_detections, probes
from lwcore.inference import windows as of_probes
from lwcore.stats import student


@measures("nothing-to-see-no-window")
def _(runs: Runs) -> tuple[Measured | Facts, ...]:
    counts = (("small", 1024), ("paper-v2", 512))
    found = [
        of_probes(probes(runs[name], "zeroth", "noise"), n, rule="plug-in", **LETTER) > 0
        for name, n in counts
    ]
    divided, draws, rng = (
        0.05 / (runs["small"].sizes["lag"] * found[0].sizes["probe"]),
        200,
        np.random.default_rng(12),
    )
    ways = {"letter": LETTER, "once": {"rate": "variance"}}
    few, some = (
        {
            way: [controls.believed(runs[name], n, error, **how) for name, n in counts]
            for way, how in ways.items()
        }
        for error in (divided, 0.01)
    )
    networks, once = ([one.any("probe") for one in few[way]] for way in ways)
    chance = [
        controls.believed_by_chance(runs[name], divided, rng, draws)
        for name in ("small", "paper-v2")
    ]
    tested = []
    for name in ("small", "paper-v2"):
        statistic = (
            probes(runs[name], "zeroth")
            .statistic.transpose("model", "seed", "probe", "lag", "sequence")
            .values.astype(float)
        )
        tested += [
            false_detections(one, 0.05, rng, draws) / draws
            for one in statistic.reshape(-1, *statistic.shape[2:])
        ]
    facts = {
        way: float(np.concatenate([one.values.ravel() for one in of_way]).mean())
        for way, of_way in some.items()
    }
    return (
        share(sum(int(one.sum()) for one in found), sum(one.size for one in found)),
        share(sum(int(one.sum()) for one in networks), sum(one.size for one in networks)),
        _mean([count / draws for count in numbers(*chance)]),
        _mean(tested),
        share(sum(int(one.sum()) for one in once), sum(one.size for one in once)),
        facts,
    )


def _mean(values: list[float]) -> Measured:
    """Give networks' mean with its interval by Student's t: a network is one sample."""
    value, *ends = student(values)
    return estimate(value, ends)
