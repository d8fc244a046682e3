"""The coverage that ``make coverage`` has measured, as a table for the book: a row for each module,
and one for the package."""

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
    measured, report = Coverage(), ROOT / "_build" / "coverage.json"
    measured.load()
    measured.json_report(outfile=str(report))
    found = json.loads(report.read_text())
    rows = {name: entry["summary"] for name, entry in sorted(found["files"].items())}
    table = pd.DataFrame.from_dict(rows | {"lwcore": found["totals"]}, orient="index")
    table = table[list(COLUMNS)].rename(columns=COLUMNS).round({"covered_percent": 2})
    table = table.assign(tool=f"coverage.py {__version__}", revision=revision())
    table.to_csv(TABLE, index_label="module", lineterminator="\n")


if __name__ == "__main__":
    main()
