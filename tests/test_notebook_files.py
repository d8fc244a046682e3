"""The notebooks that a reader takes home: one for each, with the same code, and they run wherever
they are saved."""

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from notebook_files import notebook

from tests.built_book import BOOK, DOCUMENTS, NOTEBOOKS, ROOT


def written(name):
    return nbformat.read(BOOK / "_sources" / f"{name}.ipynb", as_version=4)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_page_offers_its_notebook_with_the_same_code(name):
    assert f'_sources/{name}.ipynb"' in (BOOK / f"{name}.html").read_text()
    made = written(name)
    nbformat.validate(made)
    needs, step, *rest = made.cells
    assert "pip install" in needs.source
    assert "os.chdir" in step.source
    text = jupytext.read(ROOT / f"{name}.md").cells
    assert [(cell.cell_type, cell.source) for cell in rest] == [
        (cell.cell_type, cell.source) for cell in text
    ]
    assert made.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("name", sorted(set(DOCUMENTS) - set(NOTEBOOKS)))
def test_other_pages_offer_none(name):
    assert notebook(name) is None
    assert ".ipynb" not in (BOOK / f"{name}.html").read_text().partition("<article")[0]


def test_notebook_runs_where_it_was_saved(tmp_path):
    made = written("notebooks/09_prediction")
    made.cells = made.cells[:5]  # those that read recorded runs; the rest is executed in its place
    NotebookClient(made, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")


def test_notebook_steps_into_the_folder_of_its_text():
    for name in ("notebooks/03_bptt", "book/costs"):
        assert f'"{name.partition("/")[0]}"' in notebook(name).cells[1].source
