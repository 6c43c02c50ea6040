"""Finds nvcc, which compiles the CUDA sources of a library."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence

from xla_ffi_kit.errors import NoCompilerError

# Machine code for each, as `xla_ffi_library()` has it by default.
COMPUTE_CAPABILITIES = ("80", "90", "100")

_WHEELS = "nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime"
_PACKAGE = "nvidia.cu13"


@dataclasses.dataclass(frozen=True)
class Nvcc:
    """A CUDA compiler, and the GPUs that it compiles for.

    Attributes:
      program: where it is; its toolkit has include/ and lib/.
      compute_capabilities: such as "90" or "100a". There is machine code for
        each, and PTX for the newest.
    """

    program: pathlib.Path
    compute_capabilities: Sequence[str] = COMPUTE_CAPABILITIES

    @functools.cached_property
    def root(self) -> pathlib.Path:
        """The toolkit's folder."""
        beside = self.program.parent.parent
        if (beside / "include/cuda_runtime.h").exists():
            return beside
        # The program is a script that starts nvcc, which prints where its
        # toolkit is. A script that drops --dryrun compiles an empty file.
        null = os.devnull
        process = subprocess.run(
            [self.program, "--dryrun", "-x", "cu", "-c", null, "-o", null],
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            check=False,
        )
        top = re.search(
            r"^#\$ TOP=(.*)$", process.stdout + process.stderr, re.M
        )
        return pathlib.Path(os.path.abspath(top[1])) if top else beside

    @property
    def include(self) -> pathlib.Path:
        """The folder of cuda_runtime.h."""
        return self.root / "include"

    def link_flags(self) -> list[str]:
        """The runtime, linked in: a process may have another one loaded."""
        folders = (self.root / "lib", self.root / "lib64")
        for folder in folders:
            archive = folder / "libcudart_static.a"
            if archive.exists():
                return [str(archive), "-ldl", "-lpthread", "-lrt"]
        raise NoCompilerError(
            f"{self.program} has no libcudart_static.a in "
            f"{' or '.join(map(str, folders))}; set NVCC to the nvcc of a "
            f"whole toolkit, or unset it and `pip install {_WHEELS}`"
        )

    def command(self, host: str, flags: Sequence[str]) -> list[str]:
        """A command that lacks the source and the object.

        Args:
          host: the C++ compiler for what runs on the CPU.
          flags: -I and -D are nvcc's, others the C++ compiler's.
        """
        command = [str(self.program), "-x", "cu", "-std=c++17", "-O3"]
        command += ["-ccbin", host, "-cudart=static"]
        for capability in self.compute_capabilities:
            arch = f"arch=compute_{capability},code=sm_{capability}"
            command.append(f"-gencode={arch}")
        newest = max(int(c.rstrip("af")) for c in self.compute_capabilities)
        command.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
        for_nvcc: list[str] = []
        for_host = ["-fPIC"]
        for flag in flags:
            # nvcc takes a comma in -I for the end of a folder, however escaped.
            prefixes = "-D" if "," in flag else ("-I", "-D")
            (for_nvcc if flag.startswith(prefixes) else for_host).append(flag)
        return command + [
            flag.replace(",", "\\,")
            for flag in (*for_nvcc, *(f"-Xcompiler={f}" for f in for_host))
        ]


def is_cuda(source: str | os.PathLike[str]) -> bool:
    """Whether nvcc has to compile a source."""
    return os.fspath(source).endswith((".cu", ".cu.cc"))


def find(
    compute_capabilities: Sequence[str] = COMPUTE_CAPABILITIES,
) -> Nvcc:
    """Returns NVCC if it is set, else PyPI's nvcc, else the one on the path.

    Raises:
      NoCompilerError: there is none.
    """
    return Nvcc(_program(), compute_capabilities)


def _program() -> pathlib.Path:
    chosen = os.environ.get("NVCC")
    if chosen:
        program = shutil.which(chosen)
        if program is None:
            raise NoCompilerError(
                f"the environment variable NVCC is {chosen!r}, but there is no "
                "such program"
            )
        return pathlib.Path(program).absolute()
    for folder in _wheel_folders():
        if (folder / "bin/nvcc").exists():
            return folder / "bin/nvcc"
    program = shutil.which("nvcc")
    if program is None:
        raise NoCompilerError(
            f"there is no CUDA compiler; `pip install {_WHEELS}`, or set NVCC"
        )
    return pathlib.Path(program).resolve()


def _wheel_folders() -> list[pathlib.Path]:
    try:
        package = importlib.util.find_spec(_PACKAGE)
    except ModuleNotFoundError:  # nothing of "nvidia"
        return []
    if package is None:
        return []
    return [pathlib.Path(p) for p in package.submodule_search_locations or ()]
