"""Checks that the relative links of tracked Markdown files lead somewhere.

On a kept parser; the kept checker, remark-validate-links, is 196 npm packages.
"""

import functools
import pathlib
import re
import sys

import markdown_it


@functools.cache
def inlines(page: pathlib.Path) -> list[markdown_it.token.Token]:
    """The page's runs of text, each after the token of what it is in."""
    return markdown_it.MarkdownIt("commonmark").parse(page.read_text())


def anchors(page: pathlib.Path) -> set[str]:
    """What links to the page's titles are called."""
    tokens = inlines(page)
    titles = [
        token.content
        for before, token in zip(tokens, tokens[1:], strict=False)
        if before.type == "heading_open"
    ]
    return {re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles}


def broken_links(page: pathlib.Path) -> list[str]:
    """The links of one page that lead to no file, folder or title."""
    children = [child for t in inlines(page) for child in t.children or ()]
    links = [str(c.attrs["href"]) for c in children if c.type == "link_open"]
    links += [str(c.attrs["src"]) for c in children if c.type == "image"]
    broken = []
    for link in links:
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def main() -> int:
    """Prints each broken link; returns how many there are."""
    pages = [pathlib.Path(argument) for argument in sys.argv[1:]]
    broken = [(page, link) for page in pages for link in broken_links(page)]
    for page, link in broken:
        print(f"{page}: {link} leads nowhere")
    return min(len(broken), 100)


if __name__ == "__main__":
    sys.exit(main())
