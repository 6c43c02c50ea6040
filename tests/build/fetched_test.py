"""What is fetched has the hash of its pin, and bytecode that Python takes."""

import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

FETCH = pathlib.Path("third_party/pypi/fetch_wheel.py").resolve()
WHEEL = "kit_probe-1.0-py3-none-any.whl"
# A Bazel, to what looks at its version.
BAZEL = "#!/bin/bash\necho bazel 0.0.1\n"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_wheel(tmp_path, is_pinned):
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        wheel.writestr("kit_probe/include/a.h", "// a\n")
        info = "kit_probe-1.0.dist-info/"
        wheel.writestr(
            info + "METADATA",
            "Metadata-Version: 2.1\nName: kit_probe\nVersion: 1.0\n",
        )
        wheel.writestr(
            info + "WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(info + "RECORD", "")
    pin = sha256((tmp_path / WHEEL).read_bytes()) if is_pinned else "0" * 64
    out = tmp_path / "out"
    out.mkdir()
    # Only this wheel, whatever pip is configured to on the machine.
    others = {k: v for k, v in os.environ.items() if "PIP_" not in k}
    pip = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(tmp_path),
        "PIP_NO_INDEX": "1",
    }
    options = [
        "--requirement=kit_probe==1.0",
        f"--sha256={pin}",
        "--python-version=3.11",
        "--platform=any",
        "--strip-prefix=kit_probe",
    ]
    done = subprocess.run(
        [sys.executable, "-B", FETCH, *options],
        cwd=out,
        env=others | pip,
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == is_pinned, done.stderr
    assert (out / "include/a.h").exists() == is_pinned
    assert is_pinned or f"the pinned sha256 {pin}" in done.stderr


@pytest.mark.parametrize("is_pinned", [True, False])
def test_bazel(is_pinned):
    # Never under /tmp, where nothing is installed.
    scratch = os.environ.get("TEST_TMPDIR") or os.path.expanduser("~/.cache")
    root = pathlib.Path(scratch, f"fetched_test.{os.getpid()}")
    try:
        tools = shutil.copytree("tools", root / "tools")
        (root / ".bazelversion").write_text("0.0.1\n")
        pin = sha256(BAZEL.encode()) if is_pinned else "0" * 64
        (tools / "bazel.sha256").write_text(f"{pin}  bazel-0.0.1-linux-x86_64")
        (root / "page").write_text(BAZEL)
        curl = root / "bin/curl"  # called with -o FILE URL at its end
        curl.parent.mkdir()
        curl.write_text(f'#!/bin/bash\ncp "{root}/page" "${{@: -2:1}}"\n')
        curl.chmod(0o755)
        done = subprocess.run(
            [tools / "launcher/install_release.sh"],
            env={
                "PATH": f"{curl.parent}:{os.environ['PATH']}",
                "XLA_FFI_KIT_BAZEL_CACHE": str(root / "cache"),
            },
            capture_output=True,
            text=True,
        )
    finally:
        installed = list(root.glob("cache/*/bazel"))
        shutil.rmtree(root, ignore_errors=True)
    assert (done.returncode == 0) == is_pinned, done.stderr
    assert len(installed) == is_pinned
    assert is_pinned or f"tools/bazel.sha256 says {pin}" in done.stderr


PACKAGES = ("jax", "jaxlib", "numpy")


@pytest.mark.parametrize("package", PACKAGES)
def test_python_takes_bytecode_without_a_look_at_the_source(package):
    spec = importlib.util.find_spec(package)
    bytecode = pathlib.Path(spec.cached).read_bytes()
    assert bytecode[:4] == importlib.util.MAGIC_NUMBER
    # PEP 552: based on a hash, which is not checked.
    assert int.from_bytes(bytecode[4:8], "little") == 1


@pytest.mark.parametrize("package", PACKAGES)
def test_there_is_bytecode_of_every_module(package):
    (folder,) = importlib.util.find_spec(package).submodule_search_locations
    missing = [
        source
        for source in pathlib.Path(folder).rglob("*.py")
        if not pathlib.Path(
            importlib.util.cache_from_source(str(source))
        ).exists()
    ]
    assert missing == []
