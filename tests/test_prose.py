"""What an editor is told of the pages."""

from book.prose import typed


def test_a_typed_result_is_remarked_and_settings_places_and_computed_numbers_are_not():
    words = "It is 0.73 at α = 1.5 (§5.2), {measured}`claim: over 0.4`, $0.1$ and 0.185."
    (remark,) = typed("notebooks/06_experiments", words)
    assert remark.startswith("0.73 is typed")
