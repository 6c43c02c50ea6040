"""accelerate: switched on, off, by name, and what it leaves alone."""

import dataclasses
import threading
import warnings

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from accelerate_data import off, own_cache
from jax.interpreters import mlir

import xla_ffi_kit
from xla_ffi_accelerate import (
    _jax,
    _lowering,
    _self_tests,
    disable,
    enable,
    enabled,
    registry,
    status,
    switch,
)
from xla_ffi_accelerate._rule import Rule, SelfTest
from xla_ffi_accelerate.rules.handlers import sorting

X = np.array([3.0, 1, 2] * 7, np.float32)


_cache = pytest.fixture(autouse=True)(own_cache)


_off = pytest.fixture(autouse=True)(off)


def is_on(f=jnp.sort, x=X):
    return "xla_ffi_accelerate.sort" in jax.jit(f).lower(x).as_text()


def test_on_and_off():
    f = jax.jit(jnp.sort)
    assert not is_on()
    f(X)
    enable()
    assert "sort" in status()
    assert is_on()
    # The same function object: what it was compiled to is forgotten.
    assert "xla_ffi_accelerate.sort" in f.lower(X).compile().as_text()
    np.testing.assert_array_equal(f(X), np.sort(X))
    disable()
    assert status() == {}
    assert not is_on()


def test_jax_tables_stay_as_they_are():
    enable()
    table = dict(mlir._platform_specific_lowerings["cpu"])
    enable()
    disable()
    with enabled("top_k"):
        enable("sort")
    assert mlir._platform_specific_lowerings["cpu"] == table


@pytest.mark.parametrize(
    "names", [("gamma",), ("cumulative",), (False, "sort"), (True,), (False,)]
)
def test_unknown_names(names):
    with pytest.raises(ValueError) as caught:
        enable(*names)
    assert str(caught.value) == (
        f"enable: names: {names[0]!r} is no name of a rule, and JAX's own code "
        "runs; expected any of argmax, argmin, conv_general_dilated, cumsum, "
        "dot_general, linalg, loops, random, select_and_scatter_add, sort, "
        "top_k"
    )
    assert status() == {}


def test_uncovered_sorts_stay_jax_own():
    enable()
    assert not is_on(x=X.astype(np.complex64))
    assert not is_on(x=X[:1])
    # Few elements XLA sorts as soon as a call would, whatever their rows.
    assert not is_on(x=X[:15]) and is_on(x=X[:16])
    assert is_on(x=np.tile(X[:2], (8, 1)))
    assert not is_on(x=np.arange(32)) and is_on(x=np.arange(96))
    assert not is_on(jnp.argsort, X[:16]) and is_on(jnp.argsort, X[:17])
    keys = jax.random.split(jax.random.key(0), X.size)  # an extended dtype
    f = jax.jit(lambda x, k: jax.lax.sort((x, jax.random.key_data(k)[:, 0])))
    assert jax.tree.leaves(f(X, keys))[0].tolist() == sorted(X)


def test_changed_primitive_is_left_alone(monkeypatch):
    monkeypatch.setattr(_lowering, "_reasons", {})
    covers = lambda *avals, dimension, is_stable, num_keys, axis: None  # noqa
    changed = [dataclasses.replace(sorting.SORT, covers=covers)]
    monkeypatch.setitem(registry.RULES, "sort", changed)
    enable()
    with pytest.warns(RuntimeWarning, match="it has no parameter axis"):
        assert not is_on()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one warning is enough
        assert not is_on(lambda x: jnp.sort(x) + 1)
    np.testing.assert_array_equal(jnp.sort(X), np.sort(X))


@pytest.mark.parametrize("what", ["_lowerings", "_platform_specific_lowerings"])
def test_changed_tables_are_left_alone(monkeypatch, what):
    monkeypatch.setattr(_lowering, "_reasons", {})
    monkeypatch.setattr(_lowering, "_primitives", {})
    tables = mlir._platform_specific_lowerings
    monkeypatch.delitem(tables["cpu"], jax.lax.sort_p, raising=False)
    monkeypatch.delattr(_jax.mlir, what)
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        enable("sort")
    assert status() == {}


def multiplied(factor=2, test=None, priority=0):
    """Plain HLO in the place of `jax.lax.tan`, close by no bound at all."""
    return Rule(
        "jax.lax.tan_p",
        lambda x, *, accuracy=None: None,
        lambda x: x * factor,
        exact=False,
        partitions=True,
        test=test,
        priority=priority,
    )


def with_self_test(verdict):
    """A rule, and what counts the calls of its test."""
    calls = []

    def run(rule):
        calls.append(rule)
        return {} if verdict else None

    return multiplied(test=SelfTest("a test", run)), calls


def test_names_that_are_close():
    close = "linalg loops"
    with enabled(exact=False):
        found = [name for name, kind in status().items() if kind == "close"]
    assert sorted(found) == close.split()
    with enabled():
        assert not set(status()) & set(found)


