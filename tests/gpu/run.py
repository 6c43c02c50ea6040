"""Tests and times the kit's operations on this machine's GPU, without Bazel.

    python run.py [--sanitize] [--no-benchmark] [options of pytest]

Needs Python 3.11 or newer with JAX and its CUDA plugin (`jax[cuda13]`) and
pytest; everything else lies beside this script. --sanitize also runs the tests
of values under each tool of compute-sanitizer, where that is installed. When
all tests have passed, the benchmark writes benchmark.json into the current
folder.

Exits with 0 if all tests pass, 3 if there is no GPU to run them on, and with
the code of what failed otherwise: pytest's, compute-sanitizer's or the
benchmark's.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
NO_GPU = 3
SANITIZERS = ("memcheck", "racecheck", "synccheck")


def sanitize(command: list[str]) -> int:
    """Runs the tests of values under every tool; the first failure's code."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not installed: left out.")
        return 0
    for name in SANITIZERS:
        print(f"compute-sanitizer --tool {name}", flush=True)
        code = subprocess.run(
            [
                *(tool, "--tool", name, "--error-exitcode", "4"),
                *command,
                *("-k", "values", "-x"),
            ],
            check=False,
        ).returncode
        if code:
            return code
    return 0


def benchmark() -> int:
    """Runs the benchmark; returns its exit code."""
    command = [str(HERE / "gpu_bench.py"), "--json", "benchmark.json"]
    return subprocess.run([sys.executable, *command], check=False).returncode


def main(options: list[str]) -> int:
    """Finds the GPU and runs the tests on it; returns the exit status."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    # Half of the GPU is taken by default, which other users may not have.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.extend

    try:
        devices = jax.devices("cuda")
    except RuntimeError:
        print("JAX finds no NVIDIA GPU on this machine: no test was run.")
        return NO_GPU
    print(f"jax {jax.__version__} on {devices[0].device_kind}")
    print(jax.extend.backend.get_backend("cuda").platform_version, flush=True)
    flags = {"--sanitize", "--no-benchmark"}
    wanted = flags.intersection(options)
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *(str(path) for path in sorted(HERE.glob("*_test.py"))),
    ]
    options = [option for option in options if option not in flags]
    code = subprocess.run([*command, *options], check=False).returncode
    if code == 0 and "--sanitize" in wanted:
        code = sanitize(command)
    if code == 0 and "--no-benchmark" not in wanted:
        code = benchmark()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
