"""`python -m xla_ffi_kit describe`: lines, a page, and Python that works."""

import ast
import pathlib
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import __main__
from xla_ffi_kit.library import describe
from xla_ffi_kit.library import signature as reader

TARGET_WITH_SCALE = "xla_ffi_kit.rms_norm_weight_bwd"
KIT = xla_ffi_kit.KIT_LIBRARIES[0]
TEST = str(pathlib.Path(__file__).parent / "test_handlers.so")


def described(capsys, *arguments):
    assert __main__.main(["describe", *arguments]) == 0
    return capsys.readouterr().out


def test_a_line_for_each_handler(capsys):
    lines = described(capsys, KIT.path).splitlines()
    assert lines == [str(KIT.signature(target)) for target in KIT.handlers]


def test_handlers_by_name(capsys):
    assert described(capsys, KIT.path, "xla_ffi_kit.relu") == (
        f"{KIT.signature('xla_ffi_kit.relu')}\n"
    )


def test_a_page_says_what_may_be_missing(capsys):
    page = described(capsys, KIT.path, "--markdown")
    assert page.startswith("# Handlers of xla_ffi_kit_cpu.so\n")
    _, _, backward = page.partition("\n## xla_ffi_kit.rms_norm_bwd\n")
    rows = backward.partition("\n## ")[0].strip().splitlines()
    assert rows[2:] == [
        "| operand | `x` | f16, bf16, f32, f64, c64, c128 | rank >= 1 |",
        "| operand | `ct` | that of x | like x |",
        "| operand | `scale` | f32, f64 | like x without its last axis; may be "
        "missing |",
        "| result | `dx` | that of x | like x |",
        "| attribute | `eps` | f32 or f64 | 0 or more; only without scale |",
    ]


def module(text):
    written = types.ModuleType("written")
    exec(compile(text, "written.py", "exec"), written.__dict__)
    return written


def test_the_python_of_an_operation_works(capsys):
    written = module(described(capsys, KIT.path, "--python"))
    x = jnp.linspace(-2, 2, 12).reshape(3, 4)
    np.testing.assert_array_equal(written.relu(x), jax.nn.relu(x))
    np.testing.assert_array_equal(
        written.rms_norm(x, eps=1e-6), xla_ffi_kit.rms_norm(x)
    )
    np.testing.assert_array_equal(
        written.modular_add(x, jnp.tile(x, 2)), jnp.tile(2 * x, 2)
    )
    dx = written.rms_norm_bwd(x, jnp.ones_like(x), eps=1e-6)
    (want,) = jax.vjp(xla_ffi_kit.rms_norm, x)[1](jnp.ones_like(x))
    np.testing.assert_allclose(dx, want, rtol=1e-6)


def test_each_operand_has_kernel_axes_of_its_own(capsys):
    text = described(capsys, KIT.path, TARGET_WITH_SCALE, "--python")
    assert "kernel_axes=(1, 1, 0, 0)" in text


def test_a_shape_that_follows_from_no_other_is_left_open():
    x = reader.Argument("x", ("f32",), None, (0, None), None)
    y = reader.Argument("y", (), "x", (0, None), None)
    written = module(
        describe.python("none.so", [reader.Signature("a.b", (x,), (y,), ())])
    )
    with pytest.raises(NotImplementedError, match="^y: its shape is for you"):
        written._b_results(jnp.ones(3))


def test_the_python_of_every_kind_of_attribute_and_shape(capsys):
    text = described(capsys, TEST, "test.signed", "--python")
    (imports, results, operation) = ast.parse(text).body[-3:]
    assert isinstance(imports, ast.Assign)
    assert ast.unparse(results) == (
        "def _signed_results(x, weight, *, axis, count, eps, mode, strides):\n"
        "    return (jax.ShapeDtypeStruct(x.shape, x.dtype), "
        "jax.ShapeDtypeStruct((*x.shape[:-1], count), 'int32'))"
    )
    assert (
        "attributes={'axis': np.int64, 'count': np.int64, 'eps': np.float64, "
        "'mode': str, 'strides': (np.int64,)}"
    ) in ast.unparse(operation)
    module(text)


def test_a_handler_without_a_signature_is_told_apart(capsys):
    assert describe.main([TEST, "test.add_rows"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "describe: test.add_rows: no signature\n"
    assert captured.out.strip() == ""


def test_what_cannot_be_described(capsys, tmp_path):
    assert describe.main([str(tmp_path / "none.so")]) == 1
    assert "none.so" in capsys.readouterr().err
    assert describe.main([KIT.path, "no.such"]) == 1
    assert "has no handler 'no.such'" in capsys.readouterr().err
