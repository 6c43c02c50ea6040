"""Runs one expression on the kernel and on the reference, and compares."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.op._spec import Result
from xla_ffi_kit.op.ffi_op import FfiOp
from xla_ffi_kit.testing import _case

# Allowed error relative to the largest value of the result (and to 1).
TOLERANCES = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 2e-5,
    "float64": 1e-12,
    "complex64": 2e-5,
    "complex128": 1e-12,
}

_SETUP = """\
import functools
import jax
import jax.numpy as jnp
import numpy as np
from xla_ffi_kit.testing import Case, differentiable, scalar

op = ...  # the FfiOp named {name!r}
case = {case!r}
x = {operands}
f = functools.partial(op, **case.attributes)
g, p = differentiable(f, x)
got = {code}
# The same with f = functools.partial(f, implementation="reference") differs.
"""


class Failure(Exception):
    """A check that failed, with the call to copy."""

    def __init__(self, message: str, snippet: str = "") -> None:
        super().__init__(message)
        self.snippet = snippet


class Skipped(Exception):
    """A check that does not apply; the text says why."""


class Runner:
    """Evaluates expressions over one case of one operation.

    An expression may use `f` (the operation with its attributes), `x` (its
    operands), `g` and `p` (both reduced to what is differentiable), and what
    the snippet imports.
    """

    def __init__(
        self, op: FfiOp[Result], case: _case.Case, factor: float
    ) -> None:
        self.op = op
        self.case = case
        self._factor = factor
        self._functions: dict[tuple[Any, ...], Any] = {}
        self._wanted: dict[tuple[str, str], Any] = {}

    def snippet(self, code: str, operands: str = "case.operands()") -> str:
        return _SETUP.format(
            name=self.op.name, case=self.case, operands=operands, code=code
        )

    def _function(self, **options: Any) -> Any:
        """`f`; one object, so that `jax.jit(f)` is compiled once."""
        key = tuple(options.items())
        if key not in self._functions:
            self._functions[key] = functools.partial(
                self.op, **options, **self.case.attributes
            )
        return self._functions[key]

    def evaluate(
        self, code: str, operands: str = "case.operands()", **names: Any
    ) -> Any:
        """The value of `code` for the operation as it is."""
        return self._evaluate(code, operands, {}, names)

    def _evaluate(
        self, code: str, operands: str, options: Any, names: Any
    ) -> Any:
        scope: dict[str, Any] = {
            "functools": functools,
            "jax": jax,
            "jnp": jnp,
            "np": np,
            "differentiable": _case.differentiable,
            "scalar": _case.scalar,
            "op": self.op,
            "case": self.case,
        }
        scope.update(names)
        scope["f"] = self._function(**options)
        scope["x"] = eval(operands, scope)
        scope["g"], scope["p"] = _case.differentiable(scope["f"], scope["x"])
        try:
            return jax.block_until_ready(eval(code, scope))
        except Exception as error:
            if options:
                raise Skipped(
                    f"the reference does not support it: {_first_line(error)}"
                ) from error
            raise Failure(
                f"{type(error).__name__}: {_first_line(error)}",
                self.snippet(code, operands),
            ) from error

    def reference(
        self, code: str, operands: str = "case.operands()", **names: Any
    ) -> Any:
        """The value of `code` for the reference; Skipped if it has none.

        Computed once: references take most of the time to compile.
        """
        key = (code, operands)
        if names or key not in self._wanted:
            self._wanted[key] = self._evaluate(
                code, operands, {"implementation": "reference"}, names
            )
        return self._wanted[key]

    def same(
        self,
        code: str,
        operands: str = "case.operands()",
        *,
        want: Any = None,
        factor: float = 1,
        **names: Any,
    ) -> Any:
        """Evaluates `code` on the kernel; Failure if the reference differs.

        `want` is what the reference gives, where another expression has that
        value and is compiled already.
        """
        if want is None:
            want = self.reference(code, operands, **names)
        got = self._evaluate(code, operands, {}, names)
        problem = difference(got, want, factor * self._factor)
        if problem:
            raise Failure(problem, self.snippet(code, operands))
        return got


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return textwrap.shorten(lines[0], 300)


def difference(got: Any, want: Any, factor: float = 1) -> str | None:
    """How two results differ beyond the tolerance; None if they do not."""
    got_leaves, got_tree = jax.tree.flatten(got)
    want_leaves, want_tree = jax.tree.flatten(want)
    if str(got_tree) != str(want_tree):
        return f"expected the structure {want_tree}, got {got_tree}"
    for i, (a, b) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return (
                f"result {i}: expected {b.dtype}{list(b.shape)}, got "
                f"{a.dtype}{list(a.shape)}"
            )
        problem = _values_differ(a, b, factor)
        if problem:
            return f"result {i}: {problem}"
    return None


def _values_differ(got: Any, want: Any, factor: float) -> str | None:
    if got.size == 0 or got.dtype == jax.dtypes.float0:
        return None
    tolerance = factor * TOLERANCES.get(got.dtype.name, 0.0)
    wide: Any = np.complex128 if np.iscomplexobj(got) else np.float64
    if not _case.is_inexact(got):
        wide = np.int64 if got.dtype == np.bool_ else got.dtype.type
    a, b = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    same = (a == b) | ((a != a) & (b != b))
    if same.all():
        return None
    finite = np.isfinite(a) & np.isfinite(b) | same
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(np.where(np.isfinite(b), b, 0)), initial=1.0)
        error = np.where(same, 0, np.abs(a - b))
    if finite.all() and np.max(error) <= tolerance * scale:
        return None
    at = np.unravel_index(
        np.argmax(np.where(finite, error, np.inf)), error.shape
    )
    return (
        f"element {list(map(int, at))}: expected {b[at]}, got {a[at]} "
        f"(tolerance {tolerance * scale:.2g})"
    )
