"""`build_library`: a handler library from C++ files, without Bazel."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xla_ffi_kit import _check
from xla_ffi_kit.compile import (
    compiler,
    cpp,
    nvcc,
)
from xla_ffi_kit.compile import flags as compiler_flags
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.library import elf
from xla_ffi_kit.library.handler_library import HandlerLibrary

_PLATFORMS = {"cpu": "Host", "cuda": "CUDA"}
_STAGES = ("instantiate", "prepare", "initialize", "execute")
Symbols = str | Mapping[str, str]


def build_library(
    sources: Sequence[str | os.PathLike[str]],
    handlers: Mapping[str, Symbols],
    output: str | os.PathLike[str],
    *,
    types: Mapping[str, str] | None = None,
    platform: str = "cpu",
    flags: Sequence[str] = (),
    compute_capabilities: Sequence[str] = nvcc.COMPUTE_CAPABILITIES,
) -> HandlerLibrary:
    """Builds a handler library with its table, as `xla_ffi_library()` does.

    Nothing is taken from a cache, and no flag depends on this machine, so the
    library may be part of a wheel. The sources may include "xla/ffi/api/ffi.h",
    "xla_ffi/core/handler.h" and "xla_ffi/strings/kit.h".

    Args:
      sources: C++ sources, and C sources (.c). For the platform "cuda", they
        may include CUDA sources (.cu, .cu.cc), which nvcc compiles. This is the
        nvcc that the environment variable NVCC names, or PyPI's (`pip install
        nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime`), or
        the one on the path. A source may also be a Python module: the library
        then exports it, and needs no Python to be loaded.
      handlers: custom call target -> the symbol that
        XLA_FFI_DEFINE_HANDLER_SYMBOL or KIT_DEFINE_HANDLER defines, or a
        mapping from stage ("instantiate", "prepare", "initialize", "execute")
        to symbol.
      output: the shared library to write. An older one is replaced; any other
        file, such as a source, is an error.
      types: name of a state type -> the name given to XLA_FFI_KIT_DEFINE_TYPE.
      platform: "cpu" or "cuda".
      flags: options that are passed to the compiler after the kit's own. The
        linker gets those that it needs, such as `-lm`, `-Wl,-rpath,/opt/lib`
        and `-fopenmp`.
      compute_capabilities: the compute capabilities for which CUDA sources are
        compiled, such as "90" or "100a". Newer GPUs run PTX of the newest.

    Returns:
      The library, for `FfiOp(libraries=...)`.

    Raises:
      TypeError, ValueError: `platform` is no platform, or an argument that is
        a sequence is none.
      BuildError: a source does not compile, a symbol is not defined, a name
        cannot stand in C++, the output cannot be written, or there is no
        compiler (NoCompilerError).
    """
    output = pathlib.Path(output).absolute()
    name = output.stem
    sources = _check.sequence(f"{name}: sources", sources)
    flags = _check.sequence(f"{name}: flags", flags)
    compute_capabilities = _check.sequence(
        f"{name}: compute_capabilities", compute_capabilities
    )
    if platform not in _PLATFORMS:
        raise ValueError(
            f"build_library: argument platform: expected "
            f"{', '.join(_PLATFORMS)}, got {platform!r}"
        )
    for argument, value in (("handlers", handlers), ("sources", sources)):
        if not value:
            raise BuildError(
                f"{name}: {argument}: expected at least one, got none"
            )
    for source in sources:
        if not os.path.exists(source):
            raise BuildError(f"{name}: sources: there is no file {source}")
        if os.path.isdir(source):
            raise BuildError(
                f"{name}: sources: expected files, got the folder {source}"
            )
        if nvcc.is_cuda(source) and platform != "cuda":
            raise BuildError(
                f'{name}: sources: expected C++ for the platform "cpu", got '
                f"the CUDA source {source}"
            )
    stages = {
        target: symbols
        if isinstance(symbols, Mapping)
        else {"execute": symbols}
        for target, symbols in handlers.items()
    }
    _check_stages(name, stages)
    types = types or {}
    _check_names(f"{name}: types", {k: [v] for k, v in types.items()})
    _check_names(
        f"{name}: handlers", {k: v.values() for k, v in stages.items()}
    )
    _check_output(name, output)
    host = compiler.find()
    compiler_flags.check(name, flags, host.command)
    cuda = None
    if any(map(nvcc.is_cuda, sources)):
        _check_capabilities(name, compute_capabilities)
        cuda = nvcc.find(compute_capabilities)
    symbols = [s for row in stages.values() for s in row.values()]
    symbols += [
        f"{symbol}_{part}"
        for symbol in types.values()
        for part in ("type_id", "type_info")
    ]
    with _writing(name, output):
        output.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=output.parent)
    with temporary as work:
        table = pathlib.Path(work, "table.cc")
        text = _table_source(name, stages, types, _PLATFORMS[platform])
        table.write_text(text, encoding="utf-8")
        library = pathlib.Path(work, output.name)
        with _naming_handlers(name, stages):
            compiler.compile_library(
                name,
                host,
                [*(pathlib.Path(s).absolute() for s in sources), table],
                [*symbols, "XlaFfiKit_*", f"{elf.MODULE}*"],
                library,
                flags,
                cuda,
            )
        with _writing(name, output):
            # A process that has the old library loaded keeps its file.
            os.replace(library, output)
    return HandlerLibrary(output)


def _check_output(name: str, output: pathlib.Path) -> None:
    """Refuses to replace anything but a library, such as a source."""
    if output.is_dir():
        raise BuildError(
            f"{name}: output: expected a file to write, got the folder {output}"
        )
    if not os.path.exists(output):
        return
    begin = b"none"
    if output.is_file():
        with _writing(name, output), open(output, "rb") as file:
            begin = file.read(18)
    # An ELF header with the type of shared libraries, or an empty file.
    if begin and (begin[:4], begin[16:]) != (b"\x7fELF", b"\3\0"):
        raise BuildError(
            f"{name}: output: expected a new file, or an older library to "
            f"replace, got {output}, which is neither"
        )


@contextlib.contextmanager
def _writing(name: str, output: pathlib.Path) -> Iterator[None]:
    """Raises `BuildError` if the output cannot be written."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"{name}: output: {output} cannot be written: "
            f"{error.strerror or error}"
        ) from error


@contextlib.contextmanager
def _naming_handlers(
    name: str, stages: Mapping[str, Mapping[str, str]]
) -> Iterator[None]:
    """Says which handler's symbol is not defined, as the Bazel rule does.

    The linker's own words name the symbol alone, and stay for all others.
    """
    try:
        yield
    except BuildError as error:
        for target, row in stages.items():
            for symbol in row.values():
                if re.search(rf"undefined .*\b{symbol}\b", str(error)):
                    raise BuildError(
                        f'{name}: handlers["{target}"]: no source defines '
                        f"{symbol}: define it with "
                        f"XLA_FFI_DEFINE_HANDLER_SYMBOL({symbol}, ...) or "
                        "correct the name"
                    ) from error
        raise


def _check_stages(name: str, stages: Mapping[str, Mapping[str, str]]) -> None:
    for target, row in stages.items():
        if "execute" not in row or not set(row) <= set(_STAGES):
            raise BuildError(
                f"{name}: handlers: {target}: expected the stage execute and "
                f"only stages of {', '.join(_STAGES)}, got {', '.join(row)}"
            )


def _check_names(where: str, symbols: Mapping[str, Iterable[str]]) -> None:
    """Refuses what cannot stand in the table, or in the linker's script."""
    for name in symbols:
        if not name or not isinstance(name, str) or not cpp.is_printable(name):
            raise BuildError(
                f"{where}: expected printable names without quotes and "
                f"backslashes, got {name!r}"
            )
        for symbol in symbols[name]:
            if not isinstance(symbol, str) or not cpp.is_symbol(symbol):
                raise BuildError(
                    f"{where}: {name}: expected the name of a C function, got "
                    f"{symbol!r}"
                )


def _check_capabilities(name: str, capabilities: Sequence[str]) -> None:
    known_form = all(re.fullmatch(r"\d+[af]?", c) for c in capabilities)
    if not capabilities or not known_form:
        raise BuildError(
            f"{name}: compute_capabilities: expected some such as "
            f"{', '.join(nvcc.COMPUTE_CAPABILITIES)}, got {list(capabilities)}"
        )


def _table_source(
    name: str,
    stages: Mapping[str, Mapping[str, str]],
    types: Mapping[str, str],
    platform: str,
) -> str:
    """The C++ file with the handler table."""
    symbols = dict.fromkeys(s for row in stages.values() for s in row.values())
    lines = [
        '#include "xla_ffi/core/define_table.h"',
        'extern "C" {',
        *(f"XLA_FFI_Error* {s}(XLA_FFI_CallFrame*);" for s in symbols),
        # A handler in plain FFI has no signature, so the symbol is weak.
        *(
            f"extern const XlaFfiKit_Signature {row['execute']}_signature "
            "__attribute__((weak));"
            for row in stages.values()
        ),
    ]
    for symbol in types.values():
        lines += [
            f"XLA_FFI_TypeId* {symbol}_type_id();",
            f"const XLA_FFI_TypeInfo* {symbol}_type_info();",
        ]
    lines.append("}")
    rows = [
        f'{{"{target}", "{platform}", '
        + ", ".join(
            f"&{row[stage]}" if stage in row else "nullptr" for stage in _STAGES
        )
        + f", &{row['execute']}_signature}}"
        for target, row in stages.items()
    ]
    if types:
        entries = ", ".join(
            f'{{"{type_name}", "{platform}", {symbol}_type_id(), '
            f"{symbol}_type_info()}}"
            for type_name, symbol in types.items()
        )
        lines.append(f"static const XlaFfiKit_Type kTypes[] = {{{entries}}};")
    of_types = f"kTypes, {len(types)}" if types else "nullptr, 0"
    lines.append(
        f"XLA_FFI_KIT_DEFINE_TABLE_WITH_TYPES({cpp.literal(name)}, "
        f"{of_types}, {', '.join(rows)});"
    )
    return "\n".join(lines) + "\n"
