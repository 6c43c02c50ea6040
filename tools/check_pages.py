"""Checks Markdown files: links and tables.

Each relative link leads somewhere, the index of all pages leads to each page,
and no line of a table stands alone, where it is shown as text.

On a kept parser; the kept checker of links, remark-validate-links, is 196 npm
packages.
"""

import functools
import pathlib
import re
import sys
from collections.abc import Iterator

import markdown_it

_INDEX = pathlib.Path("docs/site/index.md")


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


def wrong(pages: list[pathlib.Path]) -> Iterator[str]:
    """What is wrong in the pages, a line each."""
    for page in pages:
        yield from broken_links(page)
        for text in texts_in(page, "paragraph_open"):
            if text.startswith("|"):
                yield f"{page}: no table has the row {text.splitlines()[0]}"
    yield from orphans(pages)


if __name__ == "__main__":
    lines = list(wrong([pathlib.Path(argument) for argument in sys.argv[1:]]))
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(bool(lines))
