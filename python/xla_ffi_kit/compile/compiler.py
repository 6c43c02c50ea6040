"""Finds, identifies and runs the host's C++ compiler."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from xla_ffi_kit.compile import flags as compiler_flags
from xla_ffi_kit.compile import headers, messages, nvcc
from xla_ffi_kit.errors import BuildError, NoCompilerError
from xla_ffi_kit.library import elf

_FLAGS = (
    "-O3",
    "-fPIC",
    # The linker decides what the library exports, so functions are inlined as
    # if it exported none.
    "-fno-semantic-interposition",
    # Neither errno nor the floating-point flags are read, and both keep loops
    # from being vectorized.
    "-fno-math-errno",
    "-fno-trapping-math",
    # `#pragma omp simd` lets a loop's sum be vectorized.
    "-fopenmp-simd",
)
_CPP = ("-std=c++17",)
# Of a source in C, which a C++ compiler takes for C++ otherwise.
_C = ("-x", "c", "-std=gnu11")
# An object with this symbol has handlers that check their calls, which needs
# the kit's own sources: headers.sources().
_CHECKS_CALLS = b"_ZN11xla_ffi_kit7AnyCall5CheckEv"
_LINK_FLAGS = (
    "-shared",
    # XLA keeps the addresses of handlers.
    "-Wl,-z,nodelete",
    "-Wl,-z,defs",
    "-Wl,--as-needed",
)


class CompilerError(BuildError):
    """Code does not compile; `output` is all that the compiler said."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


@dataclasses.dataclass(frozen=True)
class Compiler:
    """A command, and what distinguishes it from other compilers.

    Attributes:
      command: the words of the command.
      identity: these words, and the files of the programs among them.
      options: the words after the last program.
    """

    command: tuple[str, ...]
    identity: str
    options: tuple[str, ...] = ()


def find() -> Compiler:
    """Returns CXX if it is set, else c++, g++ or clang++, else ziglang."""
    chosen = os.environ.get("CXX", "").strip()
    if chosen:
        try:
            command = shlex.split(chosen)
        except ValueError as error:  # a quote that does not end
            raise BuildError(
                "the environment variable CXX: expected the words of a "
                f"command, got {chosen!r} ({error})"
            ) from None
        program = shutil.which(command[0])
        if program is None:
            raise NoCompilerError(
                f"the environment variable CXX is {chosen!r}, but there is no "
                f"program {command[0]!r}; correct it, or unset it"
            )
        last = max(i for i, w in enumerate(command) if _program(w))
        return Compiler(
            (program, *command[1:]),
            _identity(command),
            tuple(command[last + 1 :]),
        )
    for name in ("c++", "g++", "clang++"):
        program = shutil.which(name)
        if program is not None:
            return Compiler((program,), _identity((name,)))
    if importlib.util.find_spec("ziglang") is not None:
        version = importlib.metadata.version("ziglang")
        command = [sys.executable, "-m", "ziglang", "c++"]
        return Compiler(tuple(command), f"ziglang {version}")
    raise NoCompilerError(
        "there is no C++ compiler; install one (`apt install g++`, or "
        "`pip install ziglang`) or set CXX"
    )


def _program(word: str) -> str | None:
    """Returns the program that a word of a command names, if it names one."""
    return None if word.startswith("-") else shutil.which(word)


def _identity(command: Sequence[str]) -> str:
    """Identifies a command and each program in it by their files.

    Asking for the version takes as long as the rest of a start.
    """
    parts = list(command)
    for path in filter(None, map(_program, command)):
        about = os.stat(path)
        file = os.path.realpath(path)
        parts.append(f"{file} {about.st_size} {about.st_mtime_ns}")
    return "\0".join(parts)


def identity(compiler: Compiler, flags: Sequence[str]) -> str:
    """Returns what identifies the output of a compiler with these flags.

    Headers and libraries are not part of it: only a run of the compiler tells
    which ones it finds.
    """
    around = compiler_flags.surroundings([*compiler.options, *flags])
    return "\0".join(
        [compiler.identity, *_CPP, *_FLAGS, *_LINK_FLAGS, *flags, *around]
    )


def compile_library(
    name: str,
    compiler: Compiler,
    sources: Sequence[pathlib.Path],
    exports: Sequence[str],
    library: pathlib.Path,
    flags: Sequence[str],
    cuda: nvcc.Nvcc | None = None,
) -> None:
    """Compiles the sources and links them to a library.

    Args:
      name: the operation's or library's, for errors.
      compiler: for C++, and for what runs on CPUs in CUDA sources.
      sources: C++ and C sources, and with `cuda` CUDA sources.
      exports: the symbols that the library exports, or patterns with a "*".
      library: the file to write.
      flags: more flags. Those of a library to link with come last.
      cuda: the CUDA compiler, whose headers C++ sources find, too.
    """
    compile_flags, link_flags = compiler_flags.split(flags)
    includes = ["-isystem", headers.include_dir()]
    if cuda is not None:
        includes += ["-isystem", str(cuda.include)]
        link_flags = [*cuda.link_flags(), *link_flags]
    with tempfile.TemporaryDirectory(dir=library.parent) as work:
        objects: list[pathlib.Path] = []

        def compile_each(sources: Sequence[pathlib.Path]) -> None:
            for source in sources:
                file = pathlib.Path(work, f"{len(objects)}.o")
                objects.append(file)
                if cuda is not None and nvcc.is_cuda(source):
                    command = cuda.command(compiler.command[0], compile_flags)
                else:
                    command = _compile_command(
                        compiler, compile_flags, is_c=source.suffix == ".c"
                    )
                ends = ["-c", str(source), "-o", str(file)]
                _run(name, [*command, *includes, *ends], work, file)

        compile_each(sources)
        if any(_CHECKS_CALLS in file.read_bytes() for file in objects):
            compile_each([s for s in headers.sources() if s not in sources])
        elf.leave_to_python(map(str, objects))
        _link(name, compiler, objects, exports, library, link_flags, work)


