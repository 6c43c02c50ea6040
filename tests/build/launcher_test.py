"""Which Bazel tools/bazel runs, and what it says when there is none."""

import hashlib
import os
import shutil
import subprocess

import launcher_harness

VERSION = launcher_harness.VERSION
RELEASE = f"bazel-{VERSION}-linux-x86_64"


class PathTest(launcher_harness.Machine):
    """$BAZEL_REAL and the programs on PATH."""

    def test_bazel_real_wins(self):
        self.bazel("bazel", "path")
        real = self.bazel(self.dir / "real", "real", version="9.9.9")
        result = self.run_launcher("build", "//:a b", BAZEL_REAL=str(real))
        self.assert_ran("real build //:a b\n", result)
        self.assertEqual(result.stderr, "")

    def test_bazel_real_must_be_a_program(self):
        result = self.run_launcher("info", BAZEL_REAL="/no/such/bazel")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(
            result.stderr,
            "tools/bazel: BAZEL_REAL=/no/such/bazel is not a program: "
            "unset it or correct it\n",
        )

    def test_matching_bazel_on_path(self):
        self.bazel("bazel", "path")
        result = self.run_launcher("build", "//...")
        self.assertEqual(result.stdout, "path build //...\n")
        self.assertEqual(result.stderr, "")

    def test_says_once_what_test_leaves_out(self):
        said = "tools/bazel: without --config=ci, test //... leaves out"
        (self.bin / "bazelisk").symlink_to(self.make_bazelisk())
        for arguments, times in (
            (("test", "//..."), 1),
            (("test", "--config=cuda", "//...", "--jobs=2"), 1),
            (("test", "//...", "--config=ci"), 0),
            (("test", "//tests/..."), 0),
            (("build", "//..."), 0),
        ):
            result = self.run_launcher(*arguments)
            self.assert_ran(f"fetched {arguments[0]}", result)
            self.assertEqual(result.stderr.count(said), times, arguments)
        elsewhere = subprocess.run(
            [self.launcher, "test", "//..."],
            env=self.env,
            cwd=self.dir,
            capture_output=True,
            text=True,
        )
        self.assertIn("fetched test //...", elsewhere.stdout)
        self.assertEqual(elsewhere.stderr, "")

    def test_exit_status_is_bazels(self):
        self.program(
            "bazel", f"[[ $1 == --version ]] && echo bazel {VERSION} || exit 3"
        )
        self.assertEqual(self.run_launcher("test").returncode, 3)

    def test_other_versions_on_path_are_ignored(self):
        self.bazel("bazel", "old", version=f"{VERSION}0")
        self.bazel(self.dir / "later" / "bazel", "right")
        path = f"{self.bin}:{self.dir / 'later'}"
        self.assert_ran("right info", self.run_launcher("info", PATH=path))

    def make_bazelisk(self):
        """Does what Bazelisk does: finds Bazel and runs the wrapper with it."""
        real = self.bazel(self.dir / "fetched", "fetched")
        return self.program(
            self.dir / "lisk" / "bazelisk",
            f"[[ $USE_BAZEL_VERSION == {VERSION} ]] || exit 1\n"
            f'BAZEL_REAL={real} exec "{self.launcher}" "$@"',
        )

    def test_bazelisk(self):
        (self.bin / "bazelisk").symlink_to(self.make_bazelisk())
        self.assert_ran("fetched info", self.run_launcher("info"))

    def test_bazelisk_named_bazel(self):
        (self.bin / "bazel").symlink_to(self.make_bazelisk())
        result = self.run_launcher("info", USE_BAZEL_VERSION="9.9.9")
        self.assert_ran("fetched info", result)

    def test_bazelisk_without_network(self):
        self.set_machine("Linux", "riscv64")
        self.program("bazelisk", "echo no such host >&2; exit 1")
        result = self.run_launcher("info")
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"bazelisk cannot fetch Bazel {VERSION}", result.stderr)
        self.assertIn("there is no Bazel", result.stderr)


class RecursionTest(launcher_harness.Machine):
    """Roads that lead back to the launcher end, and the next one is taken."""

    def setUp(self):
        super().setUp()
        self.set_machine("Linux", "riscv64")

    def assert_goes_on(self, **env):
        result = self.run_launcher("info", **env)
        self.assertEqual(result.returncode, 1)
        self.assertIn("there is no Bazel", result.stderr)
        self.bazel(self.dir / "later" / "bazel", "right")
        env["PATH"] = f"{self.bin}:{self.dir / 'later'}"
        self.assert_ran("right info", self.run_launcher("info", **env))

    def test_launcher_on_path(self):
        (self.bin / "bazel").symlink_to(self.launcher)
        self.assert_goes_on()

    def test_wrapper_that_runs_the_launcher(self):
        self.program("bazel", f'exec "{self.launcher}" "$@"')
        self.assert_goes_on()


