"""The coverage that ``make coverage`` has measured, as a table for the book: a row for each module,
and one for the package."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

from coverage import Coverage, __version__

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "book" / "results" / "trust" / "coverage.csv"


def revision() -> str:
    """Name the revision that is checked out; it ends in ``-dirty`` where files differ from it."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def row(module: str, summary: dict) -> dict:
    """Choose what the table shows; branches are the ways a condition can go."""
    return {
        "module": module,
        "statements": summary["num_statements"],
        "statements_run": summary["covered_lines"],
        "branches": summary["num_branches"],
        "branches_run": summary["covered_branches"],
        "covered_percent": round(summary["percent_covered"], 2),
    }


def main() -> None:
    """Write the table."""
    measured = Coverage()
    measured.load()
    report = ROOT / "_build" / "coverage.json"
    measured.json_report(outfile=str(report))
    found = json.loads(report.read_text())
    rows = [row(name, entry["summary"]) for name, entry in sorted(found["files"].items())]
    rows.append(row("lwcore", found["totals"]))
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    with TABLE.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [*rows[0], "tool", "revision"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            entry | {"tool": f"coverage.py {__version__}", "revision": revision()} for entry in rows
        )


if __name__ == "__main__":
    main()
