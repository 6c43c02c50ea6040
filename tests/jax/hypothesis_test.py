"""Operations drawn at random, under transformations drawn at random.

Each example is an operation, shapes, a dtype, attributes, up to three
transformations, one around the other, and where the devices of a mesh have the
operands. The handlers must agree with the operation's reference under the same
transformations on one device, whatever they are.
"""

import functools

import common
import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

from xla_ffi_kit import FfiOp
from xla_ffi_kit.ops import modular_add, relu
from xla_ffi_kit.ops.rms_norm import (
    rms_norm_bwd_op,
    rms_norm_fwd_op,
    rms_norm_op,
    rms_norm_weight_bwd_op,
)

jax.config.update("jax_enable_x64", True)

# Allowed error, relative to the largest value of a result and to 1; ten times
# that where a derivative is taken.
TOLERANCES = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 2e-5,
    "float64": 1e-12,
    "complex64": 2e-5,
    "complex128": 1e-12,
}
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]

batches = st.lists(st.integers(0, 4), max_size=2).map(tuple)


def accumulation(dtype):
    """The dtype of the scale that belongs to x's dtype."""
    return "float64" if dtype == "float64" else "float32"


# --- Operations: (operation, attributes, [(shape, dtype) of each operand]) ----


@st.composite
def relu_calls(draw):
    shape = draw(st.lists(st.integers(0, 5), max_size=4).map(tuple))
    real = [name for name in TOLERANCES if "complex" not in name]
    return relu, {}, [(shape, draw(st.sampled_from(real + SIGNED)))]


@st.composite
def modular_add_calls(draw):
    batch = draw(batches)
    dtype = draw(st.sampled_from([*TOLERANCES, *SIGNED, *UNSIGNED]))
    n, m = draw(st.integers(1, 5)), draw(st.integers(0, 9))
    return modular_add, {}, [((*batch, n), dtype), ((*batch, m), dtype)]


@st.composite
def rms_norm_calls(draw):
    shape = (*draw(batches), draw(st.integers(1, 33)))
    real = [name for name in TOLERANCES if "complex" not in name]
    dtype = draw(st.sampled_from(real))
    x, w = (shape, dtype), (shape[-1:], dtype)
    scale = (shape[:-1], accumulation(dtype))
    with_eps = [
        (rms_norm_op, [x]),
        (rms_norm_op, [x, w]),
        (rms_norm_op, [x, w, x]),
        (rms_norm_fwd_op, [x]),
        (rms_norm_fwd_op, [x, w, x]),
        (rms_norm_bwd_op, [x, x]),
    ]
    with_scale = [
        (rms_norm_bwd_op, [x, x, scale]),
        (rms_norm_weight_bwd_op, [x, x, scale, w]),
    ]
    calls = with_eps + with_scale
    at = draw(st.integers(0, len(calls) - 1))
    op, operands = calls[at]
    if at >= len(with_eps):
        return op, {}, operands
    return op, {"eps": draw(st.sampled_from([1e-6, 1e-3, 1.0]))}, operands


def sum_of_rows(rows, shape):
    """The sum over all axes in front of those of a shape."""
    return jnp.sum(rows.reshape(-1, *shape), 0)


def shared(reference, **rules):
    """An operation that shares w and v, with rules that know no batch axes."""
    return FfiOp(
        "test.shared",
        reference,
        kernel_axes=1,
        handlers={"cpu": lambda *operands: reference(*operands)},
        shared=("w", "v"),
        **rules,
    )


SHARED = [
    shared(
        lambda x, w, v: x * w + x[..., ::-1] * v,
        linear=("w", "v"),
        transpose=lambda ct, x, w, v: (
            sum_of_rows(ct * x, x.shape[-1:]),
            sum_of_rows(ct * x[..., ::-1], x.shape[-1:]),
        ),
    ),
    shared(
        lambda x, w, v: x * v * w,
        linear="w",
        transpose=lambda ct, x, w, v: sum_of_rows(ct * x * v, x.shape[-1:]),
    ),
    shared(lambda x, w, v: jnp.sum(x * w, -1) * jnp.sin(v[..., 0])),
]


@st.composite
def shared_calls(draw):
    n = draw(st.integers(1, 5))
    x, w = ((*draw(batches), n), "float64"), ((n,), "float64")
    return draw(st.sampled_from(SHARED)), {}, [x, w, w]


# --- Transformations: from a function and its operands to another -------------


