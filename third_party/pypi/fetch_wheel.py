"""Unpacks part of one wheel here, which pip downloads by its hash.

Run by repository rules in the repository's folder, before any dependency
exists: standard library only.
"""

import argparse
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import zipfile


def download(options: argparse.Namespace, folder: pathlib.Path) -> pathlib.Path:
    """Returns the downloaded wheel; pip has checked its hash."""
    lock = folder / "requirements.txt"
    lock.write_text(f"{options.requirement} --hash=sha256:{options.sha256}\n")
    # fmt: off
    command = [
      sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
      "--disable-pip-version-check", "--require-hashes",
      "--only-binary=:all:", "--python-version", options.python_version,
      "--platform", options.platform, "--dest", str(folder),
      "--requirement", str(lock),
  ]
    # fmt: on
    result = subprocess.run(
        command, capture_output=True, text=True, check=False
    )
    if "DO NOT MATCH THE HASHES" in result.stderr:
        raise SystemExit(
            f"{options.requirement}: the wheel for Python "
            f"{options.python_version} on {options.platform} does not have the "
            f"pinned sha256 {options.sha256}:\n{result.stderr}"
        )
    if "No module named pip" in result.stderr:
        raise SystemExit(
            f"{options.requirement}: {sys.executable} has no pip to download "
            "it with; install pip for this Python (package python3-pip)."
        )
    if result.returncode:
        raise SystemExit(
            f"{options.requirement}: pip download failed:\n{result.stderr}"
        )
    (wheel,) = folder.glob("*.whl")
    return wheel


def unpack(wheel: pathlib.Path, options: argparse.Namespace) -> int:
    """Unpacks the wanted members below the current folder; returns how many."""
    prefix = (
        options.strip_prefix.rstrip("/") + "/" if options.strip_prefix else ""
    )
    wanted = [prefix + member.rstrip("/") for member in options.member]
    count = 0
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            name = info.filename
            if info.is_dir() or not name.startswith(prefix):
                continue
            if wanted and not any(
                name == w or name.startswith(w + "/") for w in wanted
            ):
                continue
            info.filename = name[len(prefix) :]
            path = archive.extract(info, ".")
            # zipfile drops the mode; only whether it is a program matters.
            if info.external_attr >> 16 & stat.S_IXUSR:
                os.chmod(path, 0o755)
            count += 1
    return count


def main() -> None:
    """Fetches the wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requirement", required=True)
    parser.add_argument("--sha256", required=True)
    parser.add_argument("--python-version", required=True)
    parser.add_argument("--platform", required=True)
    parser.add_argument("--strip-prefix", default="")
    parser.add_argument("--member", action="append", default=[])
    parser.add_argument(
        "--wheel",
        type=pathlib.Path,
        help="the wheel, if Bazel has downloaded and checked it",
    )
    options = parser.parse_args()
    # Beside the repository and not in /tmp: the wheel may be larger than that.
    with tempfile.TemporaryDirectory(dir=".") as folder:
        wheel = options.wheel or download(options, pathlib.Path(folder))
        if not unpack(wheel, options):
            raise SystemExit(
                f"{options.requirement}: nothing below "
                f"{options.strip_prefix!r} in the wheel"
            )


if __name__ == "__main__":
    main()
