"""The reference of the package: every module stands on one page, every public name has an entry,
and docstrings arrive whole."""

import re

import pytest
from package_source import definitions, modules

from tests.built_book import DOCUMENTS, ROOT, article

PAGES = [name for name in DOCUMENTS if name.startswith("book/api/")]


def test_every_module_stands_on_one_page_and_every_public_name_has_an_entry():
    sources = {path.stem: path.read_text() for path in (ROOT / "book" / "api").glob("*")}
    assert {f"book/api/{stem}" for stem in sources} == set(PAGES)
    listed = re.findall(r"^   (lwcore[\w.]*)$", "\n".join(sources.values()), re.MULTILINE)
    assert sorted(listed) == sorted(modules())
    entries = {entry["id"] for name in PAGES for entry in article(name).select("dt[id]")}
    assert {d.name for module in modules() for d in definitions(module)} - entries == set()
    assert "lwcore.experiment.config.Config.named" in entries  # from a private base


@pytest.mark.parametrize("name", PAGES)
def test_docstrings_arrive_whole(name):
    page = article(name)
    # a formula that is no literal block becomes a quotation
    assert page.select(".problematic, .system-message, blockquote") == []
    assert re.search(r":\w+:`|\.\. \w+::|numpy\.ndarray\[", page.get_text()) is None


def test_settings_have_their_types_and_fields_of_named_tuples_no_entry_of_their_own():
    page = article("book/api/experiments")
    settings = (
        page.find(id="lwcore.experiment.config.TaskSettings").find_next_sibling("dd").get_text()
    )
    assert "input_size (PositiveInt) – Input dimension D." in settings
    assert "model_config" not in page.get_text()
    assert article("book/api/gradient").find(id="lwcore.gradient.Aim.signs") is None
