"""What Python registers for a GPU: a fake CUDA plugin of JAX takes it down."""

import ctypes
import pathlib

import jax
import jax.numpy as jnp
import jaxlib
import pytest
from jaxlib import xla_client

import xla_ffi_kit
from xla_ffi_kit.library import c_api, registration, releases

PATH = pathlib.Path(__file__).parent / "test_handlers.so"
STAGES = ("instantiate", "prepare", "initialize", "execute")

# effects_test shows what these releases say.
takes_state = pytest.mark.skipif(
    jaxlib.__version__ in releases.NO_OLD_STATE, reason="crashes on state"
)

# What the plugin was given, in order: "type" or "handler", name, the rest.
GIVEN: list[tuple] = []


def address(capsule) -> int:
    """The pointer in a PyCapsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, None)


def take_handler(name, stages, platform, api_version, *_):
    where = {stage: address(capsule) for stage, capsule in stages.items()}
    GIVEN.append(("handler", name, platform, api_version, where))


def take_type(name, pointers):
    where = {key: address(capsule) for key, capsule in pointers.items()}
    GIVEN.append(("type", name, where))


@pytest.fixture(scope="module", autouse=True)
def plugin():
    """The part of JAX's CUDA plugin that takes handlers and types."""
    xla_client.register_custom_call_handler("CUDA", take_handler)
    xla_client.register_custom_type_handler("CUDA", take_type)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU, as far as registration asks for one; and no memory of others."""
    devices = jax.local_devices

    def local_devices(backend=None, **arguments):
        if backend == "cuda":
            return ["gpu"]
        return devices(backend=backend, **arguments)

    monkeypatch.setattr(jax, "local_devices", local_devices)
    for registered in ("_handlers", "_stages"):
        monkeypatch.setattr(registration, registered, {})
    monkeypatch.setattr(registration, "_types", set())
    GIVEN.clear()


@pytest.fixture
def library():
    return xla_ffi_kit.HandlerLibrary(PATH)


def stages_in_table(name: str) -> dict[str, int]:
    """Of the table, read by nothing of what is tested."""
    get = ctypes.CDLL(str(PATH))[c_api.TABLE_SYMBOL]
    get.restype = ctypes.POINTER(c_api.HandlerTable)
    table = get().contents
    handlers = c_api.HandlerEntry * table.num_handlers
    rows = ctypes.cast(table.handlers, ctypes.POINTER(handlers)).contents
    wanted = (name.encode(), b"CUDA")
    (row,) = [row for row in rows if (row.name, row.platform) == wanted]
    pointers = {stage: getattr(row, stage) for stage in STAGES}
    return {stage: pointer for stage, pointer in pointers.items() if pointer}


def test_without_a_gpu_nothing_is_registered(library):
    GIVEN.clear()
    registration.register_handler(library, "test.double", "cuda")
    assert GIVEN == []


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("test.double", ["execute"]),
        pytest.param("test.count_runs", list(STAGES), marks=takes_state),
    ],
)
def test_types_come_before_the_handler_and_platform_is_xlas_name(
    gpu, library, name, stages
):
    registration.register_handler(library, name, "cuda")
    (state_type,) = (t for t in library.types if t.platform == "cuda")
    in_table = stages_in_table(name)
    assert GIVEN == [
        (
            "type",
            "test.runs_on_device",
            {"type_id": state_type.type_id, "type_info": state_type.type_info},
        ),
        ("handler", name, "CUDA", 1, in_table),
    ]
    assert list(GIVEN[1][4]) == stages


@takes_state
def test_all_of_a_library_once(gpu, library):
    for _ in range(2):
        xla_ffi_kit.register(library)
    # What the library has for the CPU does not get to the plugin.
    assert [given[:2] for given in GIVEN] == [
        ("type", "test.runs_on_device"),
        ("handler", "test.double"),
        ("handler", "test.count_runs"),
    ]


def test_lowering_for_a_gpu_registers(gpu, library):
    double = xla_ffi_kit.FfiOp(
        "test.double", lambda x: 2 * x, kernel_axes=0, libraries=[library]
    )
    lowered = jax.jit(double).trace(jnp.ones(3))
    text = lowered.lower(lowering_platforms=("cuda",)).as_text()
    assert "@test.double(" in text
    assert ("handler", "test.double") in [given[:2] for given in GIVEN]
