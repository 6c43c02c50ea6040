"""Stubs of what only XLA's own workspace functions declare.

XLA's packages load functions of those repositories, which no target needs that
is built here. Each function of a stub says no: not configured, no tags.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

# Their declarations fetch compilers, CUDA or Python, or load rule sets of
# languages that are not used here.
STUBS = [
    "com_google_protobuf",
    "grpc",
    "local_config_cuda",
    "local_config_remote_execution",
    "local_config_rocm",
    "local_config_sycl",
    "local_config_tensorrt",
    "rules_ml_toolchain",
]

# The packages of XLA's FFI and PJRT headers.
PACKAGES = ["xla/ffi/api", "xla/pjrt/c"]

# `if_cuda(yes)`, `if_rocm_is_configured(yes, otherwise)`, `gpu_test_tags()`.
FUNCTION = """
def {name}(_yes = None, otherwise = [], *_args, **_kwargs):
    return otherwise
"""


def _loads(checkout: pathlib.Path) -> Iterator[tuple[pathlib.Path, list[str]]]:
    """The file, from the folder of all repositories, and names of each load."""
    seen = set()
    left = [pathlib.Path("xla", package, "BUILD") for package in PACKAGES]
    while left:
        file = left.pop()
        repository, *within = file.parts
        if repository == "xla" and file not in seen:
            seen.add(file)
            text = re.sub("#.*", "", checkout.joinpath(*within).read_text())
            for label, names in re.findall(
                r'\bload\(\s*"([^"]+)"([^)]*)\)', text
            ):
                if label.startswith(":"):
                    loaded = file.parent / label[1:]
                else:
                    path = label.replace("//:", "//").replace(":", "/")
                    loaded = pathlib.Path(
                        path.lstrip("@")
                        if label.startswith("@")
                        else "xla" + path
                    )
                left.append(loaded)
                yield loaded, re.findall('"([^"]+)"', names)


def write(folder: pathlib.Path, checkout: pathlib.Path) -> None:
    """Writes the stubs for a checkout of XLA, one repository a folder."""
    functions: dict[pathlib.Path, set[str]] = {}
    for file, names in _loads(checkout):
        if file.parts[0] in STUBS:
            functions.setdefault(folder / file, set()).update(names)
    for name in STUBS:
        (folder / name).mkdir(parents=True)
        (folder / name / "WORKSPACE").touch()
    for path, loaded in functions.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "BUILD").touch()
        path.write_text(
            "".join(FUNCTION.format(name=name) for name in sorted(loaded))
        )


if __name__ == "__main__":
    write(*map(pathlib.Path, sys.argv[1:]))
