"""The C++ compiler of the machine: found, named and run."""

from __future__ import annotations

import dataclasses
import functools
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

from xla_ffi_kit.strings import cache, nvcc
from xla_ffi_kit.strings.errors import BuildError, NoCompilerError
from xla_ffi_kit.strings.headers import include_dir

# gcc links startup code into libraries with these that makes denormals zero in
# every thread that loads them.
_REFUSED = ("-ffast-math", "-Ofast", "-funsafe-math-optimizations")

_ASSERTED = re.compile(
    r"xla_ffi/inline/.*static assertion failed(?: due to requirement '.*')?: "
    r"\"?([^\"\n]*)"
)
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    # What the library exports is the linker's business; functions are inlined
    # as if it exported none.
    "-fno-semantic-interposition",
    # Neither errno nor the floating-point flags are read, and both keep loops
    # from being vectorized.
    "-fno-math-errno",
    "-fno-trapping-math",
    # `#pragma omp simd` lets a loop's sum be vectorized.
    "-fopenmp-simd",
)
_LINK_FLAGS = (
    "-shared",
    # XLA keeps the addresses of handlers.
    "-Wl,-z,nodelete",
    "-Wl,-z,defs",
    "-Wl,--as-needed",
    "-Wl,-s",
)


@dataclasses.dataclass(frozen=True)
class Compiler:
    """A command, and what tells one compiler from another."""

    command: tuple[str, ...]
    identity: str


@dataclasses.dataclass(frozen=True)
class Cuda:
    """How CUDA sources are compiled: by what, and for which GPUs."""

    nvcc: nvcc.Nvcc
    compute_capabilities: tuple[str, ...]

    def command(self, host: Compiler, flags: Sequence[str]) -> list[str]:
        """nvcc's, which lacks the source and the object."""
        return self.nvcc.command(
            host.command[0], ["-fPIC"], flags, self.compute_capabilities
        )


def find() -> Compiler:
    """CXX if it is set, else c++, g++ or clang++, else PyPI's ziglang."""
    chosen = os.environ.get("CXX")
    if chosen:
        command = shlex.split(chosen)
        program = shutil.which(command[0])
        if program is None:
            raise NoCompilerError(
                f"the environment variable CXX is {chosen!r}, but there is no "
                f"program {command[0]!r}"
            )
        return Compiler((program, *command[1:]), _identity(program))
    for name in ("c++", "g++", "clang++"):
        program = shutil.which(name)
        if program is not None:
            return Compiler((program,), _identity(program))
    if importlib.util.find_spec("ziglang") is not None:
        version = importlib.metadata.version("ziglang")
        command = [sys.executable, "-m", "ziglang", "c++"]
        return Compiler(tuple(command), f"ziglang {version}")
    raise NoCompilerError(
        "there is no C++ compiler; install one (`apt install g++`, or "
        "`pip install ziglang`) or set CXX"
    )


def _identity(program: str) -> str:
    # Asking for the version takes as long as the rest of a start.
    path = os.path.realpath(program)
    about = os.stat(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"


@functools.cache
def cpu() -> str:
    """What -march=native depends on."""
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


def flags_identity(flags: Sequence[str]) -> str:
    """What tells the code of these flags from that of others."""
    native = any("native" in flag for flag in flags)
    return "\0".join([*_FLAGS, *_LINK_FLAGS, *flags, cpu() if native else ""])


def check_flags(name: str, flags: Sequence[str]) -> None:
    """Refuses the flags that would change the rest of the process."""
    for flag in flags:
        if flag in _REFUSED:
            raise BuildError(
                f"{name}: flags: {flag} makes denormals zero in all of the "
                "process; name what is needed of it, such as "
                "-fassociative-math -fno-signed-zeros"
            )


def compile_library(
    name: str,
    compiler: Compiler,
    sources: Sequence[pathlib.Path],
    exports: Sequence[str],
    library: pathlib.Path,
    flags: Sequence[str],
    cuda: Cuda | None = None,
) -> dict[str, str]:
    """Compiles and links; the files read beside headers of system and kit.

    Args:
      name: of the operation or library, for errors.
      compiler: the compiler.
      sources: C++ sources, and with `cuda` CUDA sources.
      exports: symbols that the library exports; patterns with a "*" too.
      library: the file to write.
      flags: more flags; those of a library to link with come last.
      cuda: the CUDA compiler, whose headers C++ sources find, too.
    """
    compile_flags = [flag for flag in flags if not _is_for_linker(flag)]
    link_flags = [flag for flag in flags if _is_for_linker(flag)]
    includes = ["-isystem", include_dir()]
    if cuda is not None:
        includes += ["-isystem", str(cuda.nvcc.include)]
        link_flags = [*cuda.nvcc.link_flags(), *link_flags]
    with tempfile.TemporaryDirectory(dir=library.parent) as work:
        script = pathlib.Path(work, "exports.lds")
        names = " ".join(f"{symbol};" for symbol in exports)
        script.write_text(f"{{ global: {names} local: *; }};\n")
        objects = [pathlib.Path(work, f"{i}.o") for i in range(len(sources))]
        for source, file in zip(sources, objects, strict=True):
            if cuda is not None and nvcc.is_cuda(source):
                command = cuda.command(compiler, compile_flags)
            else:
                command = [
                    *compiler.command,
                    *_FLAGS,
                    "-Wfatal-errors",
                    "-fdiagnostics-color=never",
                    *compile_flags,
                ]
            depfile = ["-MMD", "-MF", f"{file}.d"]
            ends = ["-c", str(source), "-o", str(file)]
            _run(name, [*command, *includes, *depfile, *ends], work)
        _run(
            name,
            [
                *compiler.command,
                *_LINK_FLAGS,
                # `-Wl,` would split a path at its commas.
                *("-Xlinker", f"--version-script={script}"),
                *("-Xlinker", "-soname", "-Xlinker", library.name),
                "-o",
                str(library),
                *map(str, objects),
                *link_flags,
            ],
            work,
        )
        read = {
            path
            for file in objects
            for path in _dependencies(pathlib.Path(f"{file}.d"))
        }
    own = {str(source) for source in sources}
    return {path: cache.digest_of(path) or "" for path in sorted(read - own)}


def _is_for_linker(flag: str) -> bool:
    return flag.startswith(("-l", "-L", "-Wl,"))


def _run(name: str, command: list[str], work: str) -> None:
    environment = os.environ | {"TMPDIR": work, "LC_ALL": "C"}
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        env=environment,
    )
    if done.returncode == 0:
        return
    raise BuildError(f"{name}: does not compile: {first_error(done.stderr)}")


def first_error(text: str) -> str:
    """The compiler's first error with the lines that it shows for it.

    Of the kit's own assertions only the sentence: they are about the types of
    an author's function, and fail elsewhere.
    """
    asserted = _ASSERTED.search(text)
    if asserted:
        return asserted[1]
    lines = text.strip().splitlines()
    for i, line in enumerate(lines):
        if "error:" in line or "undefined " in line:
            shown = [line]
            for more in lines[i + 1 : i + 4]:
                if not more.startswith(" "):
                    break
                shown.append(more)
            return "\n".join(shown)
    return "\n".join(lines[-5:]) or "the compiler said nothing"


def _dependencies(depfile: pathlib.Path) -> list[str]:
    """Absolute paths of the files that a depfile names."""
    text = depfile.read_text().replace("\\\n", " ")
    _, _, files = text.partition(": ")
    paths = files.replace("\\ ", "\0").split()
    return [os.path.abspath(path.replace("\0", " ")) for path in paths]
