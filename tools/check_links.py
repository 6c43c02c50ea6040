"""Checks that the relative links of tracked Markdown files lead somewhere."""

import pathlib
import re
import subprocess
import sys

CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def broken_links(page: pathlib.Path) -> list[str]:
    """The link targets of one page that are no file or folder."""
    links = LINK.findall(CODE.sub("", page.read_text()))
    return [link for link in links if not (page.parent / link).exists()]


def main() -> int:
    """Prints each broken link; returns how many there are."""
    listing = subprocess.run(
        ["git", "ls-files", "*.md"], check=True, capture_output=True, text=True
    )
    pages = [pathlib.Path(line) for line in listing.stdout.splitlines()]
    broken = [(page, link) for page in pages for link in broken_links(page)]
    for page, link in broken:
        print(f"{page}: {link} leads nowhere")
    return len(broken)


if __name__ == "__main__":
    sys.exit(main())
