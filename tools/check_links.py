"""Checks the relative links of tracked Markdown files, and the tables.

Each link leads somewhere, the index of all pages leads to each page, and no
line of a table stands alone, where it is shown as text.

On a kept parser; the kept checker, remark-validate-links, is 196 npm packages.
"""

import functools
import pathlib
import re
import sys

import markdown_it

_INDEX = pathlib.Path("docs/site/index.md")


@functools.cache
def inlines(page: pathlib.Path) -> list[markdown_it.token.Token]:
    """The page's runs of text, each after the token of what it is in."""
    parser = markdown_it.MarkdownIt("commonmark").enable("table")
    return parser.parse(page.read_text())


def anchors(page: pathlib.Path) -> set[str]:
    """What links to the page's titles are called."""
    tokens = inlines(page)
    titles = [
        token.content
        for before, token in zip(tokens, tokens[1:], strict=False)
        if before.type == "heading_open"
    ]
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


def broken_links(page: pathlib.Path) -> list[str]:
    """The links of one page that lead to no file, folder or title."""
    broken = []
    for link in links(page, link_open="href", image="src"):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def lone_rows(page: pathlib.Path) -> list[str]:
    """The lines with columns that are in no table, as after an empty line."""
    return [
        token.content.partition("\n")[0]
        for before, token in zip(inlines(page), inlines(page)[1:], strict=False)
        if before.type == "paragraph_open" and token.content.startswith("|")
    ]


def orphans(pages: list[pathlib.Path]) -> list[pathlib.Path]:
    """The pages of docs/ folders to which the index of all has no link."""
    listed = {
        (_INDEX.parent / link.partition("#")[0]).resolve()
        for link in links(_INDEX, link_open="href")
    }
    return [
        page
        for page in pages
        if "docs" in page.parts
        and "site" not in page.parts
        and page.resolve() not in listed
    ]


def main() -> int:
    """Prints what is wrong; returns how much."""
    pages = [pathlib.Path(argument) for argument in sys.argv[1:]]
    wrong = [
        f"{page}: {link} leads nowhere"
        for page in pages
        for link in broken_links(page)
    ]
    wrong += [
        f"{page}: no table has the row {row}"
        for page in pages
        for row in lone_rows(page)
    ]
    wrong += [f"{page}: no link in {_INDEX}" for page in orphans(pages)]
    for line in wrong:
        print(line)
    return min(len(wrong), 100)


if __name__ == "__main__":
    sys.exit(main())
