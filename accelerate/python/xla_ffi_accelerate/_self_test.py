"""What self-tests run in: JAX as it is where nobody has configured anything.

A thread of its own has none of what the caller has entered (a mesh, a trace,
a transfer guard), and is on the CPU.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np

from xla_ffi_accelerate import _replacement, _setting
from xla_ffi_accelerate._rule import Rule
from xla_ffi_accelerate._setting import OFF, Setting

Result = TypeVar("Result")


def isolated(function: Callable[[], Result]) -> Result:
    """`function()`, with JAX's defaults on its CPU, and XLA's own code.

    Raises what `function` does. It is called while JAX lowers, and may compile.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with contextlib.ExitStack() as stack:
                for context in _defaults():
                    stack.enter_context(context)
                results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="xla_ffi_kit self-test")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _defaults() -> list[contextlib.AbstractContextManager[object]]:
    """In the place of what the process may have configured."""
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
    rule: Rule, function: Callable[..., object], *arguments: object
) -> bool:
    """Whether `rule` changes no bit of `function(*arguments)`.

    For a rule's self-test: compiles the function with XLA's own code and again
    with the rule, and runs both, isolated.
    """
    _replacement.install("", rule)

    def compare() -> bool:
        own, want = _run(function, arguments)
        with _setting.using(Setting(rules=(("", rule),))):
            program, got = _run(function, arguments)
        # A program that does without the rule would prove nothing.
        return program != own and got == want

    return isolated(compare)


def _run(
    function: Callable[..., object], arguments: tuple[object, ...]
) -> tuple[str, list[bytes]]:
    """The program and the bits of its results."""
    # A new function object, for which JAX has not kept anything compiled.
    lowered = jax.jit(lambda *a: function(*a)).lower(*arguments)
    leaves = jax.tree.leaves(lowered.compile()(*arguments))
    bits = [np.asarray(leaf).tobytes() for leaf in leaves]
    return lowered.as_text(), bits
