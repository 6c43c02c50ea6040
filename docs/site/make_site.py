"""Makes the site: `make_site.py OUTPUT VERSION PAGE...`; warnings are errors.

PAGEs, pictures too, are paths in the tree. The site has them at the same
places, and docs/site/index.md at its root.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import tempfile

from sphinx.cmd.build import build_main

_SITE = "docs/site/"


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
            shutil.copyfile(page, place)
        trees = pathlib.Path(folder, "trees")
        return build_main(
            ["-q", "-W", "--keep-going", "-j", "auto"]
            + ["-d", str(trees), str(sources), output]
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
