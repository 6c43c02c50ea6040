"""CUDA's cuobjdump, which reads what a library holds for GPUs."""

import pathlib
import subprocess
import sys


def cuobjdump(option: str, library: pathlib.Path) -> str:
    """What it prints; names of C++ are demangled."""
    (program,) = (
        path
        for folder in sys.path
        if (path := pathlib.Path(folder, "nvidia/cu13/bin/cuobjdump")).exists()
    )
    command = [program, option, library]
    said = subprocess.check_output(command, text=True)
    return subprocess.check_output(["c++filt"], input=said, text=True)
