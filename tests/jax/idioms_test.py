"""What people write in the code for a row, compiled in every form.

A form gives the same numbers as C++ and its derivatives, or an error that names
the author's line: idioms.py says which. Idioms that should compile share a
program, which an attribute chooses from, and have programs of their own where
that one does not compile; others have their own. Programs run in other
processes, as some would crash.

    python idioms_test.py [NAME...] [--forms="lanes; reverse"]

prints the outcomes of these idioms in these forms, of $CXX's compiler.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping

import idioms
import numpy as np
from idioms import IDIOMS, KINDS, Idiom

if __name__ != "__main__":
    import inline_data  # noqa: F401  a cache of the test's own

_DERIVATIVES = ("reverse", "forward", "second")
# Form -> the marks of idioms that are refused there.
FORMS = {
    "rows": (),
    "lanes": ("lanes",),
    **{form: ("slopes",) for form in _DERIVATIVES},
    **{f"{form}, lanes": ("lanes", "slopes", "both") for form in _DERIVATIVES},
}
# Form -> those before it. What a compiler refuses in one of these, it refuses
# here too, and is not asked again.
_BEFORE = {
    "forward": ("reverse",),
    "second": ("reverse",),
    "reverse, lanes": ("lanes", "reverse"),
    "forward, lanes": ("reverse, lanes",),
    "second, lanes": ("reverse, lanes",),
}
_ROWS = 19
_FLAGS = ["-march=native", "-O1"]
_BATCH = 33
_PROCESSES = 2
_SECONDS = 800  # of a process that does not end


def expected(idiom: Idiom, form: str) -> str:
    """ "right", "refused" or "either"; or "" for what is not compiled."""
    says = [
        "either"
        if idiom.marks(mark) and idiom.may_be_right(mark)
        else "refused"
        if idiom.marks(mark)
        else "right"
        for mark in FORMS[form]
    ]
    if form.startswith(("forward", "second")) and "refused" in says:
        return ""  # as in reverse
    if form.endswith(", lanes") and "refused" in says[:2]:
        return ""  # as one of both
    return next((s for s in ("refused", "either") if s in says), "right")


# --- In a process of its own --------------------------------------------------


def _batched(names: tuple[int, ...]) -> tuple[str, str]:
    """One body for several idioms, and what is before it."""
    includes, before, body = [], [], []
    for i in names:
        lines = idioms.IDIOMS[i].before.splitlines()
        hashed = [line.strip() for line in lines if "#" in line]
        rest = [line for line in lines if "#" not in line]
        includes += hashed
        before += [f"namespace idiom{i} {{", *rest, "}"]
        body += [
            f"if (idiom == {i}) [&]() -> void {{",
            f"using namespace idiom{i};",
            "do {",
            IDIOMS[i].code,
            "} while (false);",
            "}();",
        ]
    return "\n".join(body), "\n".join([*includes, *before])


@functools.cache
def _operation(names: tuple[int, ...], lanes: bool, slopes: bool, dtypes: str):
    """The operation of one idiom as it is, or of several."""
    import jax

    import xla_ffi_kit

    first = IDIOMS[names[0]]
    code, before = first.code, first.before
    if len(names) > 1:
        code, before = _batched(names)
    kind = first.kind

    def shape(x, idiom):
        m = IDIOMS[idiom].m
        size = x.shape[-1] if m is None else m
        one = jax.ShapeDtypeStruct((*x.shape[:-1], size), x.dtype)
        return (one, one) if kind == "two" else one

    parameters = KINDS[kind]
    star = ", " if "*" in parameters else ", *, "
    scope = {"shape": shape}
    exec(
        f"def idiom({parameters}{star}idiom={names[0]}):\n"
        "  return shape(x, idiom)",
        scope,
    )
    options = {}
    if kind == "in place":
        options = {"aliases": {"x": "out"}}
    if kind == "shared":
        options = {"shared": "w"}
    axes = "(n),(k)" if kind == "shared" else "(n)"
    outs = "(n)" if kind == "in place" else "(m)"
    if kind == "two":
        outs = "(m),(m)"
    op = xla_ffi_kit.rows(
        code,
        before=before,
        dtypes=dtypes,
        axes=f"{axes}->{outs}",
        results="out also" if kind == "two" else "out",
        lanes=lanes,
        derivatives="kernel" if slopes else "reference",
        has_reference=False,
        flags=_FLAGS,
        **options,
    )(scope["idiom"])
    return op


@functools.cache
def _case(number: int) -> _Case:
    return _Case(number)


class _Case:
    """An idiom's data, and what is right."""

    def __init__(self, number: int) -> None:
        self.number, self.idiom = number, IDIOMS[number]
        seed = zlib.crc32(self.idiom.name.encode())
        rng = np.random.default_rng(seed)
        n = self.idiom.n
        shapes = [(_ROWS, n)] + [(n,)] * (self.idiom.kind == "shared")
        low, high = self.idiom.x
        self.x = [rng.uniform(low, high, s).astype(np.float32) for s in shapes]
        self.t = [rng.uniform(-1, 1, s).astype(np.float32) for s in shapes]
        self.seed = rng.integers(1 << 30)

    @functools.cache  # noqa: B019
    def jitted(self, op):
        import jax

        def function(*operands):
            results = op(*operands, idiom=self.number)
            return jax.numpy.concatenate(jax.tree.leaves(results), -1)

        return jax.jit(function)

    def values(self, op, dtype=np.float32, along=0.0):
        """The results at x + along * t."""
        x = [
            v.astype(dtype) + dtype(along) * t.astype(dtype)
            for v, t in zip(self.x, self.t, strict=True)
        ]
        return np.asarray(self.jitted(op)(*x))

    @functools.cache  # noqa: B019
    def right(self, plain, along=0.0):
        """The values in float64 at x + along * t."""
        if self.idiom.numpy is None:
            return self.values(plain, np.float64, along)
        x = [
            v.astype(np.float64) + along * t
            for v, t in zip(self.x, self.t, strict=True)
        ]
        return np.asarray(self.idiom.numpy(*x), np.float64)

    def weights(self, shape):
        rng = np.random.default_rng(self.seed)
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)

    def slopes(self, form, op, plain):
        """One number, or one of each row: what came and what is right."""
        import jax

        f, x, t = self.jitted(op), self.x, self.t
        ends, order = form.partition(",")[0], 1
        if ends == "second":
            order = 2
        h = (1e-6, 1e-4)[order - 1]
        above, below = self.right(plain, h), self.right(plain, -h)
        difference = (above - below) / (2 * h)
        if order == 2:
            difference = (above - 2 * self.right(plain) + below) / (h * h)
        c = self.weights(difference.shape)
        per_row = (difference * c).sum(-1)

        def pulled(*x):
            return jax.vjp(f, *x)[1](c)

        if ends == "forward":
            came = jax.jvp(f, tuple(x), tuple(t))[1]
            return (np.asarray(came, np.float64) * c).sum(-1), per_row
        if ends == "reverse":
            slopes = pulled(*x)
        else:
            slopes = jax.jit(
                lambda x, t: jax.jvp(pulled, tuple(x), tuple(t))[1]
            )(x, t)
        parts = [
            (np.asarray(s, np.float64) * t).sum(-1)
            for s, t in zip(slopes, t, strict=True)
        ]
        if len(parts) == 1:
            return parts[0], per_row
        return sum(p.sum() for p in parts), per_row.sum()


