"""The notebooks that a reader takes home: one for each, with the same code, and they run wherever
they are saved."""

import nbformat
import pytest
from nbclient import NotebookClient
from notebook_files import notebook

from tests.built_book import BOOK, DOCUMENTS, NOTEBOOKS, cells


def written(name):
    return nbformat.read(BOOK / "_sources" / f"{name}.ipynb", as_version=4)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_page_offers_its_notebook_with_the_same_code_and_no_other(name):
    page = (BOOK / f"{name}.html").read_text()
    if name not in NOTEBOOKS:
        assert notebook(name) is None
        assert ".ipynb" not in page.partition("<article")[0]
        return
    assert f'_sources/{name}.ipynb"' in page
    made = written(name)
    nbformat.validate(made)
    needs, step, *rest = ((cell.cell_type, cell.source) for cell in made.cells)
    assert "pip install" in needs[1]
    assert f'"{name.partition("/")[0]}"' in step[1]  # the folder of its text
    assert rest == [(cell.cell_type, cell.source) for cell in cells(name)]
    assert made.metadata.kernelspec.name == "python3"


def test_notebook_runs_where_it_was_saved(tmp_path):
    made = written("notebooks/08_robust_averaging")
    made.cells = made.cells[:5]  # those that read recorded runs; the rest is executed in its place
    NotebookClient(made, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")
