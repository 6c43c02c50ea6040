"""Checks the prose of tracked Markdown files, without their code.

proselint has the rules of English, all but those of `_LEFT_OUT`; the rules of
this project's language are `RULES`. CONTRIBUTING.md says how we write.

    tools/check_prose.py FILE...    a line for each finding
    tools/check_prose.py --rules    the names of all rules
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

import markdown_it
from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

# Their symbols are not those of plain text and of code.
_LEFT_OUT = ("typography",)
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


class Finding(NamedTuple):
    """A place in a page, and the rule that it breaks."""

    line: int
    rule: str
    text: str


def prose(page: str) -> Iterator[tuple[int, str]]:
    """The runs of text of a page, code left out, and the line of each."""
    for token in markdown_it.MarkdownIt("commonmark").parse(page):
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
        yield token.map[0] + 1, "".join(parts)


def _in_english(text: str) -> Iterator[tuple[int, str, str]]:
    """The line within the text, the rule and the message of proselint's."""
    config = DEFAULT | {
        "checks": DEFAULT["checks"] | dict.fromkeys(_LEFT_OUT, False)
    }
    for found in LintFile("page", text).lint(config):
        result = found.check_result
        start = max(result.span[0] - 1, 0)  # it puts a line before the text
        where = " ".join(text[start : result.span[1] - 1].split())
        yield (
            text.count("\n", 0, start),
            result.check_path,
            (f"{where!r}: {result.message}"),
        )


def findings(page: str) -> Iterator[Finding]:
    """What is found in the text of a page."""
    for line, text in prose(page):
        if not text.strip():
            continue
        for offset, rule, message in _in_english(text):
            yield Finding(line + offset, rule, message)
        for rule, (pattern, instead) in RULES.items():
            for found in re.finditer(pattern, text, re.I):
                offset = text.count("\n", 0, found.start())
                message = f"{found[0]!r}: write {instead}"
                yield Finding(line + offset, rule, message)


def main(arguments: list[str]) -> int:
    """Prints what is found; returns 1 if there is something."""
    CheckRegistry().register_many(__register__)
    if arguments == ["--rules"]:
        config = DEFAULT["checks"] | dict.fromkeys(_LEFT_OUT, False)
        print(*sorted([c for c, on in config.items() if on] + list(RULES)))
        return 0
    count = 0
    for path in arguments:
        for found in findings(pathlib.Path(path).read_text()):
            print(f"{path}:{found.line}: {found.rule}: {found.text}")
            count += 1
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
