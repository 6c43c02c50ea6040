"""Draws a program: its operations, its modes and what wraps it."""

import fuzz_judge
import fuzz_values
import jax
import jax.numpy as jnp
import numpy as np
from fuzz_operations import CHAINED, OPERATIONS, REAL, after, argsort, plain
from fuzz_program import Builder, Draw, Program
from hypothesis import strategies as st

# Wrappers, the simplest first; those of loops make what is written out.
_ANY = ((), ("vmap",), (), ("vmap", "vmap"))
_LOOPS = (("scan",), ("vmap", "scan"), ("scan", "vmap"), ("scan",))
_GRADIENTS = (("grad",), ("grad", "vmap"))
_GRADIENTS_IN_LOOPS = (("grad", "scan"), ("scan", "grad"))
_HAVE_GRADIENTS = {
    *("linalg", "loops", "dot_general", "conv_general_dilated"),
    *("sort", "cumsum", "top_k"),
}
# What is before them and after them is drawn, too.
_HAVE_NEIGHBORS = {
    *("argmax", "argmin", "cumsum", "sort", "argsort", "top_k"),
    *("select_and_scatter_add", "conv_general_dilated"),
}
# XLA of jax 0.9 aborts while it compiles some of these.
if jax.__version_info__[:2] == (0, 9):
    _HAVE_GRADIENTS -= {"conv_general_dilated"}


@st.composite
def programs(draw: st.DrawFn, name: str) -> Program:
    """Programs of a name."""
    program, choices = Program(name), Draw(draw)
    program.x64 = choices.below(3) > 0
    program.forced = choices.below(3) > 0
    b = Builder(program, choices)
    # What is written out in loops has few elements.
    b.in_loop = choices.below(3) < (2 if name == "loops" else 1)
    prefix = choices.below(4)
    with program.options():
        _write(b, name, 1 + max(prefix - 1, 0))
    with program.options():  # some operations set an option
        _wrap(b, name)
    is_close = program.judge not in fuzz_judge.BY_BITS
    # Of these, close names replace what exact ones leave.
    has_close = name in ("conv_general_dilated", "dot_general")
    program.exact = not is_close and (has_close or not choices.rarely())
    return program


def _write(b: Builder, name: str, count: int) -> None:
    """The name's operation, before or after others that have rules."""
    main = OPERATIONS[name]
    if main in (*CHAINED, argsort):
        if count > 2 and b.draw.below(2):
            b.draw.one_of(CHAINED)(b)
            _one(b)
    main(b)
    # A handler in a loop keeps XLA from making it one function, and XLA then
    # adds the products of a matrix or of a window in another order.
    if b.program.judge not in fuzz_judge.BY_BITS or (
        name in ("dot_general", "conv_general_dilated") and b.in_loop
    ):
        return
    if name in _HAVE_NEIGHBORS and b.draw.rarely(3):
        _one(b)
        if b.aval.shape:
            after(b)
    for _ in range(count - 1):
        _one(b)
        if b.draw.below(2) and not jnp.issubdtype(
            b.aval.dtype, jnp.complexfloating
        ):
            plain(b)
        elif str(b.aval.dtype) in REAL and b.aval.shape:
            b.draw.one_of(CHAINED)(b)


def _one(b: Builder) -> None:
    """Takes one of several results."""
    while isinstance(b.aval, tuple | list):
        b.line(f"{{x}}[{b.draw.below(len(b.aval))}]")


def _wrap(b: Builder, name: str) -> None:
    """What transforms the function; the result of a gradient is one array."""
    program, draw = b.program, b.draw
    wrappers = draw.one_of(_LOOPS if b.in_loop else _ANY)
    if name in _HAVE_GRADIENTS and draw.rarely(3) and _is_differentiable(b):
        wrappers = draw.one_of(_GRADIENTS_IN_LOOPS if b.in_loop else _GRADIENTS)
    for i, wrapper in enumerate(wrappers):
        if wrapper == "grad":
            _add_gradient(b, i)
            continue
        most = max(int(np.prod(a.shape)) for a in program.arrays)
        size = draw.one_of((2, 3, 1, 9) if most < 4096 else (1, 2))
        for array in program.arrays:
            array.shape = (size, *array.shape)
            array.lead += 1
        program.batch += 1
        if wrapper == "vmap":
            line = f"f{i + 1} = jax.vmap(f{i})"
        else:
            body = f"lambda _, a: (0, f{i}(*a))"
            line = f"f{i + 1} = lambda *a: jax.lax.scan({body}, 0, a)[1]"
        program.wrappers.append(line)
    if draw.rarely(5) and "grad" not in wrappers:
        _add_branch(program)


def _add_branch(program: Program) -> None:
    """Puts it in a branch; XLA does not know which one is taken."""
    f = f"f{len(program.wrappers)}"
    other = f"lambda *a: jax.tree.map(jnp.zeros_like, {f}(*a))"
    program.wrappers.append(
        f"f{len(program.wrappers) + 1} = lambda *a: jax.lax.cond("
        f"jnp.sum(a[0] == a[0]) >= 0, {f}, {other}, *a)"
    )


def _is_differentiable(b: Builder) -> bool:
    """Whether the result, and an argument that it depends on, are of floats."""
    leaves = jax.tree.leaves(b.aval)
    first = b.program.arrays[0]
    return (
        fuzz_values.is_float(leaves[0].dtype)
        and first.dtype == str(leaves[0].dtype)
        and b.program.judge in (*fuzz_judge.BY_BITS, "linear", "solved")
        and all(leaf.dtype == leaves[0].dtype for leaf in leaves)
    )


def _add_gradient(b: Builder, place: int) -> None:
    """The gradient of the sum of the first result, times random weights."""
    program = b.program
    function = program.function()
    avals = [
        jax.ShapeDtypeStruct(a.shape, jnp.dtype(a.dtype))
        for a in program.arrays
    ]
    result = jax.tree.leaves(jax.eval_shape(function, *avals))[0]
    b.array(result.shape, str(result.dtype), "small", "normal", name="weights")
    weights = program.arrays.pop()
    weights.lead = program.batch
    floats = [i for i, a in enumerate(program.arrays) if "float" in a.dtype]
    which = b.draw.one_of(floats)
    first = "jax.tree.leaves(f{}(*a))[0]"
    program.wrappers.append(
        f"f{place + 1} = lambda w, *a: jax.grad(lambda *a: jnp.sum("
        f"{first.format(place)} * w), {which})(*a)"
    )
    program.arrays.insert(0, weights)
