"""A decimal that is typed in prose is a setting; a result is computed beside its sentence or comes
from a claim. What an editor looks at besides, `make prose` lists."""

import re
import tomllib

import typed_decimals
from typed_decimals import typed

from book import claims
from tests.built_book import DOCUMENTS

SETTINGS = tomllib.loads(typed_decimals.SETTINGS.read_text())
CHECKED = [name for name in DOCUMENTS if typed_decimals.is_checked(name)]


def test_a_decimal_in_a_counterexample_is_a_setting():
    for name, claim in claims.registry().items():
        texts = (claim.counterexample, claim.fair)
        words = " ".join(re.sub(r"\{[^}]*\}", "", text) for text in texts)
        found = {number for _, number in typed(words)}
        assert found == SETTINGS.get(name, {}).keys(), name
    assert SETTINGS.keys() - {"gone"} <= {*CHECKED, *claims.registry()}
