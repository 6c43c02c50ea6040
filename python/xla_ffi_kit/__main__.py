"""`python -m xla_ffi_kit`, or `xla-ffi-kit`: the package's commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from xla_ffi_kit import __version__

# Commands are imported when they run: none needs what another does.


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command named first on the command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(arguments[:1])
    run: Callable[[Sequence[str]], int] = options.run
    return run(arguments[1:])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m xla_ffi_kit",
        description="C++ and CUDA kernels as first-class JAX operations.",
        epilog="Each command takes --help.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, run, help_text in (
        ("doctor", _doctor, "what is there, and what will load"),
        ("build", _build, "a handler library from C++ files"),
        ("cache", _cache, "lists or clears what `inline` compiled"),
        ("include", _include, "prints the folder of the C++ headers"),
    ):
        command = commands.add_parser(name, help=help_text, add_help=False)
        command.set_defaults(run=run)
    return parser


def _doctor(arguments: Sequence[str]) -> int:
    from xla_ffi_kit import doctor

    return doctor.main(arguments)


def _build(arguments: Sequence[str]) -> int:
    from xla_ffi_kit.inline import commands

    return commands.build(arguments)


def _cache(arguments: Sequence[str]) -> int:
    from xla_ffi_kit.inline import commands

    return commands.cache(arguments)


def _include(arguments: Sequence[str]) -> int:
    from xla_ffi_kit.inline import commands

    return commands.include(arguments)


if __name__ == "__main__":
    sys.exit(main())
