"""Elements that differentiate themselves on CUDA, run by the emulator."""

import emulated_cuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inline_data import close

import xla_ffi_kit


@xla_ffi_kit.elementwise(
    "mixed(x, y) * scale + factors[0] * std::pow(y, 2.5f)",
    'kit::where(x > 0, std::max(x, y), mode == "up" ? x * y : -y)',
    before="""
    template <typename X>
    X mixed(const X& x, const X& y) {
      return std::tanh(x) * std::exp(y) + std::abs(x);
    }""",
    dtypes="f32 bf16",
    derivatives="kernel",
    platforms=("cpu", "cuda"),
)
def gate(x, y, *, scale=2.0, factors=(0.5, 1.0), mode="up"):
    mixed = jnp.tanh(x) * jnp.exp(y) + jnp.abs(x)
    other = x * y if mode == "up" else -y
    return (
        mixed * scale + factors[0] * y**2.5,
        jnp.where(x > 0, jnp.maximum(x, y), other),
    )


def _operands(count, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.uniform(0.2, 1, 300), dtype) for _ in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "steps",
    [["vjp"], ["jvp"]],
    ids="-".join,
)
def test_the_emulator_computes_what_cpus_do(steps, dtype):
    op, results = gate, 2
    for step in steps:
        make = op.spec.advanced.differentiate
        active = (0, 1)
        op = getattr(make, step)(active, [0] * results)
        results = 2 if step == "vjp" else results
    operands = _operands(len(op.spec.operands), dtype)
    before = emulated_cuda.launches()
    got = emulated_cuda.emulated(op)(*operands)
    jax.block_until_ready(got)
    assert emulated_cuda.launches() == before + 1
    close(got, op(*operands), 2e-5 if dtype == "float32" else 2e-2)


def test_a_gradient_runs_on_cuda():
    """In a program for CUDA, by the handler that launches kernels."""

    def loss(x, y):
        return sum(jnp.sum(z) for z in gate(x, y))

    compiled = []

    def record(name, kernel, options, for_export):
        compiled.append(name)
        return emulated_cuda.compile_for_emulator(
            name, kernel, options, for_export
        )

    make = gate.spec.advanced.differentiate
    for op in (gate, make.vjp((0, 1), [0, 0])):
        object.__setattr__(op.spec.handlers["cuda"], "compile", record)
    program = jax.jit(jax.grad(loss, (0, 1))).trace(*_operands(2, "float32"))
    text = program.lower(lowering_platforms=("cuda",)).as_text()
    assert "gate.vjp3" in compiled
    assert text.count("custom_call @xla_ffi_kit.launch(") == len(compiled)
