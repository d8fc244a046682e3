"""What two ways of advice expected of five changes, and what was found.

``python -m benchmarks.recordings.advised`` trained the networks, and says what the changes are.
"""

import numpy as np
import pandas as pd

from lwcore.stats import student

CHANGES = ["none", "keep", "cut", "more", "clip", "near"]
# Committed before the first outcome, in the order of `CHANGES`, "none" left out.
BY_DIAGNOSIS = {
    "digits": ["helps", "–", "–", "–", "helps"],
    "photographs": ["helps", "–", "–", "hurts", "–"],
}
BY_STEPS = ["–", "hurts", "helps", "–", "helps"]


def outcomes(recorded: pd.DataFrame) -> pd.DataFrame:
    """Return what each way of advice expected of each change, and what was ``found``.

    A change helps or hurts where the interval of the ratio of recorded errors, over seeds, excludes
    1.
    """
    errors = recorded.pivot(index=["data", "change"], columns="seed")["error"]
    rows = []
    for data, expected in BY_DIAGNOSIS.items():
        for change, by_diagnosis, by_steps in zip(CHANGES[1:], expected, BY_STEPS, strict=True):
            ratio = errors.loc[data, change] / errors.loc[data, "none"]
            log_ratio = student(np.log(ratio))
            effect = "–"
            if log_ratio.high < 0:
                effect = "helps"
            elif log_ratio.low > 0:
                effect = "hurts"
            row = {
                "data": data,
                "change": change,
                "by diagnosis": by_diagnosis,
                "by steps": by_steps,
                "found": effect,
            }
            rows.append(row)
    return pd.DataFrame(rows).set_index(["data", "change"])
