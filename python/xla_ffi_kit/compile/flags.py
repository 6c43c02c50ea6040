"""Reads compiler flags, and finds what their meaning depends on."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence

from xla_ffi_kit.errors import BuildError

# Compilers link startup code into libraries with these that makes denormals
# zero in every thread that loads them.
_REFUSED = (
    "-ffast-math",
    "-Ofast",
    "-funsafe-math-optimizations",
    "-mdaz-ftz",
    "-ffp-model=fast",
    "-ffp-model=aggressive",
)

# The variables that compilers and linkers read, lists of folders first.
_VARIABLES = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCACHE_COMPILER",
    "CCC_OVERRIDE_OPTIONS",
    "LD_RUN_PATH",
    "SOURCE_DATE_EPOCH",
)
_PATH_VARIABLES = _VARIABLES[:6]
# Options without a path, or with an absolute one. With others the current
# folder may count.
_PLACELESS = (
    *("-O", "-D", "-U", "-g", "-m", "-l", "-f", "-W", "-std=", "-pthread"),
    "--param=",
    *("/", "-I/", "-L/"),
)
_WITH_PATHS = ("-fplugin", "-fprofile", "-Wp,", "-Wa,", "-Wl,")
_OF_LINKER = ("-l", "-L", "-Wl,", "-fuse-ld=", "-static-lib")
# The linker keeps debug information, and finds the libraries of the others.
_OF_BOTH = ("-g", "-fsanitize=", "-pthread", "-flto", "-fprofile", "--coverage")
_OPENMP = re.compile("-fopenmp(=.*)?")  # and not -fopenmp-simd
_MAX_FILES_OF_WORDS = 100  # one may name itself


def check(name: str, flags: Sequence[str], command: Sequence[str]) -> None:
    """Refuses the words that would change the rest of the process.

    Args:
      name: the name of the operation or library.
      flags: the author's flags.
      command: the compiler's command, with the words of CXX.
    """
    for where, words in (("flags", flags), ("CXX", command)):
        for word in _expanded(words, []):
            if word in _REFUSED:
                raise BuildError(
                    f"{name}: {where}: {word} makes denormals zero in all of "
                    "the process; use only the options that you need, such as "
                    "-fassociative-math -fno-signed-zeros"
                )


def split(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the flags to compile with and the flags to link with."""
    return (
        [flag for flag in flags if not flag.startswith(_OF_LINKER)],
        [
            flag
            for flag in flags
            if flag.startswith(_OF_LINKER + _OF_BOTH) or _OPENMP.fullmatch(flag)
        ],
    )


def strip(flags: Sequence[str]) -> list[str]:
    """Returns the flag to drop symbols, unless a debugger needs them."""
    is_debug = any(re.fullmatch("-g(?!0).*", flag) for flag in flags)
    return [] if is_debug else ["-Wl,-s"]


def surroundings(flags: Sequence[str]) -> list[str]:
    """Returns what the meaning of flags depends on, besides the flags."""
    read: list[str] = []
    words = list(_expanded(flags, read))
    variables = {v: os.environ.get(v, "") for v in _VARIABLES}
    # An empty folder in a list is the current one.
    listed = [v for name in _PATH_VARIABLES if (v := variables[name])]
    is_placeless = all(
        word.startswith(_PLACELESS) and not word.startswith(_WITH_PATHS)
        for word in words
    ) and all(
        folder.startswith("/")
        for folders in listed
        for folder in folders.split(os.pathsep)
    )
    is_native = any("native" in word for word in words)
    return [
        *read,
        *(f"{name}={value}" for name, value in variables.items()),
        "" if is_placeless else os.getcwd(),
        cpu() if is_native else "",
    ]


def _expanded(words: Sequence[str], read: list[str]) -> Iterator[str]:
    """Returns the words, with the content of files that stand for words."""
    for word in words:
        yield word
        if word.startswith("@") and len(read) < _MAX_FILES_OF_WORDS:
            try:
                text = pathlib.Path(word[1:]).read_text(errors="replace")
                inner = shlex.split(text)
            except (OSError, ValueError):
                continue
            read.append(text)
            yield from _expanded(inner, read)


@functools.cache
def cpu() -> str:
    """Returns what -march=native depends on."""
    try:
        file = os.open("/proc/cpuinfo", os.O_RDONLY)
    except OSError:
        return os.uname().machine
    try:
        # The first processor's part; of all it takes long on large machines.
        text = os.read(file, 8192).decode(errors="replace")
    finally:
        os.close(file)
    first = text.partition("\n\n")[0].splitlines()
    wanted = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")
    return "\n".join(line for line in first if line.startswith(wanted))


def macros(flags: Sequence[str]) -> list[str]:
    """Returns the flags that change the source, such as macros."""
    found = []
    for flag, following in itertools.pairwise([*flags, ""]):
        if flag in ("-D", "-U"):
            found.append(flag + following)
        elif flag.startswith(("-D", "-U")):
            found.append(flag)
    return found