def _difference(came, right, tolerance, least) -> str:
    """ "right", or what came."""
    right = np.asarray(right, np.float64)
    came = np.asarray(came, np.float64)
    finite = np.abs(right[np.isfinite(right)])
    most = finite.max() if finite.size else 0.0
    if came.shape == right.shape and np.allclose(
        came, right, rtol=0, atol=tolerance * most + least, equal_nan=True
    ):
        return "right"
    if came.shape != right.shape:
        return f"wrong: shape {came.shape}, expected {right.shape}"
    far = np.argsort(-np.nan_to_num(np.abs(came - right), nan=np.inf), None)[:3]
    return f"wrong: right {right.flat[far]}, came {came.flat[far]}"


def _outcome(case: _Case, form: str, op, plain) -> str:
    idiom = case.idiom
    if form in ("rows", "lanes"):
        came = case.values(op)
        outcome = "right"
        if form == "lanes":
            by_rows = case.values(plain)
            outcome = _difference(came, by_rows, idiom.tolerance, 1e-6)
        if idiom.numpy is not None and outcome == "right":
            return _difference(came, case.right(plain), idiom.tolerance, 1e-6)
        return outcome
    came, right = case.slopes(form, op, plain)
    return _difference(came, right, idiom.slope_tolerance, 1e-5)


