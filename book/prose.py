"""What an editor wants to know of the pages: ``make prose`` lists it, and never fails.

Rules and limits here are a taste, not a truth; what must be true is tested.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jupytext

ROOT = Path(__file__).parents[1]
GONE = tomllib.loads((ROOT / "book" / "settings_in_prose.toml").read_text())["gone"]
LONGEST_PAGE = 2_500  # words
LONGEST_CELL = 12  # lines of code that are shown open
LONGEST_ANSWER = 60  # words of each line of the box
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell", "claim"}

FENCED = re.compile(r"(?ms)\A---\n.*?\n---\n|^(`{3,}).*?^\1`*$|^\$\$.*?\$\$$")
BOX = re.compile(r"\*\*(Question|Answer|How sure)\.\*\* (.*)")
WITHOUT_KIND = re.compile(r"\d ?%? \(−?[\d.,]+ ?%?(?:–| to )−?[\d.,]+ ?%?\)|\d ± \d")


def remarks(path: Path) -> Iterator[str]:
    """Yield what an editor may want to change on a page."""
    text = path.read_text(encoding="utf-8")
    prose = FENCED.sub("\n\n", text)
    n_words = len(re.findall(r"\S*\w\S*", prose))
    if n_words > LONGEST_PAGE:
        yield f"{n_words:,} words; a reader tires at {LONGEST_PAGE:,}"
    for pattern, name in GONE.items():
        for old in re.findall(pattern, " ".join(prose.split())):
            yield f"“{old}” is called “{name}” elsewhere"
    for line, words in BOX.findall(prose):
        if len(words.split()) > LONGEST_ANSWER:
            yield f"“{line}” has {len(words.split())} words; {LONGEST_ANSWER} are read"
    for found in WITHOUT_KIND.findall(prose):
        yield f"“{found}”: is the bracket an interval [ ] or a (range …)?"
    if "\nkernelspec:" in text.partition("\n---")[0]:
        yield from remarks_on_code(text)


def remarks_on_code(text: str) -> Iterator[str]:
    """Yield what may be changed in the cells of a notebook."""
    for cell in jupytext.reads(text, fmt="md:myst").cells:
        if cell.cell_type != "code":
            continue
        if FOLDED & set(cell.metadata.get("tags", [])):
            continue
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > LONGEST_CELL:
            yield f"{len(lines)} lines of code are open, from “{lines[0]}” on: fold some"


def main() -> None:
    """Print the remarks, page by page."""
    for path in sorted([*ROOT.glob("notebooks/*.md"), *ROOT.glob("book/*.md")]):
        for remark in remarks(path):
            print(f"{path.relative_to(ROOT)}: {remark}")


if __name__ == "__main__":
    main()
