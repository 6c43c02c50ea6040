"""accelerate's switch: names, blocks, threads, the variable, caches, JAX."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import contextlib
import dataclasses
import functools
import importlib.util
import pickle
import random
import shutil
import signal
import sys
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from accelerate_data import off, python, self_test
from jax.interpreters import mlir
from jax.sharding import AxisType

import xla_ffi_kit
from xla_ffi_accelerate import (
    _comparisons,
    _jax,
    _lowering,
    _processor,
    _self_tests,
    disable,
    disabled,
    enable,
    enabled,
    registry,
    status,
    switch,
)
from xla_ffi_accelerate._rule import Rule, SelfTest
from xla_ffi_accelerate.rules.handlers import sorting

X = np.array([3.0, 1, 2] * 30, np.float32)
FUNCTIONS = {
    "sort": jnp.sort,
    "top_k": lambda x: jax.lax.top_k(x, 9),
    "argmax": jnp.argmax,
    "cumsum": lambda x: jnp.cumsum(jnp.tile(x, 2)),
}
TARGETS = {name: f"@xla_ffi_accelerate.{name}(" for name in FUNCTIONS}
TARGETS["cumsum"] = "@xla_ffi_accelerate.cumulative("


_off = pytest.fixture(autouse=True)(off)


@pytest.fixture(autouse=True)
def _no_reasons(monkeypatch):
    """What earlier tests were warned of is said again."""
    monkeypatch.setattr(_lowering, "_reasons", {})


def is_on(name="sort", x=None, salt=0):
    """Whether a program that JAX has not seen yet calls the kernel."""
    x = np.arange(300, dtype=np.int32)[::-1] if x is None else x
    f = jax.jit(lambda x: (FUNCTIONS[name](x), salt))
    return TARGETS[name] in f.lower(x).as_text()


def on():
    return {name for name in FUNCTIONS if is_on(name)}


def run_all(*functions):
    """Runs each on a thread of its own; the first exception of any."""
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# Names.


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
    keys = jax.random.split(jax.random.key(0), X.size)  # an extended dtype
    f = jax.jit(lambda x, k: jax.lax.sort((x, jax.random.key_data(k)[:, 0])))
    assert jax.tree.leaves(f(X, keys))[0].tolist() == sorted(X)


def test_a_missing_library_changes_nothing(monkeypatch):
    missing = xla_ffi_kit.HandlerLibrary("/nowhere/kit.so")
    monkeypatch.setattr(switch, "CPU_LIBRARY", missing)
    with pytest.raises(xla_ffi_kit.errors.HandlerLibraryError, match="nowhere"):
        enable()
    for name in "sort", "linalg", "top_k":
        with pytest.raises(xla_ffi_kit.errors.HandlerLibraryError):
            enable(name)
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


def test_close_names_are_asked_for(monkeypatch):
    monkeypatch.setitem(registry.RULES, "tan", [multiplied()])
    own = jnp.tan(X)
    enable()
    assert "tan" not in status() and "cumsum" in status()
    assert set(status().values()) == {"exact"}
    np.testing.assert_array_equal(jnp.tan(X), own)
    assert switch.state()["tan"] == "off, close"
    with enabled("tan"):
        assert status()["tan"] == "close"
        assert switch.state()["tan"] == "on, close"
        np.testing.assert_array_equal(jnp.tan(X), X * 2)
    with enabled(exact=False):
        assert status().keys() == registry.RULES.keys()
        close = {name for name, kind in status().items() if kind == "close"}
    assert close >= {"linalg", "loops", "tan"}
    np.testing.assert_array_equal(jnp.tan(X), own)


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


# Changed releases of JAX.


def test_jax_tables_stay_as_they_are():
    enable()
    table = dict(mlir._platform_specific_lowerings["cpu"])
    enable()
    disable()
    with enabled("top_k"):
        enable("sort")
    assert mlir._platform_specific_lowerings["cpu"] == table


def test_a_changed_primitive_is_left_alone(monkeypatch):
    def covers(*avals, dimension, is_stable, num_keys, axis):
        return None

    changed = [dataclasses.replace(sorting.SORT, covers=covers)]
    monkeypatch.setitem(registry.RULES, "sort", changed)
    enable()
    with pytest.warns(RuntimeWarning, match="it has no parameter axis"):
        assert not is_on()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one warning is enough
        assert not is_on(salt=1)
    np.testing.assert_array_equal(jnp.sort(X), np.sort(X))


@pytest.mark.parametrize("what", ["_lowerings", "_platform_specific_lowerings"])
def test_changed_tables_are_left_alone(monkeypatch, what):
    monkeypatch.setattr(_lowering, "_primitives", {})
    tables = mlir._platform_specific_lowerings
    monkeypatch.delitem(tables["cpu"], jax.lax.sort_p, raising=False)
    monkeypatch.delattr(_jax.mlir, what)
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        enable("sort")
    assert status() == {}


def test_a_missing_primitive(monkeypatch):
    monkeypatch.delattr(jax.lax, "top_k_p")
    with pytest.warns(RuntimeWarning, match="jax.lax has no primitive top_k_p"):
        enable("top_k")
    assert status() == {}
    assert "no primitive" in switch.state()["top_k"]
    assert _jax.primitive("sort") is jax.lax.sort_p
    with pytest.raises(_jax.ChangedJaxError, match="no primitive sorts"):
        _jax.primitive("sorts")


# Self-tests, on a release of jaxlib that is not verified.

TESTED = {
    name: rule
    for name, rules in registry.RULES.items()
    for rule in rules
    if rule.test and name != "dot_general"
}


@contextlib.contextmanager
def config(name, value):
    """For the whole process."""
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


# What a caller may have configured, those of the process first: what they
# restore is read from there.
CONFIGURATIONS = (
    lambda: config("jax_transfer_guard", "disallow"),
    lambda: config("jax_disable_jit", True),
    lambda: config("jax_default_device", jax.devices("cpu")[1]),
    lambda: config("jax_enable_x64", True),
    lambda: config("jax_default_matmul_precision", "BF16_BF16_F32"),
    lambda: config("jax_platforms", "cpu"),
    lambda: config("jax_numpy_rank_promotion", "raise"),
    lambda: jax.transfer_guard("disallow_explicit"),
    jax.disable_jit,
    lambda: jax.default_device(jax.devices("cpu")[1]),
    lambda: jax.default_matmul_precision("BF16_BF16_F32"),
    lambda: jax.numpy_dtype_promotion("strict"),
    jax.checking_leaks,
    lambda: jax.set_mesh(
        jax.make_mesh((2,), ("i",), axis_types=(AxisType.Explicit,))
    ),
)


@pytest.fixture
def unverified(monkeypatch):
    """As on a release of jaxlib that is not known yet."""
    monkeypatch.setattr(_self_tests, "VERIFIED", {})
    monkeypatch.setattr(_self_tests, "_found", {})


def replace_test(monkeypatch, name, run):
    """Gives the tested rules of a name another test."""
    rules = [
        dataclasses.replace(r, test=dataclasses.replace(r.test, run=run))
        if r.test
        else r
        for r in registry.RULES[name]
    ]
    monkeypatch.setitem(registry.RULES, name, rules)


def self_tests():
    """What all of them find, those of small products for two sizes."""
    (product,) = [r for r in registry.RULES["dot_general"] if r.target]
    sizes = (5, 4, 5), (4, 4, 4)
    found = {name: self_test(rule) for name, rule in TESTED.items()}
    orders = [product.test.run(product, np.dtype("f"), *s) for s in sizes]
    return found, orders


def test_self_tests_find_the_same_under_any_configuration():
    jax.devices()
    want = self_tests()
    for name, found in want[0].items():
        is_convolution = TESTED[name].test is _comparisons.CONVOLVED
        assert found is not None or is_convolution, name
    assert want[1][1] is not None
    with contextlib.ExitStack() as stack:
        for configuration in CONFIGURATIONS:
            stack.enter_context(configuration())
        assert self_tests() == want


@pytest.mark.parametrize("rule", TESTED)
def test_a_self_test_fails_where_the_bits_differ(rule):
    rule = TESTED[rule]

    @functools.wraps(rule.call)
    def twice(*operands, **parameters):
        (one,) = jax.tree.leaves(rule.call(*operands, **parameters))
        return one + one

    assert self_test(dataclasses.replace(rule, call=twice)) is None


@pytest.mark.parametrize("verdict", [True, False])
def test_unknown_releases_are_tested_once(monkeypatch, unverified, verdict):
    calls = []

    def run(rule):
        calls.append(rule)
        return {} if verdict else None

    rule = multiplied(test=SelfTest("a test", run))
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
    # One of a name's rules is enough.
    monkeypatch.setitem(registry.RULES, "tan", [rule, multiplied()])
    with enabled("tan"):
        np.testing.assert_array_equal(jnp.tan(X), X * 2)
        assert status() == {"tan": "close"}


def test_verified_releases_are_not_tested(monkeypatch):
    def never(_):
        raise AssertionError

    verified = {"a test": {jaxlib.__version__: {}}}
    monkeypatch.setattr(_self_tests, "VERIFIED", verified)
    rule = multiplied(test=SelfTest("a test", never))
    monkeypatch.setitem(registry.RULES, "tan", [rule])
    enable("tan")
    np.testing.assert_array_equal(jnp.tan(X), X * 2)
    assert status() == {"tan": "close"}


def test_a_self_test_that_raises_leaves_the_others_on(monkeypatch, unverified):
    def fails(_):
        raise ZeroDivisionError("by design")

    replace_test(monkeypatch, "cumsum", fails)
    x = np.ones(500, np.float32)
    with pytest.warns(RuntimeWarning, match="cumsum.*by design"):
        enable()
        assert not is_on("cumsum", x)
    # Integers have no order.
    assert is_on("cumsum", x.astype(np.int32))
    assert {"sort", "select_and_scatter_add"} <= set(status())


def test_self_tests_within_a_lowering(unverified):
    def f(x, k):
        y = jnp.cumsum(x[0, 0, 0]) * jax.lax.sort(x[0, 0, 0])
        return y[7] * _comparisons.convolve(x, k)

    normal = np.random.default_rng(0).standard_normal
    x = normal((2, 6, 9, 35)).astype(np.float32)
    k = normal((3, 3, 1, 35)).astype(np.float32)
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
            _self_tests._found.clear()
            got = jax.jit(function)(x, k)
            assert np.asarray(got).tobytes() == want[name].tobytes(), name
            assert _self_tests._found


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


NO_BACKEND = """
import jax, numpy as np
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