def _run(
    names: tuple[int, ...],
    outcomes: dict[tuple[int, str], str],
    tell: Callable[[object], None],
    forms: Collection[str],
) -> None:
    """Runs idioms of one kind in all forms; tells each before and after."""
    from xla_ffi_kit.errors import BuildError

    def outcome_of(i, form, names, plain_names):
        tell([i, form, None])
        try:
            plain = op = _operation(plain_names, False, False, "f32 f64")
            if form != "rows":
                slopes = form != "lanes"
                op = _operation(names, "lanes" in form, slopes, "f32")
            return _outcome(_case(i), form, op, plain)
        except BuildError as error:
            return f"refused: {error}"
        except Exception as error:
            return f"wrong: {type(error).__name__}: {error}"

    def settle(i, form, outcome):
        outcomes[i, form] = outcome
        tell([i, form, outcome])

    def try_all(form, group, plain_names):
        for i in group:
            if (i, form) in outcomes:
                continue
            outcome = outcome_of(i, form, group, plain_names)
            if outcome.startswith("refused") and len(group) > 1:
                for j in group:
                    try_all(form, (j,), plain_names)
                return
            settle(i, form, outcome)

    def programs(names):
        """The row-by-row programs, of all, or of each if that fails."""
        try:
            _operation(names, False, False, "f32 f64")
            return [names]
        except BuildError:
            return [(i,) for i in names]

    for plain in programs(names):
        for form in forms:
            groups = collections.defaultdict(list)
            for i in plain:
                before = [outcomes.get((i, f)) for f in _BEFORE.get(form, ())]
                refused = [s for s in before if s and s.startswith("refused")]
                kind = expected(IDIOMS[i], form)
                if kind == "either" and refused:
                    settle(i, form, refused[0])
                    continue
                if kind == "either" and before == ["right"]:
                    kind = "right"  # it most likely compiles here, too
                groups[kind].append(i)
            try_all(form, tuple(groups["right"]), plain)
            try_all(form, tuple(groups["either"]), plain)
            for i in groups["refused"]:
                try_all(form, (i,), plain)