class ReleaseTest(launcher_harness.Machine):
    """The binary from Bazel's release page."""

    def setUp(self):
        super().setUp()
        self.page = self.bazel(self.dir / "page", "release")
        self.set_checksum(hashlib.sha256(self.page.read_bytes()).hexdigest())
        self.asked = self.dir / "asked"
        self.serve(f'cat "{self.page}" >"$file"')

    def set_checksum(self, checksum: str):
        self.checksums.write_text(f"{'0' * 64}  other\n{checksum}  {RELEASE}\n")

    def serve(self, script: str):
        """A fake curl, which takes the page's place by `script`."""
        self.program(
            "curl",
            f"file=; while [[ $# -gt 1 ]]; do\n"
            f"  if [[ $1 == -o ]]; then file=$2; fi; shift\n"
            f'done; echo "$1" >>"{self.asked}"\n{script}',
        )

    def test_downloaded_once(self):
        result = self.run_launcher("info")
        self.assert_ran("info\n", result)
        self.assertTrue(result.stdout.startswith("release"))
        self.assertEqual(
            result.stderr,
            f"tools/bazel: downloading {RELEASE} from Bazel's release page\n",
        )
        again = self.run_launcher("info")
        self.assertEqual((again.stdout, again.stderr), (result.stdout, ""))
        self.assertEqual(
            self.asked.read_text(),
            "https://github.com/bazelbuild/bazel/releases/download/"
            f"{VERSION}/{RELEASE}\n",
        )

    def test_two_at_once_download_once(self):
        self.serve(f'sleep 1; cat "{self.page}" >"$file"')
        both = [self.start("info"), self.start("info")]
        for process in both:
            self.assert_ran("release", self.finish(process))
        self.assertEqual(self.asked.read_text().count("\n"), 1)

    def test_installed_one_spares_bazelisk_its_search(self):
        self.run_launcher("info")
        self.program("bazelisk", f'touch "{self.dir}/searched"; exit 1')
        self.assert_ran("release", self.run_launcher("info"))
        self.assertFalse((self.dir / "searched").exists())

    def test_without_curl(self):
        (self.bin / "curl").unlink()
        self.program(
            "python3",
            f'[[ $1 == - ]] || exit 1; cat "{self.page}" >"$3"',
        )
        self.assert_ran("release", self.run_launcher("info"))

    def test_wrong_checksum_is_refused_and_nothing_left(self):
        self.set_checksum("1" * 64)
        result = self.run_launcher("info")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        self.assertIn("refused https://github.com/", result.stderr)
        self.assertIn(f"tools/bazel.sha256 says {'1' * 64}", result.stderr)
        self.assertEqual(self.cached(), [])

    def test_unreachable_page(self):
        self.serve('echo half >"$file"; echo "curl: (6) no host" >&2; exit 6')
        result = self.run_launcher("info")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot be reached (curl: (6) no host)", result.stderr)
        self.assertIn("there is no Bazel", result.stderr)
        self.assertEqual(self.cached(), [])

    def test_binary_that_does_not_run(self):
        self.page.write_text("not for this machine")
        self.set_checksum(hashlib.sha256(self.page.read_bytes()).hexdigest())
        result = self.run_launcher("info")
        self.assertIn(f"{RELEASE} does not run on this machine", result.stderr)
        self.assertEqual(self.cached(), [])

    def test_interrupted_download_starts_over(self):
        # The whole launcher is killed, as a power cut would.
        self.serve('echo half >"$file"; kill -KILL 0')
        self.assertNotEqual(self.run_launcher("info").returncode, 0)
        self.assertNotEqual(self.cached(), [])
        self.serve(f'cat "{self.page}" >"$file"')
        self.assert_ran("release", self.run_launcher("info"))


class SentenceTest(launcher_harness.Machine):
    """What a machine is told that cannot be served."""

    def assert_says(self, sentence: str, **env):
        result = self.run_launcher("info", **env)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr, f"tools/bazel: {sentence}\n")

    def test_cache_under_tmp(self):
        self.checksums.write_text(f"{'0' * 64}  {RELEASE}\n")
        cache = f"/tmp/xla_ffi_kit_launcher_test.{os.getpid()}"
        self.addCleanup(shutil.rmtree, cache, ignore_errors=True)
        self.assert_says(
            f"{cache} lies under /tmp, which Bazel's sandbox hides: "
            "set XLA_FFI_KIT_BAZEL_CACHE to another folder",
            XLA_FFI_KIT_BAZEL_CACHE=cache,
        )

    def test_cache_with_a_space(self):
        cache = self.dir / "a b"
        self.assert_says(
            f"'{cache}' has a space or a colon in it: "
            "set XLA_FFI_KIT_BAZEL_CACHE to another folder",
            XLA_FFI_KIT_BAZEL_CACHE=str(cache),
        )
