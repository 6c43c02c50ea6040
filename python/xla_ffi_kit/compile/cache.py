"""Keeps compiled code on disk; many processes may ask for it at once.

An entry is a folder, named by its key, with a library and `entry.json`, which
has the hashes of the library and of the files that it was compiled from. It is
made under another name and renamed. If a process is killed or a file is
damaged, a reader therefore finds a whole entry or none. Who compiles holds a
flock, which the operating system frees when its holder dies. The time of
`entry.json` is that of the last use, within a day.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

from xla_ffi_kit.errors import BuildError

FOLDER_VARIABLE = "XLA_FFI_KIT_CACHE"
# Entries beyond these limits are removed when something is compiled.
UNUSED_DAYS = 90
MOST_ENTRIES = 2000

_ENTRY = "entry.json"
_LOCKS = "locks"
_LOCK_LENGTH = 2  # keys that begin alike share a lock
_NAME_BYTES = 100  # of the operation's name in the name of a file
_KEY = re.compile(r"[0-9a-f]{32}")
_DAY = 24 * 3600
_TICK_NS = 20_000_000  # how far the times of files may be behind the clock


@dataclasses.dataclass(frozen=True)
class Entry:
    """A library in the cache.

    Attributes:
      library: the shared library.
      name: the name of the operation for which it was compiled.
      version: a hash of the library, which is a part of its name.
    """

    library: pathlib.Path
    name: str
    version: str


# Compiles into a file; returns the files that were read.
Compile = Callable[[pathlib.Path], Iterable[str]]


def folder() -> pathlib.Path:
    """Returns XLA_FFI_KIT_CACHE, or a folder in the user's cache folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return pathlib.Path(os.path.expanduser(chosen)).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(home, "xla_ffi_kit", "inline").absolute()


class _UnusableError(BuildError):
    """The cache is no folder, or others could have written what is in it."""


def _own_folder() -> pathlib.Path:
    """Returns the cache's folder, without links, if it is this user's alone.

    What is loaded from the cache runs with all rights of the user.
    """
    place = pathlib.Path(os.path.realpath(folder()))
    try:
        about = os.stat(place)
    except (FileNotFoundError, NotADirectoryError):
        return place
    if not place.is_dir():
        problem = "it is no folder; set"
    elif about.st_uid != os.geteuid():
        problem = f"{place} belongs to another user, {about.st_uid}; set"
    elif about.st_mode & 0o022:
        problem = (
            f"others may write to {place} (mode {about.st_mode & 0o7777:o}); "
            f"run `chmod 700 {shlex.quote(str(place))}`, or set"
        )
    else:
        return place
    raise _UnusableError(
        f"the cache folder {folder()} cannot be used: {problem} "
        f"{FOLDER_VARIABLE} to a folder of your own"
    )


def get(
    key: str, name: str, compile_library: Compile, suffix: str = ".so"
) -> Entry:
    """Returns the entry of `key`; compiles it if none is whole and current.

    Args:
      key: a hash of everything that is known before anything is compiled.
      name: the name of the operation, for messages and lists.
      compile_library: `compile_library(library)` writes the library and
        returns the files that it read.
      suffix: the suffix of the library's name.

    Raises:
      BuildError: it does not compile, or the cache cannot be used because
        others can write to it or this user cannot.
    """
    try:
        top = _own_folder()
        entry = _current(top / key)
        if entry is None:
            with _locked(top, key):
                # What another process may have compiled meanwhile.
                entry = _current(top / key)
                if entry is None:
                    entry = _compile(top / key, name, suffix, compile_library)
                    _evict(top)
        return entry
    except _UnusableError as error:
        raise BuildError(f"{name}: {error}") from None
    except OSError as error:
        raise BuildError(
            f"{name}: the cache folder {folder()} cannot be used "
            f"({error.strerror or error}); set {FOLDER_VARIABLE} to one that "
            "is writable and has room"
        ) from error


