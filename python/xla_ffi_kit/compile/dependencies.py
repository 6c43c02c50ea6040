"""Remembers the files that a library was compiled from, by their hashes."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Iterable, Mapping

# A file that changed this shortly before it was looked at may change again
# without another time of change: file systems count in ticks.
_TICK_NS = 2_000_000_000


@dataclasses.dataclass(frozen=True)
class File:
    """The hash of a file's content, and the file's size and times.

    While size and times stay the same, the content counts as unchanged. They
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

    def is_at(self, path: str) -> bool:
        """Whether this is what is there now."""
        if self.stamp is not None and _stamp(path) == self.stamp:
            return True
        return (digest_of(path) or "") == self.digest


def digests(files: Mapping[str, File]) -> list[tuple[str, str]]:
    """Each file and its hash, sorted."""
    return sorted((path, file.digest) for path, file in files.items())


def newest(paths: Iterable[str]) -> int:
    """When the last of the files changed, in nanoseconds."""
    stamps = map(_stamp, paths)
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
