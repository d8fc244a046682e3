"""Rank correlations of the clock's data with what was measured before training."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from book.chapters import clock, clock_data


def mobility_found(
    log_sequences: Callable[[str, float], float],
) -> pd.DataFrame:
    """Make up n* of three starts, three arms and three seeds, known within one number."""
    rows = []
    for gate, envelope in ((0.05, 10.0), (0.1, 1.0), (0.2, 0.1)):
        for arm in clock.ARMS:
            for seed in (11, 12, 13):
                high = np.exp(log_sequences(arm, np.log(envelope))) * 2.0 ** (seed - 12)
                named = {"mixing": 1.0, "gate": gate, "arm": arm, "seed": seed}
                bounds = {"low": 0.0 if high <= 16 else high / 2, "high": high}
                rows.append(named | bounds | {"log_envelope": np.log(envelope)})
    return pd.DataFrame(rows)


def test_data_are_ranked_by_what_was_measured_before_training():
    found = mobility_found(lambda arm, log: log if arm == "learned" else 5 - log)
    start = found.assign(envelope=np.exp(found["log_envelope"]), needed=found["gate"])
    ranks = clock_data.data_by_start(found, start)
    assert ranks.loc["learned"].tolist() == pytest.approx([1, -1])
    assert ranks.loc["fixed"].tolist() == pytest.approx([-1, 1])
