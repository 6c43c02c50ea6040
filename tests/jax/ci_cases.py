"""How many random examples run without --config=ci: see .bazelrc."""

import os


def examples(number: int) -> int:
    """`number`, or a third of it where cases of `pytest.mark.ci` do not run."""
    short = os.environ.get("XLA_FFI_KIT_WITHOUT_CI_CASES")
    return number // 3 if short else number
