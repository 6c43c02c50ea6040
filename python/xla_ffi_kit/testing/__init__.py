"""`check_op` checks the contract of an `FfiOp` in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op.spec import Result
from xla_ffi_kit.testing import (
    _checks_calls,
    _checks_derivatives,
    _checks_equation,
    _checks_export,
    _checks_operands,
    _checks_sharding,
    _checks_unusual,
    _programs,
)
from xla_ffi_kit.testing._case import Case, differentiable, scalar
from xla_ffi_kit.testing._host import Host, on_host
from xla_ffi_kit.testing._report import CheckError, Report, Row
from xla_ffi_kit.testing._runner import Call, Failure, Runner, Skipped

__all__ = [
    "CHECKS",
    "Case",
    "CheckError",
    "Report",
    "check_op",
    "differentiable",
    "on_host",
    "scalar",
]

# These run first, because if one fails, the others might end the process.
_MEMORY, _HOST = "memory of results", "host function"
_EQUATION = "equation"
_CHECKS: dict[str, Callable[[Runner], None]] = {
    _MEMORY: _checks_unusual.memory_of_results,
    "memory of operands": _checks_unusual.memory_of_operands,
    _HOST: _checks_calls.host_function,
    "values": _checks_calls.values,
    "handler": _checks_calls.handler_is_called,
    "reference switch": _checks_calls.reference_switch,
    "repeatable": _checks_calls.repeatable,
    "batch axes": _checks_calls.leading_axes_batch,
    "empty batch": _checks_calls.empty_batch,
    "large batch": _checks_unusual.large_batch,
    "empty kernel axis": _checks_unusual.empty_kernel_axis,
    "special values": _checks_unusual.special_values,
    "large values": _checks_operands.large_values,
    "ties": _checks_operands.ties,
    "equal operands": _checks_operands.equal_operands,
    "integers": _checks_operands.integers,
    "other lengths": _checks_operands.other_lengths,
    "attributes": _checks_unusual.attributes,
    "vmap": _checks_calls.vmap,
    "control flow": _checks_calls.control_flow,
    "aliases": _checks_calls.aliases,
    "side effects": _checks_calls.side_effects,
    "bad operands": _checks_calls.bad_operands,
    _EQUATION: _checks_equation.equation,
    "jvp": _checks_derivatives.jvp,
    "grad": _checks_derivatives.grad,
    "second order": _checks_derivatives.second_order,
    "jacobians": _checks_derivatives.jacobians,
    "vmap of grad": _checks_derivatives.batched_derivatives,
    "auto mesh": _checks_sharding.auto_mesh,
    "explicit mesh": _checks_sharding.explicit_mesh,
    "uneven batch on meshes": _checks_sharding.uneven_batch,
    "vmap on meshes": _checks_sharding.vmap_on_meshes,
    "side effects on meshes": _checks_sharding.effects_on_meshes,
    "shard_map": _checks_sharding.shard_map,
    "export": _checks_export.round_trip,
    "symbolic batch": _checks_export.symbolic_batch,
    "other platforms": _checks_export.other_platforms,
}


CHECKS = tuple(_CHECKS)


def __dir__() -> list[str]:
    return __all__


def check_op(
    op: FfiOp[Result],
    cases: Iterable[Case],
    *,
    skip: Iterable[str] = (),
    tolerance_factor: float = 1,
    host: Host | None = None,
) -> Report:
    """Checks an operation against its reference under every transformation.

    An operation without a reference is compared with a function on the host,
    from NumPy, SciPy or the library itself. The derivatives of that function
    are finite differences. Derivatives that the operation does not have are
    left out. Without either, only checks run that need nothing to compare with:
    memory, batches, side effects.

    Results that solve an equation (`solves=`) have to make its residual small,
    beside the terms of it; their derivatives, up to second order, are compared
    with differences of the results if all floats are 64 bits wide.

    Every check runs on every case: values, eager and jitted; memory beside
    operands and results; NaN, -0.0, large numbers, ties, op(x, x), indices out
    of range, large batches, empty and long rows, other attributes; vmap over
    any axes; derivatives up to second order; control flow; aliases; side
    effects; sharding, also of uneven batches (with four devices); export.

    A handler that nobody registered is a failure of the check "handler", unless
    you skip it. An operation with `handlers={}`, or a function as its handler,
    needs none.

    Args:
      op: the operation.
      cases: the calls to check. Small ones (rows of 3 to 40 elements) take less
        than a minute. Include each dtype that matters.
      skip: the names of checks to leave out, as in the report's table.
      tolerance_factor: multiplies the allowed errors (2e-5 of the largest value
        and of 1 for f32, 1e-12 for f64, 3e-2 for bf16, whatever the length of a
        sum; more for derivatives, and 1e-6 or more for finite differences; of a
        result that is small as a whole, at most a twentieth).
      host: `host(*operands, **attributes)` takes the operands of one row,
        without batch axes, as NumPy arrays, and returns an array or a tuple of
        arrays. Derivatives call it with float64 (complex128) instead of other
        floats. An operation with a reference is compared with it too.

    Returns:
      The report; `print` it for a table.

    Raises:
      CheckError: some checks failed. Its text is the table, each failure and,
        for the first, a call that you can copy; `error.report.failures` has
        those of the others.
      ValueError: there is no case, or a name in `skip` is unknown.
    """
    if not isinstance(op, FfiOp):
        raise TypeError(
            f"check_op: argument op: expected an operation, got {op!r}; check "
            "each operation that it calls"
        )
    skip = set(skip)
    unknown = skip - _CHECKS.keys()
    if unknown:
        raise ValueError(
            f"check_op: argument skip: expected names among "
            f"{', '.join(_CHECKS)}; got {', '.join(sorted(unknown))}"
        )
    if host is None:
        skip.add(_HOST)
    if op.spec.solves is None:
        skip.add(_EQUATION)
    rows: list[Row] = []
    for case in cases:
        # One for all checks: it keeps what is compiled, and the reference's
        # results.
        runner = Runner(op, case, tolerance_factor, host)
        for name, check in _CHECKS.items():
            if name in skip:
                continue
            rows.append(_run(name, check, runner))
            if name == _MEMORY and rows[-1].status == "FAILED":
                break  # the other checks would run it on memory of others
    if not rows:
        raise ValueError("check_op: argument cases: expected at least one case")
    report = Report(op.name, tuple(rows))
    if report.failures:
        raise CheckError(report)
    return report


def _run(name: str, check: Callable[[Runner], None], runner: Runner) -> Row:
    start = time.perf_counter()
    status, message, snippet = "passed", "", ""
    try:
        check(runner)
    except Skipped as reason:
        status, message = "skipped", str(reason)
    except Failure as failure:
        status, message, snippet = "FAILED", str(failure), failure.snippet
    except Exception as error:  # the operation broke the check itself
        status, message = "FAILED", f"{type(error).__name__}: {error}"
        snippet = runner.snippet(Call(_programs.eager))
    seconds = time.perf_counter() - start
    return Row(name, repr(runner.case), status, seconds, message, snippet)
