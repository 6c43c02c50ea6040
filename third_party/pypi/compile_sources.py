"""Compiles Python sources to bytecode that Python takes without a look at them.

Run by the rule `bytecode`: the one argument names a file of lines, a source and
the `__pycache__` folder for it by turns.
"""

import importlib.util
import os
import pathlib
import py_compile
import sys
import warnings


def main() -> None:
    """Compiles what the list names."""
    # Other people's sources.
    warnings.simplefilter("ignore")
    lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
    for source, folder in zip(lines[::2], lines[1::2], strict=True):
        name = os.path.basename(importlib.util.cache_from_source(source))
        # Wheels hold templates that are no Python yet: those stay sources.
        # The date of a source means nothing in a sandbox, hence no check of it.
        py_compile.compile(
            source,
            cfile=os.path.join(folder, name),
            quiet=2,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


if __name__ == "__main__":
    main()