# Blocks and threads.


def test_blocks_nest_and_are_entered_again():
    made = enabled("sort")
    enable("top_k")
    with made:  # what is on where it is entered
        assert on() == {"sort", "top_k"}
        enable("argmax")  # within a block: of the block
        with enabled("cumsum"):
            assert on() == set(FUNCTIONS)
            disable()
            assert on() == set()
        with disabled():
            assert on() == set() and status() == {}
        assert on() == {"sort", "top_k", "argmax"}
    assert on() == {"top_k"}
    disable()
    for _ in range(2):
        with made:
            with made:
                assert on() == {"sort"}
            assert on() == {"sort"}
        assert on() == set()


def test_a_block_of_one_thread_is_never_the_process_s():
    entered, left = (threading.Barrier(2, timeout=60) for _ in range(2))
    block = enabled("sort")

    def first():
        with block:
            entered.wait()
            assert on() == {"sort"}
            with pytest.raises(ValueError, match="'sorts' is no name"):
                enabled("sorts")
        assert on() == set()
        left.wait()

    def second():
        with enabled("top_k", "argmax"):
            entered.wait()
            left.wait()  # the first has left its block
            assert on() == {"top_k", "argmax"}
        assert on() == set()

    run_all(first, second)
    assert on() == set() and status() == {}


