"""The ten kernels of //benchmarks:strings, which differentiate themselves.

In each dtype, those programs of `check_op` that depend on a kernel; and what
needs a process, or many threads.
"""

import concurrent.futures
import dataclasses
import functools
import os
import subprocess
import sys
import tempfile

os.environ["XLA_FFI_KIT_CACHE"] = tempfile.mkdtemp(
    dir=os.environ.get("TEST_TMPDIR")
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import strings_on_host
from jax import export

import xla_ffi_kit
from strings_kernels import kernels
from xla_ffi_kit.testing import CHECKS, Case, check_op

_CHECKS = {"host function", "values", "batch axes", "jvp", "grad"}
_WITHOUT_REFERENCE = {
    "isotonic regression": strings_on_host.isotonic,
    "shortest path": strings_on_host.shortest_path,
    "queue with two servers": strings_on_host.simulate,
}
_EVEN = [name for name in kernels() if name not in _WITHOUT_REFERENCE]
# Without --config=ci: in lanes, and one row after the other.
_FIRST = {("exponential smoothing", "bfloat16")} | {
    (name, "float32") for name in _WITHOUT_REFERENCE
}
_SIZES = {"shortest path": 18, "soft-DTW": 3}
# Of bf16, one unit in the last place: what is computed in f32 is rounded once.
_FACTORS = {"bfloat16": 2**-7 / 3e-2}


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


def _wide(function):
    """The function, which computes operands of 16 bits in f32."""

    @functools.wraps(function)
    def rounded_once(*operands, **attributes):
        (dtype,) = {x.dtype for x in operands}
        if dtype.itemsize > 2:
            return function(*operands, **attributes)
        results = function(
            *(x.astype(jnp.float32) for x in operands), **attributes
        )
        return jax.tree.map(
            lambda y: (
                y.astype(dtype) if jnp.issubdtype(y.dtype, jnp.floating) else y
            ),
            results,
        )

    return rounded_once


def _operands(name, dtype, rows=(2,)):
    random = np.random.default_rng(3)
    made = kernels()[name].operands(random, rows, _SIZES.get(name, 5))
    return [jnp.asarray(x, dtype) for x in made]


@functools.cache
def _operation(name):
    """Of all dtypes, so that the compiler reads the headers once."""
    kernel = kernels()[name]
    return dataclasses.replace(kernel, jax=_wide(kernel.jax)).operation(
        dtypes="f32 f64 bf16",
        flags=["-O1"],
        has_reference=name not in _WITHOUT_REFERENCE,
    )


def _in_double(function):
    return lambda *x: function(*(v.astype(np.float64) for v in x))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(
            name, dtype, marks=[] if (name, dtype) in _FIRST else pytest.mark.ci
        )
        for name in kernels()
        for dtype in ("float32", "float64", "bfloat16")
    ],
)
def test_contract(name, dtype):
    host = _WITHOUT_REFERENCE.get(name)
    report = check_op(
        _operation(name),
        [Case(*_operands(name, dtype))],
        host=host and _in_double(host),
        skip=set(CHECKS) - _CHECKS,
        tolerance_factor=_FACTORS.get(dtype, 1),
    )
    print(report)


def _loss(f):
    return lambda *x: jnp.sum(jnp.sin(f(*x)))


def _pair(name, transform, *operands):
    """Of the kernel and of its JAX form."""
    op = _operation(name)
    for f in (op, op.reference):
        yield jax.tree.leaves(jax.jit(transform(f))(*operands))


def _agree(got, want):
    for a, b in zip(got, want, strict=True):
        scale = np.abs(b).max()
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.ci
@pytest.mark.parametrize("name", _EVEN)
def test_gradient_of_gradient(name):
    operands = _operands(name, "float64")
    every = range(len(operands))

    def second(f):
        first = jax.grad(_loss(f), every)
        return jax.grad(lambda *x: sum(jnp.sum(g**2) for g in first(*x)), every)

    _agree(*_pair(name, second, *operands))


def test_vmap_of_gradient_of_vmap():
    """With the operand that rows share mapped and not."""
    x, noise = _operands("Kalman filter, 2 x 2", "float64", (3, 2, 2))
    noises = jnp.stack([noise, 2 * noise, 3 * noise])

    def gradients(f):
        inner = jax.vmap(f, (0, None))
        return jax.vmap(jax.grad(_loss(inner), (0, 1)))

    _agree(*_pair("Kalman filter, 2 x 2", gradients, x, noises))


@pytest.mark.parametrize("name", ["HMM, 4 states", "isotonic regression"])
def test_16_threads(name):
    """Each has tapes of its own, whoever calls at the same time."""
    operands = _operands(name, "float64", (64,))
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(_loss(_operation(name))))
        want = np.asarray(gradient(*operands))

    def call(_):
        with jax.enable_x64(True):
            return [np.asarray(gradient(*operands)) for _ in range(20)]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for found in pool.map(call, range(16)):
            for got in found:
                np.testing.assert_array_equal(got, want)


_CHILD = """
import os, sys
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import xla_ffi_kit
"""
_READ = """
import importlib
from jax import export
name, program, operand, result = sys.argv[1:]
test = importlib.import_module(name)  # which is in the string's own name
operands = [np.load(operand)]
# Lowered once, the derivative is registered; its string is in the cache.
jax.jit(jax.grad(test._loss(test._folded))).lower(*operands)
program = export.deserialize(bytearray(open(program, "rb").read()))
np.save(result, program.call(*operands))
"""
_LACK_MEMORY = """
import resource
@xla_ffi_kit.rows(
    "A s = 0; for (auto v : x) s = s * v + 1; out[0] = s;",
    dtypes="f32", derivatives="kernel", has_reference=False, flags=["-O1"],
)
def folded(x):
    return jax.ShapeDtypeStruct((*x.shape[:-1], 1), x.dtype)
gradient = jax.jit(jax.grad(lambda x: folded(x).sum()))
few, many = np.ones((1, 3), "f4"), np.ones((1, 10_000_000), "f4")
pages = int(open("/proc/self/statm").read().split()[0])
compiled = [gradient.lower(x).compile() for x in (few, many)]
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 150_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    compiled[1](many).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    print(error)
print(compiled[0](few))
"""


def _run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", _CHILD + code, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@xla_ffi_kit.rows(
    "A s = 0; for (auto v : x) s = s * v + 1; out[0] = s;",
    axes="(n)->()",
    dtypes="f64",
    derivatives="kernel",
    has_reference=False,
    flags=["-O1"],
)
def _folded(x):
    return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)


def test_export_to_a_new_process(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export serializes with it")
    x = np.random.default_rng(3).normal(size=(4, 5))
    gradient = jax.jit(jax.grad(_loss(_folded)))
    want = gradient(x)  # registers the derivative, so that its export may be
    exported = export.export(
        gradient, disabled_checks=xla_ffi_kit.export_checks()
    )(x)
    program, operand, result = (
        tmp_path / name for name in ("program", "x.npy", "result.npy")
    )
    program.write_bytes(exported.serialize())
    np.save(operand, x)
    _run(_READ, __name__, program, operand, result)
    np.testing.assert_array_equal(np.load(result), want)


def test_a_tape_that_gets_no_memory_is_an_error():
    said = _run(_LACK_MEMORY)
    print(said)
    assert "folded.vjp1" in said and "bad_alloc" in said
    assert said.endswith("[[0. 1. 2.]]\n")
