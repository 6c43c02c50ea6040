"""accelerate: products of sparse matrices as JAX has them, bit for bit.

The fuzzer draws values, dtypes, shapes and gradients.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, both, program, python
from jax.experimental import sparse

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


def check(f, *arguments, called):
    """The same bits; how often the handlers of BCOO and of BCSR are called."""
    want, got, text = both(f, *arguments, names=["sparse"])
    assert tuple(text.count(call) for call in CALLS) == called
    assert bits(got) == bits(want)


def product(lhs, rhs):
    return lhs @ rhs


DOT = functools.partial(
    sparse.bcoo_dot_general, dimension_numbers=(((1,), (0,)), ((), ()))
)


def calls(f, *arguments):
    """How often the handlers of BCOO and of BCSR are called."""
    text = program(f, *arguments, names=["sparse"])
    return tuple(text.count(call) for call in CALLS)


def test_what_is_called():
    """The fuzzer compares the values."""
    dense = [random(COLUMNS, *s) for s in ((), (1,), (3,), (32,), (5, 4))]
    ordered, unsorted, rows = bcoo(), bcoo(at=places(is_sorted=False)), bcsr()
    x = random(9, ROWS)

    def products(multiply, m):
        return lambda *dense: [multiply(m, x) for x in dense]

    assert calls(products(DOT, ordered), *dense) == (5, 0)
    # XLA multiplies few columns as fast where it cannot know that they are
    # sorted.
    assert calls(products(DOT, unsorted), *dense) == (2, 0)
    assert calls(products(product, rows), *dense[:-1]) == (0, 4)
    for f, m, expected in (
        (lambda m, x: (x @ m, m.T @ x.T), ordered, (2, 0)),
        (lambda m, x: x[0] @ m, ordered, (1, 0)),
        (lambda m, x: m.T @ x[0], ordered, (0, 0)),
    ):
        assert calls(f, m, x) == expected


@pytest.mark.parametrize("of", [bcoo, bcsr])
def test_transformations_that_are_called(of):
    lhs, is_bcoo = of(), of is bcoo
    indices = lhs._bufs[1:]

    def with_data(data, rhs):
        arrays = (data, *indices)
        return type(lhs)(arrays, shape=lhs.shape, indices_sorted=True) @ rhs

    def loss(data, rhs):
        return (with_data(data, rhs) ** 2).sum()

    def mapped(many, rhs):
        multiply, one = lhs.__matmul__, (0, None)
        return (
            jax.vmap(multiply)(rhs),
            jax.vmap(multiply, -1, -1)(rhs.T),
            jax.vmap(with_data)(many, rhs),
            jax.vmap(with_data, one)(many, rhs[0]),
            # Some of its batch dimensions are shared: JAX's own.
            jax.vmap(jax.vmap(with_data, one), (None, 0))(many, rhs),
        )

    called = (4, 0) if is_bcoo else (0, 4)
    check(mapped, random(3, ENTRIES), random(3, COLUMNS), called=called)
    # The transposed product is one of BCOO's, that of data samples.
    arguments = random(ENTRIES), random(COLUMNS, 9)
    expected = (2, 0) if is_bcoo else (1, 1)
    assert calls(jax.grad(loss, (0, 1)), *arguments) == expected
    expected = (3, 0) if is_bcoo else (0, 3)
    assert calls(lambda *a: jax.jvp(loss, a, a), *arguments) == expected


def test_indices_out_of_range():
    at, padded = places(), places()
    limits = [-1, -ROWS, -ROWS - 1, ROWS, ROWS + 1, 2**31 - 1, -(2**31)]
    at[::7, 0] = np.resize(limits, len(at[::7]))
    limits = [-1, -COLUMNS, -COLUMNS - 1, COLUMNS, 2**31 - 1, -(2**31)]
    at[::11, 1] = np.resize(limits, len(at[::11]))
    padded[-ENTRIES // 3 :] = ROWS, COLUMNS  # as JAX pads
    data = random(ENTRIES)
    data[::77] = np.inf  # times the zero that is not there
    rhs = random(COLUMNS, 17)

    def every(wild, padded, infinite, rhs):
        nine = rhs[:, :9]
        mapped = jax.vmap(wild.__matmul__)(rhs[None])
        return (
            padded @ rhs[:, 0],
            wild @ nine,
            wild @ rhs,
            mapped,
            infinite @ nine,
        )

    matrices = bcoo(at=at), bcoo(at=padded), bcoo(at=at, data=data)
    check(every, *matrices, rhs, called=(5, 0))


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
    """Few or no elements, other dtypes, a vector, dense and batch axes."""
    x = random(COLUMNS)
    dense = sparse.BCOO.fromdense(random(20, 30, 4), n_dense=1)
    batched = sparse.BCOO.fromdense(random(6, 20, 30), n_batch=1)
    contract_batch = functools.partial(
        sparse.bcoo_dot_general, dimension_numbers=(((0,), (0,)), ((), ()))
    )
    for f, *operands in (
        (product, bcoo(at=places(count=9)), x),
        (product, bcoo(at=np.zeros((0, 2), np.int32)), x),
        (product, bcoo(), random(COLUMNS, 0)),
        # XLA's code takes four columns as a vector, unless rows are long.
        (product, bcoo(at=places(count=16 * ROWS - 1)), random(COLUMNS, 4)),
        (product, bcoo(data=random(ENTRIES).astype("complex64")), x),
        (product, bcoo(), x.astype("float64")),
        (
            product,
            bcoo(at=places()[:, 1:], shape=(COLUMNS,)),
            random(COLUMNS, 9),
        ),
        (DOT, dense, random(30, 50)),
        (contract_batch, batched, random(6, 4)),
    ):
        text = program(f, *operands, names=["sparse"])
        assert not any(call in text for call in CALLS)
    # Few products of BCSR and a matrix.
    lhs = sparse.BCSR.fromdense(jnp.eye(400, dtype="float32"))
    for width, is_called in (((), 1), ((1,), 1), ((40,), 0), ((41,), 1)):
        text = program(product, lhs, random(400, *width), names=["sparse"])
        assert text.count(CALLS[1]) == is_called


def test_batched_matrices():
    batched = sparse.BCOO.fromdense(random(2, 3, 20, 30), n_batch=2)

    def every(batched, x, y):
        return [
            sparse.bcoo_dot_general(batched, rhs, dimension_numbers=numbers)
            for rhs, numbers in (
                (x, (((3,), (2,)), ((0, 1), (0, 3)))),
                (y, (((2,), (0,)), ((), ()))),
            )
        ]

    dense = random(2, 4, 30, 3), random(20, 5)
    check(every, batched, *dense, called=(2, 0))


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


@pytest.mark.parametrize("code", [LATER, FOUND + FAILED + CLEARED + LOWERED])
def test_the_module_is_not_imported_before_the_program_does(code):
    python("-c", code)
