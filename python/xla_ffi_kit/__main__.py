"""`python -m xla_ffi_kit doctor`."""

from __future__ import annotations

import sys

from xla_ffi_kit import doctor

_USAGE = "usage: python -m xla_ffi_kit doctor [LIBRARY] [--json]"


def main() -> int:
    """Runs the command named first on the command line."""
    if sys.argv[1:2] != ["doctor"]:
        print(_USAGE, file=sys.stderr)
        return 2
    return doctor.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
