"""explain: what a program is lowered to, and why; the log; the command."""

import logging
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import off, python

from xla_ffi_accelerate import _scopes, enabled, explain

X = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
MATRICES = X[:2000].reshape(125, 4, 4)


_off = pytest.fixture(autouse=True)(off)


def program(x, m):
    y = jnp.sort(x) + jnp.cumsum(x)
    first = jnp.sort(y[:5])
    return y @ y + first.sum(), jnp.linalg.cholesky(m), jnp.sort(y)


def row(explanation, primitive, operands):
    (found,) = [
        r
        for r in explanation.rows
        if (r.primitive, r.operands) == (primitive, operands)
    ]
    return found


def test_what_is_on_off_and_not_covered():
    with enabled():
        before = jax.jit(program).lower(X, MATRICES).as_text()
        table = explain(program)(X, MATRICES)
        assert jax.jit(program).lower(X, MATRICES).as_text() == before
    sort = row(table, "sort", "f32[4000]")
    assert (sort.lowered_to, sort.reason) == ("xla_ffi_accelerate.sort", "")
    few = row(table, "sort", "f32[5]")
    assert few.lowered_to == "JAX's own"
    assert few.reason == (
        "a few elements are only faster in a loop; "
        "XLA is as fast for fewer than 16 elements"
    )
    cholesky = row(table, "cholesky", "f32[125,4,4]")
    assert 'off; enable("linalg")' in cholesky.reason
    assert "close" in cholesky.reason
    heading, *lines = str(table).splitlines()
    assert heading.split() == "primitive operands lowered to why".split()
    assert len(lines) == len(table.rows)
    assert any("xla_ffi_accelerate.cumulative" in line for line in lines)


def test_nothing_is_on_and_everything_could_be():
    table = explain(jax.jit(program))(X, MATRICES)
    assert {r.lowered_to for r in table.rows} == {"JAX's own"}
    assert 'enable("sort")' in row(table, "sort", "f32[4000]").reason
    assert "xla_ffi" not in jax.jit(program).lower(X, MATRICES).as_text()


def test_a_function_that_needs_values_is_run():
    def branches(x):
        return jnp.sort(x) if x[0] > 10 else jnp.cumsum(x) + jnp.cumsum(x)

    with enabled():
        table = explain(branches)(X)
    assert row(table, "cumsum", "f32[4000]").lowered_to == (
        "xla_ffi_accelerate.cumulative"
    )
    with enabled():
        table = explain(lambda x: jnp.sort(x)[x > 0])(X)
    assert row(table, "sort", "f32[4000]").lowered_to == (
        "xla_ffi_accelerate.sort"
    )
    with pytest.raises(ZeroDivisionError), enabled():
        explain(lambda x: 1 // 0)(X)
    assert "xla_ffi" not in jax.jit(jnp.sort).lower(X).as_text()


def test_every_reason_is_a_sentence():
    """What each rule says of an operand that no kernel takes."""
    x = np.ones((2, 3), np.complex64)
    functions = {
        "cumsum": lambda x: jnp.cumsum(x, 1),
        "sort": jnp.sort,
        "cholesky": lambda x: jnp.linalg.cholesky(x[:, :2]),
        "dot_general": lambda x: x @ x.T,
    }
    for name, function in functions.items():
        with enabled(exact=False):
            rows = explain(function)(x).rows
        (found,) = [r for r in rows if r.primitive == name]
        assert found.lowered_to == "JAX's own" and len(found.reason) > 15


def test_nothing_is_kept_for_each_call():
    def kept():
        caches = _scopes._interned, _scopes._recording
        return [cache.cache_info().currsize for cache in caches]

    for _ in range(9):
        explain(jnp.median)(X)
    before = kept()
    explain(jnp.median)(X)
    assert kept() == before


def test_the_log_lists_replacements(caplog):
    with caplog.at_level(logging.DEBUG, "xla_ffi_accelerate"):
        with enabled("sort"):
            jax.jit(lambda x: jnp.sort(x) * 3).lower(X)
    assert "sort -> xla_ffi_accelerate.sort" in caplog.text


SCRIPT = """
import sys
import jax.numpy as jnp, numpy as np
from helper import SIZE
import xla_ffi_accelerate
assert sys.argv[1:] == ["--flag"], sys.argv
jnp.sort(np.ones(SIZE, np.float32))
with xla_ffi_accelerate.enabled("argmax"):
    jnp.argmax(np.ones(SIZE, np.float32))
with xla_ffi_accelerate.enabled("top_k"):
    xla_ffi_accelerate.enable("cumsum")
    jnp.cumsum(np.ones(SIZE + 1, np.int32))
print("the script's own words")
"""


def test_the_command_explains_a_script(tmp_path):
    (tmp_path / "helper.py").write_text("SIZE = 300\n")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = "-m", "xla_ffi_accelerate", "explain"
    done = python(*command, str(script), "--flag")
    assert done.stdout == "the script's own words\n"
    lines = {tuple(line.split()[:2]): line for line in done.stderr.splitlines()}
    assert "xla_ffi_accelerate.argmax" in lines["argmax", "f32[300]"]
    assert 'enable("sort")' in lines["sort", "f32[300]"]
    assert "xla_ffi_accelerate.cumulative" in lines["cumsum", "i32[301]"]


@pytest.mark.parametrize(
    ("given", "named"),
    [(jnp.ones((2, 3)), "an array, float32[2, 3]"), (3, "3")],
)
def test_a_result_is_no_function(given, named):
    with pytest.raises(TypeError) as caught:
        explain(given)
    assert str(caught.value) == (
        f"explain: argument function: expected a function, got {named}; write "
        "explain(f)(x), not explain(f(x))"
    )
