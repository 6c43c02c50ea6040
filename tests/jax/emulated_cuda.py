"""Kernels from strings on the CPU: compiled for the emulator, and launched by
the handler that launches them on a GPU, on a driver of its own."""

import base64
import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterator

from xla_ffi_kit import FfiOp, HandlerLibrary, ffi_op, include_dir
from xla_ffi_kit.compile import compiler

_DRIVER = "xla_ffi/testing/cuda/driver/fake_driver.so"
_LAUNCH = "xla_ffi/testing/cuda/driver/emulated_launch.so"
_TARGET = "xla_ffi_kit.emulated_launch"
_folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
# Whoever imports this before strings has a cache of the test's own.
os.environ["XLA_FFI_KIT_CACHE"] = os.path.join(_folder.name, "cache")

# Calls the kernel with the arguments at some addresses, as a driver does.
_CALL = r"""
namespace kit_emulated {
template <typename... P, size_t... i>
void Call(void (*kernel)(P...), void** at, std::index_sequence<i...>) {
  kernel(*static_cast<std::remove_const_t<P>*>(at[i])...);
}
template <typename... P>
void Call(void (*kernel)(P...), void** at) {
  Call(kernel, at, std::index_sequence_for<P...>());
}
}  // namespace kit_emulated
"""


# Not resolved: in the runfiles files are links.
_ROOT = pathlib.Path(os.path.abspath(__file__)).parents[2]


def _path(name: str) -> str:
    """A file of the build, in the runfiles or in a checkout."""
    path = _ROOT / name
    return str(path if path.exists() else _ROOT / "bazel-bin" / name)


@functools.cache
def driver() -> ctypes.CDLL:
    """The driver, which every launch in this process finds from now on."""
    return ctypes.CDLL(_path(_DRIVER), mode=ctypes.RTLD_GLOBAL)


def launches() -> int:
    """How many kernels have run."""
    count = driver().XlaFfiKitFakeDriverLaunches
    count.restype = ctypes.c_int64
    return count()


@contextlib.contextmanager
def threads_backwards(is_backwards: bool = True) -> Iterator[None]:
    """The threads of a block take turns in the other order."""
    driver().XlaFfiKitFakeDriverRunBackwards(is_backwards)
    try:
        yield
    finally:
        driver().XlaFfiKitFakeDriverRunBackwards(False)


def compile_for_emulator(name, source, options, for_export):
    """As `nvrtc.compile_for_gpus`: the emulator stands for any GPU."""
    driver()
    text = (
        f'{source.text}{_CALL}extern "C" void kit_kernel_emulated(void** at) '
        f"{{ kit_emulated::Call({source.expression}, at); }}\n"
    )
    key = hashlib.sha256(repr((text, options)).encode()).hexdigest()[:16]
    library = pathlib.Path(_folder.name, f"{key}.so")
    if not library.exists():
        file = library.with_suffix(".cc")
        file.write_text(text)
        command = [
            *compiler.find().command,
            *("-std=c++17", "-O1", "-shared", "-fPIC", "-D__CUDACC__"),
            *("-fno-strict-aliasing", "-w"),
            *("-include", "xla_ffi/testing/cuda/cuda_runtime.h"),
            *("-I", str(_ROOT), "-isystem", include_dir()),
            *options,
            *("-o", str(library), str(file)),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    image = base64.b64encode(f"{library}\0".encode()).decode()
    return "kit_kernel", f"compute_50 {image}"


def _for_cpu(sizes):
    """What CUDA has as a workspace, for CPUs."""
    return {"cpu": sizes["cuda"]} if "cuda" in sizes else {}


def emulated(op: FfiOp) -> FfiOp:
    """An operation that runs on CPUs what `op` runs on CUDA."""
    kernel = dataclasses.replace(
        op.spec.handlers["cuda"],
        compile=compile_for_emulator,
        library=HandlerLibrary(_path(_LAUNCH)),
        target=_TARGET,
        is_required=True,
    )
    advanced = op.spec.advanced
    spec = dataclasses.replace(
        op.spec,
        handlers={"cpu": kernel},
        libraries=(),
        advanced=dataclasses.replace(
            advanced, workspace=_for_cpu(advanced.workspace)
        ),
    )
    return ffi_op.of_spec(spec)
