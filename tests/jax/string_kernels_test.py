"""The loops of //tests/gpu:string_kernels on CPUs and in the emulator of CUDA,
and all of them compiled by NVRTC where it is installed."""

import emulated_cuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import string_kernels
from inline_data import close
from string_kernels import SHOWN

from xla_ffi_kit.testing import Case, check_op

_NAMES = [shown.op.name for shown in SHOWN]
_EMULATED = {shown.op.name: emulated_cuda.emulated(shown.op) for shown in SHOWN}


def _operands(shown, rows=None):
    """Values that the operation is made for."""
    rng = np.random.default_rng(0)
    made = []
    for i, text in enumerate(shown.operands):
        name, _, shape = text.rstrip("]").partition("[")
        shape = tuple(map(int, shape.split(",")))
        if rows is not None and i not in shown.op.spec.shared:
            shape = (rows, *shape[1:])
        if name.startswith("s"):
            values = rng.integers(0, 3, shape)
        else:
            values = rng.uniform(0.1, 1, shape)
        made.append(
            jnp.asarray(values, {"f32": "float32", "s32": "int32"}[name])
        )
    return made


@pytest.mark.parametrize("shown", SHOWN, ids=_NAMES)
def test_emulator_computes_the_reference(shown):
    """Of a row, of a warp's, and of more in either order of the threads."""
    op = _EMULATED[shown.op.name]
    operands = _operands(shown, rows=37)
    want = shown.op(*operands, implementation="reference")
    tolerance = {"f32": 2e-5, "s32": 0}[shown.operands[0][:3]]
    close(shown.op(*operands), want, tolerance)
    for rows, backwards in ((1, False), (32, False), (37, False), (37, True)):
        some = [
            x if i in shown.op.spec.shared else x[:rows]
            for i, x in enumerate(operands)
        ]
        before = emulated_cuda.launches()
        with emulated_cuda.threads_backwards(backwards):
            got = jax.block_until_ready(op(*some))
        assert emulated_cuda.launches() == before + 1
        close(got, [x[:rows] for x in jax.tree.leaves(want)], tolerance)


# Of each kind one.
_CONTRACTS = {
    "gates": "cpu",
    "edit_distance": "emulator",
    "cubic_root": "emulator",
}


@pytest.mark.parametrize(("name", "platform"), _CONTRACTS.items())
def test_contract(name, platform):
    shown = SHOWN[_NAMES.index(name)]
    op = shown.op if platform == "cpu" else _EMULATED[name]
    print(check_op(op, [Case(*_operands(shown))]))


def test_derivative_by_a_second_string(monkeypatch):
    a, b = _operands(SHOWN[_NAMES.index("gates")], rows=5)
    op = _EMULATED["gates"]

    def loss(f):
        return jax.grad(lambda *x: jnp.sum(jnp.sin(f(*x))), (0, 1))(a, b)

    want = loss(lambda *x: string_kernels.gates.reference(*x))
    before = emulated_cuda.launches()
    monkeypatch.setattr(
        string_kernels, "gates_backward", _EMULATED["gates_backward"]
    )
    monkeypatch.setattr(string_kernels, "gates", op)
    close(loss(op), want, 2e-5)
    assert emulated_cuda.launches() >= before + 2
