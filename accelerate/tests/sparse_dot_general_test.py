"""accelerate: products of sparse matrices as JAX has them, bit for bit."""

import dataclasses
import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, check_equal, self_test, specials
from jax.experimental import sparse

import xla_ffi_accelerate
from xla_ffi_accelerate import registry

jax.config.update("jax_enable_x64", True)

CALLS = (
    "@xla_ffi_accelerate.bcoo_dot_general(",
    "@xla_ffi_accelerate.bcsr_dot_general(",
)
ROWS, COLUMNS, ENTRIES = 300, 200, 10000


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape, dtype)


def places(rows=ROWS, columns=COLUMNS, count=ENTRIES, is_sorted=True):
    generator = np.random.default_rng((rows, columns, count))
    row = generator.integers(0, rows, count)
    if is_sorted:
        row = np.sort(row)
    column = generator.integers(0, columns, count)
    return np.stack([row, column], 1).astype(np.int32)


def bcoo(dtype="float32", at=None, shape=(ROWS, COLUMNS), data=None):
    at = places() if at is None else at
    data = random(len(at), dtype=dtype) if data is None else data
    return sparse.BCOO(
        (jnp.asarray(data), jnp.asarray(at)),
        shape=shape,
        indices_sorted=bool((np.diff(at[:, 0]) >= 0).all()),
    )


def bcsr(dtype="float32", data=None):
    at = places()
    indptr = np.searchsorted(at[:, 0], np.arange(ROWS + 1)).astype(np.int32)
    data = random(len(at), dtype=dtype) if data is None else data
    arrays = (data, at[:, 1], indptr)
    return sparse.BCSR(tuple(map(jnp.asarray, arrays)), shape=(ROWS, COLUMNS))


def calls(f, *arguments):
    """How often the program has the kit's handlers: of BCOO, of BCSR."""
    with xla_ffi_accelerate.enabled("sparse"):
        text = jax.jit(lambda *a: f(*a)).lower(*arguments).as_text()
    return tuple(text.count(call) for call in CALLS)


def check(f, *arguments, called):
    assert calls(f, *arguments) == called
    check_equal({"f": (jax.jit(f), arguments)})


