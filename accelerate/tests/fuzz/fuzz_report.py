"""Prints a failure as a script to copy, and a run as a table."""

import base64
import os
import zlib

import jax
import numpy as np
from fuzz_run import FORCED, Counter, Outcome, rules

from xla_ffi_accelerate._rule import Rule

_SHORT = 40  # elements


def literal(x: np.ndarray) -> str:
    """An array as Python, by the bits of floats."""
    bits, view = x.reshape(-1), ""
    if x.dtype.kind not in "iu":
        dtype = f"'{x.dtype}'"
        if x.dtype.name == "bfloat16":
            dtype = "jnp.bfloat16"
        bits = np.ascontiguousarray(bits).view(f"u{min(x.dtype.itemsize, 8)}")
        view = f".view({dtype})"
    text = f"np.array({bits.tolist()}, '{bits.dtype}')"
    if bits.size > _SHORT:
        packed = base64.b64encode(zlib.compress(bits.tobytes())).decode()
        text = (
            "np.frombuffer(zlib.decompress(base64.b64decode(\n        "
            f"'{packed}'\n    )), '{bits.dtype}')"
        )
    return f"{text}{view}.reshape({x.shape})"


def script(outcome: Outcome) -> str:
    """A program that shows a difference."""
    program = outcome.program
    needs = [
        "from xla_ffi_accelerate import _break_even",
        "from xla_ffi_accelerate.rules import lines, sorting",
        *(
            f"{module.__name__.rpartition('.')[2]}.{name} = {value}"
            for module, name, value in FORCED
        ),
    ]
    lines = [
        "import os",
        f"os.environ['XLA_FLAGS'] = {os.environ.get('XLA_FLAGS', '')!r}",
        "import base64",
        "import zlib",
        "import jax",
        "import jax.numpy as jnp",
        "import numpy as np",
        "from jax.experimental import sparse",
        "import xla_ffi_accelerate",
        *(needs if program.forced else []),
        f"jax.config.update('jax_enable_x64', {program.x64})",
    ]
    if not program.partitionable:
        lines.append("jax.config.update('jax_threefry_partitionable', False)")
    lines += [program.source(), "arguments = ("]
    lines += [f"    {literal(x)}," for x in outcome.arguments]
    on = f"xla_ffi_accelerate.enabled(exact={program.exact})"
    on += ", _break_even.forced()" if program.forced else ""
    lines += [
        ")",
        "with xla_ffi_accelerate.disabled():",
        "    print(jax.jit(lambda *a: f(*a))(*arguments))",
        f"with {on}:",
        "    print(jax.jit(lambda *a: f(*a))(*arguments))",
    ]
    if program.symbolic:
        lines.append("# It was exported with a symbolic first axis.")
    return "\n".join(lines)


def failure(outcome: Outcome) -> str:
    """A failure: what differs, how to run it again, and the script."""
    return (
        f"--- --replay {outcome.program.told()}, jax {jax.__version__}: "
        f"{outcome.difference}\n{script(outcome)}\n---"
    )


def rule_name(name: str, rule: Rule) -> str:
    """A rule's primitive and what it is lowered to."""
    target = (rule.target or "plain HLO").rpartition(".")[2]
    return f"{name}: {rule.primitive_name} -> {target}"


def table(counter: Counter) -> str:
    """The programs of each rule."""
    lines = []
    for name, rule in rules():
        count = counter.programs[name, rule]
        lines.append(f"{count:7d}  {rule_name(name, rule)}")
    return "\n".join(lines)