def test_without_a_block_for_every_thread():
    enable("sort")
    run_all(lambda: enable("top_k"))
    assert on() == {"sort", "top_k"}

    def other():
        assert on() == {"sort", "top_k"}
        with disabled():
            assert on() == set()
        assert on() == {"sort", "top_k"}

    run_all(other)


def test_what_is_on_stays_on_while_it_is_switched_on_again():
    enable("sort")
    ends = threading.Event()

    def switch_on():
        while not ends.is_set():
            enable("sort")

    def lower():
        try:
            for i in range(30):
                assert is_on("sort", salt=i), i
        finally:
            ends.set()

    run_all(switch_on, lower)


def test_many_threads_each_with_its_own():
    """Eight threads, hundreds of switches, and as many programs asked for."""
    x = np.arange(300, dtype=np.int32)
    programs = {n: jax.jit(lambda x, n=n: FUNCTIONS[n](x)) for n in FUNCTIONS}

    def work(seed):
        chosen = random.Random(seed)
        for i in range(45):
            names = chosen.sample(sorted(FUNCTIONS), chosen.randint(1, 3))
            with disabled(), enabled(*names):
                name = chosen.choice(sorted(FUNCTIONS))
                assert set(status()) == set(names)
                text = programs[name].lower(x).as_text()
                assert (TARGETS[name] in text) == (name in names)
                if i % 9 == 0:  # one that no thread has asked for yet
                    assert is_on(name, salt=(seed, i)) == (name in names)

    run_all(*(functools.partial(work, seed) for seed in range(8)))
    assert on() == set()


