"""Every CPU handler of the kit against NumPy, without JAX running it."""

import call_frame
import jax.ffi
import ml_dtypes
import numpy as np
import pytest

from xla_ffi_kit.ops import LIBRARIES

HANDLERS = {
    name.removeprefix("xla_ffi_kit."): handler.stages["execute"]
    for (name, platform), handler in LIBRARIES[0].handlers.items()
    if platform == "cpu"
}
FLOATS = [
    *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64),
    *(np.complex64, np.complex128),
]
REALS = [*FLOATS[:4], np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
# Units in the last place of a result, relative to its size.
EPSILONS = {2: 4e-3, 4: 1e-6, 8: 1e-14}
BATCHES = [(), (3,), (2, 0), (2, 3)]


def draw(shape, dtype):
    random = np.random.default_rng(sum(shape))
    x = random.normal(size=shape) * 10
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * random.normal(size=shape)
    if np.issubdtype(dtype, np.unsignedinteger):
        x = np.abs(x)
    return np.asarray(x.astype(dtype))


def run(name, args, rets, attrs=None, **options):
    return call_frame.run(HANDLERS[name], args, rets, attrs or {}, **options)


def run_ok(name, args, rets, attrs=None, **options):
    status = run(name, args, rets, attrs, **options)
    assert (status.code, status.message) == ("OK", "")


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("shape", [*BATCHES, (1000,)])
def test_relu(shape, dtype):
    x = draw(shape, dtype)
    y = np.empty_like(x)
    run_ok("relu", [x], [y])
    np.testing.assert_array_equal(y, np.maximum(x, np.zeros((), dtype)))


@pytest.mark.parametrize("dtype", FLOATS + REALS[4:] + UNSIGNED)
@pytest.mark.parametrize("batch", BATCHES)
def test_modular_add(batch, dtype):
    b, c = draw((*batch, 3), dtype), draw((*batch, 8), dtype)
    a = np.empty_like(c)
    run_ok("modular_add", [b, c], [a])
    np.testing.assert_array_equal(a, np.tile(b, 3)[..., :8] + c)


@pytest.mark.parametrize("dtype", FLOATS[:4])
@pytest.mark.parametrize("batch", BATCHES)
def test_rms_norm(batch, dtype):
    eps = 1e-3
    x = draw((*batch, 37), dtype)
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt(np.mean(wide**2, axis=-1) + eps)
    y = np.empty_like(x)
    run_ok("rms_norm", [x], [y], {"eps": eps})
    epsilon = EPSILONS[2 if dtype == ml_dtypes.bfloat16 else x.itemsize]
    np.testing.assert_allclose(
        y.astype(np.float64), wide * scale[..., None], epsilon, epsilon
    )


def test_threads_agree():
    x = draw((1 << 19,), np.float32)
    y = np.empty_like(x)
    run_ok("relu", [x], [y], threads=4)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_errors_have_code_and_message():
    x = np.ones((2, 3), np.float32)
    status = run("relu", [x], [np.empty((3, 2), np.float32)])
    assert status.code == "INVALID_ARGUMENT"
    assert status.message == (
        "xla_ffi_kit.relu: result y: expected shape (2, 3) like operand x, "
        "got shape (3, 2)"
    )
    bits = np.zeros(2, bool)
    assert run("relu", [bits], [bits]).message.endswith(", got dtype pred")
    status = run("rms_norm", [x], [x], {"eps": np.int32(1)})
    assert status.message == (
        "xla_ffi_kit.rms_norm: attribute eps: expected a scalar f32 or f64 "
        "(in Python, np.float64(value)), got another type"
    )
    status = run("rms_norm", [x], [x], {"eps": 1.0, "inner": {"a": [1.0]}})
    assert status.message.endswith("got {eps, inner}")
    status = run("relu", [x], [x], stage="prepare")
    assert "expected `execute` but got `prepare`" in status.message
    status = run("relu", [x], [x], threads=0)
    assert status.code != "OK" or status.message == ""


def test_arguments_that_are_no_call_frame():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="contiguous"):
        run("relu", [x.T], [x])
    fixed = x.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="not writeable"):
        run("relu", [x], [fixed])
    with pytest.raises(TypeError, match="object"):
        run("relu", [x.astype(object)], [x])
    with pytest.raises(ValueError, match="stage"):
        run("relu", [x], [x], stage="begin")
    with pytest.raises(ValueError, match="null"):
        call_frame.run(0, [x], [x])


def test_metadata_of_every_handler():
    for name, address in HANDLERS.items():
        for handler in (address, jax.ffi.pycapsule(address)):
            metadata = call_frame.metadata(handler)
            assert metadata.status.code == "OK", name
            assert metadata.api_version == (0, 2)
            assert metadata.traits == 0
            assert metadata.state_type_id == 0
