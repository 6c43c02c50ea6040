"""Checks of plain calls: values, batch axes, vmap, control flow, aliases."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit._check import Typed
from xla_ffi_kit.library import registration
from xla_ffi_kit.op.operands import type_name
from xla_ffi_kit.op.spec import (
    DeviceKernel,
    TargetsByDtypes,
    target_of,
    targets_of,
)
from xla_ffi_kit.testing import _case, _host
from xla_ffi_kit.testing import _programs as programs
from xla_ffi_kit.testing import _programs_unusual as unusual
from xla_ffi_kit.testing._runner import Call, Failure, Runner, Skipped

JITTED = Call(programs.jitted)
# Calls of one program, in at most so many seconds, roughly.
_MANY, _SECONDS = 300, 3


def host_function(run: Runner) -> None:
    """The host function returns what the operation promises, for one row."""
    assert run.host is not None
    whole = run.case.operands()
    rows = _host.row_types(whole, run.op)
    batch_rank = run.spec.batch_rank
    operands = [
        np.asarray(x)[(0,) * batch_rank(i, x)] for i, x in enumerate(whole)
    ]
    f = functools.partial(run.op, **run.case.attributes)
    promised = jax.tree.leaves(jax.eval_shape(f, *rows))
    got = _host.call(run.op, run.host, *operands, **run.case.attributes)
    if [(y.shape, _kind(y)) for y in got] != [
        (y.shape, _kind(y)) for y in promised
    ]:
        raise Failure(
            f"the operation promises {_described(promised)} for one row, the "
            f"host function returns {_described(got)}",
            run.snippet(JITTED),
        )
    if run.spec.reference is not None:  # else the other checks do
        same = _host.on_host(run.op, run.host)(*whole, **run.case.attributes)
        run.compare(JITTED, run.run(JITTED), same)


def _kind(x: Typed) -> list[bool]:
    kinds = (np.bool_, np.integer, np.floating, np.complexfloating)
    return [jnp.issubdtype(x.dtype, kind) for kind in kinds]


def _described(types: Iterable[Typed]) -> str:
    return ", ".join(map(type_name, types))


def values(run: Runner) -> None:
    """Eager and jitted calls give what the reference gives."""
    want = run.expected(JITTED)
    run.same(Call(programs.eager), want=want)
    run.same(JITTED, want=want)


def _platform() -> str:
    """The platform that the checks run on, as handlers name it."""
    platform = jax.default_backend()
    if platform == "gpu":  # one name for two platforms
        version = jax.devices()[0].client.platform_version
        platform = "rocm" if "rocm" in version.lower() else "cuda"
    return platform


def target_of_platform(run: Runner) -> str:
    """The custom call target of the platform that the checks run on."""
    platform = _platform()
    handler = run.spec.handlers.get(platform)
    if isinstance(handler, TargetsByDtypes):
        dtypes = [x.dtype.name for x in run.case.operands()]
        handler = handler.of(dict(enumerate(dtypes)))
    target = target_of(handler)
    if target is None or (
        run.spec.if_registered
        and not registration.is_registered(target, platform)
    ):
        raise Skipped(f"no handler for {platform}")
    return target


def targets(run: Runner) -> list[str]:
    """The custom call targets of all platforms."""
    of_platforms = map(targets_of, run.spec.handlers.values())
    return [target for targets in of_platforms for target in targets]


def needs_elements(run: Runner) -> None:
    """Skips a check whose results all have no elements."""
    f = functools.partial(run.op, **run.case.attributes)
    types = jax.eval_shape(f, *run.case.operands())
    if not any(x.size for x in jax.tree.leaves(types)):
        raise Skipped("XLA makes no call whose results have no elements")


def handler_is_called(run: Runner) -> None:
    """The compiled program calls the handler of this platform.

    A target that nobody registered, on any platform, is a typo, or its library
    is missing: all other checks would compare the reference with itself.
    """
    call = Call(programs.compiled_text)
    if run.spec.if_registered and not any(
        registration.is_registered(target, platform)
        for platform, handler in run.spec.handlers.items()
        if not isinstance(handler, DeviceKernel)
        for target in targets_of(handler)
    ):
        raise Failure(
            f"no target {run.op.name!r} is registered, so that the reference "
            "runs: pass libraries= or handlers= to the operation, register the "
            'target through jax.ffi, or pass skip=["handler"]',
            run.snippet(call),
        )
    target = target_of_platform(run)
    needs_elements(run)
    if f'custom_call_target="{target}"' not in run.text(call):
        raise Failure(
            f"no call of {target!r} in the program", run.snippet(call)
        )


def reference_switch(run: Runner) -> None:
    """Switched to the reference, the program calls no handler."""
    if run.spec.reference is None:
        raise Skipped("the operation has no reference")
    call = Call(programs.lowered_text)
    text = run.text(call, reference=True)
    for target in targets(run):
        if f"@{target}(" in text:
            raise Failure(f"{target!r} is still called", run.snippet(call))


def repeatable(run: Runner) -> None:
    """All calls give the same bits, and leave their operands alone."""
    if run.spec.advanced.has_side_effect:
        raise Skipped("the operation has side effects")
    call = Call(programs.twice)
    first, second, after = cast(tuple[object, ...], run.run(call))
    run.compare(call, first, second, factor=0, what="the second call differs: ")
    run.compare(
        call,
        after,
        run.case.operands(),
        factor=0,
        what="an operand was overwritten: ",
    )
    # A fault of a state that the handler keeps may need many calls.
    seconds = min(_seconds(run) for _ in range(3))
    count = max(2, min(_MANY, round(_SECONDS / seconds)))
    call = Call.of(unusual.many_times, count=count)
    for i, again in enumerate(cast(list[object], run.run(call))):
        if not _same_bytes(again, first):
            what = f"call {i} differs: "
            run.compare(call, again, first, factor=0, what=what)
    run.compare(call, again, run.expected(JITTED), what="after many calls: ")


def _seconds(run: Runner) -> float:
    start = time.perf_counter()
    run.run(JITTED)
    return time.perf_counter() - start


def _same_bytes(a: object, b: object) -> bool:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs
    )


def check_batches(run: Runner) -> None:
    """Skips the check for an operation that has no batch axes."""
    sequential = run.spec.advanced.vmap_method == "sequential"
    if sequential or not run.spec.operand_names:
        raise Skipped("the kernel does not batch")


def leading_axes_batch(run: Runner) -> None:
    """A call with another leading axis is the rows' calls, stacked.

    Shared results are combined instead.
    """
    check_batches(run)
    axes = _case.call_axes(run.op)
    shared = tuple(run.spec.shared_results.items())
    call = Call.of(programs.whole_and_rows, axes, axes=axes, shared=shared)
    for reference in (False, True):
        whole, rows = cast(
            tuple[object, object], run.run(call, reference=reference)
        )
        run.compare(
            call,
            whole,
            rows,
            factor=8 if shared else 1,
            what="the axes left of kernel_axes do not batch: ",
        )


def empty_batch(run: Runner) -> None:
    """A batch of no rows gives empty results."""
    check_batches(run)
    axes = _case.call_axes(run.op)
    run.same(Call.of(programs.empty_batch, axes, axes=axes))


def vmap(run: Runner) -> None:
    """Any in_axes and out_axes, nested; one call if the kernel batches."""
    count = len(run.spec.operand_names)
    if not count:
        raise Skipped("no operands")
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
        run.same(Call.of(programs.vmapped, axes, in_axes=axes))
        if not run.spec.vmap_loops:
            _one_call(run, Call.of(programs.vmapped_text, axes, in_axes=axes))
    first, second = (0,) * count, (1,) * count
    if all(x.ndim for x in run.case.operands()):
        run.same(Call.of(programs.vmapped, second, in_axes=1))
    run.same(Call.of(programs.vmapped, first, in_axes=0, out_axes=-1))
    run.same(Call(programs.nested_vmap, first))


def _one_call(run: Runner, call: Call) -> None:
    text = run.text(call)
    calls = text.count(f" {run.op.name}[")
    loops = "in a loop, " if "scan[" in text or "while[" in text else ""
    if calls != 1 or loops:
        raise Failure(
            f"expected one batched call, got {calls}, {loops}in {text}",
            run.snippet(call),
        )


def control_flow(run: Runner) -> None:
    """The operation inside scan, cond and while."""
    want = run.expected(JITTED)
    row = jax.tree.map(lambda y: y[None], want)
    run.same(Call(programs.in_scan), want=row)
    run.same(Call(programs.in_cond), want=want)
    run.same(Call(programs.in_loop), want=want)


def aliases(run: Runner) -> None:
    """The call is in place if donated, else a copy, and right in both cases."""
    if not run.spec.input_output_aliases:
        raise Skipped("the operation has no aliases")
    donated = tuple(run.spec.input_output_aliases)
    call = Call.of(programs.donating, donated=donated)
    run.compare(
        call,
        run.run(call),
        run.expected(JITTED),
        what="with a donated operand: ",
    )
    run.same(Call.of(programs.using_again, index=donated[0]))
    call = Call.of(programs.donating_text, donated=donated)
    size = ",".join(map(str, run.case.operands()[donated[0]].shape))
    for line in run.text(call).splitlines():
        if " copy(" in line and f"[{size}]" in line.split(" copy(")[0]:
            raise Failure(
                f"the donated operand is copied: {line.strip()}",
                run.snippet(call),
            )


def side_effects(run: Runner) -> None:
    """A call whose result nobody reads stays if, and only if, it must."""
    target = target_of_platform(run)
    call = Call(programs.unused_text)
    present = f'custom_call_target="{target}"' in run.text(call)
    declared = run.spec.advanced.has_side_effect
    if present != declared:
        raise Failure(
            f"has_side_effect={declared}, but the unused call is "
            + ("kept" if present else "removed"),
            run.snippet(call),
        )


def bad_operands(run: Runner) -> None:
    """A rank that is too low raises an error that names the operation."""
    xs = run.case.operands()
    for i, axes in enumerate(run.spec.kernel_axes):
        if not axes:
            continue
        wrong: list[jax.typing.ArrayLike] = list(xs)
        wrong[i] = np.zeros((1,) * (axes - 1), xs[i].dtype)
        try:
            run.op(*wrong, **run.case.attributes)
        except ValueError as error:
            if str(error).startswith(f"{run.op.name}: operand "):
                continue
        raise Failure(
            f"operand {run.spec.operand_names[i]} of rank {axes - 1} is not "
            "refused by the operation's own error",
            run.snippet(Call(programs.eager)),
        )
