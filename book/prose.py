"""What an editor wants to know of the pages: ``make prose`` lists it, and never fails."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from book.claims import registry

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "book" / "settings_in_prose.toml").read_text())
LONGEST_PAGE = 2_500  # words
LONGEST_ANSWER = 60  # words of each line of the box

FENCED = re.compile(r"(?ms)\A---\n.*?\n---\n|^(`{3,}).*?^\1`*$|^\$\$.*?\$\$$")
BOX = re.compile(r"\*\*(Question|Answer|How sure)\.\*\* (.*)")
# pages whose decimals are those of formulas and of their examples
THEORY = re.compile(r"notebooks/(0[345]|A_|B_)|book/(?!intro)")
NO_WORDS = re.compile(r"(?ms)\]\([^)]*\)|`[^`]*`|\$[^$]*\$|^:.*?$|\{[^}]*\}")
# neither the value of a symbol nor a place in a paper
DECIMAL = re.compile(
    r"(?<![\w.])(?<![=<>≤≥] )(?<![=<>≤≥] [−-])(?<!§)(?<!Section )(?<!Lemma )(?:\d[\d,]*)?\.\d+"
)
WITHOUT_KIND = re.compile(r"\d ?%? \(−?[\d.,]+ ?%?(?:–| to )−?[\d.,]+ ?%?\)|\d ± \d")


def remarks(path: Path) -> Iterator[str]:
    """Yield what an editor may want to change on a page."""
    text = path.read_text(encoding="utf-8")
    prose = FENCED.sub("\n\n", text)
    n_words = len(re.findall(r"\S*\w\S*", prose))
    if n_words > LONGEST_PAGE:
        yield f"{n_words:,} words; a reader tires at {LONGEST_PAGE:,}"
    for pattern, name in SETTINGS["gone"].items():
        for old in re.findall(pattern, " ".join(prose.split())):
            yield f"“{old}” is called “{name}” elsewhere"
    for line, words in BOX.findall(prose):
        if len(words.split()) > LONGEST_ANSWER:
            yield f"“{line}” has {len(words.split())} words; {LONGEST_ANSWER} are read"
    for found in WITHOUT_KIND.findall(prose):
        yield f"“{found}”: is the bracket an interval [ ] or a (range …)?"
    page = path.relative_to(ROOT).with_suffix("").as_posix()
    if not THEORY.match(page):
        yield from typed(page, prose)


def typed(place: str, words: str) -> Iterator[str]:
    """Yield each decimal of a page, or of a claim's words, that is typed and is no setting."""
    for number in DECIMAL.findall(NO_WORDS.sub("", words)):
        if number not in SETTINGS.get(place, {}):
            yield (
                f"{number} is typed; a result is written by the build, {{measured}}`claim: words`, "
                f"and a setting has a row under [{place}] in book/settings_in_prose.toml"
            )


def main() -> None:
    """Print the remarks, page by page, and then those on the words of claims."""
    for path in sorted([*ROOT.glob("notebooks/*.md"), *ROOT.glob("book/*.md")]):
        for remark in remarks(path):
            print(f"{path.relative_to(ROOT)}: {remark}")
    for name, claim in registry().items():
        for remark in typed(name, f"{claim.counterexample} {claim.fair}"):
            print(f"{name}: {remark}")


if __name__ == "__main__":
    main()