def product(lhs, rhs):
    return lhs @ rhs


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [(), (1,), (3,), (32,), (5, 4)])
def test_products(dtype, columns):
    rhs = random(COLUMNS, *columns, dtype=dtype)
    unsorted = bcoo(dtype, places(is_sorted=False))
    numbers = (((1,), (0,)), ((), ()))
    dot = functools.partial(sparse.bcoo_dot_general, dimension_numbers=numbers)
    check(dot, bcoo(dtype), rhs, called=(1, 0))
    # XLA multiplies few columns as fast where it cannot know that they are.
    check(dot, unsorted, rhs, called=(int(rhs.size > 8 * COLUMNS), 0))
    if len(columns) < 2:
        check(product, bcsr(dtype), rhs, called=(0, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_from_the_right_and_transposed(dtype):
    rhs = random(9, ROWS, dtype=dtype)
    for lhs in (bcoo(dtype), bcsr(dtype)):
        is_bcoo = isinstance(lhs, sparse.BCOO)
        if is_bcoo:
            check(lambda m, x: x @ m, lhs, rhs, called=(1, 0))
            check(lambda m, x: m.T @ x.T, lhs, rhs, called=(1, 0))
            check(lambda m, x: m.T @ x[0], lhs, rhs, called=(0, 0))
            check(lambda m, x: x[0] @ m, lhs, rhs, called=(1, 0))


def test_indices_of_64_bits():
    lhs = bcoo(at=places().astype(np.int64))
    check(product, lhs, random(COLUMNS), called=(1, 0))
    wide = bcsr()
    wide = sparse.BCSR(
        (wide.data, *(x.astype(np.int64) for x in wide._bufs[1:])),
        shape=wide.shape,
    )
    check(product, wide, random(COLUMNS), called=(0, 1))


@pytest.mark.parametrize("of", [bcoo, bcsr])
def test_vmap(of):
    lhs = of()
    called = (1, 0) if of is bcoo else (0, 1)
    rhs = random(3, COLUMNS)
    check(jax.vmap(lhs.__matmul__), rhs, called=called)
    check(jax.vmap(lhs.__matmul__, -1, -1), rhs.T, called=called)
    check(jax.vmap(lhs.__matmul__), rhs[..., None] * 2, called=called)
    many = random(3, ENTRIES)
    indices = lhs._bufs[1:]

    def with_data(data, rhs):
        arrays = (data, *indices)
        return type(lhs)(arrays, shape=lhs.shape, indices_sorted=True) @ rhs

    check(jax.vmap(with_data), many, rhs, called=called)
    check(jax.vmap(with_data, (0, None)), many, rhs[0], called=called)
    check(
        jax.vmap(jax.vmap(with_data, (0, None)), (None, 0)),
        many,
        rhs,
        called=(0, 0),  # some of its batch dimensions are shared
    )


@pytest.mark.parametrize("of", [bcoo, bcsr])
def test_derivatives(of):
    lhs, rhs = of(), random(COLUMNS, 9)
    indices = lhs._bufs[1:]

    def loss(data, rhs):
        lhs = of(data=data)
        return ((type(lhs)((data, *indices), shape=lhs.shape) @ rhs) ** 2).sum()

    arguments = (random(ENTRIES), rhs)
    # The transposed product is one of BCOO's, that of data samples.
    check(
        jax.grad(loss, (0, 1)),
        *arguments,
        called=(2, 0) if of is bcoo else (1, 1),
    )
    check(
        lambda *a: jax.jvp(loss, a, a),
        *arguments,
        called=(3, 0) if of is bcoo else (0, 3),
    )


def test_indices_out_of_range():
    at = places()
    at[::7, 0] = [-1, -ROWS, -ROWS - 1, ROWS, ROWS + 1, 2**31 - 1, -(2**31)] * (
        ENTRIES // 49
    ) + [0] * (len(at[::7]) - ENTRIES // 49 * 7)
    at[::11, 1] = np.resize(
        [-1, -COLUMNS, -COLUMNS - 1, COLUMNS, 2**31 - 1, -(2**31)],
        len(at[::11]),
    )
    padded = places()
    padded[-ENTRIES // 3 :] = ROWS, COLUMNS  # as JAX pads
    check(product, bcoo(at=padded), random(COLUMNS), called=(1, 0))
    for rhs in (random(COLUMNS, 9), random(COLUMNS, 17)):
        check(product, bcoo(at=at), rhs, called=(1, 0))
        check(jax.vmap(bcoo(at=at).__matmul__), rhs[None], called=(1, 0))
    data = random(ENTRIES)
    data[::77] = np.inf  # times the zero that is not there
    check(product, bcoo(at=at, data=data), random(COLUMNS, 9), called=(1, 0))


def test_a_wrong_indptr_never_leaves_the_arrays():
    right = bcsr()
    rhs = random(COLUMNS, 40)
    for indptr in (
        np.full(ROWS + 1, 2**31 - 1),
        np.full(ROWS + 1, -(2**31)),
        np.resize([-(2**31), 2**31 - 1], ROWS + 1),
        np.arange(ROWS + 1)[::-1] * 100,
    ):
        arrays = (right.data, right.indices * 2**20, indptr.astype(np.int32))
        wrong = sparse.BCSR(tuple(map(jnp.asarray, arrays)), shape=right.shape)
        with xla_ffi_accelerate.enabled():
            assert (wrong @ rhs).shape == (ROWS, 40)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_specials(dtype):
    values = specials(np.dtype(dtype))
    data = np.resize(values, ENTRIES)
    rhs = random(COLUMNS, 5, dtype=dtype)
    rhs[::3] = np.resize(values, (len(rhs[::3]), 5))

    def f(lhs, x):
        products = lhs @ x, lhs @ x[:, 0]
        # Of two NaNs that meet, either may stay.
        return [jnp.where(jnp.isnan(y), jnp.nan, y) for y in products]

    check(f, bcoo(dtype, data=data), rhs, called=(2, 0))
    check(f, bcsr(dtype, data=data), rhs, called=(0, 2))
    tiny = random(ENTRIES, dtype=dtype) * np.finfo(dtype).tiny
    check(f, bcoo(dtype, data=tiny), rhs, called=(2, 0))
    check(f, bcsr(dtype, data=tiny), rhs, called=(0, 2))


# By what is rounded in one way: exponentials jax 0.12 rounds otherwise if it
# computes them again for each element of the sparse matrix.
def test_computed_operands():
    def f(lhs, x):
        for _ in range(2):
            y = lhs @ (jnp.abs(x) / 9)
            x = jnp.minimum((lhs * 2).T @ y, 3)
        return x

    check(f, bcoo(), random(COLUMNS), called=(2, 0))  # those not transposed
    check(f, bcoo(), random(COLUMNS, 9), called=(4, 0))


def test_others_are_left_to_jax():
    none = (0, 0)
    small = bcoo(at=places(count=9))
    check(product, small, random(COLUMNS), called=none)
    empty = bcoo(at=np.zeros((0, 2), np.int32))
    check(product, empty, random(COLUMNS), called=none)
    check(product, bcoo(), random(COLUMNS, 0), called=none)
    other = bcoo(data=random(ENTRIES).astype("complex64"))
    check(product, other, random(COLUMNS), called=none)
    check(product, bcoo(), random(COLUMNS, dtype="float64"), called=none)
    check(product, bcoo(), random(COLUMNS, 4), called=(1, 0))
    few = bcoo(at=places(count=16 * ROWS - 1))  # elements a row
    check(product, few, random(COLUMNS, 4), called=none)
    vector = bcoo(at=places()[:, 1:], shape=(COLUMNS,))
    check(product, vector, random(COLUMNS, 9), called=none)
    dense = sparse.BCOO.fromdense(random(20, 30, 4), n_dense=1)
    f = functools.partial(
        sparse.bcoo_dot_general, dimension_numbers=(((1,), (0,)), ((), ()))
    )
    check(f, dense, random(30, 50), called=none)
    batched = sparse.BCOO.fromdense(random(6, 20, 30), n_batch=1)
    contract_batch = (((0,), (0,)), ((), ()))
    f = functools.partial(
        sparse.bcoo_dot_general, dimension_numbers=contract_batch
    )
    check(f, batched, random(6, 4), called=none)


def test_batched_matrices():
    batched = sparse.BCOO.fromdense(random(2, 3, 20, 30), n_batch=2)
    rhs = random(2, 4, 30, 3)
    numbers = (((3,), (2,)), ((0, 1), (0, 3)))
    f = functools.partial(sparse.bcoo_dot_general, dimension_numbers=numbers)
    check(f, batched, rhs, called=(1, 0))
    kept = (((2,), (0,)), ((), ()))
    f = functools.partial(sparse.bcoo_dot_general, dimension_numbers=kept)
    check(f, batched, random(20, 5), called=(1, 0))


def test_exported_programs_are_left_to_jax():
    with xla_ffi_accelerate.enabled():
        exported = jax.export.export(jax.jit(product))(bcoo(), random(COLUMNS))
    assert CALLS[0] not in exported.mlir_module()


@pytest.mark.parametrize("name", ["bcoo_dot_general", "bcsr_dot_general"])
def test_self_test(name):
    (rule,) = registry.RULES[name]
    assert self_test(rule) == {}


def test_self_test_fails_where_the_bits_differ():
    (rule,) = registry.RULES["bcoo_dot_general"]

    def zeros(*operands, **parameters):
        return jnp.zeros_like(rule.call(*operands, **parameters))

    assert self_test(dataclasses.replace(rule, call=zeros)) is None


def test_threads_share_the_work():
    lhs = bcoo(at=places(count=200_000))
    check(product, lhs, random(COLUMNS, 33), called=(1, 0))
    check(lambda m, x: m.T @ x, lhs, random(ROWS, 33), called=(1, 0))


def test_few_products_of_bcsr_and_a_matrix_are_left_to_jax():
    lhs = sparse.BCSR.fromdense(jnp.eye(400, dtype="float32"))
    for shape, count in (((400,), 1), ((400, 1), 1), ((400, 40), 0)):
        check(product, lhs, random(*shape), called=(0, count))
    check(product, lhs, random(400, 41), called=(0, 1))


LATER = """
import sys
import jax, numpy as np
import xla_ffi_accelerate
sparse = "jax.experimental.sparse"
with xla_ffi_accelerate.enabled():
    pass
xla_ffi_accelerate.enable("sparse")
before = list(sys.meta_path)
with xla_ffi_accelerate.enabled():
    assert "sort" in xla_ffi_accelerate.status()
assert sparse not in sys.modules
assert len(xla_ffi_accelerate.status()) == 2
from jax.experimental.sparse import BCOO
assert len(xla_ffi_accelerate.status()) == 2
m = BCOO.fromdense(np.ones((90, 80), np.float32))
x = np.ones(80, np.float32)
def text():
    return jax.jit(lambda m, x: m @ x).lower(m, x).as_text()
assert "@xla_ffi_accelerate.bcoo_dot_general(" in text()
xla_ffi_accelerate.disable()
assert "@xla_ffi_accelerate.bcoo_dot_general(" not in text()
xla_ffi_accelerate.enable()
assert "@xla_ffi_accelerate.bcoo_dot_general(" in text()
assert sys.meta_path == before
assert sys.modules[sparse].__spec__.name == sparse
"""


FOUND = """
import importlib.util, sys
import jax, numpy as np
import xla_ffi_accelerate
xla_ffi_accelerate.enable()
sparse = "jax.experimental.sparse"
for _ in range(2):
    spec = importlib.util.find_spec(sparse)
    assert spec.name == sparse and spec.loader.get_source(sparse)
assert sparse not in sys.modules
"""
FAILED = """
sys.modules["jax.experimental.sparse.bcoo"] = None
for _ in range(2):
    try:
        import jax.experimental.sparse
    except ImportError:
        pass
    else:
        assert False
del sys.modules["jax.experimental.sparse.bcoo"]
"""
CLEARED = """
import jax.monitoring
jax.monitoring.clear_event_listeners()
"""
LOWERED = """
from jax.experimental.sparse import BCOO, BCSR
x = np.ones(80, np.float32)
for kind in BCOO, BCSR:
    m = kind.fromdense(np.ones((90, 80), np.float32))
    text = jax.jit(lambda m, x: m @ x).lower(m, x).as_text()
    name = kind.__name__.lower() + "_dot_general"
    assert f"@xla_ffi_accelerate.{name}(" in text, name
    assert name in xla_ffi_accelerate.status()
loader = sys.modules[sparse].__spec__.loader
assert "xla_ffi_accelerate" not in type(loader).__module__
assert sys.modules[sparse].__loader__ is loader
assert "xla_ffi_accelerate" not in str(sys.meta_path)
"""


@pytest.mark.parametrize(
    "code", [LATER, FOUND + CLEARED + LOWERED, FOUND + FAILED + LOWERED]
)
def test_the_module_is_not_imported_before_the_program_does(code):
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_donated():
    lhs = bcoo()
    f = jax.jit(product, donate_argnums=1)
    rhs = random(COLUMNS)
    want = bits(f(lhs, jnp.asarray(rhs)))
    with xla_ffi_accelerate.enabled():
        assert bits(f(lhs, jnp.asarray(rhs))) == want