def test_close_rules_are_asked_for(monkeypatch):
    monkeypatch.setitem(registry.RULES, "tan", [multiplied()])
    own = jnp.tan(X)
    enable()
    assert "tan" not in status() and "cumsum" in status()
    np.testing.assert_array_equal(jnp.tan(X), own)
    assert switch.state()["tan"] == "off, close"
    with enabled("tan"):
        assert status()["tan"] == "close"
        assert switch.state()["tan"] == "on, close"
        np.testing.assert_array_equal(jnp.tan(X), X * 2)
    disable()
    with enabled(exact=False):
        assert status().keys() == registry.RULES.keys()
    np.testing.assert_array_equal(jnp.tan(X), own)


def test_plain_hlo_is_exported(monkeypatch):
    monkeypatch.setitem(registry.RULES, "tan", [multiplied()])
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n,), np.float32)
    with enabled("tan"):
        exported = jax.export.export(jax.jit(jnp.tan))(shape)
    np.testing.assert_array_equal(exported.call(X), X * 2)


def test_the_rule_of_higher_priority_is_used_and_undone(monkeypatch):
    monkeypatch.setitem(registry.RULES, "tan3", [multiplied(3, priority=1)])
    monkeypatch.setitem(registry.RULES, "tan", [multiplied()])
    own = jnp.tan(X)
    enable("tan")
    with enabled("tan3"):
        np.testing.assert_array_equal(jnp.tan(X), X * 3)
        enable("tan3", "sort")
    np.testing.assert_array_equal(jnp.tan(X), X * 2)
    disable()
    np.testing.assert_array_equal(jnp.tan(X), own)


@pytest.mark.parametrize("verdict", [True, False])
def test_unknown_releases_are_tested_once(monkeypatch, verdict):
    monkeypatch.setattr(_lowering, "_reasons", {})
    rule, calls = with_self_test(verdict)
    monkeypatch.setitem(registry.RULES, "tan", [rule])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            enable("tan")
            jax.jit(lambda x: jnp.tan(x)).lower(X)
            assert ("tan" in status()) == verdict
            disable()
    assert len(calls) == 1
    said = [str(w.message) for w in caught]
    assert len(said) == (not verdict)
    assert all("tan stays JAX's own" in message for message in said)
    assert ("another order" in switch.state()["tan"]) == (not verdict)


def test_verified_releases_are_not_tested(monkeypatch):
    rule, calls = with_self_test(False)
    verified = {"a test": {jaxlib.__version__: {}}}
    monkeypatch.setattr(_self_tests, "VERIFIED", verified)
    monkeypatch.setitem(registry.RULES, "tan", [rule])
    enable("tan")
    np.testing.assert_array_equal(jnp.tan(X), X * 2)
    assert not calls and status() == {"tan": "close"}


def test_a_name_is_on_if_one_of_its_rules_is(monkeypatch):
    monkeypatch.setattr(_lowering, "_reasons", {})
    rules = [with_self_test(False)[0], multiplied()]
    monkeypatch.setitem(registry.RULES, "tan", rules)
    with pytest.warns(RuntimeWarning, match="tan stays JAX's own"):
        enable("tan")
        np.testing.assert_array_equal(jnp.tan(X), X * 2)
    assert status() == {"tan": "close"}
    assert switch.state()["tan"].startswith("on, close; JAX's own stays: XLA")


def test_missing_primitive(monkeypatch):
    monkeypatch.setattr(_lowering, "_reasons", {})
    monkeypatch.delattr(jax.lax, "top_k_p")
    with pytest.warns(RuntimeWarning, match="jax.lax has no primitive top_k_p"):
        enable("top_k")
    assert status() == {}
    assert "no primitive" in switch.state()["top_k"]


def test_a_primitive_that_jax_does_not_lower():
    assert _jax.primitive("sort") is jax.lax.sort_p
    with pytest.raises(_jax.ChangedJaxError, match="no primitive sorts"):
        _jax.primitive("sorts")


def test_missing_library_changes_nothing(monkeypatch):
    missing = xla_ffi_kit.HandlerLibrary("/nowhere/kit.so")
    monkeypatch.setattr(switch, "CPU_LIBRARY", missing)
    with pytest.raises(xla_ffi_kit.errors.HandlerLibraryError, match="nowhere"):
        enable()
    assert status() == {}


def test_threads_sort_at_once():
    enable()
    x = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)
    want, wrong = np.sort(x), []

    def work(f):
        for _ in range(5):
            if not np.array_equal(f(x), want):
                wrong.append(1)

    # One after the other in a program, too: all want the pool's threads.
    f = jax.jit(lambda x: jnp.sort(jnp.roll(jnp.sort(jnp.roll(x, 7)), 9)))
    threads = [threading.Thread(target=work, args=(f,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
