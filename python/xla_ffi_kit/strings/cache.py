"""Keeps compiled code on disk; many processes may ask for it at once.

An entry is a folder named by its key, with a lock, `entry.json` and the
library that it names. The rename of `entry.json` publishes it, and it holds the
library's hash. If a process is killed or a file is damaged, a reader therefore
finds a whole library or none. The lock is a flock, which the operating system
frees when its holder dies. The text of the lock file tells an entry from other
folders. The time of `entry.json` is the time of the last use, within a day.
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
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator

from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings import private
from xla_ffi_kit.strings.dependencies import Dependencies, Found, digest_of

FOLDER_VARIABLE = "XLA_FFI_KIT_CACHE"
# Entries beyond these limits are removed when something is compiled.
UNUSED_DAYS = 90
MOST_ENTRIES = 2000

_ENTRY = "entry.json"
_LOCK = "lock"
_LOCK_TEXT = b"an entry of xla_ffi_kit's cache\n"
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
      dependencies: the files from which it was made, in addition to its key.
      used: the time of its last use in seconds since 1970, within a day.
    """

    library: pathlib.Path
    name: str
    version: str
    digest: str
    dependencies: Dependencies
    used: float

    def write(self, path: pathlib.Path) -> None:
        """Writes what `_read` reads."""
        about = {
            "file": self.library.name,
            "sha256": self.digest,
            "name": self.name,
            "version": self.version,
            **self.dependencies.to_json(),
        }
        path.write_text(json.dumps(about))
        private.close(path)


# Compiles into a file.
Compile = Callable[[pathlib.Path], Found]


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


def _private_folder() -> pathlib.Path:
    """Returns the cache's folder, which nobody else can change, without links.

    Links are resolved once, so that nobody can change them afterwards.
    """
    place = pathlib.Path(os.path.realpath(folder()))
    if place.exists() and not place.is_dir():
        raise _UnusableError(
            f"the cache folder {folder()} cannot be used: it is no folder; set "
            f"{FOLDER_VARIABLE} to a folder of your own"
        )
    _check(private.problem_of_folder(place))
    return place


class _UnusableError(BuildError):
    """The cache is no folder, or others could have written what is in it."""


