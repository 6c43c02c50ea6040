"""When the handler does not run: in silence, with a warning, as an error."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import operation, said

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.op import implementation
from xla_ffi_kit.ops import LIBRARIES

X = jnp.arange(-2.0, 2.0)


def relu(name="xla_ffi_kit.relu", **options):
    return FfiOp(name, jax.nn.relu, kernel_axes=0, **options)


def register(name):
    execute = LIBRARIES[0].handler("xla_ffi_kit.relu", "cpu").stages["execute"]
    capsule = jax.ffi.pycapsule(execute)
    jax.ffi.register_ffi_target(name, capsule, platform="cpu")


def of_cuda():
    """A library that has the operation's handler for CUDA alone."""
    capsule = jax.ffi.pycapsule(1)  # never called
    return xla_ffi_kit.HandlerLibrary.from_capsules(
        {"xla_ffi_kit.relu": capsule}, "cuda"
    )


def test_a_target_that_nobody_has_registered_is_told_once_and_where():
    op = relu("test.reluu")
    with pytest.warns(UserWarning) as caught:
        np.testing.assert_array_equal(op(X), [0, 0, 0, 1])
        jax.jit(op)(X)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        "test.reluu: the reference runs on cpu, because no target 'test.reluu' "
        "is registered; give libraries= or register it with "
        "jax.ffi.register_ffi_target (as api_version=1) before the first call; "
        "handlers={} says that the reference is meant"
    )


def test_what_is_meant_is_silent(tmp_path):
    register("test.of_cpu")
    missing = xla_ffi_kit.HandlerLibrary(tmp_path / "no.so", optional=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relu(handlers={})(X)
        relu(libraries=missing)(X)
        relu(libraries=of_cuda())(X)
        relu("test.switched")(X, implementation="reference")
        op = relu("test.of_cpu")
        op(X)
        jax.jit(op).trace(X).lower(lowering_platforms=("cuda",))


def insists(op):
    return lambda x: op(x, implementation="handler")


def test_a_call_that_insists_runs_the_handler():
    op = relu(libraries=LIBRARIES)
    f = insists(op)
    for g in (f, jax.jit(f), jax.vmap(f)):
        np.testing.assert_array_equal(g(X), [0, 0, 0, 1])
    assert "@xla_ffi_kit.relu(" in jax.jit(f).lower(X).as_text()
    composed = relu(handlers={"cpu": lambda x: op(x)})
    np.testing.assert_array_equal(insists(composed)(X), [0, 0, 0, 1])
    slope = jax.grad(lambda x: f(x).sum())  # the derivative is the reference's
    np.testing.assert_array_equal(slope(X), [0, 0, 0, 1])


def nowhere(tmp_path):
    path = tmp_path / "no.so"
    optional = xla_ffi_kit.HandlerLibrary(path, optional=True)
    cuda = of_cuda()
    return [
        (
            relu("test.reluuu"),
            "no target 'test.reluuu' is registered; give libraries= or "
            "register it with jax.ffi.register_ffi_target (as api_version=1) "
            "before the first call",
        ),
        (relu(libraries=optional), "its library no.so is missing"),
        (relu(libraries=cuda), "it has handlers for cuda alone"),
        (relu(handlers={}), "it has handlers for no platform"),
    ]


def test_a_call_that_insists_is_an_error_without_a_handler(tmp_path):
    for op, why in nowhere(tmp_path):
        f = insists(op)
        assert implementation.reason(op.spec, "cpu") == why
        slope = jax.grad(lambda x, f=f: f(x).sum())
        for g in (f, jax.jit(f), jax.vmap(f), slope):
            assert said(g, X) == (
                f"NotImplementedError: {op.name}: implementation: expected the "
                f"handler on cpu, but the reference would run: {why}"
            )
    # A plain call is another program.
    np.testing.assert_array_equal(relu(handlers={})(X), [0, 0, 0, 1])


def test_what_else_keeps_a_handler_from_running():
    op = relu(libraries=LIBRARIES)
    with xla_ffi_kit.use_reference("relu"):
        with pytest.raises(NotImplementedError, match="use_reference switches"):
            insists(op)(X)
    traced = jax.jit(insists(op)).trace(X)
    with xla_ffi_kit.use_reference("relu"):
        with pytest.raises(NotImplementedError, match="use_reference switches"):
            traced.lower()
    with pytest.raises(NotImplementedError, match="on tpu, .* for cpu, cuda a"):
        traced.lower(lowering_platforms=("tpu",))
    nowhere = {"handlers": {"cpu": "test.no_handler"}}
    scaled = operation(lambda x, w: x * w, kernel_axes=1, shared="w", **nowhere)
    call = jax.vmap(lambda x, w: scaled(x, w, implementation="handler"))
    with pytest.raises(NotImplementedError, match="on cpu, .* this call runs"):
        jax.jit(call).lower(jnp.ones((2, 3)), jnp.ones((2, 3)))
    total = operation(lambda x: jax.lax.psum(x, "i"), **nowhere)
    with pytest.raises(NotImplementedError, match="collective over the axis i"):
        jax.vmap(insists(total), axis_name="i")(X)
