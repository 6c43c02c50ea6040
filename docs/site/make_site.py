"""Makes the site: `make_site.py OUTPUT VERSION PAGE...`; warnings are errors.

PAGEs, pictures too, are paths in the tree. The site has them at the same
places, and docs/site/index.md at its root, beside the pages of reference.py.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import tempfile

import reference
from sphinx.cmd.build import build_main

_SITE = "docs/site/"


def _at_root(text: str) -> str:
    """A page of docs/site with links as they are at the site's root."""
    return text.replace("](../../", "](").replace("](../", "](docs/")


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
                place.write_text(_at_root(pathlib.Path(page).read_text()))
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
