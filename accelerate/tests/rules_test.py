"""accelerate: a rule names each parameter of its primitive, or leaves it."""

import functools

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from accelerate_data import definite, matrices, off

import xla_ffi_accelerate
from xla_ffi_accelerate import _lowering, _self_tests, registry
from xla_ffi_accelerate._rule import Rule
from xla_ffi_accelerate._scopes import Block, Change

_off = pytest.fixture(autouse=True)(off)

ROWS = np.random.default_rng(0).standard_normal((9, 2048), np.float32)
SMALL = matrices(3)
PAIRS = ROWS[:, :160].reshape(90, 4, 4)
KEY = jax.random.key(0)


def scanned(f):
    """`f` of each of some arrays, in a loop."""
    return lambda *xs: jax.lax.scan(lambda c, x: (c, f(*x)), 0, xs)[1]


def convolved(x, k):
    return jax.lax.conv_general_dilated(
        *(x, k, (1, 1), "SAME"),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


def pooled(x):
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(
        x, -np.inf, jax.lax.max, window, window, "VALID"
    ).sum()


def hashed(key):
    return jax.random.key_data(jax.random.split(key, 3))


def permuted(pivots):
    return jax.lax.linalg.lu_pivots_to_permutation(pivots, 3)


lower = functools.partial(jax.lax.linalg.triangular_solve, lower=True)
left = functools.partial(lower, left_side=True)
IMAGES = ROWS[:, :576].reshape(2, 9, 9, 32)
# Name -> functions and arguments that together meet each rule of the name.
PROGRAMS = {
    "argmax": [(lambda x: jnp.argmax(x, 1), ROWS)],
    "argmin": [(lambda x: jnp.argmin(x, 1), ROWS)],
    "conv_general_dilated": [(convolved, IMAGES, np.ones((3, 3, 1, 32), "f"))],
    "cumsum": [
        (lambda x: jnp.cumsum(x, 1), ROWS),
        (lambda x: jnp.cumsum(x, 1), ROWS.astype(int)),
    ],
    "dot_general": [(jnp.matmul, PAIRS, PAIRS)],
    "linalg": [
        (jax.lax.linalg.lu, SMALL),
        (jnp.linalg.cholesky, definite(3)),
        (lower, SMALL, SMALL),
        (left, SMALL[0], np.ones((3, 8192), "f")),
        (jnp.linalg.qr, np.tile(SMALL, (7, 1, 1))),
        (scanned(jax.lax.linalg.lu), SMALL),
        (scanned(jnp.linalg.cholesky), definite(3)),
        (scanned(left), SMALL, SMALL),
        (scanned(jnp.linalg.qr), SMALL),
        (scanned(permuted), np.zeros((9, 3), np.int32)),
    ],
    "loops": [(jnp.matmul, *[ROWS[:8, :8]] * 2)],
    "random": [
        (lambda key: jax.random.bits(key, (99,)), KEY),
        (hashed, KEY),
        (scanned(hashed), jax.random.split(KEY, 9)),
    ],
    "select_and_scatter_add": [(jax.grad(pooled), IMAGES)],
    "sort": [(jnp.sort, ROWS), (scanned(jnp.sort), ROWS[:, :5])],
    "top_k": [
        (lambda x: jax.lax.top_k(x, 300), ROWS),
        (scanned(lambda x: jax.lax.top_k(x, 3)), ROWS[:, :5]),
    ],
}


class Record:
    """The rules that programs are lowered to, and why others are not."""

    def __init__(self):
        self.rules = set()
        self.reasons = []

    def others(self):
        return ()

    def add(self, call, taken):
        self.reasons += call.reasons
        if taken is not None:
            self.rules.add(taken[1])


def met(name):
    """What the programs of a name are lowered to."""
    record = Record()
    block = Block(Change(record=record))
    with xla_ffi_accelerate.enabled(name), block:
        for f, *arguments in PROGRAMS[name]:
            jax.jit(lambda *x, f=f: f(*x)).lower(*arguments)
    return record


def is_verified(rule):
    """Whether this release of XLA has the order of the rule."""
    known = _self_tests.verified(rule.test) if rule.test else {}
    return known.get(jaxlib.__version__, {}) is not None


@pytest.mark.parametrize("name", registry.RULES)
def test_an_invented_parameter_leaves_every_operation_to_jax(name, monkeypatch):
    """As a newer JAX may have it; JAX's own lowering does not see it here."""
    want = {rule for rule in registry.RULES[name] if is_verified(rule)}
    assert met(name).rules == want
    own = _lowering._Lowering._choose

    def choose(self, setting, ctx, operands, parameters):
        more = {**parameters, "invented": None}
        return own(self, setting, ctx, operands, more)

    monkeypatch.setattr(_lowering._Lowering, "_choose", choose)
    monkeypatch.setattr(_lowering, "_reasons", {})
    jax.clear_caches()
    with pytest.warns(RuntimeWarning, match="its parameter invented"):
        record = met(name)
    assert not record.rules
    said = "the rule does not know its parameter invented"
    assert set(record.reasons) == {said}
    assert _lowering.reasons(name) == [said]


@pytest.mark.parametrize("name", registry.RULES)
def test_an_invented_parameter_is_a_reason(name):
    """Also of what is in a loop, which is looked at before it is lowered."""
    for rule in registry.RULES[name]:
        assert "invented" in rule.reason([], {"invented": None})


@pytest.mark.parametrize("which", ["covers", "call", "partitions"])
def test_a_rule_that_takes_any_parameter_is_refused(which):
    functions = {"covers": lambda x: None, "call": lambda x: x}
    functions[which] = lambda x, **_: x
    with pytest.raises(TypeError, match=r"takes \*\*_: a function of a rule"):
        Rule("jax.lax.tan_p", **functions)


def apply_in_a_loop(x):
    def step(x, i):
        return x.at[i].apply(jnp.sin), None

    return jax.lax.scan(step, x, jnp.arange(8).reshape(4, 2))[0]


def test_a_function_of_ones_own_in_a_scatter():
    """A parameter that a rule had not looked at; it wrote zeros."""
    x = np.linspace(1, 2, 8, dtype=np.float32)
    with xla_ffi_accelerate.enabled(exact=False):
        got = jax.jit(apply_in_a_loop)(x)
    np.testing.assert_allclose(got, np.sin(x), rtol=1e-6)
