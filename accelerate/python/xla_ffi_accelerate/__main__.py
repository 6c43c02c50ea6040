"""`python -m xla_ffi_accelerate explain script.py`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from xla_ffi_accelerate import _scopes, registry, switch
from xla_ffi_accelerate._explain import Explanation, Recorder


def main(arguments: list[str] | None = None) -> int:
    """Runs a command."""
    parser = argparse.ArgumentParser(prog="python -m xla_ffi_accelerate")
    commands = parser.add_subparsers(dest="command", required=True)
    explain = commands.add_parser(
        "explain",
        help="run a script, and print what its operations were lowered to",
        description="XLA_FFI_ACCELERATE says what is on: exact, all or names.",
    )
    explain.add_argument("script")
    explain.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    recorder = Recorder()
    switch.install(registry.RULES)
    _scopes.add(_scopes.Change(record=recorder))
    sys.argv = [given.script, *given.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(given.script))
    try:
        runpy.run_path(given.script, run_name="__main__")
    finally:
        print(Explanation(recorder.rows), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
