"""accelerate: rules test themselves, whatever the caller has configured."""

import contextlib
import dataclasses
import functools
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import off, own_cache, python, self_test
from jax.sharding import AxisType

from xla_ffi_accelerate import (
    _comparisons,
    _kept_tests,
    _lowering,
    _processor,
    _self_tests,
    disable,
    enable,
    enabled,
    registry,
    status,
)

# Those of dot_general depend on its sizes.
TESTED = {
    name: rule
    for name, rules in registry.RULES.items()
    for rule in rules
    if rule.test and name != "dot_general"
}
MATRICES = np.random.default_rng(0).standard_normal((64, 5, 4), np.float32)


@contextlib.contextmanager
def config(name, value):
    """For the whole process."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


def explicit_mesh():
    return jax.set_mesh(
        jax.make_mesh((2,), ("i",), axis_types=(AxisType.Explicit,))
    )


# What a caller may have configured, on its thread and for the process.
CONFIGURATIONS = {
    "none": contextlib.nullcontext,
    "transfer_guard": lambda: jax.transfer_guard("disallow_explicit"),
    "transfer_guard, global": lambda: config("jax_transfer_guard", "disallow"),
    "disable_jit": jax.disable_jit,
    "disable_jit, global": lambda: config("jax_disable_jit", True),
    "default_device": lambda: jax.default_device(jax.devices("cpu")[1]),
    "default_device, global": lambda: config(
        "jax_default_device", jax.devices("cpu")[1]
    ),
    "x64": lambda: jax.enable_x64(True),
    "x64, global": lambda: config("jax_enable_x64", True),
    "precision": lambda: jax.default_matmul_precision("BF16_BF16_F32"),
    "precision, global": lambda: config(
        "jax_default_matmul_precision", "BF16_BF16_F32"
    ),
    "platforms": lambda: config("jax_platforms", "cpu"),
    "promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "rank promotion, global": lambda: config(
        "jax_numpy_rank_promotion", "raise"
    ),
    "leaks": jax.checking_leaks,
    "mesh": explicit_mesh,
}


_cache = pytest.fixture(autouse=True)(own_cache)


_off = pytest.fixture(autouse=True)(off)


@pytest.fixture
def unverified(monkeypatch):
    """As on a release of jaxlib that is not known yet."""
    monkeypatch.setattr(_self_tests, "VERIFIED", {})
    with forgotten():
        yield


@contextlib.contextmanager
def forgotten():
    for found in (_self_tests._found, _lowering._reasons):
        found.clear()
    yield
    for found in (_self_tests._found, _lowering._reasons):
        found.clear()


def replace_test(monkeypatch, name, run):
    """Gives the tested rule of a name another test."""
    rules = [
        dataclasses.replace(r, test=dataclasses.replace(r.test, run=run))
        if r.test
        else r
        for r in registry.RULES[name]
    ]
    monkeypatch.setitem(registry.RULES, name, rules)


@pytest.mark.parametrize("rule", TESTED)
def test_every_self_test_finds_the_same(rule):
    rule = TESTED[rule]
    want = self_test(rule)
    assert want is not None or rule.test is _comparisons.CONVOLVED
    with contextlib.ExitStack() as stack:
        # Those of the process first: what they restore is read from there.
        for name in sorted(CONFIGURATIONS, key=lambda n: "global" not in n):
            stack.enter_context(CONFIGURATIONS[name]())
        assert self_test(rule) == want


def orders():
    """Those of small products of two sizes."""
    (rule,) = [r for r in registry.RULES["dot_general"] if r.target]
    sizes = (5, 4, 5), (4, 4, 4)
    return [rule.test.run(rule, np.dtype("f"), *s) for s in sizes]


@pytest.fixture(scope="module")
def own_orders():
    jax.devices()  # the backend has to be there
    return orders()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_under_any_configuration(unverified, own_orders, name):
    """Orders are the same, and rules are switched on and off."""
    assert own_orders[1] is not None
    with CONFIGURATIONS[name]():
        assert orders() == own_orders
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with CONFIGURATIONS[name](), enabled():
            on = set(status())
    assert on >= {"sort", "cumsum", "dot_general"}
    assert status() == {}
    assert "xla_ffi_kit" not in jax.jit(jnp.sort).lower(np.ones(40)).as_text()


def test_small_products_without_jit():
    want = MATRICES @ MATRICES.swapaxes(1, 2)
    with enabled("dot_general"), jax.disable_jit():
        got = jnp.asarray(MATRICES) @ MATRICES.swapaxes(1, 2)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_self_test_that_raises_leaves_the_others_on(monkeypatch, unverified):
    def fails(_):
        raise ZeroDivisionError("by design")

    name = "select_and_scatter_add"
    replace_test(monkeypatch, name, fails)
    f, x, y = _comparisons.pool_gradient, *_comparisons.images()
    want = np.asarray(f(x, y))
    with pytest.warns(RuntimeWarning, match=f"{name}.*by design"):
        enable()
        np.testing.assert_array_equal(jax.jit(f)(x, y), want)
    assert name not in status()
    assert {"sort", "cumsum"} <= set(status())
    disable()
    assert status() == {}
    assert "xla_ffi_kit" not in jax.jit(jnp.sort).lower(np.ones(40)).as_text()


def test_self_tests_run_on_the_cpu(monkeypatch):
    devices = set()
    own = jax.stages.Compiled.__call__

    def call(self, *args, **kwargs):
        results = own(self, *args, **kwargs)
        for leaf in jax.tree.leaves(results):
            devices.update(leaf.devices())
        return results

    monkeypatch.setattr(jax.stages.Compiled, "__call__", call)
    with jax.default_device(jax.devices("cpu")[1]):
        assert self_test(TESTED["select_and_scatter_add"]) == {}
    assert devices == {jax.local_devices(backend="cpu")[0]}


def test_sums_of_floats_test_themselves(unverified, monkeypatch):
    name = "cumsum"
    assert self_test(TESTED[name]) == {}
    x = np.ones(500, np.float32)
    assert "cumulative" in lowered(name, x)
    assert "cumulative" in lowered(name, x.astype(np.int32))
    jax.clear_caches()
    replace_test(monkeypatch, name, lambda _: None)
    with forgotten(), pytest.warns(RuntimeWarning, match=f"{name} stays"):
        assert "cumulative" not in lowered(name, x)
        # Integers have no order.
        assert "cumulative" in lowered(name, x.astype(np.int32))


def lowered(name, x):
    with enabled(name):
        return jax.jit(getattr(jax.lax, name)).lower(x).as_text()


@pytest.mark.parametrize("rule", TESTED)
def test_a_self_test_fails_where_the_bits_differ(rule):
    rule = TESTED[rule]

    @functools.wraps(rule.call)
    def twice(*operands, **parameters):
        (one,) = jax.tree.leaves(rule.call(*operands, **parameters))
        return one + one

    assert self_test(dataclasses.replace(rule, call=twice)) is None


def test_self_tests_within_a_lowering(unverified):
    def f(x, k):
        y = jnp.cumsum(x[0, 0, 0]) * jax.lax.sort(x[0, 0, 0])
        return y[7] * _comparisons.convolve(x, k)

    random = np.random.default_rng(0)
    x = random.standard_normal((2, 6, 9, 35)).astype(np.float32)
    k = random.standard_normal((3, 3, 1, 35)).astype(np.float32)
    functions = {
        "jit": f,
        "grad": jax.grad(lambda x, k: f(x, k).sum()),
        "scan": lambda x, k: jax.lax.scan(
            lambda c, _: (f(c, k)[:, :, :1] + c, None), x, None, 3
        )[0],
    }
    want = {n: jax.jit(f)(x, k) for n, f in functions.items()}
    with enabled():
        for name, function in functions.items():
            with forgotten():
                got = jax.jit(function)(x, k)
            assert np.asarray(got).tobytes() == want[name].tobytes(), name


def test_what_is_verified_depends_on_the_processor(monkeypatch):
    tests = "CONVOLVED", "POOLED"

    def known(flags):
        monkeypatch.setattr(_processor, "_description", lambda: f" {flags} ")
        lines = (_self_tests.verified(getattr(_comparisons, t)) for t in tests)
        return [line.get("0.10.2", "unknown") for line in lines]

    fused = {"is_fused": 0}
    assert known("fma avx2 avx512f") == [fused, {}]
    assert known("fma avx2") == [fused, {}]
    assert known("fma") == known("avx2") == ["unknown", {}]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    assert known("fma avx2 avx512f") == ["unknown", {}]


def test_what_a_test_finds_is_kept_for_later_processes(monkeypatch, unverified):
    calls = []
    rule = registry.RULES["conv_general_dilated"][0]

    def finds(*_):
        calls.append(1)
        return {"is_fused": 1}

    replace_test(monkeypatch, "conv_general_dilated", finds)
    x, k = np.ones((2, 6, 9, 35), "f"), np.ones((3, 3, 1, 35), "f")

    def texts():
        """As the first and a second process lower a program."""
        for _ in range(2):
            with forgotten(), enabled("conv_general_dilated"):
                _kept_tests.read.cache_clear()
                jax.clear_caches()
                yield jax.jit(_comparisons.convolve).lower(x, k).as_text()

    assert all(rule.target in text for text in texts())
    assert len(calls) == 1
    monkeypatch.setenv("XLA_FLAGS", "--another")
    assert all(rule.target in text for text in texts())
    assert len(calls) == 2
    for wrong in ("[]", "{", '{"a": [1]}'):
        _kept_tests._file().write_text(wrong)
        assert all(rule.target in text for text in texts())
    assert len(calls) == 5


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path, unverified):
    (tmp_path / "xla_ffi_accelerate").write_text("no folder")
    x = np.ones((40, 300), np.float32)
    with enabled("cumsum"):
        assert "xla_ffi_accelerate" in jax.jit(jnp.cumsum).lower(x).as_text()


def test_another_processor_is_no_news(monkeypatch):
    replace_test(monkeypatch, "conv_general_dilated", lambda _: None)
    monkeypatch.setattr(_processor, "_description", lambda: "")
    x, k = np.ones((2, 6, 9, 35), "f"), np.ones((3, 3, 1, 35), "f")
    with forgotten(), warnings.catch_warnings(), enabled():
        warnings.simplefilter("error")
        text = jax.jit(_comparisons.convolve).lower(x, k).as_text()
    assert "xla_ffi_accelerate" not in text


NO_BACKEND = """
import jax, jaxlib, numpy as np
import xla_ffi_accelerate
from jax._src import xla_bridge
from xla_ffi_accelerate import _comparisons, _self_tests
_self_tests.VERIFIED = {}
xla_ffi_accelerate.enable()
assert not xla_bridge._backends
jax.config.update("jax_num_cpu_devices", 3)
assert jax.device_count() == 3
x, k = np.ones((2, 6, 9, 35), np.float32), np.ones((3, 3, 1, 35), np.float32)
text = jax.jit(_comparisons.convolve).lower(x, k).as_text()
(found,) = _self_tests._found.values()
is_known = not isinstance(found, _self_tests.Failure)
assert ("xla_ffi_accelerate.conv_general_dilated" in text) == is_known
"""


def test_no_self_test_starts_the_backend():
    python("-c", NO_BACKEND, XLA_FLAGS="")
