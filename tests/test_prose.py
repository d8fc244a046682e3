"""A decimal that is typed in prose is a setting; a result is computed beside its sentence or comes
from a claim. What an editor looks at besides, `make prose` lists."""

import re
import tomllib

import typed_decimals
from typed_decimals import prose, typed

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


def test_a_typed_result_is_found_in_its_line():
    text = """---
title: 0.1
---
It is 0.73, by Lemmas 5.1 and 5.2, in 1,024 cases, at lag 16 for α = 1.5 and T = 64.

```{code-cell} python
0.5
```

{measured}`x: 7` and $.2$, three times as much,
.5 and 1,000.25 of `0.3`.
"""
    assert typed(prose(text)) == [(4, "0.73"), (11, ".5"), (11, "1,000.25")]