def test_threads_sort_at_once():
    enable()
    x = np.random.default_rng(0).standard_normal(300_000).astype(np.float32)
    # One after the other in a program, too: all want the pool's threads.
    f = jax.jit(lambda x: jnp.sort(jnp.roll(jnp.sort(jnp.roll(x, 7)), 9)))

    def work():
        for _ in range(5):
            np.testing.assert_array_equal(f(x), np.sort(x))

    run_all(*[work] * 6)


def test_an_exception_in_a_lowering(monkeypatch):
    def fails(*_):
        raise ZeroDivisionError("by design")

    wrong = dataclasses.replace(sorting.SORT, call=fails)
    with monkeypatch.context() as patch:
        patch.setitem(registry.RULES, "sort", [wrong])
        with enabled("top_k"):
            with pytest.raises(ZeroDivisionError), enabled("sort"):
                is_on("sort")
            assert on() == {"top_k"}
        assert on() == set()
    with enabled("sort"):
        assert on() == {"sort"}


def test_a_program_is_compiled_once_for_each_setting():
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: (
            compilations.append(event) if "backend_compile" in event else None
        )
    )
    f = jax.jit(lambda x: jnp.sort(x) + 1)
    for i in range(3):
        f(X)
        with enabled("sort"):
            f(X)
        run_all(lambda: f(X))
        if not i:
            assert len(compilations) == 2
            compilations.clear()
    enable("sort")
    f(X)
    assert not compilations


def test_a_fork_while_another_thread_switches():
    ends = threading.Event()

    def switch_on_and_off():
        while not ends.is_set():
            enable("sort")
            disable()

    thread = threading.Thread(target=switch_on_and_off)
    thread.start()
    try:
        for _ in range(8):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # threads, and a fork
                child = os.fork()
            if not child:
                signal.alarm(60)
                enable("top_k")
                os._exit(0 if "top_k" in status() else 1)
            assert waited(child) == 0
    finally:
        ends.set()
        thread.join()


def waited(child):
    """A child's exit code; ends it if it hangs."""
    for _ in range(2000):
        done, code = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(code)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# XLA_FFI_ACCELERATE: switched on without a line of code.

SORTS = """
import sys
import numpy as np
import jax, jax.numpy as jnp
x = np.arange(300)[::-1].astype(np.float32)
assert jnp.sort(x)[0] == 0
text = jax.jit(lambda x: (jnp.sort(x), jnp.cumsum(x))).lower(x).as_text()
print(*(n for n in ("sort", "cumulative") if f"accelerate.{n}(" in text))
if "xla_ffi_accelerate" in sys.modules:
    print("imported", *sorted(sys.modules["xla_ffi_accelerate"].status()))
"""


def words_with(value, path=()):
    """The words that a process prints, and what it says of errors."""
    paths = os.pathsep.join([*path, *filter(None, sys.path)])
    done = python("-c", SORTS, PYTHONPATH=paths, XLA_FFI_ACCELERATE=value)
    return done.stdout.split(), done.stderr


def test_unset_nothing_is_imported():
    assert words_with(" ")[0] == []


def test_exact_and_all():
    exact, every = (words_with(value)[0] for value in ("exact", "all"))
    assert exact[:3] == ["sort", "cumulative", "imported"]
    assert "sort" in exact[3:]
    assert "linalg" not in exact and "linalg" in every


def test_a_wrong_value_is_one_sentence():
    words, errors = words_with("gamma")
    assert words == ["imported"]
    (said,) = [line for line in errors.splitlines() if "is left out" in line]
    assert "XLA_FFI_ACCELERATE=gamma is left out: enable: names: 'gam" in said
    assert "Traceback" not in errors


def test_names_and_an_entry_point(tmp_path):
    """As an installed wheel has, beside a package that hides the namespace."""
    plugin = importlib.util.find_spec("xla_ffi_accelerate_plugin").origin
    shutil.copy(plugin, tmp_path)
    info = tmp_path / "xla_ffi_accelerate-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: xla_ffi_accelerate\nVersion: 1.0\n")
    named = "xla_ffi_accelerate = xla_ffi_accelerate_plugin"  # wheel_test
    (info / "entry_points.txt").write_text(f"[jax_plugins]\n{named}\n")
    (tmp_path / "jax_plugins").mkdir()
    (tmp_path / "jax_plugins" / "__init__.py").touch()
    words, _ = words_with("sort, linalg", path=[str(tmp_path)])
    assert words == ["sort", "imported", "linalg", "sort"]