def compile_tracked(
    name: str,
    compiler: Compiler,
    source: pathlib.Path,
    exports: Sequence[str],
    library: pathlib.Path,
    flags: Sequence[str],
) -> list[str]:
    """Compiles and links one C++ source; returns the files that were read.

    They do not include the source itself and the kit's headers, which are part
    of the key.
    """
    compile_flags, link_flags = compiler_flags.split(flags)
    with tempfile.TemporaryDirectory(dir=library.parent) as work:
        file, depfile = pathlib.Path(work, "0.o"), pathlib.Path(work, "0.d")
        command = [
            *_compile_command(compiler, compile_flags),
            *("-isystem", headers.include_dir()),
            *("-MD", "-MT", "read", "-MF", str(depfile)),
            *("-c", str(source), "-o", str(file)),
        ]
        _run(name, command, work, file, depfile)
        read = _in_depfile(depfile.read_bytes())

        def link(*more: str) -> str:
            flags = [*link_flags, *more]
            return _link(name, compiler, [file], exports, library, flags, work)

        # CXX may name libraries, too.
        if compiler_flags.split([*compiler.options, *flags])[1]:
            try:
                trace = link("-Wl,--trace")
            except BuildError as error:
                if "--trace" not in str(error):
                    raise
                trace = link()  # zig's linker does not tell what it reads
        else:
            trace = link()
        linked = map(os.path.abspath, trace.splitlines())
        read += filter(os.path.isfile, linked)
    work_files = f"{library.parent}{os.sep}"
    # gcc names a header by the shorter of its path and what links stand for.
    kit_headers = set(map(os.path.realpath, headers.of_strings()))
    return [
        p
        for p in dict.fromkeys(read)
        if os.path.realpath(p) not in kit_headers
        and not p.startswith(work_files)
    ]


def _in_depfile(depfile: bytes) -> list[str]:
    """Absolute paths of the files that a depfile names."""
    text = os.fsdecode(depfile).replace("\\\n", " ")
    _, _, files = text.partition(": ")
    names = files.replace("\\ ", "\0").replace("\\#", "#").replace("$$", "$")
    # Not normalized: a folder before ".." may be a symbolic link.
    here = os.getcwd()
    return [os.path.join(here, p.replace("\0", " ")) for p in names.split()]


def _compile_command(
    compiler: Compiler, flags: Sequence[str], is_c: bool = False
) -> list[str]:
    """A command that lacks the source and the object."""
    standard: tuple[str, ...] = _CPP
    if is_c:  # an author's standard of C++ is that of other sources
        standard = _C
        flags = [f for f in flags if not re.fullmatch(r"-std=\w+\+\+.*", f)]
    return [
        *compiler.command,
        *standard,
        *_FLAGS,
        # The first error is shown alone. gcc stops after its notes; clang does
        # not know the option, see messages.until_second_error().
        "-fmax-errors=1",
        "-Wno-unused-command-line-argument",
        # An error in a header has the author's line before it, however many
        # templates are between them.
        "-ftemplate-backtrace-limit=0",
        "-fdiagnostics-color=never",
        *flags,
    ]


def _link(
    name: str,
    compiler: Compiler,
    objects: Sequence[pathlib.Path],
    exports: Sequence[str],
    library: pathlib.Path,
    flags: Sequence[str],
    work: str,
) -> str:
    """Links a library with these exports; returns the linker's output."""
    script = pathlib.Path(work, "exports.lds")
    names = " ".join(f"{symbol};" for symbol in exports)
    script.write_text(f"{{ global: {names} local: *; }};\n")
    command = [
        *compiler.command,
        *_LINK_FLAGS,
        *compiler_flags.strip(flags),
        # `-Wl,` would split a path at its commas.
        *("-Xlinker", f"--version-script={script}"),
        *("-Xlinker", "-soname", "-Xlinker", library.name),
        "-o",
        str(library),
        *map(str, objects),
        *flags,
    ]
    return _run(name, command, work, library)


def _run(name: str, command: list[str], work: str, *files: pathlib.Path) -> str:
    """Runs a compiler, which makes some files, and returns its output."""
    environment = os.environ | {"TMPDIR": work, "LC_ALL": "C"}
    try:
        process = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            env=environment,
        )
    except (OSError, ValueError) as error:
        raise BuildError(
            f"{name}: the compiler {command[0]} cannot be run: {error}"
        ) from error
    if process.returncode != 0:
        output = messages.until_second_error(process.stderr)
        first = messages.first_error(output)
        if process.returncode < 0 or messages.is_interruption(process.stderr):
            raise BuildError(
                f"{name}: the compiler was interrupted, which is not the "
                f"code's fault: {first}"
            )
        raise CompilerError(f"{name}: does not compile: {first}", output)
    for file in files:
        if not file.exists():
            raise BuildError(
                f"{name}: {command[0]} says that it compiled, but made no "
                f"{file.suffix} file; set CXX to a C++ compiler such as g++"
            )
    return process.stdout + process.stderr
