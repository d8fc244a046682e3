"""The reference of the package: every module stands on one page, every public name has an entry,
and docstrings arrive whole."""

import re

import pytest
from package_source import definitions, modules

from tests.built_book import ROOT, article

PAGES = ["book/api/index"]  # the other files are its sections


def test_every_module_stands_on_one_page_and_every_public_name_has_an_entry():
    sources = {path.stem: path.read_text() for path in (ROOT / "book" / "api").glob("*")}
    included = re.findall(r"\{include\} (\w+)\.md", sources["index"])
    assert {*included, "index"} == set(sources)
    listed = re.findall(r"^   (lwcore[\w.]*)$", "\n".join(sources.values()), re.MULTILINE)
    assert sorted(listed) == sorted(modules())
    entries = {entry["id"] for name in PAGES for entry in article(name).select("dt[id]")}
    assert {d.name for module in modules() for d in definitions(module)} - entries == set()
    assert "lwcore.experiment.Config.named" in entries  # from a private base


@pytest.mark.parametrize("name", PAGES)
def test_docstrings_arrive_whole(name):
    page = article(name)
    # a formula that is no literal block becomes a quotation
    assert page.select(".problematic, .system-message, blockquote") == []
    assert (
        re.search(r":\w+:`|\.\. \w+::|numpy\.ndarray\[|~typing|annotated_types", page.get_text())
        is None
    )


def test_settings_have_their_types_and_fields_of_named_tuples_no_entry_of_their_own():
    page = article("book/api/index")
    settings = (
        page.find(id="lwcore.experiment.config.TaskSettings").find_next_sibling("dd").get_text()
    )
    assert "input_size (PositiveInt) – Input dimension D." in settings
    assert "model_config" not in page.get_text()
    assert article("book/api/index").find(id="lwcore.gradient.Aim.signs") is None


SIGNATURES = {
    "lwcore.transport.effective_rates": (
        "(trace: Trace, lags: Lags, order: Order = 'exact', ends: Lags | None = None,)"
        " → Float[Tensor, 'B ends lags H']"
    ),
    "lwcore.window.learnability_window": (
        "(lags: Lags, required: Reals, n_sequences: FiniteReals, *,"
        " definition: Definition = 'supremum',) → NDArray[np.int64]"
    ),
    "lwcore.cells.LSTM.from_torch": "(layer: nn.LSTM) → LSTM",
    "lwcore.gradient.Aim": ("(loss_gradients: Tensor, sensitivity: Tensor, signs: Tensor)"),
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_shows_types_and_shapes_as_the_code_writes_them(name):
    expected = SIGNATURES[name]
    entry = article("book/api/index").find(id=name)
    for link in entry.select(".headerlink, .viewcode-link"):
        link.extract()
    shown = entry.get_text().partition("(")
    assert re.sub(r"\s", "", "".join(shown[1:])) == re.sub(r"\s", "", expected)


def test_a_type_in_a_signature_leads_to_what_it_allows():
    page = article("book/api/index")
    links = {
        link.get_text(): link["href"]
        for link in page.find(id="lwcore.transport.effective_rates").select("a")
    }
    assert links["Order"] == "#lwcore.transport.Order"
    assert links["Trace"] == "#lwcore.trace.Trace"
    assert links["Lags"] == "#lwcore.signatures.Lags"
    choices = page.find(id="lwcore.transport.Order").find_next_sibling("dd").get_text()
    assert choices.strip() == "one of 'zeroth', 'first', 'exact'"
    ranges = article("book/api/index").find(id="lwcore.signatures.Lags")
    assert ranges.find_next_sibling("dd").get_text().strip() == (
        "whole numbers from 1 on that increase"
    )
