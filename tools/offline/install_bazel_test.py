"""Which of Debian's suites Bazel is taken from, on a machine made of fakes.

Nothing can be downloaded there. What is done with the packages, whoever runs
the installer sees: no command of Bazel works without.
"""

import pathlib
import re
import shutil

import launcher_harness

VERSION = launcher_harness.VERSION

_APT_GET = """
echo "$*" >>"{dir}/apt.log"
for argument in "$@"; do
  case $argument in *SourceList=*)
    read -r _ _ _ _ suite _ <"${{argument#*=}}" ;;
  esac
done
case "$*" in
  *indextargets*) echo http://mirror.test/debian bookworm ;;
  *\\ update) {update} ;;
  *-s\\ install*) cat "{dir}/packages.$suite" ;;
  *\\ download\\ *) exit 100 ;;
esac
"""

# Debian's packages with their versions, as `apt-get -s install` prints them.
_PACKAGES = {
    "bazel-bootstrap-data": f"{VERSION}+ds-8",
    "bazel-platforms": "0.0.10-4",
    "bazel-features": "1.11.0-2",
    "bazel-skylib": "1.9.1-2",
    "bazel-rules-cc": "0.0.11-3",
    "bazel-rules-java": "7.6.5-8",
    "bazel-rules-license": "0.0.7-2",
    "bazel-rules-proto": "6.0.0-2",
    "bazel-rules-python": "0.22.1-3",
    "libc6": "2.43-7",
    "gcc-16": "16.2.0-4",
}


class InstallTest(launcher_harness.Machine):
    def setUp(self):
        super().setUp()
        self.program("dpkg-deb", "")
        self.program("python3", "")
        self.set_apt()
        self.set_packages("sid")
        self.set_packages("testing")
        keys = self.dir / "keys.gpg"
        keys.touch()
        # The real keys give way to fakes.
        script = self.installer.read_text()
        fake = re.sub("( keyring)=/usr/.*", rf"\1={keys}", script)
        self.assertNotEqual(fake, script)
        self.installer.write_text(fake)

    def set_apt(self, update: str = "true"):
        self.program("apt-get", _APT_GET.format(dir=self.dir, update=update))

    def set_packages(self, suite: str, **changes: str):
        packages = _PACKAGES | {
            name.replace("_", "-"): value for name, value in changes.items()
        }
        (self.dir / f"packages.{suite}").write_text(
            "".join(
                f"Inst {name} ({version} Debian:unstable [amd64]) []\n"
                for name, version in packages.items()
            )
        )

    def forget(self):
        """An empty cache, and nothing yet asked of apt."""
        shutil.rmtree(self.cache, ignore_errors=True)
        (self.dir / "apt.log").unlink(missing_ok=True)

    def assert_fails(self, *words: str):
        """The launcher says so in its last line and leaves nothing."""
        result = self.run_launcher("info")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr, "silent")
        for word in words:
            self.assertIn(word, result.stderr.splitlines()[-1])
        self.assertEqual(self.cached(), [])

    def test_unreachable_mirror(self):
        self.set_apt(update="exit 100")
        self.assert_fails(
            "mirror http://mirror.test/debian cannot be read",
            "install Bazelisk",
        )

    def set_bazels(self, **suites: str):
        """The versions of Bazel that the suites carry."""
        for suite, version in suites.items():
            self.set_packages(suite, bazel_bootstrap_data=version)

    def assert_asks(self, suite: str, *warnings: str):
        """The suite's packages are asked for, after these warnings alone."""
        self.forget()
        said = self.run_launcher("info").stderr
        self.assertIn("does not deliver all of it", said)
        log = (self.dir / "apt.log").read_text().splitlines()
        [download] = [line for line in log if " download " in line]
        [lists] = re.findall(r"Dir::Etc::SourceList=(\S+)", download)
        self.assertEqual(pathlib.Path(lists).parent.name, suite)
        self.assertEqual(
            tuple(re.findall("warning: (.*)", said)),
            tuple(f"Debian's {warning}" for warning in warnings),
        )

    def test_testing_serves_where_unstable_has_moved_on(self):
        self.assert_asks("sid")
        for moved_on in ("9.0.0+ds-1", "7.2.0+ds-1"):
            with self.subTest(moved_on):
                self.set_bazels(sid=moved_on)
                self.assert_asks("testing")

    def test_newer_release_serves_with_one_line_of_warning(self):
        self.set_bazels(sid="7.10.0+ds-1", testing="7.9.0+ds-1")
        self.assert_asks("sid", f"Bazel is 7.10.0, tested is {VERSION}")

    def test_debian_has_moved_on(self):
        for sid, testing in [
            ("9.0.0+ds-1", "8.7.0+ds-2"),
            ("8.7.0+ds-2", "7.1.1+ds-1"),
            ("7.0.9+ds-1", "6.9.9+ds-1"),
            ("77.1.2+ds-1", "none"),
        ]:
            with self.subTest(sid):
                self.forget()
                self.set_bazels(sid=sid, testing=testing)
                self.assert_fails(
                    f"there is no Bazel {VERSION} here",
                    f"Debian carries others: {sid} in sid, "
                    f"{testing} in testing;",
                    f"install Bazelisk, or Bazel {VERSION}, and put it on PATH",
                )

    def test_moved_rule_set_is_named(self):
        self.set_packages("sid", bazel_rules_python="1.0.0-1")
        self.assert_asks("sid", "rules_python is 1.0.0-1, tested is 0.22.1")

    def test_machine_without_debian_mirror(self):
        self.program("apt-get", "echo http://archive.test/ubuntu noble")
        self.assert_fails("apt is not set up for a mirror of Debian")
