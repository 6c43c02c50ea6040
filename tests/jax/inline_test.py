"""Operations from strings: what they compute, and what a mistake says."""

import inspect
import pickle
import re

import inline_data
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.testing import Case, check_op


@pytest.mark.parametrize(
    ("op", "cases"),
    [
        pytest.param(
            inline_data.softplus,
            [Case("float32[2,3]", beta=1.5), Case("bfloat16[4]", beta=1.0)],
            marks=pytest.mark.ci,
        ),
        pytest.param(
            inline_data.rms_norm,
            [Case("float32[2,5]", eps=1e-6), Case("bfloat16[3,8]", eps=1e-6)],
            marks=pytest.mark.ci,
        ),
        (
            inline_data.polynomial,
            [
                Case(
                    "float32[2,3]",
                    factors=(1.0, 0.5, 2.0),
                    order="rising",
                    negate=True,
                )
            ],
        ),
        (
            inline_data.gate,
            [Case("float32[2,3]", "float32[2,3]", scale=0.5)],
        ),
        pytest.param(
            inline_data.normalize,
            [Case("float32[2,4]", "float32[4]", floor=0.0)],
            marks=pytest.mark.ci,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_contract_of_operations_holds(op, cases):
    # Derivatives are those of the reference.
    skip = ("second order", "jacobians", "control flow")
    report = check_op(op, cases, skip=skip)
    assert "handler" in {
        row.check for row in report.rows if row.status == "passed"
    }


def test_it_looks_like_the_function_it_decorates():
    softplus = inline_data.softplus
    assert softplus.__name__ == "softplus"
    assert softplus.__doc__ == "log(1 + exp(beta x)) / beta."
    assert str(inspect.signature(softplus)).startswith("(x, *, beta=1.0")
    assert pickle.loads(pickle.dumps(softplus)) is softplus
    x = np.float32([-1, 0, 2])
    np.testing.assert_array_equal(softplus(x), softplus(x, beta=1.0))
    np.testing.assert_array_equal(softplus(x=x), softplus(x))


def test_another_dtype_is_refused_before_anything_is_compiled():
    with pytest.raises(TypeError) as caught:
        jax.jit(inline_data.softplus).trace(jnp.arange(3, dtype=jnp.int32))
    assert str(caught.value) == (
        "softplus: operand x: expected dtype float32, bfloat16, got int32"
    )


def test_rows_are_spread_over_threads():
    # Large enough for the kit's parallel loop, which the library borrows.
    x = np.random.default_rng(0).normal(size=(512, 2048)).astype(np.float32)
    y = inline_data.rms_norm(x)
    want = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(y, want, rtol=1e-5)
    library = inline_data.rms_norm.spec.libraries[0]
    assert library.parallel_for == xla_ffi_kit.ops.LIBRARIES[0].parallel_for
    assert library.parallel_for


def test_an_operation_without_operands():
    @xla_ffi_kit.inline(
        "void iota(int64_t n, kit::Out<int32_t> y) {"
        " for (int64_t i = 0; i < n; ++i) y[i] = int32_t(i); }",
        kernel_axes=0,
    )
    def iota(*, n):
        return jnp.arange(n, dtype=jnp.int32)

    np.testing.assert_array_equal(iota(n=4), np.arange(4))


def test_what_the_function_returns_or_throws_is_the_calls_error():
    @xla_ffi_kit.inline(
        r"""
#include <stdexcept>
const char* failing(kit::In<float> x, bool throws, kit::Out<float> y) {
  if (throws) throw std::runtime_error("thrown");
  return "returned";
}""",
        kernel_axes=0,
    )
    def failing(x, *, throws):
        return x

    for throws, said in ((True, "thrown"), (False, "returned")):
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=f"failing: {said}"
        ):
            jax.block_until_ready(failing(np.float32(1), throws=throws))


def test_an_axis_that_the_array_has_not():
    @xla_ffi_kit.inline(
        "void size(kit::In<float> x, int64_t axis, kit::Out<int64_t> y) {"
        " y[0] = x.dim(axis); }",
        kernel_axes=2,
        flags=["-O0"],
    )
    def size(x, *, axis):
        return jnp.zeros(x.shape[:-2], np.int64)

    with jax.enable_x64(True):
        x = jnp.ones((2, 3), np.float32)
        assert [int(size(x, axis=i)) for i in (-2, -1, 0, 1)] == [2, 3, 2, 3]
        for axis in (2, -3):
            with pytest.raises(
                jax.errors.JaxRuntimeError, match="size: dim: expected an axis"
            ):
                jax.block_until_ready(size(x, axis=axis))


def test_an_error_that_is_no_text_of_python():
    @xla_ffi_kit.inline(
        r"""
const char* failing(kit::In<float> x, kit::Out<float> y) {
  static char text[1400];
  for (int i = 0; i < 1398; ++i) text[i] = "é"[i % 2];
  return x[0] == 0 ? "gr\xe9 \xed\xa0\x80 \xf0\x9f\x98\x80 é" : text;
}""",
        kernel_axes=0,
        flags=["-O0"],
    )
    def failing(x):
        return x

    replaced = "failing: gr\\? \\?\\?\\? \U0001f600 é"
    for number, said in ((0, replaced), (1, "éé")):
        with pytest.raises(jax.errors.JaxRuntimeError, match=said):
            jax.block_until_ready(failing(np.float32(number)))


def test_attributes_that_xla_has_not():
    code = "void f(kit::In<float> x, {} a, kit::Out<float> y) {{}}"
    for type_, name in (
        ("kit::f16", "float16"),
        ("kit::Array<kit::bf16>", "bfloat16"),
        ("kit::Array<bool>", "bool"),
    ):
        said = error_of(code.format(type_))
        assert said.startswith("f: attribute a: expected one of ")
        assert said.endswith(f"f32, f64, got {name}")
        assert " f16" not in said
    half = np.float16(1)
    with pytest.raises(xla_ffi_kit.errors.BuildError, match="got float16"):
        xla_ffi_kit.elementwise("x * a", dtypes="f32")(
            lambda x, *, a=half: a * x
        )


def test_values_that_attributes_cannot_have():
    @xla_ffi_kit.elementwise(
        "x + float(a) + text.size() + b[0]",
        dtypes="f32",
        attributes={"a": "u64", "b": ("u64",)},
        flags=["-O0"],
    )
    def f(x, *, a=1, b=(2**63,), text=""):
        return x

    x = np.float32(0)
    assert f(x, a=2**63 - 1, text="é") == 2.0**64
    with pytest.raises(ValueError, match="attribute a: expected at most 922"):
        f(x, a=2**63)
    with pytest.raises(ValueError, match="text: .*the surrogate '.ud8"):
        f(x, text="\ud800")


def test_a_changed_function_never_runs_the_old_code():
    def add(number):
        @xla_ffi_kit.inline(
            f"void add(kit::In<float> x, kit::Out<float> y)"
            f" {{ y[0] = x[0] + {number}; }}",
            kernel_axes=0,
        )
        def add(x):
            return x + number

        return add

    first, second = add(1), add(2)
    assert (first(np.float32(0)), second(np.float32(0))) == (1, 2)
    assert first.spec.handlers != second.spec.handlers


# --- Mistakes -----------------------------------------------------------------

LINE = inspect.currentframe().f_lineno + 5


def unknown_name():
    @xla_ffi_kit.inline(
        r"""
void f(kit::In<float> x, double a, kit::Out<float> y) {
  y[0] = nowhere(x[0]);
}""",
        kernel_axes=0,
    )
    def f(x, *, a=1.0):
        return x


def error_of(code, **options):
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        given = {"kernel_axes": 0, "flags": ["-O0"], **options}

        @xla_ffi_kit.inline(code, **given)
        def f(x, *, a=1.0):
            return x

    return str(caught.value)


def test_an_error_names_the_users_file_and_line():
    with pytest.raises(xla_ffi_kit.errors.BuildError) as caught:
        unknown_name()
    first = str(caught.value).splitlines()[0]
    assert re.fullmatch(
        rf"f: does not compile: .*inline_test\.py:{LINE + 2}:\d+: error: "
        "'nowhere' was not declared in this scope",
        first,
    ), (first, LINE)


PARAMETERS = (
    "f: does not compile: parameters are kit::In<T> for operands, kit::Out<T> "
    "for results, kit::Threads, and for attributes numbers, bool, "
    "kit::Array<T> or std::string_view, all by value"
)


@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        (
            "void f(const kit::In<float>& x, double a, kit::Out<float> y) {}",
            {},
            PARAMETERS,
        ),
        (
            "void f(kit::In<float> x, char* a, kit::Out<float> y) {}",
            {},
            PARAMETERS,
        ),
        (
            "void f(kit::In<long double> x, double a, kit::Out<float> y) {}",
            {},
            "elements are float, double, kit::bf16, kit::f16, bool, int8_t to "
            "int64_t or uint8_t to uint64_t",
        ),
        (
            "void f(double a, kit::Out<float> y) {}",
            {},
            "more or fewer kit::In<T> parameters than the operation has "
            "operands",
        ),
        (
            "void f(kit::In<float> x, kit::Out<float> y) {}",
            {},
            "more or fewer attribute parameters than the operation has "
            "attributes",
        ),
        (
            "int f(kit::In<float> x, double a, kit::Out<float> y) {return 0;}",
            {},
            "a handler's function returns void, or const char*",
        ),
        (
            "void g(kit::In<float> x, double a, kit::Out<float> y) {}",
            {},
            "expected a function f(), not a template",
        ),
        (
            "void f(kit::In<float> x, double a, kit::Out<float> y) {}",
            {"dtypes": "f32"},
            "expected a function template f(), for the `dtypes` float",
        ),
        (
            "template <typename T>\n"
            "void f(kit::In<T> x, T a, kit::Out<T> y) {}",
            {"dtypes": "f32 f64"},
            "the types of attributes do not depend on the template's "
            "parameters",
        ),
        (
            "void f(kit::In<float> x, float a, kit::Out<float> y) {}",
            {"attributes": {"a": np.float64}},
            "f: attribute a: expected",
        ),
        (
            "void f(kit::In<float> x, double a, kit::Out<float> y) {}",
            {"flags": ["-ffast-math"]},
            "f: flags: -ffast-math makes denormals zero in all of the process",
        ),
        ("", {"dtypes": "f31"}, "f: dtypes: expected one of pred, s8,"),
        (
            "void g();\n"
            "void f(kit::In<float> x, double a, kit::Out<float> y) { g(); }",
            {},
            "undefined reference to `g()'",
        ),
    ],
)
def test_mistakes(code, options, said):
    assert said in error_of(code, **options)


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    code = "void f(kit::In<float> x, double a, kit::Out<float> y) {}"
    assert error_of(code) == (
        "f: there is no C++ compiler; install one (`apt install g++`, or `pip "
        "install ziglang`) or set CXX, or pass fallback='reference'"
    )

    @xla_ffi_kit.inline(code, kernel_axes=0, fallback="reference")
    def f(x, *, a=1.0):
        return a * x

    assert f(np.float32(2)) == 2
    assert "custom_call" not in jax.jit(f).lower(jnp.ones(3)).as_text()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "there is no program 'no-such-compiler'" in error_of(code)
