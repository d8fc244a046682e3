"""What a reader sees of the code: in every chapter a few short cells that he would type himself,
and nothing that imports, sets up or draws."""

import ast
from functools import cache

import jupytext
import pytest
from code_folds import holds

from tests.built_book import NOTEBOOKS, ROOT

CHAPTERS = [name for name in NOTEBOOKS if name.startswith("notebooks/")]
# A cell that measures a claim shows where a reader follows a badge to it, and nowhere else.
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell", "claim"}
DRAWS = ("figures", "panels", "axes", "figure", "plt", "sns", "charts")
LONGEST = 12  # lines of an open cell
MOST = 0.15  # of a chapter's code, but for the one that shows how to use the package; once 54 %
BY_HAND = "notebooks/11_your_network"


@cache
def cells(text):
    """Code cells of a text notebook: source, and whether the page shows it open."""
    return [
        (cell.source, not FOLDED & set(cell.metadata.get("tags", [])))
        for cell in jupytext.reads(text, fmt="md:myst").cells
        if cell.cell_type == "code"
    ]


def lines(source):
    return len([line for line in source.splitlines() if line.strip()])


def faults(text):
    """Open cells that should be folded."""
    for source, is_open in cells(text):
        if not is_open:
            continue
        body = ast.parse(source).body
        if all(isinstance(one, ast.Import | ast.ImportFrom) for one in body):
            yield f"imports: {source}"
        if "use_book_style" in source or "Claims(" in source:
            yield f"sets up: {source}"
        called = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        owners = {ast.unparse(one).partition(".")[0].partition("[")[0] for one in called}
        if owners & set(DRAWS):
            yield f"draws: {source}"
        if lines(source) > LONGEST:
            yield f"is long: {source}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_open_cells_are_short_and_neither_import_nor_set_up_nor_draw(name):
    text = (ROOT / f"{name}.md").read_text()
    assert list(faults(text)) == []
    every = cells(text)
    # a single cell that measures a claim leaves nothing to show
    assert len(every) == 1 or any(is_open for _, is_open in every), "a chapter shows how to do it"


def test_a_small_share_of_the_code_is_open():
    total = visible = 0
    for name in CHAPTERS:
        counts = [
            (lines(source), is_open) for source, is_open in cells((ROOT / f"{name}.md").read_text())
        ]
        every = sum(n for n, _ in counts)
        shown = sum(n for n, is_open in counts if is_open)
        print(f"{name}: {shown} of {every} lines of code are open")
        assert shown <= (0.4 if name == BY_HAND else 2 * MOST) * every, name
        total, visible = total + every, visible + shown
    print(f"in all {visible} of {total} lines ({visible / total:.0%})")
    assert visible <= MOST * total


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import numpy as np\nfrom lwcore import window", "imports"),
        ("use_book_style()\nx = 1", "sets up"),
        ("x = 1\naxes.plot(x)", "draws"),
        ("\n".join(f"x{n} = {n}" for n in range(13)), "is long"),
    ],
)
def test_an_open_cell_that_should_be_folded_is_found(source, fault):
    head = "---\nkernelspec:\n  display_name: Python 3\n  name: python3\n---\n"
    opened = f"{head}\n```{{code-cell}} ipython3\n{source}\n```\n"
    folded = f"{head}\n```{{code-cell}} ipython3\n:tags: [hide-input]\n\n{source}\n```\n"
    assert [one.partition(":")[0] for one in faults(opened)] == [fault]
    assert list(faults(folded)) == []


@pytest.mark.parametrize(
    ("source", "shown", "said"),
    [
        ("import numpy as np\nfrom lwcore import window", "", "imports"),
        ("import numpy as np\nx = np.ones(3)", "", "imports and set-up"),
        ("use_book_style()\nx = 3", "", "set-up"),
        ("def f(x):\n    return x", "", "code of f"),
        ("class A: ...\ndef f(x):\n    return x\ny = f(1)", "", "code of A, f"),
        ("x = 3", "", "code that prepares what follows"),
        ("import numpy as np\nprint(1)", "result", "code of this result"),
        ("x = 3\nx.plot()", "figure", "code of this figure"),
    ],
)
def test_a_fold_says_what_it_holds(source, shown, said):
    assert holds(source, shown) == said
