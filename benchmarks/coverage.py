"""The coverage that ``make coverage`` has measured, as a table for the book.

It has a row for each module, and one for the package.
"""

import json
from pathlib import Path

import pandas as pd
from coverage import Coverage, __version__

from lwcore.results import revision

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "book" / "results" / "trust" / "coverage.csv"
COLUMNS = {  # branches are the ways a condition can go
    "num_statements": "statements",
    "covered_lines": "statements_run",
    "num_branches": "branches",
    "covered_branches": "branches_run",
    "percent_covered": "covered_percent",
}


def main() -> None:
    """Write the table."""
    coverage = Coverage()
    coverage.load()
    path = ROOT / "_build" / "coverage.json"
    coverage.json_report(outfile=str(path))
    report = json.loads(path.read_text())
    rows = {}
    for name in sorted(report["files"]):
        rows[name] = report["files"][name]["summary"]
    rows["lwcore"] = report["totals"]
    table = pd.DataFrame.from_dict(rows, orient="index")
    table = table[list(COLUMNS)].rename(columns=COLUMNS).round({"covered_percent": 2})
    table = table.assign(tool=f"coverage.py {__version__}", revision=revision())
    table.to_csv(TABLE, index_label="module", lineterminator="\n")


if __name__ == "__main__":
    main()
