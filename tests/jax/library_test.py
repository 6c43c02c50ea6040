"""Finding, reading and registering handler libraries, and their errors."""

import _ctypes
import os
import pathlib
import platform
import shutil
import subprocess

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from common import raises, run_python

import xla_ffi_kit
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.ops import LIBRARIES

CPU = LIBRARIES[0]
# Built by the machine's compiler wherever the kit's own comes from.
MACHINES = pathlib.Path(__file__).parent / "test_handlers.so"


def op_of(*libraries, name="xla_ffi_kit.relu", **options):
    return xla_ffi_kit.FfiOp(
        name,
        xla_ffi_kit.relu.reference,
        kernel_axes=0,
        libraries=libraries,
        **options,
    )


def error_of(path, name="xla_ffi_kit.relu"):
    op = op_of(xla_ffi_kit.HandlerLibrary(path), name=name)
    with pytest.raises(HandlerLibraryError) as caught:
        op(np.float32(1))
    # The process goes on working.
    np.testing.assert_array_equal(xla_ffi_kit.relu(np.float32(-1)), 0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_handlers_ask_for_ffi_0_2():
    assert CPU.api_version == (0, 2)
    for handler in CPU.handlers.values():
        assert handler.metadata().api_version == (0, 2), handler.name


def test_without_its_library_the_kit_imports(tmp_path):
    package = pathlib.Path(xla_ffi_kit.__file__).parent
    ignored = shutil.ignore_patterns("_lib", "include", "__pycache__")
    shutil.copytree(package, tmp_path / "xla_ffi_kit", ignore=ignored)
    result = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import numpy as np, xla_ffi_kit\n"
        "for op in (xla_ffi_kit.relu, xla_ffi_kit.rms_norm):\n"
        "    try:\n"
        "        op(np.ones(2))\n"
        "    except xla_ffi_kit.errors.HandlerLibraryError as error:\n"
        "        print(error)\n"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("_lib/xla_ffi_kit_cpu.so does not exist") == 2


def test_what_an_import_does_and_leaves_out():
    """It registers every handler, and touches no backend."""
    result = run_python(
        "import sys, jax\n"
        "before = set(sys.modules)\n"
        "import xla_ffi_kit\n"
        "new = set(sys.modules) - before\n"
        "assert not [m for m in new if 'pallas' in m or 'jax.extend' in m]\n"
        "assert 'xla_ffi_kit.testing' not in new\n"
        "from xla_ffi_kit.library import registration\n"
        "libraries = xla_ffi_kit.ops.LIBRARIES\n"
        "built = [known for known in libraries if known.exists]\n"
        "every = {h for known in built for h in known.handlers}\n"
        "assert set(registration._handlers) == every\n"
        "xla_ffi_kit.register()\n"
        "xla_ffi_kit.register(libraries[0].path)\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()\n"
        "assert xla_ffi_kit.testing.check_op and xla_ffi_kit.extend.divided\n"
        "assert issubclass(xla_ffi_kit.errors.BuildError, RuntimeError)\n"
        "assert not hasattr(xla_ffi_kit, 'absent')\n"
    )
    assert result.returncode == 0, result.stderr


def test_registration_names_library_and_target(tmp_path):
    path = tmp_path / "text.so"
    path.write_text("no library")
    said = f"handler library {path} is not a shared library (no ELF header)"
    with raises(HandlerLibraryError, said):
        xla_ffi_kit.register(xla_ffi_kit.HandlerLibrary(path))
    registration.register_early(xla_ffi_kit.HandlerLibrary(path))
    assert "is not a shared library" in error_of(path)
    xla_ffi_kit.register(xla_ffi_kit.HandlerLibrary("/no.so", optional=True))
    copy = tmp_path / "copy.so"
    shutil.copy(CPU.path, copy)
    said = (
        f"handler {CPU.targets[0]!r} for cpu of {copy} is already registered "
        f"from {CPU.path}; a process has one handler per name, so rename one "
        "of the two"
    )
    with raises(HandlerLibraryError, said):
        xla_ffi_kit.register(copy)


def test_completion_shows_public_names_only():
    shown = {name for name in dir(xla_ffi_kit) if not name.startswith("_")}
    modules = {"errors", "extend", "ops", "testing"}
    assert shown == {*xla_ffi_kit.__all__, *modules}
    assert len(xla_ffi_kit.__all__) <= 18


def _of_another_machine(data):
    other, machine = ("aarch64", 183)
    if platform.machine() == other:
        other, machine = ("x86_64", 62)
    data[18:20] = machine.to_bytes(2, "little")  # e_machine
    return data, f"is built for {other}, not for {platform.machine()}"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: (None, "does not exist"),
        lambda data: (data[:20], "is truncated ("),
        lambda data: (data[: len(data) // 2], "is truncated ("),
        lambda data: (data[:-1], "is truncated ("),
        _of_another_machine,
        lambda data: (
            pathlib.Path(_ctypes.__file__).read_bytes(),
            "has no symbol XlaFfiKit_GetHandlerTable",
        ),
    ],
)
def test_files_that_are_no_library(tmp_path, damage):
    path = tmp_path / "file.so"
    data, said = damage(bytearray(pathlib.Path(CPU.path).read_bytes()))
    if data is not None:
        path.write_bytes(data)
    assert f"{path} {said}" in error_of(path)


def test_a_folder(tmp_path):
    said = f"handler library {tmp_path} cannot be read: Is a directory"
    with raises(HandlerLibraryError, said):
        xla_ffi_kit.HandlerLibrary(tmp_path).handlers  # noqa: B018


# The version of memcpy, and one of std::; the linker compares the names.
@pytest.mark.parametrize(
    ("file", "needs", "newer"),
    [
        ("libc.so.6", "GLIBC_2.14", "GLIBC_2.99"),
        ("libstdc++.so.6", "GLIBCXX_3.4.21", "GLIBCXX_3.4.99"),
    ],
)
def test_library_for_a_newer_system(tmp_path, file, needs, newer):
    path = tmp_path / "newer.so"
    data = MACHINES.read_bytes()
    there = f"\0{needs}\0".encode()
    assert data.count(there) == 1
    path.write_bytes(data.replace(there, f"\0{newer}\0".encode()))
    has = newer.rpartition(".")[0]  # such as GLIBC_2
    if file == "libc.so.6":
        has = "GLIBC_" + os.confstr("CS_GNU_LIBC_VERSION").split()[1] + ":"
    said = error_of(path)
    assert said.startswith(
        f"handler library {path} needs {newer} of {file}, but this machine's "
        f"{file} has none after {has}"
    )
    assert said.endswith(
        ": use a newer system, or build the library on one that is as old as "
        "this"
    )


@pytest.mark.parametrize(
    ("source", "lacks"),
    [
        (
            "namespace my { void Fft(const double*, int); }\n"
            "void Call() { my::Fft(nullptr, 1); }",
            "my::Fft(double const*, int) (_ZN2my3FftEPKdi)",
        ),
        ('extern "C" void i(); void Call() { i(); }', "i"),
    ],
    ids=["C++", "C"],
)
def test_library_without_a_symbol_that_it_needs(source, lacks, tmp_path):
    (tmp_path / "lacking.cc").write_text(source)
    path = tmp_path / "lacking.so"
    flags = ["-shared", "-fPIC", "-O0", tmp_path / "lacking.cc"]
    subprocess.run(["c++", *flags, "-o", path], check=True)
    assert error_of(path) == (
        f"handler library {path} needs {lacks}, which neither it nor a library "
        "that it is linked with defines: build it with the source that does, "
        "or link it with -l"
    )


def test_library_without_the_handler():
    message = error_of(CPU.path, "xla_ffi_kit.absent")
    assert message.startswith(
        f"handler library {CPU.path} has no handler 'xla_ffi_kit.absent'; it "
        f"offers: {min(CPU.targets)}, "
    )


def test_handler_newer_than_the_runtime(tmp_path, monkeypatch):
    path = tmp_path / "copy.so"
    shutil.copy(CPU.path, path)
    monkeypatch.setattr(registration, "_handlers", {})
    monkeypatch.setattr(registration, "runtime_api_version", lambda: (0, 1))
    op = op_of(xla_ffi_kit.HandlerLibrary(path))
    said = (
        f"xla_ffi_kit.relu: handler 'xla_ffi_kit.relu' of {path} is built for "
        f"XLA FFI 0.2, but jaxlib {jaxlib.__version__} takes 0.1 to 0.1; "
        "update jaxlib, or build the library with older XLA headers"
    )
    with raises(HandlerLibraryError, said):
        op(np.float32(1))


def test_the_first_library_with_the_handler_is_used(tmp_path):
    absent = xla_ffi_kit.HandlerLibrary(tmp_path / "absent.so", optional=True)
    text = jax.jit(op_of(absent, CPU)).lower(jnp.ones(3)).as_text()
    assert "@xla_ffi_kit.relu(" in text


def test_optional_library_that_is_absent_leaves_the_reference(tmp_path):
    absent = xla_ffi_kit.HandlerLibrary(tmp_path / "absent.so", optional=True)
    op = op_of(absent)
    np.testing.assert_array_equal(op(jnp.array([-1.0, 2.0])), [0, 2])
    assert "custom_call" not in jax.jit(op).lower(jnp.ones(3)).as_text()


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_what_is_loaded_stays_loaded(tmp_path, optional, change):
    path = tmp_path / "loaded.so"
    shutil.copy(CPU.path, path)
    library = xla_ffi_kit.HandlerLibrary(path, optional=optional)
    handlers = library.handlers
    path.unlink()
    if change == "replaced":
        path.write_text("another program is writing it")
    assert handler_library.find([library], "cpu", "xla_ffi_kit.relu") is library
    if change == "removed":
        again = xla_ffi_kit.HandlerLibrary(path, optional=optional)
        assert again.exists
        assert again.handlers == handlers


@pytest.mark.parametrize("optional", [False, True])
def test_a_library_that_was_there_is_not_absent(tmp_path, optional):
    path = tmp_path / "gone.so"
    shutil.copy(CPU.path, path)
    library = xla_ffi_kit.HandlerLibrary(path, optional=optional)
    path.unlink()
    op = op_of(library)
    said = f"handler library {path} does not exist"
    with pytest.raises(HandlerLibraryError, match=said):
        op(np.float32(-1))


def capsules_of_relu(platform="cpu"):
    capsule = jax.ffi.pycapsule(
        CPU.handler("xla_ffi_kit.relu", "cpu").stages["execute"]
    )
    return xla_ffi_kit.HandlerLibrary.from_capsules(
        {"test.capsule_relu": capsule}, platform
    )


def test_a_platform_without_a_library_has_the_programs_own_handler():
    op = op_of(
        capsules_of_relu(),
        name="test.capsule_relu",
        handlers={"cpu": "test.capsule_relu", "cuda": "my_program.relu"},
    )
    program = jax.export.export(
        jax.jit(op),
        platforms=("cpu", "cuda", "tpu"),
        disabled_checks=xla_ffi_kit.export_checks(op),
    )(jnp.ones(3))
    module = program.mlir_module()
    assert module.count("@my_program.relu(") == 1
    assert module.count("@test.capsule_relu(") == 1


def test_the_platform_is_what_the_library_says():
    assert xla_ffi_kit.HandlerLibrary(MACHINES).platforms("test.double") == [
        "cpu",
        "cuda",
    ]
    for its in ("cpu", "cuda"):
        library = capsules_of_relu(its)
        assert library.platforms() == [its]
        assert [*library.handlers] == [("test.capsule_relu", its)]
        op = op_of(library, name="test.capsule_relu")
        assert op.spec.handlers == {its: "test.capsule_relu"}
    said = "has no handler 'test.capsule_relu' for cpu, only for cuda$"
    with pytest.raises(HandlerLibraryError, match=said):
        library.handler("test.capsule_relu", "cpu")
    assert op(np.float32(-1)) == 0  # the reference
    # Of the kit's own library, only one handler is for another platform.
    assert CPU.platforms("xla_ffi_kit.relu") == ["cpu"]
    assert CPU.platforms("xla_ffi_kit.launch") == ["cuda"]


def test_a_library_that_cannot_be_read_hides_no_other(tmp_path):
    broken = tmp_path / "cuda.so"
    broken.write_text("needs what this machine has not")
    op = op_of(xla_ffi_kit.HandlerLibrary(broken), CPU)
    assert op.spec.handlers.keys() == {"cpu", "cuda"}
    jitted = jax.jit(op)
    assert "@xla_ffi_kit.relu(" in jitted.lower(jnp.ones(3)).as_text()
    with pytest.raises(HandlerLibraryError, match="cuda.so is not a shared"):
        jitted.trace(jnp.ones(3)).lower(lowering_platforms=("cuda",))