def jitted(draw, f, operands):
    return lambda g: jax.jit(g), operands


def scanned(draw, f, operands):
    def scan(g):
        def step(_, row):
            return None, g(*row)

        return lambda *xs: jax.lax.scan(
            step, None, tuple(x[None] for x in xs), 1
        )[1]

    return scan, operands


def rematerialized(draw, f, operands):
    return lambda g: jax.checkpoint(g), operands


def mapped(draw, f, operands):
    size = draw(st.integers(1, 4))
    axes = [
        draw(st.none() | st.integers(-len(shape) - 1, len(shape)))
        for shape, _ in operands
    ]
    if all(axis is None for axis in axes):
        axes[0] = 0
    batched = []
    for (shape, dtype), axis in zip(operands, axes, strict=True):
        if axis is not None:
            at = axis % (len(shape) + 1)
            shape = (*shape[:at], size, *shape[at:])
        batched.append((shape, dtype))
    results = jax.tree.leaves(jax.eval_shape(f, *map(abstract, operands)))
    rank = min(len(result.shape) for result in results)
    out_axis = draw(st.integers(-rank - 1, rank))
    return lambda g: jax.vmap(g, tuple(axes), out_axis), batched


def pushed_forward(draw, f, operands):
    n = len(operands)
    return (
        lambda g: lambda *xs: jax.jvp(g, xs[:n], xs[n:]),
        [*operands, *operands],
    )


def pulled_back(draw, f, operands):
    n = len(operands)
    results = jax.eval_shape(f, *map(abstract, operands))
    leaves, structure = jax.tree.flatten(results)

    def pull(g):
        def pulled(*xs):
            cotangents = jax.tree.unflatten(structure, xs[n:])
            return jax.vjp(g, *xs[:n])[1](cotangents)

        return pulled

    return pull, [*operands, *((r.shape, r.dtype.name) for r in leaves)]


DERIVATIVES = (pushed_forward, pulled_back)


def abstract(operand):
    return jax.ShapeDtypeStruct(*operand)


def make(operand, random):
    """Values away from 0, where derivatives are large or not there at all."""
    shape, dtype = operand

    def values():
        size = random.uniform(0.5, 2, shape)
        return (
            size if dtype in UNSIGNED else size * random.choice([-1, 1], shape)
        )

    if dtype in SIGNED + UNSIGNED:
        return jax.numpy.asarray((10 * values()).astype(dtype))
    x = values() + 1j * values() if "complex" in dtype else values()
    return jax.numpy.asarray(x, dtype)


def placed(draw, x):
    """On one device, or split over axes of a mesh that has four."""
    over = draw(st.sampled_from(["d", "e", ("d", "e"), None]))
    pieces = 4 if isinstance(over, tuple) else 2
    axes = [i for i, n in enumerate(x.shape) if n % pieces == 0]
    if over is None or not axes or not x.size:  # jax 0.8 shards no empty arrays
        return x
    leading = [None] * draw(st.sampled_from(axes))
    return common.on(common.mesh_of("Auto"), x, *leading, over)


def check(calls, data):
    op, attributes, operands = data.draw(calls)
    handler = functools.partial(op, **attributes)
    reference = functools.partial(handler, implementation="reference")
    dtype = operands[-1][1]
    transformations = [jitted, mapped, mapped]
    if dtype in TOLERANCES:
        transformations += [*DERIVATIVES, scanned, rematerialized]
    used = data.draw(st.lists(st.sampled_from(transformations), max_size=3))
    f, g = handler, reference
    for transformation in used:
        transform, operands = transformation(data.draw, g, operands)
        f, g = transform(f), transform(g)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    xs = [make(operand, random) for operand in operands]
    got, want = f(*[placed(data.draw, x) for x in xs]), g(*xs)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    derivatives = sum(t in DERIVATIVES for t in used)
    tolerance = TOLERANCES.get(dtype, 0) * 10**derivatives
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        wide = "complex128" if "complex" in b.dtype.name else "float64"
        a, b = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        bound = tolerance * max(1.0, np.abs(b).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=0, atol=bound)


# Always the same examples: a failure is one for everybody.
bounded = functools.partial(
    hypothesis.settings,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.mark.parametrize(
    "calls", [relu_calls, modular_add_calls, rms_norm_calls, shared_calls]
)
@bounded(max_examples=20)
@hypothesis.given(data=st.data())
def test_like_the_reference(calls, data):
    check(calls(), data)
