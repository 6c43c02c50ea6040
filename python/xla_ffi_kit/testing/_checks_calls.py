"""Checks of plain calls: values, batch axes, vmap, control flow, aliases."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np

from xla_ffi_kit.testing import _case
from xla_ffi_kit.testing._compare import Failure, Runner, Skipped, difference

JIT = "jax.jit(f)(*x)"


def values(run: Runner) -> None:
    """Eager and jitted calls give what the reference gives."""
    want = run.reference(JIT)
    run.same("f(*x)", want=want)
    run.same(JIT, want=want)


def _target(run: Runner) -> str:
    """The custom call target of the platform that the checks run on."""
    platform = jax.default_backend()
    if platform == "gpu":  # one name for two platforms
        version = jax.devices()[0].client.platform_version
        platform = "rocm" if "rocm" in version.lower() else "cuda"
    target = run.op.handlers.get(platform)
    if not isinstance(target, str):
        raise Skipped(f"no handler for {platform}")
    return target


def targets(run: Runner) -> list[str]:
    """The custom call targets of all platforms."""
    return [t for t in run.op.handlers.values() if isinstance(t, str)]


def handler_is_called(run: Runner) -> None:
    """The compiled program calls the handler of this platform."""
    target = _target(run)
    code = "jax.jit(f).lower(*x).compile().as_text()"
    if f'custom_call_target="{target}"' not in run.evaluate(code):
        raise Failure(
            f"no call of {target!r} in the program", run.snippet(code)
        )


def reference_switch(run: Runner) -> None:
    """Switched to the reference, the program calls no handler."""
    code = (
        "jax.jit(lambda *x: f(*x, implementation='reference'))"
        ".lower(*x).as_text()"
    )
    text = run.evaluate(code)
    for target in targets(run):
        if f"@{target}(" in text:
            raise Failure(f"{target!r} is still called", run.snippet(code))


def repeatable(run: Runner) -> None:
    """Two calls give the same bits, and leave their operands alone."""
    if run.op.has_side_effect:
        raise Skipped("the operation has side effects")
    code = "[jax.jit(f)(*x), jax.jit(f)(*x), x]"
    first, second, after = run.evaluate(code)
    problem = difference(first, second, 0)
    if problem:
        raise Failure(f"the second call differs: {problem}", run.snippet(code))
    problem = difference(after, run.case.operands(), 0)
    if problem:
        raise Failure(
            f"an operand was overwritten: {problem}", run.snippet(code)
        )


def _all_axes(run: Runner, axis: int = 0) -> str:
    return f"case.batched({(axis,) * len(run.op.operand_names)})"


def leading_axes_batch(run: Runner) -> None:
    """A call with another leading axis is the rows' calls, stacked.

    Shared results are summed instead.
    """
    if run.op.vmap_method == "sequential" or not run.op.operand_names:
        raise Skipped("the kernel does not batch")
    axes = _case.call_axes(run.op)
    operands = f"case.batched({axes})"
    row = "*(v if a is None else v[i] for v, a in zip(x, axes))"
    rows = (
        "[jnp.sum(r, 0) if j in op.shared_results else r for j, r in enumerate("
        "jax.tree.leaves(jax.tree.map(lambda *r: jnp.stack(r), "
        f"*[f({row}{{0}}) for i in range(3)])))]"
    )
    factor = 8 if run.op.shared_results else 1
    for implementation in ("", ", implementation='reference'"):
        whole = f"jax.tree.leaves(f(*x{implementation}))"
        code = f"({whole}, {rows.format(implementation)})"
        got, want = run.evaluate(code, operands, axes=axes)
        problem = difference(got, want, factor)
        if problem:
            raise Failure(
                "the axes left of kernel_axes do not batch: " + problem,
                run.snippet(code, operands),
            )


def empty_batch(run: Runner) -> None:
    """A batch of no rows gives empty results."""
    if run.op.vmap_method == "sequential" or not run.op.operand_names:
        raise Skipped("the kernel does not batch")
    axes = _case.call_axes(run.op)
    run.same(
        JIT,
        f"tuple(v if a is None else v[:0] for v, a in "
        f"zip(case.batched({axes}), {axes}))",
    )


def vmap(run: Runner) -> None:
    """Any in_axes and out_axes, nested; one call, not a loop."""
    count = len(run.op.operand_names)
    if not count:
        raise Skipped("no operands")
    ranks = [x.ndim for x in run.case.operands()]
    choices: list[tuple[int | None, ...]] = [
        axes
        for axes in itertools.product((0, None, -1), repeat=count)
        if any(a is not None for a in axes)
    ]
    # All combinations of up to two operands, else each alone and all together.
    if count > 2:
        choices = [
            axes
            for axes in choices
            if len(set(axes)) == 1 or axes.count(None) == count - 1
        ]
    for axes in choices:
        batched = f"case.batched({axes})"
        code = f"jax.vmap(f, {axes})(*x)"
        run.same(code, batched)
        _one_call(run, f"jax.vmap(f, {axes})", batched)
    if all(ranks):
        run.same("jax.vmap(f, 1, out_axes=0)(*x)", _all_axes(run, 1))
    run.same("jax.vmap(f, 0, out_axes=-1)(*x)", _all_axes(run))
    nested = "jax.vmap(jax.vmap(f), (0,) + (None,) * {n})(*x)"
    first = f"(lambda v, *r: (v[None], *r))(*{_all_axes(run)})"
    run.same(nested.format(n=count - 1), first)


def _one_call(run: Runner, function: str, operands: str) -> None:
    if run.op.vmap_method == "sequential":
        return
    code = f"str(jax.make_jaxpr({function})(*x))"
    text = run.evaluate(code, operands)
    calls = text.count(f" {run.op.name}[")
    if calls != 1 or "scan[" in text or "while[" in text:
        raise Failure(
            f"expected one batched call, got {calls} in {text}",
            run.snippet(code, operands),
        )


def control_flow(run: Runner) -> None:
    """The operation inside scan, cond and while."""
    want = run.reference(JIT)
    run.same(
        "jax.lax.map(lambda r: f(*r), tuple(v[None] for v in x))",
        want=jax.tree.map(lambda y: y[None], want),
    )
    run.same("jax.jit(lambda b: jax.lax.cond(b, f, f, *x))(True)", want=want)
    run.same(
        "jax.lax.fori_loop(0, 2, lambda _, y: f(*x), jax.tree.map("
        "jnp.zeros_like, f(*x)))",
        want=want,
    )


def aliases(run: Runner) -> None:
    """In place if donated, a copy if not; right in both cases."""
    if not run.op.aliases:
        raise Skipped("the operation has no aliases")
    donated = tuple(run.op.aliases)
    code = f"jax.jit(f, donate_argnums={donated})(*x)"
    got = run.evaluate(code)
    problem = difference(got, run.reference(JIT))
    if problem:
        raise Failure(f"with a donated operand: {problem}", run.snippet(code))
    i = donated[0]
    code = f"jax.jit(lambda *x: (f(*x), x[{i}] + 1))(*x)"
    run.same(code)
    code = f"jax.jit(f, donate_argnums={donated}).lower(*x).compile().as_text()"
    operand = run.case.operands()[i]
    size = ",".join(map(str, operand.shape))
    for line in run.evaluate(code).splitlines():
        if " copy(" in line and f"[{size}]" in line.split(" copy(")[0]:
            raise Failure(
                f"the donated operand is copied: {line.strip()}",
                run.snippet(code),
            )


def side_effects(run: Runner) -> None:
    """A call whose result nobody reads stays if, and only if, it must."""
    target = _target(run)
    code = "jax.jit(lambda *x: (f(*x), 1)[1]).lower(*x).compile().as_text()"
    present = f'custom_call_target="{target}"' in run.evaluate(code)
    if present != run.op.has_side_effect:
        raise Failure(
            f"has_side_effect={run.op.has_side_effect}, but the unused call is "
            + ("kept" if present else "removed"),
            run.snippet(code),
        )


def bad_operands(run: Runner) -> None:
    """Too low a rank is refused by an error that names the operation."""
    xs = run.case.operands()
    for i, axes in enumerate(run.op.kernel_axes):
        if not axes:
            continue
        wrong: list[Any] = list(xs)
        wrong[i] = np.zeros((1,) * (axes - 1), xs[i].dtype)
        try:
            run.op(*wrong, **run.case.attributes)
        except ValueError as error:
            if str(error).startswith(f"{run.op.name}: operand "):
                continue
        raise Failure(
            f"operand {run.op.operand_names[i]} of rank {axes - 1} is not "
            "refused by the operation's own error",
            run.snippet("f(*x)"),
        )
