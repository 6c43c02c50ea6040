"""Runs the tests of one file by pytest, as Bazel asks in the environment.

    run.py FILE [ARGUMENT...]

FILE is below the working directory. The tests see `sys.argv` and `sys.path` as
if FILE were the program.
"""

import os
import pathlib
import sys

NO_TESTS = 5


class Shard:
    """Of the cases, those of this one of `total` processes."""

    def __init__(self):
        self.total = int(os.environ.get("TEST_TOTAL_SHARDS", "1"))
        self.index = int(os.environ.get("TEST_SHARD_INDEX", "0"))
        if "TEST_SHARD_STATUS_FILE" in os.environ:
            pathlib.Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()

    def pytest_collection_modifyitems(self, items):
        items[:] = items[self.index :: self.total]


def main() -> int:
    """Returns pytest's exit status."""
    # Packages that extend pytest for their users take a second to import.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    # Strings of tests are compiled anew, where a test may write.
    if folder := os.environ.get("TEST_TMPDIR"):
        os.environ.setdefault("XLA_FFI_KIT_CACHE", f"{folder}/strings")
    file = sys.argv[1]
    sys.argv = sys.argv[1:]
    # Not __file__'s folder: on a machine that runs tests in /, that begins with
    # two slashes, which pytest takes for another folder.
    sys.path[0] = os.path.join(os.getcwd(), os.path.dirname(file))
    # For children: rules_python 2 puts the packages on sys.path alone.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    options = ["-q", "-p", "no:cacheprovider"]
    if report := os.environ.get("XML_OUTPUT_FILE"):
        options.append(f"--junitxml={report}")
    if wanted := os.environ.get("TESTBRIDGE_TEST_ONLY"):
        options += ["-k", wanted]
    shard = Shard()
    status = pytest.main([file, *options], [shard])
    return 0 if status == NO_TESTS and shard.total > 1 else int(status)


if __name__ == "__main__":
    sys.exit(main())