# JAX's persistent cache, serialized executables and exports.

COMPILED = """
import jax, jax.numpy as jnp, numpy as np
import xla_ffi_accelerate
hits = []
jax.monitoring.register_event_listener(
    lambda event, **_: "cache_hits" in event and hits.append(event))
x = np.arange(90, dtype=np.float32)[::-1]
for names in ["sort"], []:
    hits.clear()
    with (xla_ffi_accelerate.enabled if names
          else xla_ffi_accelerate.disabled)(*names):
        compiled = jax.jit(lambda x: jnp.sort(x) * 3).lower(x).compile()
    assert np.asarray(compiled(x))[1] == 3
    print(len(hits), "xla_ffi_accelerate.sort" in compiled.as_text())
"""


def test_the_persistent_cache_never_mixes_settings(tmp_path):
    variables = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    first, second = (
        python("-c", COMPILED, **variables).stdout.split() for _ in range(2)
    )
    assert first == ["0", "True", "0", "False"]
    assert second == ["1", "True", "1", "False"]


LOADED = """
import pickle, sys
import jax, numpy as np
from jax.experimental import serialize_executable
jax.devices()
if sys.argv[1] == "with":
    import xla_ffi_accelerate
x = np.arange(90, dtype=np.float32)[::-1].copy()
executable, exported = (open(name, "rb").read() for name in sys.argv[2:])
def load():
    load = serialize_executable.deserialize_and_load
    return load(*pickle.loads(executable))(x)[1]
def call():
    return jax.export.deserialize(bytearray(exported)).call(x)[0][1]
for function in load, call:
    try:
        print(function())
    except Exception as error:
        print(str(error).splitlines())
"""


def export(checks):
    # A function of its own: what is exported is not what is kept.
    f = jax.jit(lambda x: (jnp.sort(x), jax.lax.top_k(x.astype(int), 80)[0]))
    x = np.arange(90, dtype=np.float32)
    return jax.export.export(f, disabled_checks=checks)(x)


def test_what_is_loaded_and_exported_by_name(tmp_path):
    """Elsewhere it runs with the package, or says what is missing."""
    serialize = pytest.importorskip("jax.experimental.serialize_executable")
    executable, file = tmp_path / "executable", tmp_path / "exported"
    checks = xla_ffi_kit.export_checks()
    with enabled("sort"):
        compiled = jax.jit(jnp.sort).lower(X).compile()
    executable.write_bytes(pickle.dumps(serialize.serialize(compiled)))
    with enabled(), enabled("sort", export=True):
        exported = export(checks)
        file.write_bytes(exported.serialize())
        with pytest.raises(ValueError, match="xla_ffi_accelerate.sort"):
            export(())
        with disabled(), enabled("sort", "top_k"):
            assert "xla_ffi_accelerate" not in export(checks).mlir_module()
        with enabled("top_k", export=True):
            text = export(checks).mlir_module()
            assert "xla_ffi_accelerate.top_k" in text
            assert "xla_ffi_accelerate.sort" in text
    assert "xla_ffi_accelerate.sort" in exported.mlir_module()
    assert "xla_ffi_accelerate.top_k" not in exported.mlir_module()
    files = str(executable), str(file)

    def loaded(how):
        # On one device, as it was compiled for.
        return python("-c", LOADED, how, *files, XLA_FLAGS="").stdout

    assert loaded("with").split() == ["1.0", "1.0"]
    errors = loaded("without").splitlines()
    assert len(errors) == 2
    assert all("xla_ffi_accelerate.sort" in error for error in errors)


def test_what_is_exported_is_jax_own_or_plain_hlo(monkeypatch):
    with enabled():
        for checks in (), xla_ffi_kit.export_checks():
            exported = jax.export.export(
                jax.jit(jnp.sort), disabled_checks=checks
            )
            program = exported(X)
            assert "xla_ffi_accelerate" not in program.mlir_module()
        # The other way about: a loaded program is not lowered anew.
        again = jax.export.deserialize(program.serialize())
        np.testing.assert_array_equal(again.call(X), np.sort(X))
    monkeypatch.setitem(registry.RULES, "tan", [multiplied()])
    (n,) = jax.export.symbolic_shape("n")
    with enabled("tan"):
        exported = jax.export.export(jax.jit(jnp.tan))(
            jax.ShapeDtypeStruct((n,), np.float32)
        )
    np.testing.assert_array_equal(exported.call(X), X * 2)
