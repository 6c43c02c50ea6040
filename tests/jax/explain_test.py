"""`op.explain()`: how an operation runs and is differentiated."""

import re

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import pytest

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp


@xla_ffi_kit.rows(
    "A s = 0; for (auto v : x) s += v; out[0] = s * by[0] * scale;",
    axes="(n),(k)->()",
    shared="by",
    dtypes="f32 bf16 s32",
    lanes=True,
    flags=["-O0"],
    derivatives="kernel",
)
def total(x, by, *, scale=2.0):
    return (x.sum(-1) * by[0] * scale).astype(x.dtype)


def _told(op):
    """The text, but for the string's hash and the size of vectors."""
    text = re.sub(r"as \S+:", "as TARGET:", op.explain())
    return re.sub(r"lanes of (4|8|16) rows", "lanes of SOME rows", text)


def test_a_string():
    way = (
        "the string's own on cpu, forward mode, and reverse mode by a tape; "
        "elsewhere the reference's; made so far:"
    )
    assert _told(total).splitlines() == [
        "total(x[..., n], by[k], *, scale)",
        "  dtypes           f32 bf16 s32",
        "  cpu              the string, compiled as TARGET: in lanes of SOME "
        "rows, integers row by row, on XLA's threads, 16-bit floats as 32-bit "
        "ones",
        "  cuda             the string, by NVRTC when a program is lowered, or "
        "else the reference",
        "  other platforms  the reference",
        "  vmap             one call with one more batch axis",
        f"  derivatives      {way} none; none of s32",
    ]
    jax.make_jaxpr(jax.grad(total))(jnp.ones(3), jnp.ones(1))
    assert (
        f"{way} total.vjp1 (not compiled yet), total.gradient1 (not compiled "
        "yet); none of s32"
    ) in total.explain()
    with xla_ffi_kit.use_reference("total"):
        assert (
            "  cpu              the reference, as use_reference switches it off"
        ) in total.explain().splitlines()


def test_a_handler_of_a_library():
    op = FfiOp(
        "xla_ffi_kit.rms_norm",
        lambda x, *, eps: x,
        libraries=xla_ffi_kit.ops.LIBRARIES[0],
        advanced=Advanced(vmap_method="sequential"),
    )
    lines = op.explain().splitlines()
    assert lines[0] == "xla_ffi_kit.rms_norm(x[..., *], *, eps)"
    topics = dict(line.strip().split("  ", 1) for line in lines[1:])
    assert {topic: text.strip() for topic, text in topics.items()} == {
        "dtypes": "x f16|bf16|f32|f64",
        "cpu": "the handler xla_ffi_kit.rms_norm of xla_ffi_kit_cpu.so",
        "other platforms": "the reference",
        "vmap": "a call for each element, in a loop",
        "derivatives": "the reference's",
    }


def _rule(*values):
    raise AssertionError


def _both(x, y):
    raise AssertionError


def _pull(*values):
    raise AssertionError


BOTH = "linear in each of x, y  forwards the operation itself, backwards the"
FORWARDS = "linear in x      forwards the operation itself, backwards"
# A line, or its beginning, and the options that it tells of.
RULES = {
    "derivatives      _rule, its jvp=": {"jvp": _rule},
    "derivatives      _rule and _pull, its vjp=, in reverse mode alone": {
        "vjp": (_rule, _pull)
    },
    f"{FORWARDS} _pull, its transpose=": {"linear": "x", "transpose": _pull},
    f"{FORWARDS} the transpose of the reference": {"linear": "x"},
    f"{BOTH} transpose": {"reference": _both, "bilinear": ("x", "y")},
    "cpu              the function _rule of": {"handlers": {"cpu": _rule}},
    "cpu              the handler missing that is registered": {
        "handlers": {"cpu": "missing"}
    },
    "in place         result 0 in the memory of x, or of a copy": {
        "aliases": {"x": 0}
    },
    "side effect      the call stays, and is not repeated": {
        "advanced": Advanced(has_side_effect=True)
    },
    "cpu              the reference, as no target 'copy' is registered": {},
}


@pytest.mark.parametrize("line", RULES)
def test_rules(line):
    options = {"reference": lambda x: x, "kernel_axes": 0} | RULES[line]
    op = FfiOp("copy", **options)
    assert f"\n  {line}" in op.explain()


def test_without_a_reference():
    op = FfiOp(
        "copy",
        results=lambda x, y: x,
        axes="(),()->()",
        handlers={"cpu": "copy"},
        linear="x",
        dtypes=["f32,s32"],
    )
    lines = [line.strip() for line in op.explain().splitlines()]
    assert lines[1:2] + lines[3:4] + lines[5:] == [
        "dtypes           f32,s32",
        "other platforms  an error",
        "derivatives      none, as there is no reference, jvp= or vjp=",
        f"{FORWARDS} none, as there is neither transpose= nor a reference",
    ]