def _serve() -> None:
    """Runs the tasks of standard input, but for outcomes that are there."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(message):
        print(json.dumps(message), file=out, flush=True)

    import jax

    jax.config.update("jax_enable_x64", True)
    tasks, rows, forms = json.load(sys.stdin)
    outcomes = {(i, form): outcome for i, form, outcome in rows}
    for names in tasks:
        _run(tuple(names), outcomes, tell, forms)


# --- In the test --------------------------------------------------------------


def _tasks(numbers) -> list[list[int]]:
    of_kind = collections.defaultdict(list)
    for i in numbers:
        of_kind[IDIOMS[i].kind].append(i)
    return [
        row[begin : begin + _BATCH]
        for row in of_kind.values()
        for begin in range(0, len(row), _BATCH)
    ]


def run(
    numbers: Iterable[int] = range(len(IDIOMS)),
    forms: Collection[str] = tuple(FORMS),
) -> dict[tuple[int, str], str]:
    """Number and form -> "right", or what is said or wrong."""
    outcomes: dict[tuple[int, str], str] = {}
    tasks = _tasks(numbers)
    ordered = [form for form in FORMS if form in forms]
    threads = [
        threading.Thread(
            target=_run_elsewhere,
            args=(tasks[k::_PROCESSES], ordered, outcomes),
        )
        for k in range(_PROCESSES)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _run_elsewhere(tasks, forms, outcomes) -> None:
    """Runs tasks in a process, and after a crash the others in a new one."""
    names = {i for task in tasks for i in task}
    while True:
        rows = [[*k, v] for k, v in list(outcomes.items()) if k[0] in names]
        try:
            process = subprocess.run(
                [sys.executable, __file__, "--serve"],
                input=json.dumps([tasks, rows, forms]).encode(),
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                timeout=_SECONDS,
            )
            output, how = process.stdout, f"signal {-process.returncode}"
        except subprocess.TimeoutExpired as error:
            output, how = error.stdout or b"", f"{_SECONDS} s"
        at = None
        for i, form, outcome in map(json.loads, output.splitlines()):
            at = (i, form) if outcome is None else None
            if outcome is not None:
                outcomes[i, form] = outcome
        if at is None:
            return
        outcomes[at] = f"crash: {how}"


def _names_line(idiom: Idiom, form: str, message: str) -> bool:
    """Whether an error names a line that has the form's mark."""
    for text in (idiom.before, idiom.code):
        for number, line in enumerate(text.splitlines(), 1):
            code, _, comment = line.partition("//")
            marks = comment.replace("?", "").split()
            if not set(FORMS[form]) & set(marks):
                continue
            if code.strip() in message or re.search(
                rf"(>:|line ){number}\b", message
            ):
                return True
    return False


def _fault(idiom: Idiom, form: str, outcome: str | None) -> str:
    """What is not as the table has it; "" if all is."""
    kind = expected(idiom, form)
    if outcome is None:
        return "did not run" if kind else ""
    if outcome == "right":
        return "compiles, and is right" if kind == "refused" else ""
    if not outcome.startswith("refused") or kind == "right":
        return outcome
    if not _names_line(idiom, form, outcome):
        return f"names another line: {outcome}"
    return ""


def report(outcomes) -> str:
    """A table: idioms, right, refused, wrong, by form."""
    lines = [f"{'form':18} right  refused  wrong"]
    for form in FORMS:
        of_form = [v for (_, f), v in outcomes.items() if f == form]
        right = sum(v == "right" for v in of_form)
        refused = sum(v.startswith("refused") for v in of_form)
        wrong = len(of_form) - right - refused
        lines.append(f"{form:18} {right:5}  {refused:7}  {wrong:5}")
    return f"{len(IDIOMS)} idioms\n" + "\n".join(lines)


def faults(
    outcomes: Mapping[tuple[int, str], str],
    numbers: Iterable[int] = range(len(IDIOMS)),
    forms: Collection[str] = tuple(FORMS),
) -> list[str]:
    """What is not as the table has it, a line for each idiom and form."""
    texts = {
        (i, form): _fault(IDIOMS[i], form, outcomes.get((i, form)))
        for i in numbers
        for form in forms
    }
    return [
        f"{IDIOMS[i].name}, {form}: {text}"
        for (i, form), text in texts.items()
        if text
    ]


def test_every_idiom_is_right_or_refused_in_every_form():
    outcomes = run()
    print(report(outcomes))
    assert not faults(outcomes), "\n".join(faults(outcomes))


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="words in idioms' names")
    parser.add_argument("--forms", default="; ".join(FORMS))
    options = parser.parse_args()
    forms = [form.strip() for form in options.forms.split(";")]
    numbers = [
        i
        for i, idiom in enumerate(IDIOMS)
        if not options.names
        or any(word in idiom.name for word in options.names)
    ]
    outcomes = run(numbers, forms)
    for i in numbers:
        words = [outcomes.get((i, f), "-").split(":")[0] for f in forms]
        print(f"{IDIOMS[i].name:50}", *words)
    print(report(outcomes))
    print("\n".join(faults(outcomes, numbers, forms)))


if __name__ == "__main__":
    _serve() if sys.argv[1:] == ["--serve"] else _main()
