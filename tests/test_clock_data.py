"""What is recorded of the clock so far: complete seeds alone, and envelopes as `start` has them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from book.chapters import clock, clock_data


def test_the_table_of_endless_data_counts_what_was_learned_and_says_where_nothing_was():
    rows = []
    for start in clock.starts():
        for arm, steps in (("learned", 100), ("fixed", 1000), ("wide", 500)):
            for seed in (11, 12, 13):
                smallest = start.mixing == 0.5 and start.gate == 0.34
                next_to_it = start.mixing == 0.75 and start.gate == 0.34 and seed == 13
                stuck = arm == "fixed" and (smallest or next_to_it)
                taken = clock.CAP if stuck else steps * (seed - 10)
                named = {"mixing": start.mixing, "gate": start.gate, "arm": arm, "seed": seed}
                rows.append(named | {"steps": taken, "end": "cap" if stuck else "half"})
    endless = pd.DataFrame(rows)
    start = endless.assign(envelope=endless["gate"], needed=20.0)
    table = clock_data.endless_table(endless, start)
    assert list(table.index)[:2] == ["ρ = 1.0, s = 0.05", "ρ = 1.0, s = 0.34"]
    assert len(table) == 6
    assert "ρ = 0.5, s = 0.2" in table.index
    mildest, last = table.iloc[0], table.loc["ρ = 0.5, s = 0.34"]
    assert mildest["steps, learned"] == "200 (range 100–300)"
    assert mildest["steps, held"] == "2,000 (range 1,000–3,000)"
    assert last["steps, held"] == "> 60,000"
    assert table.loc["ρ = 0.75, s = 0.34", "steps, held"] == "2,000 (range 1,000 to not reached)"


def test_steps_are_ranked_by_what_was_measured_before_training():
    rows = []
    for place, start in enumerate(clock.starts()):
        for arm, steps in (("learned", 100), ("fixed", 100 * (20 - place)), ("wide", 100 + place)):
            stuck = arm == "fixed" and place == 15  # the fewest steps, but not learned: ranks last
            named = {"mixing": start.mixing, "gate": start.gate, "arm": arm, "seed": 11}
            rows.append(named | {"steps": steps, "end": "cap" if stuck else "half", "place": place})
    endless = pd.DataFrame(rows)
    start = endless.assign(envelope=endless["place"], needed=-endless["place"])
    found = clock_data.steps_by_start(endless, start)
    assert found.loc["wide"].tolist() == pytest.approx([1, -1])
    expected = spearmanr([*range(20, 5, -1), 99], range(16))[0]
    assert found.loc["fixed"].tolist() == pytest.approx([expected, -expected])


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
