"""The pages of the documentation and their blocks, as markdown-it-py reads."""

import dataclasses
import os
import pathlib

import markdown_it

# The tree's root, in the source tree and in Bazel's runfiles alike.
ROOT = pathlib.Path(os.path.abspath(__file__)).parents[2]
# Its blocks stand in the programs of examples/tutorial, which run as tests.
TUTORIAL = "docs/tutorial"


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: str
    line: int  # of what is in it
    language: str
    text: str
    above: str = ""  # the HTML comment above it

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str | None = None) -> list[Block]:
    """The blocks of a page below ROOT, in their order."""
    source = (ROOT / page).read_text() if text is None else text
    tokens = markdown_it.MarkdownIt("commonmark").parse(source)
    return [
        Block(
            page,
            token.map[0] + 2,
            token.info,
            token.content,
            before.content if before and before.type == "html_block" else "",
        )
        for before, token in zip([None, *tokens], tokens, strict=False)
        if token.type == "fence"
    ]


def docs() -> list[str]:
    """The pages of docs/, and of accelerate/docs/."""
    folders = ("docs", TUTORIAL, "accelerate/docs")
    found = [page for f in folders for page in (ROOT / f).glob("*.md")]
    return sorted(page.relative_to(ROOT).as_posix() for page in found)


def pages() -> list[str]:
    """The READMEs, where they are, and the pages of docs()."""
    readmes = ("README.md", "accelerate/README.md")
    return [page for page in readmes if (ROOT / page).exists()] + docs()
