"""Tests how this release of XLA computes, if a rule's bits depend on it.

The table lists what is verified. On any other release, a rule is compared with
XLA's own code when a process first lowers a program that it covers. The test
runs on the CPU with JAX's defaults, on a separate thread, so that contexts of
the caller (a mesh, a trace, a transfer guard) do not affect it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import jax
import jaxlib
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _jax, _processor, _setting
from xla_ffi_accelerate._rule import Found, Rule, SelfTest, call_with
from xla_ffi_accelerate._setting import OFF, Setting

T = TypeVar("T")
Function: TypeAlias = Callable[..., object]

_AGREES: Mapping[str, Found | None] = dict.fromkeys(
    ("0.8.1", "0.9.2", "0.10.2", "0.12.0.1"), {}
)
_DEPTHWISE: Mapping[str, Found | None] = {
    "0.8.1": None,
    "0.9.2": {"is_fused": 1},
    "0.10.2": {"is_fused": 0},
    "0.12.0.1": {"is_fused": 1},
}
# Test -> release of jaxlib -> what the test finds there; None if XLA computes
# in an order that the rule does not have. If it depends on the processor, the
# line is of those with AVX-512, and those with AVX2 have another.
VERIFIED: Mapping[str, Mapping[str, Found | None]] = {
    # A tree of blocks of 16.
    "cumulative sum": _AGREES,
    # Whether a product and a sum are rounded once, together.
    "depthwise convolution": _DEPTHWISE,
    "depthwise convolution, AVX2": _DEPTHWISE,
    # The windows of an element in row-major order.
    "gradient of pooling": _AGREES,
}


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a test did not pass.

    Attributes:
      reason: a sentence.
      is_news: whether it is unexpected, and the user has to know.
    """

    reason: str
    is_news: bool


_found: dict[tuple[Rule, tuple[object, ...]], Found | Failure] = {}


def find(
    rule: Rule, avals: Sequence[ShapedArray], parameters: dict[str, object]
) -> Found | Failure:
    """Returns what the rule has to know of XLA for a call; may run a test."""
    test = rule.test
    if test is None:
        return {}
    known = verified(test)
    if jaxlib.__version__ in known:
        found = known[jaxlib.__version__]
        if found is None:
            return Failure("this XLA sums in another order", False)
        return found
    at = rule, call_with(test.key, *avals, parameters=parameters)
    if at not in _found:
        if not _jax.backend_is_up():
            return Failure("it tests itself once JAX has started", False)
        # In a release that is known, it is the processor that differs.
        is_expected = jaxlib.__version__ in VERIFIED.get(test.name, {})
        _found[at] = _run(rule, test, at[1], is_expected)
    return _found[at]


def verified(test: SelfTest) -> Mapping[str, Found | None]:
    """Returns what the test finds on this processor, by release of jaxlib."""
    name = test.name
    if test.depends_on_processor and not _processor.has_avx512():
        if not _processor.has_avx2():
            return {}
        name += ", AVX2"
    return VERIFIED.get(name, {})


def has_failed(rule: Rule) -> bool:
    """Whether a test has failed that does not depend on sizes."""
    return isinstance(_found.get((rule, ())), Failure)


def _run(
    rule: Rule, test: SelfTest, key: tuple[object, ...], is_expected: bool
) -> Found | Failure:
    try:
        found = test.run(rule, *key)
    except Exception as error:  # the program has JAX's own code
        return Failure(f"the self-test of the {test.name}: {error!r}", True)
    if found is None:
        return Failure(
            "XLA computes in another order", is_news=not (key or is_expected)
        )
    return found


def isolated(function: Callable[[], T]) -> T:
    """Calls `function` on the CPU with JAX's defaults and XLA's own code.

    It raises what `function` raises. It is called while JAX lowers, and may
    compile programs.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with contextlib.ExitStack() as stack:
                for context in _defaults():
                    stack.enter_context(context)
                results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="xla_ffi_accelerate self-test")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _defaults() -> list[contextlib.AbstractContextManager[object]]:
    """JAX's defaults instead of the configuration of the process."""
    return [
        _setting.using(OFF),
        jax.default_device(jax.local_devices(backend="cpu")[0]),
        jax.transfer_guard("allow"),
        jax.disable_jit(False),
        jax.enable_x64(True),  # every dtype is what it is called
        jax.default_matmul_precision(None),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ]


def same_bits(
    rule: Rule,
    function: Function,
    *arguments: object,
    trial: Found | None = None,
) -> bool:
    """Whether a rule, once installed, changes no bit of a function's results.

    It compiles the function with XLA's own code and with the rule, which takes
    `trial` as given, and runs both, isolated.
    """

    def compare() -> bool:
        own, want = _bits(function, arguments)
        with _setting.using(Setting(rules=(("", rule),), trial=trial or {})):
            program, got = _bits(function, arguments)
        # A program that does without the rule would prove nothing.
        return program != own and got == want

    return isolated(compare)


def _bits(
    function: Function, arguments: tuple[object, ...]
) -> tuple[str, list[bytes]]:
    """The program and the bits of its results."""
    # A new function object, for which JAX has not kept anything compiled.
    lowered = jax.jit(lambda *a: function(*a)).lower(*arguments)
    leaves = jax.tree.leaves(lowered.compile()(*arguments))
    bits = [np.asarray(leaf).tobytes() for leaf in leaves]
    return lowered.as_text(), bits
