"""accelerate: switched on, off, by name, and what it leaves alone."""

import os
import subprocess
import sys
import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import accelerate, accelerated
from xla_ffi_kit.accelerate import _jax_rules, switch

X = np.array([3.0, 1, 2], np.float32)


@pytest.fixture(autouse=True)
def _off():
    accelerate(False)
    yield
    accelerate(False)


def is_on(f=jnp.sort, x=X):
    return "xla_ffi_kit.sort" in jax.jit(f).lower(x).as_text()


def test_on_and_off():
    f = jax.jit(jnp.sort)
    assert not is_on()
    f(X)
    accelerate()
    assert "sort" in accelerated()
    assert is_on()
    # The same function object: what it was compiled to is forgotten.
    assert "xla_ffi_kit.sort" in f.lower(X).compile().as_text()
    np.testing.assert_array_equal(f(X), np.sort(X))
    accelerate(False)
    assert accelerated() == ()
    assert not is_on()


def test_compiled_functions_are_forgotten(monkeypatch):
    calls = []
    monkeypatch.setattr(jax, "clear_caches", lambda: calls.append(1))
    accelerate("sort")
    accelerate("sort")  # changes nothing
    assert len(calls) == 1
    accelerate(False)
    assert len(calls) == 2


def test_context_managers_nest_and_restore():
    with accelerate("sort"):
        with accelerate():
            assert is_on()
        assert accelerated() == ("sort",)
        with pytest.raises(KeyError), accelerate(False):
            assert not is_on()
            raise KeyError
        assert is_on()
    assert not is_on()


@pytest.mark.parametrize("names", [("sorting",), (False, "sort"), (True,)])
def test_unknown_names(names):
    with pytest.raises(ValueError, match="accelerate: names: expected any of"):
        accelerate(*names)
    assert accelerated() == ()


def test_uncovered_sorts_stay_jax_own():
    accelerate()
    assert not is_on(x=X.astype(np.complex64))
    assert not is_on(x=X[:1])
    assert not is_on(lambda x: jax.lax.sort(x, is_stable=False))
    # Few integers XLA sorts as soon as a call would.
    assert not is_on(x=np.arange(32)) and is_on(x=np.arange(33))
    assert not is_on(jnp.argsort, np.arange(5)) and is_on(jnp.argsort, X)
    keys = jax.random.split(jax.random.key(0), 3)  # an extended dtype
    f = jax.jit(lambda x, k: jax.lax.sort((x, jax.random.key_data(k)[:, 0])))
    assert jax.tree.leaves(f(X, keys))[0].tolist() == [1, 2, 3]


def test_exported_programs_do_not_need_the_kit():
    accelerate()
    n, m = jax.export.symbolic_shape("n, m")
    shape = jax.ShapeDtypeStruct((n, m), np.float32)
    exported = jax.export.export(jax.jit(jnp.sort))(shape)
    assert "xla_ffi_kit.sort" not in exported.mlir_module()
    np.testing.assert_array_equal(exported.call(X[None]), [[1, 2, 3]])
    exported = jax.export.export(jax.jit(jnp.sort))(X)
    assert "xla_ffi_kit.sort" not in exported.mlir_module()


def test_changed_primitive_is_left_alone(monkeypatch):
    monkeypatch.setattr(switch, "_changed", {})
    monkeypatch.setattr(
        switch._RULES["sort"], "PARAMETERS", (frozenset({"axis"}),)
    )
    accelerate()
    with pytest.warns(RuntimeWarning, match="sort stays JAX's own"):
        assert not is_on()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one warning is enough
        assert not is_on(lambda x: jnp.sort(x) + 1)
    np.testing.assert_array_equal(jnp.sort(X), np.sort(X))


@pytest.mark.parametrize("what", ["_lowerings", "_platform_specific_lowerings"])
def test_changed_tables_are_left_alone(monkeypatch, what):
    monkeypatch.setattr(switch, "_changed", {})
    monkeypatch.delattr(_jax_rules.mlir, what)
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        accelerate("sort")
    assert accelerated() == ()


def test_missing_library_changes_nothing(monkeypatch):
    missing = xla_ffi_kit.HandlerLibrary("/nowhere/kit.so")
    monkeypatch.setattr(switch, "KIT_LIBRARIES", (missing,))
    with pytest.raises(xla_ffi_kit.HandlerLibraryError, match="nowhere"):
        accelerate()
    assert accelerated() == ()


def test_threads_sort_at_once():
    accelerate()
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


def test_switching_starts_no_backend():
    code = (
        "import xla_ffi_kit; xla_ffi_kit.accelerate();"
        "from jax._src import xla_bridge;"
        "assert not xla_bridge._backends;"
        "import jax.numpy as jnp; assert jnp.sort(jnp.array([2, 1]))[0] == 1"
    )
    path = os.pathsep.join(sys.path)
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
