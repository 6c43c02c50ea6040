"""Python functions as handlers, by numba.

Bazel's tests have it; where there is none, as in those of other JAX releases,
the one test is that the error says so.
"""

import ctypes
import importlib.util
import math
import re
import sys
import time

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from common import raises, run_python

import xla_ffi_kit
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.functions import numba_identity
from xla_ffi_kit.testing import Case, check_op

with_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="needs numba"
)


def scale_kernel(x, factor, y):
    if factor < 0:
        raise ValueError("factor")
    for i in range(x.size):
        y[i] = factor * x[i]


def scale_reference(x, *, factor=2.0):
    return factor * x


def test_without_numba_an_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(BuildError, match="numba_kernel needs numba"):
        xla_ffi_kit.numba_kernel(scale_kernel, dtypes="f32", kernel_axes=0)


@pytest.fixture(scope="module")
def scale():
    options = {"dtypes": "f32 f64", "kernel_axes": 0}
    return xla_ffi_kit.numba_kernel(scale_kernel, **options)(scale_reference)


@with_numba
def test_the_contract_of_operations_holds(scale):
    check_op(scale, [Case("float32[2,3]", factor=1.5)])


@with_numba
def test_what_it_raises_is_the_calls_error(scale):
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match="scale_reference: the numba kernel raised an exception",
    ):
        jax.block_until_ready(scale(np.float32(1), factor=-1.0))


@with_numba
def test_it_runs_while_another_thread_holds_the_gil(scale):
    run = jax.jit(scale).lower(jnp.ones(3)).compile()
    x = jax.block_until_ready(jnp.ones(3))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # nobody takes the GIL from this thread
    try:
        y = run(x)
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
        assert y.is_ready()
    finally:
        sys.setswitchinterval(interval)


@with_numba
@pytest.mark.parametrize(
    ("kernel", "dtypes", "said"),
    [
        (scale_kernel, "f32 bf16", "expected none of bfloat16"),
        (
            lambda x, factor, y: print(object(), x),
            "f32",
            "numba cannot compile the kernel",
        ),
    ],
)
def test_what_numba_cannot_compile(kernel, dtypes, said):
    decorate = xla_ffi_kit.numba_kernel(kernel, dtypes=dtypes, kernel_axes=0)
    with pytest.raises(BuildError, match=said):
        decorate(scale_reference)


# --- Names --------------------------------------------------------------------


def target_of(op):
    return op.spec.handlers["cpu"]


def times(number, **options):
    def kernel(x, y):
        for i in range(x.size):
            y[i] = number * x[i]

    @xla_ffi_kit.numba_kernel(kernel, dtypes="f32", kernel_axes=0, **options)
    def scale(x):
        return number * x

    return scale


@with_numba
def test_kernels_of_one_name_are_told_apart():
    two, three, again = times(2), times(3), times(2)
    assert target_of(two) == target_of(again) != target_of(three)
    assert re.fullmatch(r"scale\.[0-9a-f]{12}", target_of(two))
    x = np.float32([1])
    assert [op(x) for op in (two, three, again)] == [2, 3, 2]


FACTOR = 2.0


def of_global(x, y):
    for i in range(x.size):
        y[i] = inner(x[i])


def inner(value):
    return FACTOR * value


def raised(x, y):
    for i in range(x.size):  # of a comment nothing depends
        y[i] = math.pi * len(LETTERS) * TABLE[0] * x[i]


LETTERS = ("a", "b")
TABLE = np.float32([1, 2])


@with_numba
def test_what_a_kernel_refers_to_is_part_of_it(monkeypatch):
    import numba

    digest = numba_identity.digest
    for kernel, name, value in (
        (of_global, "FACTOR", 3.0),
        (of_global, "inner", numba.njit(inner)),
        (of_global, "inner", numba.njit(inner, fastmath=True)),
        (raised, "LETTERS", ("a",)),
        (raised, "TABLE", np.float32([1, 3])),
        (raised, "TABLE", np.float64([1, 2])),
        (raised, "math", np),
    ):
        before = digest(kernel)
        assert before == digest(kernel)
        with monkeypatch.context() as patch:
            patch.setitem(globals(), name, value)
            assert digest(kernel) not in (before, digest(numba.njit(kernel)))
        assert before == digest(kernel)
    monkeypatch.setattr(math, "pi", 3.0)
    assert digest(raised) != before
    # Of what numba is not told, the object itself counts.
    monkeypatch.setitem(globals(), "TABLE", object())
    unknown = digest(raised)
    assert unknown == digest(raised)
    monkeypatch.setitem(globals(), "TABLE", object())
    assert unknown != digest(raised)
    # The kernel is the same, and what it takes is not.
    assert digest(of_global, "f32") != digest(of_global, "f64")


