"""The ten kernels of //benchmarks:strings, which differentiate themselves.

In each dtype, those programs of `check_op` that depend on a kernel; more of the
three algorithms that JAX has not, beside Python's values and differences; and
what needs a process, or many threads.
"""

import concurrent.futures
import dataclasses
import functools
import heapq

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import run_python
from jax import export

import xla_ffi_kit
from strings_kernels import kernels
from xla_ffi_kit.testing import CHECKS, Case, check_op

# --- The algorithms of which there is no reference: one row, NumPy arrays -----


def _shortest_path(grid):
    height, width = grid.shape
    best = np.full(grid.shape, np.inf)
    best[0, 0] = grid[0, 0] ** 2
    queue = [(best[0, 0], 0, 0)]
    while queue:
        so_far, y, x = heapq.heappop(queue)
        for i, j in ((y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x)):
            if 0 <= i < height and 0 <= j < width:
                path = so_far + grid[i, j] ** 2
                if path < best[i, j]:
                    best[i, j] = path
                    heapq.heappush(queue, (path, i, j))
    return best[-1, -1]


def _isotonic(x, weight):
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


def _simulate(arrival, service, *, servers=2):
    """How long each customer waits, and for which server."""
    free, waiting = np.zeros(servers), np.zeros_like(arrival)
    server = np.zeros(arrival.shape, np.int32)
    for i in np.argsort(arrival):
        server[i] = first = np.argmin(free)
        begin = max(free[first], arrival[i])
        waiting[i] = begin - arrival[i]
        free[first] = begin + service[i] ** 2
    return waiting, server


_CHECKS = {"host function", "values", "batch axes", "jvp", "grad"}
_MORE_CHECKS = {"second order", "vmap of grad"}  # of each kernel once
_WITHOUT_REFERENCE = {
    "isotonic regression": _isotonic,
    "shortest path": _shortest_path,
    "queue with two servers": _simulate,
}
# In lanes, with a shared operand, and row after row.
_FIRST = [
    ("exponential smoothing", "bfloat16"),
    ("Kalman filter, 2 x 2", "float64"),
    *((name, "float32") for name in _WITHOUT_REFERENCE),
    *((name, "float64") for name in _WITHOUT_REFERENCE),
]
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
        **({"lanes": True} if kernel.lanes else {}),
    )


def _in_double(function):
    return lambda *x: function(*(v.astype(np.float64) for v in x))


@pytest.mark.parametrize(
    ("name", "dtype"),
    _FIRST,
)
def test_contract(name, dtype):
    host, checks = _WITHOUT_REFERENCE.get(name), _CHECKS
    if dtype == "float64":
        checks = _CHECKS | _MORE_CHECKS
    if dtype == "float64" and host:
        checks |= {"auto mesh", "explicit mesh"}
    report = check_op(
        _operation(name),
        [Case(*_operands(name, dtype))],
        host=host and _in_double(host),
        skip=set(CHECKS) - checks,
        tolerance_factor=_FACTORS.get(dtype, 1),
    )
    print(report)


def _loss(f):
    return lambda *x: jnp.sum(jnp.sin(f(*x)))


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


_READ = """
import importlib, sys
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
from jax import export
name, program, operand, result = sys.argv[1:]
test = importlib.import_module(name)  # which is in the string's own name
operands = [np.load(operand)]
# Lowered once, the derivative is registered; its string is in the cache.
jax.jit(jax.grad(test._loss(test._folded))).lower(*operands)
program = export.deserialize(bytearray(open(program, "rb").read()))
np.save(result, program.call(*operands))
"""
_FOLDED = """
import resource
import jax, numpy as np, xla_ffi_kit
@xla_ffi_kit.rows(
    "A s = 0; for (auto v : x) s = s * v + 1; out[0] = s;",
    dtypes="f32", derivatives="kernel", has_reference=False, flags=["-O1"],
    lanes={lanes},
)
def folded(x):
    return jax.ShapeDtypeStruct((*x.shape[:-1], 1), x.dtype)
"""
_LACK_MEMORY = """
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
_KEEP_LITTLE = """
import ctypes, gc
import jax, jax.numpy as jnp, numpy as np, xla_ffi_kit
def operation(k):
    return xla_ffi_kit.rows(
        f"A s = {k}; for (auto v : x) s = s * v + 1; out[0] = s;",
        dtypes="f32", derivatives="kernel", has_reference=False, flags=["-O1"],
    )(lambda x: jax.ShapeDtypeStruct((*x.shape[:-1], 1), x.dtype))
def gradient(f, order):
    for _ in range(order):
        f = lambda x, f=f: jnp.sum(jax.grad(f)(x))
    return jax.jit(jax.grad(f))
def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096
programs = []
for k, order in enumerate((0, 0, 0, 1, 2)):
    x = np.ones((1, 2_000_000 >> 2 * order), "f4")
    op = operation(k)
    f = gradient(lambda x, op=op: op(x).sum(), order)
    programs.append((f.lower(x).compile(), x))
before = resident()
for program, x in programs:
    program(x).block_until_ready().delete()
print(resident() - before)
"""


_of_rows = functools.partial(
    xla_ffi_kit.rows,
    axes="(n)->()",
    dtypes="f64",
    derivatives="kernel",
    has_reference=False,
    flags=["-O1"],
)


@_of_rows("A s = 0; for (auto v : x) s = s * v + 1; out[0] = s;")
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
    done = run_python(_READ, __name__, program, operand, result)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(result), want)


def test_a_process_keeps_little_of_all_derivatives():
    """Of 48 MB for each of the first three, and more for the others."""
    done = run_python(_KEEP_LITTLE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100_000_000


@_of_rows("A s = 1; for (auto v : x) s = s * v; out[0] = s;")
def _multiplied(x):
    return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)


def test_the_checks_of_an_operation_are_those_of_its_derivatives_too():
    """Of those that are compiled: the others have no target yet."""

    def allowed():
        return len(xla_ffi_kit.export_checks(_multiplied))

    x = np.arange(6.0).reshape(2, 3)
    before = allowed()
    jax.make_jaxpr(jax.grad(_loss(_multiplied)))(x)
    assert allowed() == before
    gradient = jax.jit(jax.grad(_loss(_multiplied)))
    second = jax.jit(jax.grad(_loss(jax.grad(_loss(_multiplied)))))
    for function in (gradient, second):
        function.lower(x)
        assert allowed() > before
        before = allowed()
        checks = xla_ffi_kit.export_checks(_multiplied)
        export.export(function, disabled_checks=checks)(x)


def test_a_tape_that_gets_no_memory_is_an_error():
    done = run_python(_FOLDED.format(lanes=True) + _LACK_MEMORY)
    said = done.stdout
    assert done.returncode == 0, done.stderr
    assert "folded.vjp1" in said and "bad_alloc" in said
    assert said.endswith("[[0. 1. 2.]]\n")
