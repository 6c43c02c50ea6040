"""Compiled libraries on disk, each compiled once, however many ask for it.

An entry is a folder named by its key, with a lock, `entry.json` and the
library that it names. The rename of `entry.json` publishes it, and it holds the
library's hash: whatever is killed or damaged, a reader finds a whole library or
none. The lock is the kernel's (flock), which frees it when its holder dies.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Iterator

from xla_ffi_kit.strings.errors import BuildError

FOLDER_VARIABLE = "XLA_FFI_KIT_CACHE"
_ENTRY = "entry.json"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A library in the cache.

    Attributes:
      library: the shared library.
      name: of the operation that it was compiled for.
      version: a hash of all that it was made of; part of the library's name.
      dependencies: files that it was compiled from, beside its source and the
        headers of systems and of the kit, and their hashes.
    """

    library: pathlib.Path
    name: str
    version: str
    dependencies: dict[str, str]


# Compiles into a folder, for a version; returns name and dependencies.
Compile = Callable[[pathlib.Path, str], dict[str, str]]


def folder() -> pathlib.Path:
    """Where the cache is: XLA_FFI_KIT_CACHE, or in the user's cache folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return pathlib.Path(chosen).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home, "xla_ffi_kit", "inline")


def digest_of(path: str | os.PathLike[str]) -> str | None:
    """The hash of a file's content; None if there is no such file."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def get(key: str, name: str, compile_library: Compile) -> Entry:
    """The entry of `key`, compiled if there is none that is whole and current.

    Args:
      key: a hash of everything known before anything is compiled.
      name: of the operation, for messages and lists.
      compile_library: `compile_library(library, version)` writes the library
        and returns the files it depends on, and their hashes when it read them.
    """
    place = folder() / key
    found = _read(place)
    if found is not None and _is_current(found):
        return found
    try:
        with _locked(place):
            found = _read(place)  # what another process compiled meanwhile
            if found is not None and _is_current(found):
                return found
            known = dict(found.dependencies) if found else {}
            return _compile(place, key, name, known, compile_library)
    except OSError as error:
        raise BuildError(
            f"{name}: the cache folder {folder()} cannot be used "
            f"({error.strerror or error}); set {FOLDER_VARIABLE} to one that "
            "is writable and has room"
        ) from error


def _compile(
    place: pathlib.Path,
    key: str,
    name: str,
    known: dict[str, str],
    compile_library: Compile,
) -> Entry:
    """Compiles until the version is that of the files that were read."""
    dependencies = {path: digest_of(path) or "" for path in known}
    with tempfile.TemporaryDirectory(prefix="new-", dir=place) as temporary:
        library = pathlib.Path(temporary, "library.so")
        while True:
            version = _version(key, dependencies)
            found = compile_library(library, version)
            if found == dependencies:
                break
            dependencies = found
        file = f"{name}-{version}.so"
        about = {
            "file": file,
            "sha256": digest_of(library),
            "name": name,
            "version": version,
            "dependencies": dependencies,
        }
        written = pathlib.Path(temporary, _ENTRY)
        written.write_text(json.dumps(about))
        os.rename(library, place / file)
        os.rename(written, place / _ENTRY)
    for old in place.glob("*.so"):
        if old.name != file:
            old.unlink()
    return Entry(place / file, name, version, dependencies)


def _version(key: str, dependencies: dict[str, str]) -> str:
    text = json.dumps([key, sorted(dependencies.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(place: pathlib.Path) -> Entry | None:
    """The entry in a folder if it is whole."""
    try:
        about = json.loads((place / _ENTRY).read_bytes())
        library = place / about["file"]
        if digest_of(library) != about["sha256"]:
            return None
        return Entry(
            library, about["name"], about["version"], about["dependencies"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_current(entry: Entry) -> bool:
    return all(
        digest_of(path) == digest for path, digest in entry.dependencies.items()
    )


@contextlib.contextmanager
def _locked(place: pathlib.Path) -> Iterator[None]:
    """Holds the entry's lock; what a killed holder left behind is removed."""
    while True:
        _make_folder(place)
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_same_file(lock, place / "lock"):
                for left in place.glob("new-*"):
                    shutil.rmtree(left, ignore_errors=True)
                yield
                return
        finally:
            os.close(lock)


def _is_same_file(descriptor: int, path: pathlib.Path) -> bool:
    """Whether the lock is still the entry's: `clear` removes both."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _make_folder(place: pathlib.Path) -> None:
    """Makes the entry's folder, in a cache that is nobody else's."""
    os.makedirs(folder(), mode=0o700, exist_ok=True)
    owner = os.stat(folder()).st_uid
    if owner not in (os.geteuid(), 0):
        raise OSError(errno.EPERM, f"it belongs to another user, {owner}")
    os.makedirs(place, exist_ok=True)


def entries() -> list[Entry]:
    """The entries that are whole, by name."""
    if not folder().is_dir():
        return []
    found = [_read(place) for place in folder().iterdir() if place.is_dir()]
    return sorted((e for e in found if e), key=lambda e: (e.name, e.version))


def clear() -> int:
    """Removes all entries, but for those being compiled; how many it removed.

    Libraries that are loaded stay loaded.
    """
    removed = 0
    if not folder().is_dir():
        return 0
    for place in folder().iterdir():
        try:
            lock = os.open(place / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # no entry of ours
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(place)
            removed += 1
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return removed
