"""Writes a wheel: `make_wheel.py SPEC.json OUTPUT.whl`.

The same files give the same bytes: entries are sorted and have one time and one
mode, and nothing of the environment is read (which wheel's WheelFile does, and
every embedder's @pypi would have to have it). A shared library that needs more
than the wheel's tag promises is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
import re
import sys
import zipfile

# The oldest time that zip knows.
_TIME = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")

# What systems with a glibc have beside it: the newest version of each symbol
# set (https://github.com/pypa/auditwheel, manylinux-policy.json).
_BESIDE_GLIBC = {
    "2.17": {"GLIBCXX": "3.4.19", "CXXABI": "1.3.7", "GCC": "4.8.0"},
    "2.34": {"GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"},
}
# A versioned name is stored as "GLIBC_2.14", between zeros.
_VERSION_NAME = re.compile(
    rb"(?<=\0)(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)(?=\0)"
)


def key(version: str) -> tuple[int, ...]:
    """The version in a form that compares."""
    return tuple(map(int, version.split(".")))


def too_new(library: bytes, glibc: str) -> list[str]:
    """Versions of system libraries' symbols that are newer than promised.

    Reads all of the library, so that a version may be reported that only looks
    like one, but none is missed.
    """
    promised = {"GLIBC": glibc, **_BESIDE_GLIBC[glibc]}
    found = {
        (name.decode(), version.decode())
        for name, version in _VERSION_NAME.findall(library)
    }
    return sorted(
        f"{name}_{version}"
        for name, version in found
        if key(version) > key(promised[name])
    )


def check_libraries(files: dict[str, bytes], glibc: str) -> None:
    """Exits with a sentence if a library needs a newer system."""
    for place, data in files.items():
        if not place.endswith(".so"):
            continue
        newer = too_new(data, glibc)
        if newer:
            sys.exit(
                f"{place} needs {', '.join(newer)}, but manylinux_"
                f"{glibc.replace('.', '_')} promises less: build it with the "
                "compiler of //third_party/cc, or raise the wheel's `glibc`"
            )


def standalone(page: str) -> str:
    """The page without links and pictures that only its repository has.

    Of a link, its text stays. Code stays as it is.
    """

    def text_of(link: re.Match[str]) -> str:
        is_picture, text, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        return "" if is_picture else text

    prose_and_code = _FENCE.split(page)
    prose_and_code[::2] = (_LINK.sub(text_of, p) for p in prose_and_code[::2])
    return "".join(prose_and_code)


def record(files: dict[str, bytes], place: str) -> bytes:
    """The file RECORD: every file's hash and size, its own left out."""
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        lines.append(f"{name},sha256={digest.decode().rstrip('=')},{len(data)}")
    return "\n".join([*lines, f"{place},,", ""]).encode()


def main(spec_path: str, output: str) -> None:
    """Writes the wheel that the file `spec_path` describes to `output`."""
    spec = json.loads(pathlib.Path(spec_path).read_text())
    info, texts = spec["info"], spec["texts"]
    texts[f"{info}METADATA"] += standalone(
        pathlib.Path(spec["page"]).read_text()
    )
    files = {
        place: pathlib.Path(path).read_bytes()
        for place, path in spec["files"].items()
    }
    check_libraries(files, spec["glibc"])
    files |= {place: text.encode() for place, text in texts.items()}
    # What describes the wheel is last, as the format recommends.
    names = sorted(files, key=lambda name: (name.startswith(info), name))
    files = {name: files[name] for name in names}
    files[f"{info}RECORD"] = record(files, f"{info}RECORD")
    with zipfile.ZipFile(output, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3  # Unix
            entry.external_attr = _FILE_MODE << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)


if __name__ == "__main__":
    main(*sys.argv[1:])
