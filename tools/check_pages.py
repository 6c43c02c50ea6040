"""Checks Markdown files: links, tables and English prose.

Each relative link leads somewhere, the index of all pages leads to each page,
and no line of a table stands alone, where it is shown as text. proselint reads
the prose; beside its checks stand the rules of this tree.

On a kept parser; the kept checker of links, remark-validate-links, is 196 npm
packages.
"""

import functools
import pathlib
import re
import sys
from collections.abc import Iterator

import markdown_it
from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

_INDEX = pathlib.Path("docs/site/index.md")
# Without what is of the symbols of plain text and of code.
_CONFIG = DEFAULT | {"checks": DEFAULT["checks"] | {"typography": False}}
# Name -> what is found, and what to write.
RULES = {
    "inversion.of_which": (r"\bof which\b", "two sentences"),
    "inversion.but_for": (r"\bbut for\b", "except"),
    "inversion.as_has_it": (r"\bas \w+ has (?:it|them)\b", "a plain clause"),
    "history": (
        r"\b(?:formerly|used to be|mended|anew|in the past|from now on)\b",
        "the present only",
    ),
    "term.axis": (r"\bminor dimensions?\b|\bown axes\b", "trailing axis"),
    "term.sharding": (r"\bmeshes\b", "sharding, or a mesh for the object"),
    "term.baseline": (r"\bcontestants?\b", "baseline, entry"),
    "term.opt_in": (r"\basked for by name\b", "opt-in"),
    "term.compiler": (r"\bmachine's own compiler\b", "host compiler"),
    "term.pays": (r"\bpays\b", "gains, is faster, breaks even"),
    "term.kept": (r"\bso many at a time\b", "block size"),
    "vague.thing": (r"\bwhat it is\b|\band so on\b|\betc\.", "name it"),
}


@functools.cache
def inlines(page: pathlib.Path) -> list[markdown_it.token.Token]:
    """The page's runs of text, each after the token of what it is in."""
    parser = markdown_it.MarkdownIt("commonmark").enable("table")
    return parser.parse(page.read_text())


def texts_in(page: pathlib.Path, kind: str) -> list[str]:
    """The texts that stand in elements of a kind."""
    return [
        token.content
        for before, token in zip(inlines(page), inlines(page)[1:], strict=False)
        if before.type == kind
    ]


@functools.cache
def anchors(page: pathlib.Path) -> set[str]:
    """What links to the page's titles are called."""
    titles = texts_in(page, "heading_open")
    return {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def links(page: pathlib.Path, **attributes: str) -> list[str]:
    """What a page links to: by kind of token, the attribute with the link."""
    children = [child for t in inlines(page) for child in t.children or ()]
    return [
        str(child.attrs[attribute])
        for kind, attribute in attributes.items()
        for child in children
        if child.type == kind
    ]


def broken_links(page: pathlib.Path) -> Iterator[str]:
    """The links of one page that lead to no file, folder or title."""
    for link in links(page, link_open="href", image="src"):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page}: {link} leads nowhere"


def orphans(pages: list[pathlib.Path]) -> Iterator[str]:
    """The pages of docs/ folders to which the index of all has no link."""
    listed = {
        (_INDEX.parent / link.partition("#")[0]).resolve()
        for link in links(_INDEX, link_open="href")
    }
    for page in pages:
        if "docs" in page.parts and "site" not in page.parts:
            if page.resolve() not in listed:
                yield f"{page}: no link in {_INDEX}"


def prose(page: pathlib.Path) -> Iterator[tuple[int, str]]:
    """The runs of text of a page, code left out, and the line of each."""
    for token in inlines(page):
        if token.type != "inline" or token.map is None:
            continue
        parts = []
        for number, child in enumerate(token.children or ()):
            if child.type in ("softbreak", "hardbreak"):
                parts.append("\n")
            elif child.type == "code_inline":
                # One word, and not twice the same in a row.
                parts.append(
                    f"code{chr(97 + number % 26)}"
                    + "\n" * child.content.count("\n")
                )
            elif child.type == "text":
                parts.append(child.content)
        if text := "".join(parts).strip():
            yield token.map[0] + 1, text


def findings(text: str) -> Iterator[tuple[int, str]]:
    """Where in a text the English is wrong, and what is."""
    for found in LintFile("page", text).lint(_CONFIG):
        result = found.check_result
        start = max(result.span[0] - 1, 0)  # it puts a line before the text
        where = " ".join(text[start : result.span[1] - 1].split())
        yield start, f"{result.check_path}: {where!r}: {result.message}"
    for rule, (pattern, instead) in RULES.items():
        for match in re.finditer(pattern, text, re.I):
            yield match.start(), f"{rule}: {match[0]!r}: write {instead}"


def wrong(pages: list[pathlib.Path]) -> Iterator[str]:
    """What is wrong in the pages, a line each."""
    for page in pages:
        yield from broken_links(page)
        for text in texts_in(page, "paragraph_open"):
            if text.startswith("|"):
                yield f"{page}: no table has the row {text.splitlines()[0]}"
        for line, text in prose(page):
            for start, said in findings(text):
                yield f"{page}:{line + text.count(chr(10), 0, start)}: {said}"
    yield from orphans(pages)


if __name__ == "__main__":
    CheckRegistry().register_many(__register__)
    lines = list(wrong([pathlib.Path(argument) for argument in sys.argv[1:]]))
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(bool(lines))
