"""The loops of //tests/gpu:string_kernels on CPUs and in the emulator of CUDA,
and all of them compiled by NVRTC where it is installed."""

import emulated_cuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import string_kernels
from string_kernels import SHOWN

from xla_ffi_kit.testing import Case, check_op

_NAMES = [shown.op.name for shown in SHOWN]
_EMULATED = {shown.op.name: emulated_cuda.emulated(shown.op) for shown in SHOWN}


def _operands(shown, dtype=None, rows=None, seed=0):
    """Values that the operation is made for."""
    rng = np.random.default_rng(seed)
    made = []
    for i, text in enumerate(shown.operands):
        name, _, shape = text.rstrip("]").partition("[")
        shape = tuple(map(int, shape.split(",")))
        if rows is not None and i not in shown.op.spec.shared:
            shape = (rows, *shape[1:])
        name = dtype or name
        if name.startswith("s"):
            values = rng.integers(0, 3, shape)
        else:
            values = rng.uniform(0.1, 1, shape)
        names = {"s": "int", "f": "float", "b": "bfloat"}
        made.append(jnp.asarray(values, names[name[0]] + name.lstrip("sbf")))
    return made


def _close(got, want, dtype):
    tolerance = {"f32": 2e-5, "f64": 1e-12, "bf16": 2e-2, "f16": 3e-3}
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(
            np.asarray(g, np.float64),
            np.asarray(w, np.float64),
            rtol=tolerance.get(dtype, 0),
            atol=tolerance.get(dtype, 0),
        )


@pytest.mark.parametrize("shown", SHOWN, ids=_NAMES)
@pytest.mark.parametrize("rows", [1, 3, 32, 37])
def test_emulator_computes_the_reference(shown, rows):
    op = _EMULATED[shown.op.name]
    operands = _operands(shown, rows=rows)
    before = emulated_cuda.launches()
    got = op(*operands, **shown.attributes)
    jax.block_until_ready(got)
    assert emulated_cuda.launches() == before + 1
    want = shown.op(*operands, implementation="reference", **shown.attributes)
    _close(got, want, shown.operands[0].partition("[")[0])
    _close(shown.op(*operands, **shown.attributes), want, "f32")


@pytest.mark.parametrize("shown", SHOWN, ids=_NAMES)
def test_in_any_order_of_threads(shown):
    emulated_cuda.run_backwards(True)
    try:
        test_emulator_computes_the_reference(shown, 37)
    finally:
        emulated_cuda.run_backwards(False)


# Some of every kind on both platforms. The others on CPUs before a release: the
# contract's other half, their values on CUDA, is above.
_QUICK = ("gates", "edit_distance", "cubic_root")
_CONTRACTS = [
    (name, platform) for name in _QUICK for platform in ("cpu", "emulator")
]
_CONTRACTS_OF_OTHERS = [(name, "cpu") for name in _NAMES if name not in _QUICK]


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        *_CONTRACTS,
        *(
            pytest.param(*one, marks=pytest.mark.release)
            for one in _CONTRACTS_OF_OTHERS
        ),
    ],
)
def test_contract(name, platform):
    shown = SHOWN[_NAMES.index(name)]
    op = shown.op if platform == "cpu" else _EMULATED[name]
    case = Case(*_operands(shown), **shown.attributes)
    # The greatest of scores and NaN is a score, by the usual `if (a > b)`.
    skip = ["special values"] if name == "viterbi" else []
    print(check_op(op, [case], skip=skip))


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
    _close(loss(op), want, "f32")
    assert emulated_cuda.launches() >= before + 2
