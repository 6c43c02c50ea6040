"""Handlers of the package against NumPy, without JAX running them."""

import jax.ffi
import ml_dtypes
import numpy as np
import pytest

from xla_ffi_accelerate import LIBRARIES

# Of the kit's C++ tests: tests/compat has no such module.
call_frame = pytest.importorskip("call_frame")

HANDLERS = {
    name.removeprefix("xla_ffi_accelerate."): handler.stages["execute"]
    for (name, _), handler in LIBRARIES[0].handlers.items()
}
REALS = [
    *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64),
    *(np.int8, np.int16, np.int32, np.int64),
]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
BATCHES = [(), (3,), (2, 0), (2, 3)]


def draw(shape, dtype):
    random = np.random.default_rng(sum(shape))
    x = random.normal(size=shape) * 10
    if np.issubdtype(dtype, np.unsignedinteger):
        x = np.abs(x)
    return np.asarray(x.astype(dtype))


def run(name, args, rets, attrs=None):
    return call_frame.run(HANDLERS[name], args, rets, attrs or {})


def run_ok(name, args, rets, attrs=None):
    status = run(name, args, rets, attrs)
    assert (status.code, status.message) == ("OK", "")


@pytest.mark.parametrize("dtype", REALS + UNSIGNED)
@pytest.mark.parametrize("batch", BATCHES)
def test_sort_and_top_k(batch, dtype):
    x = draw((*batch, 21), dtype)
    y = np.empty_like(x)
    run_ok("sort", [x], [y], {"num_keys": 1})
    want = np.sort(x.astype(np.longdouble), axis=-1)
    np.testing.assert_array_equal(y.astype(np.longdouble), want)
    values = np.empty((*batch, 4), dtype)
    indices = np.empty((*batch, 4), np.int32)
    run_ok("top_k", [x], [values, indices])
    np.testing.assert_array_equal(
        values.astype(np.longdouble), want[..., ::-1][..., :4]
    )
    np.testing.assert_array_equal(np.take_along_axis(x, indices, -1), values)


def test_an_error_has_a_code_and_a_message():
    x = np.ones((2, 3), np.float32)
    status = run("sort", [x], [x], {"num_keys": 2})
    assert status.code == "INVALID_ARGUMENT"
    assert status.message.endswith("num_keys: expected 1 to 1, got 2")


def test_metadata_of_every_handler():
    for name, address in HANDLERS.items():
        for handler in (address, jax.ffi.pycapsule(address)):
            metadata = call_frame.metadata(handler)
            assert metadata.status.code == "OK", name
            assert metadata.api_version == (0, 2)
            assert metadata.traits == 0
            assert metadata.state_type_id == 0
