"""The commands `build`, `cache` and `include` of `python -m xla_ffi_kit`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from xla_ffi_kit.compile import cache as cache_folder
from xla_ffi_kit.compile import headers
from xla_ffi_kit.compile.build import build_library
from xla_ffi_kit.compile.nvcc import COMPUTE_CAPABILITIES
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.library import describe

_PROGRAM = "python -m xla_ffi_kit"


def build(arguments: Sequence[str]) -> int:
    """Builds a handler library from files."""
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} build",
        description="Builds a handler library from C++, C and CUDA files.",
        epilog="Example: build ops.cc -o my_package/ops_cpu.so "
        "--handler my_package.scale=Scale -- -mavx2. The compiler gets the "
        "options after --.",
    )
    parser.add_argument("sources", nargs="+", help="C++, C and CUDA files")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="LIBRARY.so",
        help="the library to write",
    )
    parser.add_argument(
        "--handler",
        action="append",
        required=True,
        metavar="TARGET=SYMBOL",
        help="a custom call target and its symbol; with stages "
        "TARGET=instantiate:SYMBOL,execute:SYMBOL",
    )
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="NAME=SYMBOL",
        help="a type of state, and its name in XLA_FFI_KIT_DEFINE_TYPE",
    )
    parser.add_argument(
        "--platform",
        choices=("cpu", "cuda"),
        default="cpu",
        help="the platform of the handlers (default: cpu)",
    )
    parser.add_argument(
        "--compute-capability",
        action="append",
        metavar="90",
        help="a GPU for which to compile CUDA files (default: "
        f"{', '.join(COMPUTE_CAPABILITIES)})",
    )
    arguments = list(arguments)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    try:
        library = build_library(
            options.sources,
            {k: _symbols(k, v) for k, v in _pairs(options.handler)},
            options.output,
            types=dict(_pairs(options.type)),
            platform=options.platform,
            flags=arguments[split + 1 :],
            compute_capabilities=options.compute_capability
            or COMPUTE_CAPABILITIES,
        )
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{library.path}: {', '.join(sorted(library.targets))}")
    for line in describe.wrong_names(library).values():
        print(line, file=sys.stderr)
    return 0


def _pairs(options: Sequence[str]) -> list[tuple[str, str]]:
    """`NAME=SYMBOL` of each option."""
    pairs: list[tuple[str, str]] = []
    for text in options:
        name, _, value = text.rpartition("=")
        if not (name and value):
            raise BuildError(f"expected NAME=SYMBOL, got {text!r}")
        if name in dict(pairs):
            raise BuildError(f"{name} is given twice")
        pairs.append((name, value))
    return pairs


def _symbols(target: str, text: str) -> str | dict[str, str]:
    """The symbol of a handler, or that of each stage that it has."""
    if ":" not in text:
        return text
    symbols: dict[str, str] = {}
    for part in text.split(","):
        stage, _, symbol = part.partition(":")
        if stage in symbols:
            raise BuildError(f"{target}: the stage {stage} is given twice")
        symbols[stage] = symbol
    return symbols


def cache(arguments: Sequence[str]) -> int:
    """Lists or clears the cache."""
    parser = argparse.ArgumentParser(
        prog=f"{_PROGRAM} cache",
        description="Lists what `xla_ffi_kit.inline` compiled.",
        epilog=f"The folder is ${cache_folder.FOLDER_VARIABLE} if it is set.",
    )
    parser.add_argument("--clear", action="store_true", help="remove all of it")
    options = parser.parse_args(arguments)
    try:
        if options.clear:
            print(f"removed {cache_folder.clear()} entries")
            return 0
        entries = cache_folder.entries()
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(cache_folder.folder())
    for entry in entries:
        size = entry.library.stat().st_size
        print(f"  {entry.name}.{entry.version}  {size >> 10} KiB")
    return 0


def include(arguments: Sequence[str]) -> int:
    """Prints the folder of the headers."""
    argparse.ArgumentParser(
        prog=f"{_PROGRAM} include",
        description="Prints the folder of the C++ headers, for -I.",
    ).parse_args(arguments)
    print(headers.include_dir())
    return 0