def _check(problem: str | None) -> None:
    if problem:
        raise _UnusableError(
            f"the cache folder {folder()} cannot be used: {problem}, or set "
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
        returns what it read.
      suffix: the suffix of the library's name.

    Raises:
      BuildError: it does not compile, or the cache cannot be used because
        others can write to it or this user cannot.
    """
    try:
        top = _private_folder()
        place = top / key
        found = _current(place)
        if found is not None:
            return found
        with _locked(place):
            found = _current(place)  # what another process compiled meanwhile
            if found is None:
                found = _compile(place, key, name + suffix, compile_library)
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
    place: pathlib.Path, key: str, file_name: str, compile_library: Compile
) -> Entry:
    """Compiles again until no file that was read has changed meanwhile."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=place) as temporary:
        library = pathlib.Path(temporary, "library.so")
        begin = time.time_ns()
        dependencies = Dependencies.of(compile_library(library))
        # Files that are older than that are what the compiler read. For others
        # it takes two looks at their content, one before it and one after.
        while dependencies.newest() > begin - _TICK_NS:
            before = dependencies.digests()
            dependencies = Dependencies.of(compile_library(library))
            if dependencies.digests() == before:
                break
        digest = digest_of(library) or ""
        # Where not all is known that decides it, only the result tells.
        made = "" if dependencies.is_known else digest
        text = json.dumps([key, dependencies.digests(), made])
        version = hashlib.sha256(text.encode()).hexdigest()[:16]
        name, suffix = os.path.splitext(file_name)
        # A file's name has room for 255 bytes.
        short = os.fsencode(name)[:_NAME_BYTES].decode(errors="ignore")
        file = place / f"{short}-{version}{suffix}"
        entry = Entry(file, name, version, digest, dependencies, time.time())
        written = pathlib.Path(temporary, _ENTRY)
        entry.write(written)
        private.close(library)
        os.rename(library, file)
        os.rename(written, place / _ENTRY)
    for old in place.glob(f"*{suffix}"):
        if old != file:
            old.unlink()
    return entry


def _current(place: pathlib.Path) -> Entry | None:
    """Returns the entry in a folder if it is whole and current, else None."""
    entry = _read(place)
    now = entry.dependencies.now() if entry else None
    if entry is None or now is None:
        return None
    if time.time() - entry.used > _DAY or now != entry.dependencies:
        _renew(place, dataclasses.replace(entry, dependencies=now))
    return entry


def _renew(place: pathlib.Path, entry: Entry) -> None:
    """Notes that an entry is in use, unless another process holds its lock."""
    with contextlib.suppress(OSError), _try_lock(place) as locked:
        found = _read(place) if locked else None
        if found is not None and found.version == entry.version:
            with tempfile.TemporaryDirectory(prefix="new-", dir=place) as new:
                written = pathlib.Path(new, _ENTRY)
                entry.write(written)
                os.rename(written, place / _ENTRY)


def _read(place: pathlib.Path) -> Entry | None:
    """Returns the entry in a folder if it is whole, else None.

    Raises BuildError if another user may have written it.
    """
    _check(private.problem(place) or private.problem(place / _ENTRY))
    try:
        used = os.stat(place / _ENTRY).st_mtime
        about = json.loads((place / _ENTRY).read_bytes())
        library = place / os.path.basename(about["file"])
        _check(private.problem(library))
        if digest_of(library) != about["sha256"]:
            return None
        return Entry(
            library,
            about["name"],
            about["version"],
            about["sha256"],
            Dependencies.from_json(about),
            used,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@contextlib.contextmanager
def _locked(place: pathlib.Path) -> Iterator[None]:
    """Holds the entry's lock, and removes what a killed holder left behind."""
    while True:
        _make_folder(place.parent)
        _check(private.problem_of_folder(place.parent))
        place.mkdir(0o755, exist_ok=True)
        _check(private.problem(place))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(place / _LOCK, flags, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_same_file(lock, place / _LOCK):
                if os.fstat(lock).st_size == 0:
                    os.write(lock, _LOCK_TEXT)
                for left in place.glob("new-*"):
                    shutil.rmtree(left, ignore_errors=True)
                yield
                return
        finally:
            os.close(lock)


@contextlib.contextmanager
def _try_lock(place: pathlib.Path) -> Iterator[bool]:
    """Takes the lock of an existing entry; returns whether it is held now.

    Raises OSError if the folder is not an entry.
    """
    lock = os.open(place / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    is_free = False
    try:
        is_entry = os.read(lock, len(_LOCK_TEXT) + 1) == _LOCK_TEXT
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        yield is_entry and is_free
    finally:
        os.close(lock)


def _is_same_file(descriptor: int, path: pathlib.Path) -> bool:
    """Whether the lock is still the entry's: `clear` removes both."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _make_folder(path: pathlib.Path) -> None:
    """Makes a folder and those above it, for this user alone."""
    if not path.parent.is_dir():
        _make_folder(path.parent)
    path.mkdir(0o700, exist_ok=True)


def _places(top: pathlib.Path) -> list[pathlib.Path]:
    """The folders that may be entries."""
    if not top.is_dir():
        return []
    return [
        place
        for place in top.iterdir()
        if _KEY.fullmatch(place.name) and not place.is_symlink()
    ]


def entries() -> list[Entry]:
    """The entries that are whole, by name."""
    found = map(_read, _places(_private_folder()))
    return sorted((e for e in found if e), key=lambda e: (e.name, e.version))


def clear() -> int:
    """Removes all entries except those being compiled; returns their number.

    Loaded libraries stay loaded. Files that the kit has not made stay.
    """
    return sum(map(_remove, _places(_private_folder())))


def _remove(place: pathlib.Path) -> bool:
    """Removes an entry that nobody uses; returns whether it was removed."""
    with contextlib.suppress(OSError), _try_lock(place) as locked:
        if locked:
            shutil.rmtree(place)
            return True
    return False


def _evict(top: pathlib.Path) -> None:
    """Removes the entries that have not been used for long."""
    used = []
    for place in _places(top):
        with contextlib.suppress(OSError):  # being compiled, or no entry
            used.append((os.stat(place / _ENTRY).st_mtime, place))
    used.sort(reverse=True)
    oldest = time.time() - UNUSED_DAYS * _DAY
    for i, (last, place) in enumerate(used):
        if i >= MOST_ENTRIES or last < oldest:
            _remove(place)
