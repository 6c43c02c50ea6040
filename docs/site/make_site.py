"""Makes the site: `make_site.py OUTPUT VERSION PAGE...`; warnings are errors.

PAGEs, pictures too, are paths in the tree. The site has them at the same
places, and docs/site/index.md at its root, beside the pages of reference.py.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import sys
import tempfile

import reference
from sphinx.cmd.build import build_main

_SITE = "docs/site/"
# Pages that are not in the tree.
_WRITTEN = ["python", "commands"]


def _at_root(text: str) -> str:
    """A page of docs/site with links as they are at the site's root."""
    return text.replace("](../../", "](").replace("](../", "](docs/")


def _with_contents(index: str) -> str:
    """The index with its lists of links as Sphinx's contents, too."""
    parts = []
    for section in index.split("\n## ")[1:]:
        pages = re.findall(
            r"^- \[[^]]*\]\(([^)]*)\.md\)", section, re.MULTILINE
        )
        caption = section.partition("\n")[0]
        if caption == "Reference":
            pages += _WRITTEN
        parts.append(
            f"```{{toctree}}\n:caption: {caption}\n:hidden:\n\n"
            + "\n".join(pages)
            + "\n```\n"
        )
    return "\n".join([index, *parts])


def main(output: str, version: str, *pages: str) -> int:
    """Returns Sphinx's exit status."""
    os.environ["XLA_FFI_KIT_VERSION"] = version
    # Sphinx writes the day into no page, but the locale's order into the index.
    os.environ["LC_ALL"] = "C.UTF-8"
    with tempfile.TemporaryDirectory() as folder:
        sources = pathlib.Path(folder, "sources")
        for page in pages:
            place = sources / page.removeprefix(_SITE)
            place.parent.mkdir(parents=True, exist_ok=True)
            if page.startswith(_SITE) and page.endswith(".md"):
                text = _at_root(pathlib.Path(page).read_text())
                is_index = place.name == "index.md"
                place.write_text(_with_contents(text) if is_index else text)
            else:
                shutil.copyfile(page, place)
        reference.write(sources)
        trees = pathlib.Path(folder, "trees")
        return build_main(
            ["-q", "-W", "--keep-going", "-j", "auto"]
            + ["-d", str(trees), str(sources), output]
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
