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
from collections.abc import Sequence


def pip_download(
    lock: pathlib.Path, folder: pathlib.Path, pins: str, *options: str
) -> list[pathlib.Path]:
    """Returns the wheels that a lock file names; pip has checked their hashes.

    Args:
      lock: one package's lines of a lock file.
      folder: for the wheels.
      pins: what a wheel of another hash lacks, for the error.
      *options: more options of pip.
    """
    # fmt: off
    command = [
      sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
      "--disable-pip-version-check", "--require-hashes",
      "--only-binary=:all:", "--dest", str(folder),
      "--requirement", str(lock), *options,
  ]
    # fmt: on
    result = subprocess.run(
        command, capture_output=True, text=True, check=False
    )
    if result.returncode:
        what = lock.read_text().split()[0]
        raise SystemExit(f"{what}: {_reason(result.stderr, pins)}")
    return sorted(folder.glob("*.whl"))


def _reason(said: str, pins: str) -> str:
    """Why pip failed."""
    if "DO NOT MATCH THE HASHES" in said:
        return f"the wheel {pins}:\n{said}"
    if "No module named pip" in said:
        return (
            f"{sys.executable} has no pip to download it with; install pip "
            "for this Python (package python3-pip)."
        )
    return f"pip download failed:\n{said}"


def download(options: argparse.Namespace, folder: pathlib.Path) -> pathlib.Path:
    """Returns the downloaded wheel."""
    lock = folder / "requirements.txt"
    lock.write_text(f"{options.requirement} --hash=sha256:{options.sha256}\n")
    (wheel,) = pip_download(
        lock,
        folder,
        f"for Python {options.python_version} on {options.platform} does not "
        f"have the pinned sha256 {options.sha256}",
        f"--python-version={options.python_version}",
        f"--platform={options.platform}",
    )
    return wheel


def unpack(
    wheel: pathlib.Path,
    folder: pathlib.Path,
    strip_prefix: str = "",
    members: Sequence[str] = (),
) -> int:
    """Unpacks the wanted members into the folder; returns how many."""
    prefix = strip_prefix.rstrip("/") + "/" if strip_prefix else ""
    wanted = [prefix + member.rstrip("/") for member in members]
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
            path = archive.extract(info, folder)
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
        if not unpack(
            wheel, pathlib.Path(), options.strip_prefix, options.member
        ):
            raise SystemExit(
                f"{options.requirement}: nothing below "
                f"{options.strip_prefix!r} in the wheel"
            )


if __name__ == "__main__":
    main()
