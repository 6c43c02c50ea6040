"""Which custom calls `export_checks` allows, of what it is given."""

import jax
import jax.numpy as jnp
import pytest
from common import said
from jax import export

import xla_ffi_kit
from xla_ffi_kit import FfiOp, doctor, export_checks, relu
from xla_ffi_kit.library import registration


def targets(*operations):
    return {str(check) for check in export_checks(*operations)}


def allowed(target):
    return str(export.DisabledSafetyCheck.custom_call(target))


RELU = allowed("xla_ffi_kit.relu")


def by_module(x):
    return relu(x)


def test_what_is_allowed_is_enough():
    pytest.importorskip("flatbuffers", reason="jax.export serializes with it")
    for given in ((), (relu,)):
        program = export.export(
            jax.jit(by_module), disabled_checks=export_checks(*given)
        )(jnp.ones((2, 3)))
        assert "@xla_ffi_kit.relu(" in program.mlir_module()
        program.serialize(vjp_order=1)


def test_an_operation_allows_its_targets_and_those_of_its_libraries():
    op = FfiOp(
        "test.forward",
        lambda x: x,
        kernel_axes=0,
        handlers={"cpu": "test.forward_target"},
    )
    assert targets(op) == {allowed("test.forward_target")}
    assert targets(op, relu) >= {
        RELU,
        allowed("xla_ffi_kit.rms_norm"),
        allowed("xla_ffi_kit.rms_norm_bwd"),
        allowed("test.forward_target"),
    }


@pytest.mark.parametrize("other", [by_module, jax.jit(relu), len, "relu"])
def test_anything_else_is_an_error_that_names_the_way(other):
    assert said(export_checks, relu, other) == (
        "TypeError: export_checks: argument ops: expected operations, got "
        f"{other!r}; name the operations that it calls, or none: "
        "export_checks() allows every operation of this process"
    )


def test_without_arguments_all_of_the_process():
    op = FfiOp(
        "test.of_the_process",
        lambda x: x,
        kernel_axes=0,
        handlers={"cpu": "test.its_target"},
    )
    unusable = FfiOp(
        "test.unusable", lambda x: x, kernel_axes=0, libraries=__file__
    )
    everything = targets()
    assert everything >= {RELU, allowed("test.its_target")}
    assert everything >= {
        allowed(name) for name in xla_ffi_kit.ops.LIBRARIES[0].targets
    }
    assert len(export_checks()) == len(everything)
    assert everything >= targets(op, relu)
    assert targets(unusable) == {allowed("test.unusable")}


def test_without_arguments_what_no_operation_has(monkeypatch):
    """A library that is only registered, as where a program is read back."""
    monkeypatch.setitem(registration._handlers, ("other.one", "cpu"), "a.so")
    assert targets() >= {RELU, allowed("other.one")}


def test_the_doctor_reports_on_one_operation(capsys):
    assert doctor.main(["xla_ffi_kit:relu"]) == 0
    printed = capsys.readouterr().out
    assert "xla_ffi_kit.relu " in printed
    assert "xla_ffi_kit.rms_norm " not in printed
    for path, problem in {
        "xla_ffi_kit:rms_norm": "expected an operation, got <function ",
        "xla_ffi_kit:absent": "has no attribute 'absent'",
    }.items():
        assert doctor.main([path]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"doctor: {path}: ") and problem in said
