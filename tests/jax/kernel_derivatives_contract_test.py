"""Strings that differentiate themselves: the contract of an algorithm that JAX
has not; and what needs a process, or many threads."""

import concurrent.futures
import functools

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import run_python
from jax import export

import strings_kernels
import xla_ffi_kit
from xla_ffi_kit.testing import CHECKS, Case, check_op

_OPTIONS = {
    "derivatives": "kernel",
    "has_reference": False,
    "flags": ["-O1"],
}


isotonic = strings_kernels.kernels()["isotonic regression"].operation(
    dtypes="f32 f64", flags=["-O1"]
)


def _isotonic_of_host(x, weight):
    """The least of the means to the right of each of those to the left."""
    n = len(x)
    means = np.full((n, n), -np.inf)
    for i in range(n):
        for j in range(i, n):
            part = slice(i, j + 1)
            means[i, j] = np.average(x[part], weights=weight[part])
    return np.array(
        [max(means[i, k:].min() for i in range(k + 1)) for k in range(n)]
    )


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


def _operands(rows):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(rows, 5)) + np.arange(5) / 64
    return x, rng.uniform(0.5, 2, x.shape)


def test_contract():
    checks = {"host function", "values", "batch axes", "jvp", "grad"}
    checks |= {"second order", "auto mesh"}
    print(
        check_op(
            isotonic,
            [Case(*_operands(2))],
            host=_isotonic_of_host,
            skip=set(CHECKS) - checks,
        )
    )


def _loss(f):
    return lambda *x: jnp.sum(jnp.sin(f(*x)))


def test_16_threads():
    """Each has tapes of its own, whoever calls at the same time."""
    operands = _operands(64)
    gradient = jax.jit(jax.grad(_loss(isotonic)))
    want = np.asarray(gradient(*operands))

    def call(_):
        with jax.enable_x64(True):
            return [np.asarray(gradient(*operands)) for _ in range(20)]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for found in pool.map(call, range(16)):
            for got in found:
                np.testing.assert_array_equal(got, want)


# --- Processes ----------------------------------------------------------------

_FOLDED = """
import ctypes, gc, resource
import jax, jax.numpy as jnp, numpy as np, xla_ffi_kit
def gradient(k):
  @xla_ffi_kit.rows(
    f"A s = {{k}}; for (auto v : x) s = s * v + 1; out[0] = s;",
    dtypes="f32", derivatives="kernel", has_reference=False, flags=["-O1"],
    lanes={lanes},
)
  def folded(x):
    return jax.ShapeDtypeStruct((*x.shape[:-1], 1), x.dtype)
  return jax.jit(jax.grad(lambda x: folded(x).sum()))
def pages(which):
    return int(open("/proc/self/statm").read().split()[which]) * 4096
"""
_LACK_MEMORY = """
few, many = np.ones((1, 3), "f4"), np.ones((1, 10_000_000), "f4")
compiled = [gradient(0).lower(x).compile() for x in (few, many)]
limit = pages(0) + 150_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    compiled[1](many).block_until_ready()
except jax.errors.JaxRuntimeError as error:
    print(error)
print(compiled[0](few))
"""
_KEEP_LITTLE = """
def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return pages(1)
x = np.ones((1, 4_000_000), "f4")
programs = [gradient(k).lower(x).compile() for k in range(4)]
before = resident()
for program in programs:
    program(x).block_until_ready().delete()
print(resident() - before)
"""


def test_a_process_keeps_little_of_all_derivatives():
    """Of 96 MB for each of four."""
    done = run_python(_FOLDED.format(lanes=False) + _KEEP_LITTLE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 150_000_000


def test_a_tape_that_gets_no_memory_is_an_error():
    done = run_python(_FOLDED.format(lanes=True) + _LACK_MEMORY)
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert "folded.gradient1" in said and "bad_alloc" in said
    assert said.endswith("[[0. 1. 2.]]\n")


# --- Exported programs --------------------------------------------------------

_of_rows = functools.partial(
    xla_ffi_kit.rows, axes="(n)->()", dtypes="f64", **_OPTIONS
)


@_of_rows("A s = 0; for (auto v : x) s = s * v + 1; out[0] = s;")
def folded(x):
    return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)


_READ = """
import importlib, sys
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from jax import export
test = importlib.import_module(sys.argv[1])  # part of the target's name
# Lowered once, the derivative is registered; its string is in the cache.
x = np.load(sys.argv[3])
jax.jit(jax.grad(test._loss(test.folded))).lower(x)
program = export.deserialize(bytearray(open(sys.argv[2], "rb").read()))
np.save(sys.argv[3], program.call(x))
"""


def test_export_to_a_new_process(tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export serializes with it")
    x = np.random.default_rng(3).normal(size=(4, 5))
    gradient = jax.jit(jax.grad(_loss(folded)))
    want = gradient(x)  # registers the derivative, so that its export may be
    checks = xla_ffi_kit.export_checks()
    exported = export.export(gradient, disabled_checks=checks)(x)
    program, values = tmp_path / "program", tmp_path / "x.npy"
    program.write_bytes(exported.serialize())
    np.save(values, x)
    done = run_python(_READ, __name__, program, values)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(values), want)


@_of_rows("A s = 1; for (auto v : x) s = s * v; out[0] = s;")
def multiplied(x):
    return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)


def test_the_checks_of_an_operation_are_those_of_its_derivatives_too():
    """Of those that are compiled: the others have no target yet."""

    def allowed():
        return len(xla_ffi_kit.export_checks(multiplied))

    x = np.arange(6.0).reshape(2, 3)
    before = allowed()
    jax.make_jaxpr(jax.grad(_loss(multiplied)))(x)
    assert allowed() == before
    gradient = jax.jit(jax.grad(_loss(multiplied)))
    gradient.lower(x)
    assert allowed() > before
    checks = xla_ffi_kit.export_checks(multiplied)
    export.export(gradient, disabled_checks=checks)(x)
