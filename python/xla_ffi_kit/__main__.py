"""`python -m xla_ffi_kit`, or `xla-ffi-kit`: the package's commands."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from xla_ffi_kit import __version__

# Each command is imported when it runs, because it needs nothing of others.
_COMMANDS = (
    ("doctor", "doctor:main", "report what is installed and what loads"),
    ("describe", "library.describe:main", "write a page of a library"),
    ("build", "compile.commands:build", "build a library from C++ files"),
    ("cache", "compile.commands:cache", "list or clear the cache of strings"),
    ("include", "compile.commands:include", "print the folder of the headers"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command named first on the command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments[:1])
    module, _, function = options.function.partition(":")
    command = getattr(
        importlib.import_module(f"xla_ffi_kit.{module}"), function
    )
    return int(command(arguments[1:]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xla_ffi_kit",
        description="C++ and CUDA kernels as first-class JAX operations.",
        epilog="Each command takes --help.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, function, help_text in _COMMANDS:
        command = commands.add_parser(name, help=help_text, add_help=False)
        command.set_defaults(function=function)
    return parser


if __name__ == "__main__":
    sys.exit(main())
