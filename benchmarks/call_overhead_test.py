"""An FfiOp costs no more than a bare ffi_call of the same handler."""

import jax.numpy as jnp
import pytest

import call_overhead
import xla_ffi_kit


@pytest.fixture(scope="module")
def costs():
    return call_overhead.measure(seconds=0.1)


def test_eager_call(costs):
    # About a fifth here; the bound leaves room for a busy machine.
    assert costs["eager"]["FfiOp"] <= costs["eager"]["ffi_call"]


def test_tracing(costs):
    for kind in ("tracing", "tracing and lowering"):
        assert costs[kind]["FfiOp"] <= 2 * costs[kind]["ffi_call"]


def test_compiled_programs_are_the_same():
    xla_ffi_kit.register()
    x = jnp.ones((8, 4), jnp.float32)

    def operations(name):
        call = call_overhead.CALLS[name]
        program = call_overhead.chain(call).lower(x).compile()
        lines = program.as_text().splitlines()
        return [
            line.split(" = ")[1].split("(")[0]
            for line in lines
            if " = " in line
        ]

    bare = operations("ffi_call")
    assert operations("FfiOp") == bare
    assert operations("platform_dependent") == bare
    assert sum("custom-call" in line for line in bare) == 100
