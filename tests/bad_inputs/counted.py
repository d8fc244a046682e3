"""How many bad values the tables hold, as a table for the book: ``python -m
tests.bad_inputs.counted`` writes it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from tests.bad_inputs import beyond, companion, experiments, gradient, networks, theory
from tests.bad_inputs.commands import LINES
from tests.bad_inputs.rows import rows

RECORD = Path(__file__).parents[2] / "book" / "results" / "trust" / "bad_inputs.csv"
LAYERS = {
    "theory": theory,
    "networks": networks,
    "gradient": gradient,
    "experiments": experiments,
    "companion": companion,
    "figures, tables, diagnosis, claims": beyond,
}
DOORS = [door for layer in LAYERS.values() for door in layer.DOORS]


def counted() -> pd.DataFrame:
    """Count functions and bad values in each layer, and command lines, which are one bad value
    each."""
    found = {
        name: (len({door.name for door in layer.DOORS}), len(list(rows(layer.DOORS))))
        for name, layer in LAYERS.items()
    }
    # root, who can read all files, has none of these
    lines = [line.arguments for line in LINES if "unreadable" not in line.label]
    found["command lines"] = len({arguments[0] for arguments in lines}), len(lines)
    table = pd.DataFrame.from_dict(found, "index", columns=["functions, commands", "bad values"])
    table.loc["all"] = table.sum()
    return table.rename_axis("layer")


if __name__ == "__main__":
    counted().to_csv(RECORD, lineterminator="\n")