def with_keyword(number):
    return lambda x, *, by=number: by * x


def calling(function):
    return lambda x: function(x)


def without_source(body, before="", file="<string>"):
    names = {}
    code = f"{before}def kernel(x, y):\n  {body}\n"
    exec(compile(code, file, "exec"), names)
    return names["kernel"]


@pytest.mark.parametrize(
    "pair",
    [
        # Both have the same line as their source.
        [lambda x: of_global(x, 2), lambda x: of_global(x, 3)],
        [lambda x: x + 1, lambda x: x - 1],
        [lambda x: x * 0.0, lambda x: x * -0.0],
        [lambda x: x.real, lambda x: x.imag],
        [lambda x: calling(lambda y: 1), lambda x: calling(lambda y: 2)],
        [lambda x: x in {1, 2}, lambda x: x in {1, 3}],
        [lambda x, y=1: x, lambda x, y=2: x],
        [with_keyword(1), with_keyword(2)],
        [without_source("y[0] = 2"), without_source("y[0] = 3")],
        # C functions of one name, from two libraries.
        [calling(ctypes.CDLL(name).abs) for name in (None, "libc.so.6")],
    ],
)
def test_what_tells_kernels_apart(pair):
    first, second = map(numba_identity.digest, pair)
    assert first != second
    assert first == numba_identity.digest(pair[0])


LOAD = """
import sys
import numpy as np
from jax import export
from numba_kernel_test import times
program = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
for number in (3, 2):
    times(number)
    try:
        print(program.call(np.ones(3, np.float32)).tolist())
    except Exception as error:
        print("no handler" if "scale." in str(error) else error)
"""


@with_numba
def test_a_program_runs_its_own_kernel_in_another_process(tmp_path):
    scale = times(2)
    exported = jax.export.export(
        jax.jit(scale), disabled_checks=xla_ffi_kit.export_checks(scale)
    )(jax.ShapeDtypeStruct((3,), np.float32))
    (tmp_path / "program").write_bytes(exported.serialize())
    done = run_python(LOAD, tmp_path / "program")
    assert done.stdout == "no handler\n[2.0, 2.0, 2.0]\n", done.stderr


@with_numba
def test_a_target_of_the_authors():
    name = {"handlers": {"cpu": "mine.scale"}}
    assert target_of(times(2, **name)) == target_of(times(2, **name))
    assert times(2, **name)(np.float32(1)) == 2
    said = (
        "scale: handlers: expected a custom call target of its own for cpu, "
        "got mine.scale, which another kernel of this process has"
    )
    with raises(BuildError, said):
        times(3, **name)


# --- What a kernel gets -------------------------------------------------------


def sums_kernel(a, b, c, d, e, negate, small, words, halves, y, z):
    for r in range(y.shape[0]):
        z[r] = a[r, 0] + b[r, 0] + c[0, 0]
        for i in range(y.shape[1]):
            y[r, i] = small * (d[r, i] - e[r, i]) + words[-1] * halves[0]
            y[r, i] *= -1 if negate else 1


def sums_reference(a, b, c, d, e, *, negate=True, small, words, halves):
    y = small * (d - e) + words[-1] * halves[0]
    z = a[..., :1] + b[..., :1] + c[:1]
    return jnp.float32(-1 if negate else 1) * y.astype(d.dtype), z


@with_numba
def test_attributes_of_every_type_among_many_arrays():
    op = xla_ffi_kit.numba_kernel(
        sums_kernel,
        dtypes="f32",
        axes="(k),(k),(k),(n),(n)->(n),(1)",
        results=2,
        shared="c",
        attributes={
            "small": np.int8,
            "words": (np.int32,),
            "halves": (np.float32,),
        },
    )(sums_reference)
    a, b, c, d, e = (
        np.arange(12, dtype=np.float32).reshape(3, 4) * (1 + i)
        for i in range(5)
    )
    given = {"small": -3, "words": (5, 6, -7), "halves": (0.5,)}
    for negate in (False, True):
        got = op(a, b, c[0], d, e, negate=negate, **given)
        want = sums_reference(a, b, c[0], d, e, negate=negate, **given)
        jax.tree.map(np.testing.assert_array_equal, got, want)
