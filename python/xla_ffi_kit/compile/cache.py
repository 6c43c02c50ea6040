"""Keeps compiled code on disk; many processes may ask for it at once.

An entry is a folder, named by its key, with a library and `entry.json`, which
holds the library's hash. It is made under another name and renamed. If a
process is killed or a file is damaged, a reader therefore finds a whole entry
or none. Who compiles holds a flock, which the operating system frees when its
holder dies. The time of `entry.json` is that of the last use, within a day.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from xla_ffi_kit.compile import dependencies
from xla_ffi_kit.compile.dependencies import File, digest_of
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
      version: a hash of everything from which it was made, which is a part of
        the library's name.
      digest: the hash of the library itself.
      files: the files from which it was made, in addition to its key.
    """

    library: pathlib.Path
    name: str
    version: str
    digest: str
    files: Mapping[str, File]

    def write(self, folder: pathlib.Path) -> None:
        """Writes what `_read` reads."""
        about = {
            "file": self.library.name,
            "sha256": self.digest,
            "name": self.name,
            "version": self.version,
            "files": {p: (f.digest, f.stamp) for p, f in self.files.items()},
        }
        (folder / _ENTRY).write_text(json.dumps(about))


# Compiles into a file; returns the files that were read.
Compile = Callable[[pathlib.Path], Iterable[str]]


def folder() -> pathlib.Path:
    """Returns XLA_FFI_KIT_CACHE, or a folder in the user's cache folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        place = os.path.expanduser(chosen)
        if place.startswith("~"):
            raise _UnusableError(
                f"{FOLDER_VARIABLE}: expected a folder, got {chosen!r}, where "
                "there is no such user"
            )
        return pathlib.Path(place).absolute()
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
        place = top / key
        found = _current(place)
        if found is not None:
            return found
        with _locked(top, key):
            found = _current(place)  # what another process compiled meanwhile
            if found is None:
                file_name = name.replace(os.sep, "_") + suffix
                found = _compile(place, file_name, compile_library)
                _evict(top)
            return found
    except _UnusableError as error:
        raise BuildError(f"{name}: {error}") from None
    except OSError as error:
        raise BuildError(
            f"{name}: the cache folder {folder()} cannot be used "
            f"({error.strerror or error}); set {FOLDER_VARIABLE} to one that "
            "is writable and has room"
        ) from error


def _compile(
    place: pathlib.Path, file_name: str, compile_library: Compile
) -> Entry:
    """Compiles again until no file that was read has changed meanwhile."""
    prefix = _new_name(place.name)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place.parent) as made:
        work, new = pathlib.Path(made, "work"), pathlib.Path(made, "entry")
        work.mkdir()
        new.mkdir()
        library = work / "library.so"
        begin = time.time_ns()
        read = list(compile_library(library))
        files = {path: File.at(path) for path in read}
        # Files that are older than that are what the compiler read. For others
        # it takes two looks at their content, one before it and one after.
        while dependencies.newest(read) > begin - _TICK_NS:
            before = dependencies.digests(files)
            read = list(compile_library(library))
            files = {path: File.at(path) for path in read}
            if dependencies.digests(files) == before:
                break
        text = json.dumps([place.name, dependencies.digests(files)])
        version = hashlib.sha256(text.encode()).hexdigest()[:16]
        name, suffix = os.path.splitext(file_name)
        # A file's name has room for 255 bytes.
        short = os.fsencode(name)[:_NAME_BYTES].decode(errors="ignore")
        file = new / f"{short}-{version}{suffix}"
        entry = Entry(
            place / file.name, name, version, digest_of(library) or "", files
        )
        os.rename(library, file)
        entry.write(new)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(new, place)
    return entry


def _new_name(key: str) -> str:
    return f"new-{key[:_LOCK_LENGTH]}-"


def _current(place: pathlib.Path) -> Entry | None:
    """Returns the entry in a folder if it is whole and current, else None."""
    entry = _read(place)
    if entry is None or not all(f.is_at(p) for p, f in entry.files.items()):
        return None
    with contextlib.suppress(OSError):  # read-only
        if time.time() - _used(place) > _DAY:
            os.utime(place / _ENTRY)
    return entry


def _used(place: pathlib.Path) -> float:
    return os.stat(place / _ENTRY).st_mtime


def _read(place: pathlib.Path) -> Entry | None:
    """Returns the entry in a folder if it is whole, else None."""
    try:
        about = json.loads((place / _ENTRY).read_bytes())
        library = place / os.path.basename(about["file"])
        if digest_of(library) != about["sha256"]:
            return None
        files = {
            str(path): File(str(digest), tuple(stamp) if stamp else None)
            for path, (digest, stamp) in about["files"].items()
        }
        return Entry(
            library, about["name"], about["version"], about["sha256"], files
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
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


def _places(top: pathlib.Path) -> Iterator[pathlib.Path]:
    """The folders that may be entries."""
    for place in top.iterdir() if top.is_dir() else ():
        if _KEY.fullmatch(place.name) and not place.is_symlink():
            yield place


def entries() -> list[Entry]:
    """The entries that are whole, by name."""
    found = map(_read, _places(_own_folder()))
    return sorted((e for e in found if e), key=lambda e: (e.name, e.version))


def clear() -> int:
    """Removes all entries that are whole; returns their number.

    Loaded libraries stay loaded. Files that the kit has not made stay.
    """
    return sum(_remove(entry.library.parent) for entry in entries())


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
        with contextlib.suppress(OSError):  # removed meanwhile, or no entry
            used.append((_used(place), place))
    used.sort(reverse=True)
    oldest = time.time() - UNUSED_DAYS * _DAY
    for i, (last, place) in enumerate(used):
        if (i >= MOST_ENTRIES or last < oldest) and _read(place):
            _remove(place)
