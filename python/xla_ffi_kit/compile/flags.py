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

# With these, compilers link startup code into a library that makes denormals
# zero in each thread that loads it.
_REFUSED = (
    "-ffast-math",
    "-Ofast",
    "-funsafe-math-optimizations",
    "-mdaz-ftz",
    "-ffp-model=fast",
    "-ffp-model=aggressive",
)

# The environment variables that compilers and linkers read. The first six are
# lists of folders.
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
# Options that mean the same in whatever folder the compiler runs: those without
# a path, and those with an absolute one. `_WITH_PATHS` are the exceptions.
_PLACELESS = (
    *("-O", "-D", "-U", "-g", "-m", "-l", "-f", "-W", "-std=", "-pthread"),
    "--param=",
    *("/", "-I/", "-L/"),
)
_WITH_PATHS = ("-fplugin", "-fprofile", "-Wp,", "-Wa,", "-Wl,")
_OF_LINKER = ("-l", "-L", "-Wl,", "-fuse-ld=", "-static-lib")
# Options for compiling that the linker needs too, to keep debug information
# or to find the libraries that they bring.
_OF_BOTH = ("-g", "-fsanitize=", "-pthread", "-flto", "-fprofile", "--coverage")
_OPENMP = re.compile("-fopenmp(=.*)?")  # and not -fopenmp-simd
_MAX_RESPONSE_FILES = 100  # one may name itself


def check(name: str, flags: Sequence[str], command: Sequence[str]) -> None:
    """Refuses the options that would change the rest of the process.

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
    """Returns what the meaning of flags depends on, besides the flags.

    It is a part of the cache's key: environment variables, the content of
    response files, the processor, and the current folder where a path begins
    there.
    """
    response_files: list[str] = []
    words = list(_expanded(flags, response_files))
    variables = {v: os.environ.get(v, "") for v in _VARIABLES}
    # An empty folder in such a list is the current one.
    paths = [v for name in _PATH_VARIABLES if (v := variables[name])]
    is_placeless = all(
        word.startswith(_PLACELESS) and not word.startswith(_WITH_PATHS)
        for word in words
    ) and all(
        folder.startswith("/")
        for path in paths
        for folder in path.split(os.pathsep)
    )
    is_native = any("native" in word for word in words)
    return [
        *response_files,
        *(f"{name}={value}" for name, value in variables.items()),
        "" if is_placeless else os.getcwd(),
        cpu() if is_native else "",
    ]


def _expanded(words: Sequence[str], response_files: list[str]) -> Iterator[str]:
    """Returns the words and those of response files, `@FILE`.

    The files' contents are added to `response_files`.
    """
    for word in words:
        yield word
        if word.startswith("@") and len(response_files) < _MAX_RESPONSE_FILES:
            try:
                text = pathlib.Path(word[1:]).read_text(errors="replace")
                inner = shlex.split(text)
            except (OSError, ValueError):
                continue
            response_files.append(text)
            yield from _expanded(inner, response_files)


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
    fields = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU ")
    return "\n".join(line for line in first if line.startswith(fields))


def macros(flags: Sequence[str]) -> list[str]:
    """Returns the flags that change the source: those that define macros."""
    definitions = []
    for flag, following in itertools.pairwise([*flags, ""]):
        if flag in ("-D", "-U"):
            definitions.append(flag + following)
        elif flag.startswith(("-D", "-U")):
            definitions.append(flag)
    return definitions
