"""`lw claims`: the ledger that a build has left, on the command line."""

import re

from book import claims
from book.claims import ledger
from tests.test_cli import lw


def test_claims_shows_the_ledger_and_one_claim_in_full(tmp_path):
    known = claims.registry()
    name, other = "immediate-not-total-derivative", "a-step-follows-the-gradient"
    outcomes = []
    for one in (name, other):
        measured = [claims.exactly(1)] * len(known[one].readings)
        outcomes.append(claims.Outcome(known[one], tuple(measured)))
    ledger.write(outcomes, tmp_path)
    command = ("claims", "--ledger", tmp_path / "ledger.json")
    code, output = lw(*command)
    assert code == 0
    assert f"{name}: refuted as stated: {known[name].says} ({known[name].place})" in output
    assert re.search(r"^ +2 refuted as stated$", output, re.MULTILINE)
    code, output = lw(*command, "--id", name)
    assert code == 0
    for word in ("as stated: ", "must be ≤ 10⁻¹⁰: fails", "instead: ", "Smallest counterexample: "):
        assert word in output
    code, output = lw(*command, "--id", "nonsense")
    assert (code, "id = 'nonsense': must be one of" in output) == (2, True)
