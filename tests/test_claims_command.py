"""`lw claims`: the ledger that a build has left, on the command line."""

import re

from typer.testing import CliRunner

from book import claims
from book.claims import ledger
from lwcore.cli import app


def lw(*arguments):
    """Run a command; its exit code and all it printed, unwrapped."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_claims_shows_the_ledger_and_one_claim_in_full(tmp_path):
    known = claims.registry()
    name, other = "immediate-not-total-derivative", "a-step-follows-the-gradient"
    numbers = {one: [claims.exactly(1)] * len(known[one].readings) for one in (name, other)}
    ledger.write([claims.Outcome(known[one], tuple(numbers[one])) for one in numbers], tmp_path)
    command = ("claims", "--ledger", tmp_path / "ledger.json")
    code, output = lw(*command)
    assert code == 0
    for line, one in zip(output.splitlines(), (name, other), strict=False):
        assert line == f"{one}: refuted as stated: {known[one].says} ({known[one].place})"
    assert re.search(r"^ +2 refuted as stated$", output, re.MULTILINE)
    code, output = lw(*command, "--id", name)
    assert code == 0
    for word in ("as stated: ", "must be ≤ 10⁻¹⁰: fails", "instead: ", "smallest counterexample: "):
        assert word in output
    code, output = lw(*command, "--id", "nonsense")
    assert (code, "id = 'nonsense': must be one of" in output) == (2, True)
