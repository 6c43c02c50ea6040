"""For pytest without Bazel; run.py of tools/pytest_test does the same."""

import os

# The tests run on purpose on releases of jaxlib with known faults.
os.environ.setdefault("XLA_FFI_KIT_RELEASE_WARNING", "0")
