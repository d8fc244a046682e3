"""The recorded trial of advice is the record that a diagnosis prints."""

import pandas as pd

from book.chapters import advised
from lwcore.diagnose.advice import RECORD


def test_the_record_beside_the_advice_is_what_the_recorded_outcomes_say():
    table = advised.outcomes(pd.read_csv(advised.RECORDED))
    assert len(table) == RECORD.outcomes
    assert (table["by diagnosis"] == table["it"]).sum() == RECORD.foreseen
    assert (table["by steps"] == table["it"]).sum() == RECORD.by_counting_steps
