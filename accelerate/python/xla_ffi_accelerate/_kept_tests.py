"""What self-tests have found, kept in the user's cache for later processes.

A file belongs to a processor, its number of threads, a jaxlib, XLA's flags and
a build of the library; with any other, the tests run again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import jaxlib

from xla_ffi_accelerate import _processor, libraries
from xla_ffi_accelerate._rule import Found


@functools.cache
def read() -> Mapping[str, Found | None]:
    """Returns what the file has when a process first asks."""
    return _content()


def keep(test: str, found: Found | None) -> None:
    """Adds to the file; does nothing where the cache cannot be written."""
    with contextlib.suppress(OSError, RuntimeError):
        file = _file()
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({**_content(), test: found}, indent=0))
        part.replace(file)  # the whole of it, or nothing


def _content() -> dict[str, Found | None]:
    try:
        kept = json.loads(_file().read_text())
    except (OSError, RuntimeError, ValueError):  # none, no home, or not ours
        return {}
    if not isinstance(kept, dict):
        return {}
    return {test: found for test, found in kept.items() if _is_found(found)}


def _is_found(found: object) -> bool:
    return found is None or (
        isinstance(found, dict)
        and all(isinstance(value, int | str) for value in found.values())
    )


def _file() -> Path:
    library = os.stat(libraries.CPU_LIBRARY.path)
    of = (
        *(_processor.model(), len(os.sched_getaffinity(0))),
        *(jaxlib.__version__, os.environ.get("XLA_FLAGS", "")),
        *(library.st_size, library.st_mtime_ns),
    )
    digest = hashlib.sha256(repr(of).encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "xla_ffi_accelerate" / f"self_tests_{digest}.json"
