"""The per-operation switch to the reference."""

import functools
import os
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import operation, run_python

import xla_ffi_kit
from xla_ffi_kit.ops.rms_norm import rms_norm_op


def test_switch_by_context():
    x = jnp.ones((2, 3))
    both = jax.jit(lambda x: xla_ffi_kit.rms_norm(xla_ffi_kit.relu(x)))
    text = both.lower(x).as_text()
    assert "@xla_ffi_kit.relu(" in text and "@xla_ffi_kit.rms_norm(" in text
    with xla_ffi_kit.use_reference("relu"):
        # The same jitted function, traced anew.
        text = both.lower(x).as_text()
        assert "@xla_ffi_kit.relu(" not in text
        assert "@xla_ffi_kit.rms_norm(" in text
        with xla_ffi_kit.use_reference("xla_ffi_kit.rms_norm"):
            assert "custom_call" not in both.lower(x).as_text()
        with xla_ffi_kit.use_reference():
            assert "custom_call" not in both.lower(x).as_text()
    assert "@xla_ffi_kit.relu(" in both.lower(x).as_text()


def twice_of(**rules):
    """It takes more dtypes than one, so that a number's type stays weak."""
    return operation(lambda x: 2 * x, dtypes=["f32", "bf16"], **rules)


TWICES = {
    "the reference's": twice_of(),
    "jvp=": twice_of(jvp=lambda p, t: (2 * p[0], 2 * t[0])),
    "vjp=": twice_of(vjp=(lambda x: (2 * x, None), lambda _, ct: 2 * ct)),
    "linear=": twice_of(linear="x", transpose=lambda ct, x: 2 * ct),
    "a function": twice_of(handlers={"cpu": lambda x: 2 * x}),
}


@pytest.mark.parametrize("rule", TWICES)
def test_results_are_strong_whatever_runs(rule):
    """The dtype of what is computed with them depends on it."""
    op = TWICES[rule]
    by_reference = functools.partial(op, implementation="reference")

    def beside(f):
        return [y.dtype.name for y in jax.tree.leaves((f(2.0), HALF + f(2.0)))]

    def both(f):
        found = beside(f) + beside(jax.vmap(f, axis_size=2, in_axes=None))
        if rule != "vjp=":
            found += beside(lambda x: jax.jvp(f, (x,), (1.0,))[0])
        return found + beside(lambda x: jax.vjp(f, x)[0])

    for f in (op, by_reference):
        assert set(both(f)) == {"float32"}
    with xla_ffi_kit.use_reference():
        assert set(both(op)) == {"float32"}


HALF = jnp.bfloat16(0.5)
X, ROW = jnp.ones((3, 4)), jnp.ones(4)
PUBLIC = {
    "relu": (xla_ffi_kit.relu, (X,)),
    "modular_add": (xla_ffi_kit.modular_add, (X[..., :2], X)),
    "rms_norm": (xla_ffi_kit.rms_norm, (X,)),
    "rms_norm of a weight": (xla_ffi_kit.rms_norm, (X, ROW)),
    "rms_norm of a residual": (
        lambda x, w, h: xla_ffi_kit.rms_norm(x, w, residual=h),
        (X, ROW, X),
    ),
    "rms_norm of a residual in place": (
        lambda x, w, h: xla_ffi_kit.rms_norm(x, w, residual=h, in_place=True),
        (X, ROW, X),
    ),
}


def programs(function, arguments):
    """The function under JAX's transformations: name -> function, arguments."""

    def loss(*values):
        leaves = jax.tree.leaves(function(*values))
        return sum((y**2).sum() for y in leaves)

    every = tuple(range(len(arguments)))

    def second(*values):
        gradients = jax.grad(loss, every)(*values)
        return sum((g**2).sum() for g in gradients)

    stacked = tuple(jnp.stack([a, a]) for a in arguments)
    return {
        "forward": (function, arguments),
        "jvp": (lambda *a: jax.jvp(function, a, a), arguments),
        "grad of grad": (jax.grad(second, every), arguments),
        "vmap of grad": (jax.vmap(jax.grad(loss, every)), stacked),
        "remat": (jax.grad(jax.checkpoint(loss), every), arguments),
    }


def targets(lowered):
    return set(re.findall(r"@(xla_ffi_kit\.\w+)", lowered.as_text()))


@pytest.mark.parametrize("case", PUBLIC)
def test_a_public_name_reaches_all_that_its_function_runs(case):
    function, arguments = PUBLIC[case]
    name = case.partition(" ")[0]
    for what, (program, given) in programs(function, arguments).items():
        traced = jax.jit(program).trace(*given)
        if what == "forward":
            assert targets(traced.lower()), what
        with xla_ffi_kit.use_reference(name):
            left = targets(jax.jit(program).lower(*given))
            assert not left, (what, left)
            # Traced without the switch, and lowered with it.
            left = targets(traced.lower())
            assert not left, (what, left)


def test_a_backward_pass_is_switched_by_itself():
    """That of `jax.vjp`, whose forward pass ran the kernel."""
    function, arguments = PUBLIC["rms_norm of a weight"]
    y, pull_back = jax.vjp(function, *arguments)
    assert targets(jax.jit(pull_back).lower(y))
    with xla_ffi_kit.use_reference("rms_norm"):
        assert not targets(jax.jit(pull_back).lower(y))
    assert targets(jax.jit(pull_back).lower(y))


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ("rms_norm, other", ["xla_ffi_kit.modular_add", "xla_ffi_kit.relu"]),
        ("*", []),
    ],
)
def test_the_environment_reaches_the_same(names, left):
    code = """if True:
        import jax
        from switch_test import PUBLIC, programs, targets
        found = set()
        for function, arguments in PUBLIC.values():
            for program, given in programs(function, arguments).values():
                found |= targets(jax.jit(program).lower(*given))
        print(*sorted(found))
    """
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, *sys.path])
    done = run_python(code, XLA_FFI_KIT_REFERENCE=names, PYTHONPATH=path)
    assert done.stdout.split() == left, done.stderr


def test_an_operation_of_ones_own_is_part_of_a_function():
    op = xla_ffi_kit.FfiOp(
        "test.scale_fwd",
        jax.nn.relu,
        kernel_axes=0,
        handlers={"cpu": "xla_ffi_kit.relu"},
        libraries=xla_ffi_kit.ops.LIBRARIES,
        advanced=xla_ffi_kit.Advanced(part_of="test.scale"),
    )
    for name in ("scale", "test.scale", "scale_fwd"):
        with xla_ffi_kit.use_reference(name):
            assert not targets(jax.jit(op).lower(X))
            np.testing.assert_array_equal(op(X), X)
    assert targets(jax.jit(op).lower(X))


def test_switch_checks_as_the_kernel_does():
    with xla_ffi_kit.use_reference(), pytest.raises(ValueError, match="rank 0"):
        rms_norm_op(jnp.float32(1), eps=1e-6)