def _compile(
    place: pathlib.Path, name: str, suffix: str, compile_library: Compile
) -> Entry:
    prefix, begin = _new_name(place.name), time.time_ns() - _TICK_NS
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place.parent) as folder:
        work, new = pathlib.Path(folder, "work"), pathlib.Path(folder, "entry")
        work.mkdir()
        new.mkdir()
        library = work / "library.so"
        read = compile_library(library)
        # Of a file that changes meanwhile, nobody knows what was read: with no
        # hash, the entry is compiled again when it is next asked for.
        files = {path: _digest(path, unless_after=begin) for path in read}
        version = (_digest(library) or "")[:16]
        # A file's name has room for 255 bytes.
        plain = os.fsencode(name.replace(os.sep, "_"))
        short = plain[:_NAME_BYTES].decode(errors="ignore")
        file = f"{short}-{version}{suffix}"
        files[file] = _digest(library)
        os.rename(library, new / file)
        about = {"name": name, "file": file, "files": files}
        (new / _ENTRY).write_text(json.dumps(about))
        shutil.rmtree(place, ignore_errors=True)
        os.rename(new, place)
    return Entry(place / file, name, version)


def _digest(
    path: str | os.PathLike[str], unless_after: int | None = None
) -> str | None:
    """The hash of a file's content; None if there is none, or it is newer."""
    try:
        about = os.stat(path)
        if unless_after is not None and about.st_ctime_ns > unless_after:
            return None
        times = about.st_mtime_ns, about.st_ctime_ns
        return _digest_of(os.fspath(path), about.st_size, *times)
    except OSError:
        return None


@functools.lru_cache(maxsize=4096)
def _digest_of(path: str, *stamp: int) -> str:
    """The same, for as long as size and times stay; the last nobody can set."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _new_name(key: str) -> str:
    return f"new-{key[:_LOCK_LENGTH]}-"


def _current(place: pathlib.Path) -> Entry | None:
    """Returns the entry in a folder if it is whole and current, else None."""
    about = _read(place)
    if about is None:
        return None
    entry, files = about
    # The library stands beside `entry.json`, and the others have whole paths.
    if not all(h and _digest(place / path) == h for path, h in files.items()):
        return None
    with contextlib.suppress(OSError):  # read-only
        if time.time() - _used(place) > _DAY:
            os.utime(place / _ENTRY)
    return entry


def _used(place: pathlib.Path) -> float:
    return os.stat(place / _ENTRY).st_mtime


def _read(place: pathlib.Path) -> tuple[Entry, dict[str, str]] | None:
    """The entry in a folder and the hashes of its files, if it is an entry."""
    try:
        about = json.loads((place / _ENTRY).read_bytes())
        library = place / os.path.basename(about["file"])
        version = library.stem.rpartition("-")[2]
        return Entry(library, about["name"], version), about["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def _locked(top: pathlib.Path, key: str) -> Iterator[None]:
    """Holds a key's lock, and removes what a killed holder left behind."""
    _make_folder(top / _LOCKS)
    with open(top / _LOCKS / key[:_LOCK_LENGTH], "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in top.glob(f"{_new_name(key)}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _make_folder(path: pathlib.Path) -> None:
    """Makes a folder and those above it, for this user alone."""
    if not path.parent.is_dir():
        _make_folder(path.parent)
    path.mkdir(0o700, exist_ok=True)


def entries() -> list[Entry]:
    """The entries, by name."""
    contents = map(_read, _places(_own_folder()))
    listed = [about[0] for about in contents if about]
    return sorted(listed, key=lambda e: (e.name, e.version))


def _places(top: pathlib.Path) -> Iterator[pathlib.Path]:
    """The folders of entries. What the kit has not made is none."""
    for place in top.iterdir() if top.is_dir() else ():
        is_key = _KEY.fullmatch(place.name) and not place.is_symlink()
        if is_key and _read(place):
            yield place


def clear() -> int:
    """Removes all entries; returns their number.

    Loaded libraries stay loaded. Files that the kit has not made stay.
    """
    return sum(map(_remove, [*_places(_own_folder())]))


def _remove(place: pathlib.Path) -> bool:
    """Removes an entry; returns whether this process removed it."""
    with contextlib.suppress(OSError):
        shutil.rmtree(place)
        return True
    return False


def _evict(top: pathlib.Path) -> None:
    """Removes the entries that have not been used for long."""
    used = []
    for place in _places(top):
        with contextlib.suppress(OSError):  # removed meanwhile
            used.append((_used(place), place))
    used.sort(reverse=True)
    oldest = time.time() - UNUSED_DAYS * _DAY
    for i, (last, place) in enumerate(used):
        if i >= MOST_ENTRIES or last < oldest:
            _remove(place)
