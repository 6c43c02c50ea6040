"""Remembers the files that a library was compiled from, and checks them.

The paths at which the compiler found nothing count too, because a new header in
a folder that is searched earlier takes the place of the old one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

# A file that changed this shortly before it was looked at may change again
# without another time of change: file systems count in ticks.
_TICK_NS = 2_000_000_000

# Each begins with a literal, which Python looks for ten times as fast.
_NAMED = (
    re.compile(rb'#[ \t]*include(?:_next)?[ \t]*"([^"\n]+)"'),
    re.compile(rb'__has_include(?:_next)?[ \t]*\([ \t]*["<]([^">\n]+)[">]'),
)
# The file that these read is that of a macro or of the assembler.
_UNNAMED = (
    re.compile(rb"\n[ \t]*#[ \t]*include(?:_next)?[ \t]+[A-Za-z_]"),
    re.compile(rb"__has_include(?:_next)?[ \t]*\([ \t]*[A-Za-z_]"),
    re.compile(rb'\.inc(?:bin|lude)[ \t]*\\?"'),
)
_NO_FOLDER = re.compile(
    r'^ignoring nonexistent directory "(.*)"$', re.MULTILINE
)


@dataclasses.dataclass(frozen=True)
class Found:
    """The files that a compiler read, and the paths where it found none.

    Attributes:
      files: absolute paths.
      absent: absolute paths.
      is_known: whether nothing else decides what the compiler makes.
    """

    files: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    is_known: bool = True


@dataclasses.dataclass(frozen=True)
class File:
    """The hash of a file's content, and the file's times and size.

    While times and size stay the same, the content counts as unchanged. They
    are None if the file was too young for that.
    """

    digest: str
    stamp: tuple[int, int, int] | None

    @classmethod
    def at(cls, path: str) -> File:
        """The file that is there; its digest is empty if there is none."""
        now = time.time_ns()
        stamp = _stamp(path)
        if stamp is not None and stamp[2] > now - _TICK_NS:
            stamp = None
        return cls(digest_of(path) or "", stamp)


@dataclasses.dataclass(frozen=True)
class Dependencies:
    """All files that decide what a compiler makes of a source and flags."""

    files: Mapping[str, File]
    absent: tuple[str, ...]
    is_known: bool

    @classmethod
    def of(cls, found: Found) -> Dependencies:
        """Returns the present state of the files that were found."""
        files = {path: File.at(path) for path in found.files}
        return cls(files, found.absent, found.is_known)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Dependencies:
        """The inverse of `to_json`; a KeyError, TypeError or ValueError."""
        files = {
            str(path): File(str(digest), tuple(stamp) if stamp else None)
            for path, (digest, stamp) in value["files"].items()  # type: ignore
        }
        absent = tuple(value["absent"])  # type: ignore
        return cls(files, absent, bool(value["is_known"]))

    def to_json(self) -> dict[str, object]:
        """Returns values that JSON can represent."""
        files = {path: (f.digest, f.stamp) for path, f in self.files.items()}
        return {
            "files": files,
            "absent": self.absent,
            "is_known": self.is_known,
        }

    def digests(self) -> list[tuple[str, str]]:
        """Each file and its hash, sorted."""
        return sorted((path, file.digest) for path, file in self.files.items())

    def now(self) -> Dependencies | None:
        """Returns the same with current stamps; None if a file has changed.

        Or if nobody knows whether one has.
        """
        if not self.is_known or any(map(os.path.lexists, self.absent)):
            return None
        files = dict(self.files)
        for path, file in self.files.items():
            if file.stamp is None or _stamp(path) != file.stamp:
                files[path] = File.at(path)
                if files[path].digest != file.digest:
                    return None
        return dataclasses.replace(self, files=files)

    def newest(self) -> int:
        """When the last of the files changed, in nanoseconds."""
        stamps = (_stamp(path) for path in self.files)
        return max((stamp[2] for stamp in stamps if stamp), default=0)


def digest_of(path: str | os.PathLike[str]) -> str | None:
    """The hash of a file's content; None if there is no such file."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _stamp(path: str) -> tuple[int, int, int] | None:
    # The last one is the time of change, which nobody can set.
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns


def in_depfile(depfile: bytes) -> list[str]:
    """Absolute paths of the files that a depfile names."""
    text = os.fsdecode(depfile).replace("\\\n", " ")
    _, _, files = text.partition(": ")
    names = files.replace("\\ ", "\0").replace("\\#", "#").replace("$$", "$")
    # Not normalized: a folder before ".." may be a symbolic link.
    here = os.getcwd()
    return [os.path.join(here, p.replace("\0", " ")) for p in names.split()]


def search_path(said: str) -> tuple[list[str], list[str]]:
    """The folders of headers that a compiler names with `-Wp,-v`, in order.

    Returns:
      The folders, and those that it looked for in vain.
    """
    _, begins, listed = said.partition("search starts here:\n")
    listed, ends, _ = listed.partition("End of search list.")
    folders = [
        os.path.abspath(line.strip())
        for line in listed.splitlines()
        if line.startswith(" ")
    ]
    absent = [os.path.abspath(path) for path in _NO_FOLDER.findall(said)]
    return folders if begins and ends else [], absent


def looked_at(
    files: Sequence[str],
    folders: Sequence[str],
    included: Iterable[tuple[str, str]] = (),
) -> set[str]:
    """The paths at which a compiler looked for files, and there was nothing.

    Args:
      files: the files that a compiler read.
      folders: the folders that it searches for headers, in this order.
      included: more headers to search for: a folder that comes before the
        others, and the name.
    """
    absent: set[str] = set()
    is_there = functools.cache(os.path.lexists)

    def is_absent(path: str) -> bool:
        if is_there(path):
            return False
        # One missing folder stands for all that it could hold.
        while not is_there(os.path.dirname(path)):
            path = os.path.dirname(path)
        absent.add(path)
        return True

    for path in map(os.path.normpath, files):
        for i, folder in enumerate(folders):
            if path.startswith(folder + os.sep):
                for earlier in folders[:i]:
                    is_absent(earlier + path[len(folder) :])
    for first, name in [*included, *_named_in(files)]:
        for folder in (first, *folders):
            if not is_absent(os.path.normpath(os.path.join(folder, name))):
                break
    return absent


def are_named(files: Iterable[str]) -> bool:
    """Whether all that these files read is named in them, or in a depfile."""
    return not any(
        pattern.search(b"\n" + text)
        for _, text in _read(files)
        for pattern in _UNNAMED
    )


def _named_in(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Returns the headers that files look for in their own folder."""
    for path, text in _read(files):
        for pattern in _NAMED:
            for match in pattern.finditer(text):
                yield os.path.dirname(path), os.fsdecode(match[1])


def _read(files: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for path in files:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            yield path, file.read()
