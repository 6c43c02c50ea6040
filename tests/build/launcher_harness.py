"""A machine made of fakes, on which the launcher's tests run it.

The launcher sees a copy of itself in a workspace of its own, a PATH on which
nothing stands but the basic tools of Unix and the fakes a test adds, and an
empty cache. Nothing of the real machine is used or changed.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

VERSION = "7.1.2"

# Never under /tmp, where the launcher refuses to install: Bazel's folder for
# tests, or the user's cache where the test is run by hand.
_SCRATCH = os.environ.get("TEST_TMPDIR") or os.path.expanduser("~/.cache")

_TOOLS = pathlib.Path(__file__).absolute().parents[2] / "tools"

_UNIX = (
    "awk basename bash cat chmod cp cut dirname env find flock grep gzip mkdir "
    "mv realpath rm sed sha256sum sleep sort tar touch tr wc"
).split()

_UNAME = """
for flag in "$@"; do
  case $flag in
    -s) echo {system} ;; -m) echo {machine} ;; -sm) echo {system} {machine} ;;
  esac
done
"""


class Machine(unittest.TestCase):
    """A fake machine per test; Linux on x86-64 unless the test says else."""

    def setUp(self):
        os.makedirs(_SCRATCH, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=_SCRATCH, prefix="launch")
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        self.cache = self.dir / "cache"
        self.bin = self.dir / "bin"
        self.bin.mkdir()
        for name in _UNIX:
            (self.bin / name).symlink_to(shutil.which(name))
        self.set_machine("Linux", "x86_64")
        self.workspace = self.make_workspace("workspace")
        self.launcher = self.workspace / "tools" / "bazel"
        self.installer = self.workspace / "tools/offline/install_bazel.sh"
        self.checksums = self.workspace / "tools" / "bazel.sha256"
        self.checksums.write_text("")
        self.env = {
            "PATH": str(self.bin),
            "HOME": str(self.dir / "home"),
            "XLA_FFI_KIT_BAZEL_CACHE": str(self.cache),
        }

    def make_workspace(self, name: str) -> pathlib.Path:
        workspace = self.dir / name
        shutil.copytree(_TOOLS, workspace / "tools")
        (workspace / ".bazelversion").write_text(VERSION + "\n")
        return workspace

    def set_machine(self, system: str, machine: str):
        self.program("uname", _UNAME.format(system=system, machine=machine))

    def program(self, path, script: str) -> pathlib.Path:
        """Writes a bash script; a bare name lands on the fake PATH."""
        path = self.bin / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
        return path

    def bazel(self, path, says: str, version: str = VERSION) -> pathlib.Path:
        """A fake Bazel, which prints `says` and the arguments it was given."""
        return self.program(
            path,
            f'if [[ "$*" == --version ]]; then echo "bazel {version}"\n'
            f'else echo {says} "$@"; fi',
        )

    def start(self, *args, program=None, **env) -> subprocess.Popen:
        return subprocess.Popen(
            [program or self.launcher, *args],
            env={**self.env, **env},
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, process: subprocess.Popen) -> subprocess.CompletedProcess:
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill(process)
            raise
        return subprocess.CompletedProcess(
            process.args, process.returncode, out, err
        )

    def kill(self, process: subprocess.Popen):
        """Ends it and its children with no chance to tidy up."""
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)

    def run_launcher(self, *args, **kwargs) -> subprocess.CompletedProcess:
        return self.finish(self.start(*args, **kwargs))

    def assert_ran(self, what: str, result: subprocess.CompletedProcess):
        """The launcher ended in the fake Bazel that prints `what`."""
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(what, result.stdout)

    def cached(self) -> list[str]:
        """What stands in the cache, the lock excepted."""
        if not self.cache.exists():
            return []
        return sorted({p.name for p in self.cache.iterdir()} - {".lock"})
