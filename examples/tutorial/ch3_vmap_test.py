"""vmap of a custom call: one call of the whole batch, or one call a row."""

import jax
import numpy as np
import pytest
from rms_norm import reference, rms_norm, rms_norm_op

X = np.arange(12, dtype=np.float32).reshape(3, 4)
METHODS = ["broadcast_all", "expand_dims", "sequential", "sequential_unrolled"]


def rows(method):
    return jax.vmap(lambda row: rms_norm(row, vmap_method=method))


@pytest.mark.parametrize("method", METHODS)
def test_what_each_method_makes_of_it(method):
    np.testing.assert_allclose(rows(method)(X), reference(X), 1e-6)
    jaxpr = str(jax.make_jaxpr(rows(method))(X))
    assert jaxpr.count("ffi_call[") == 1
    if method.startswith("sequential"):
        assert "scan[" in jaxpr and "ShapedArray(float32[4])" in jaxpr
        assert f"unroll={1 if method == 'sequential' else 3}" in jaxpr
    else:
        assert "scan[" not in jaxpr and "ShapedArray(float32[3,4])" in jaxpr


def bwd(method):
    def call(scale, x, ct):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        target = "rms_norm_bwd"
        return jax.ffi.ffi_call(target, out, vmap_method=method)(scale, x, ct)

    return jax.vmap(call, in_axes=(0, 0, None))


def test_an_operand_that_is_not_mapped():
    operands = X[:, 0], X, X[0]
    repeated = str(jax.make_jaxpr(bwd("broadcast_all"))(*operands))
    assert "f32[3,4] = broadcast_in_dim" in repeated
    expanded = str(jax.make_jaxpr(bwd("expand_dims"))(*operands))
    assert "f32[1,4] = broadcast_in_dim" in expanded
    # This handler does not broadcast, and says so: it checks its operands.
    with pytest.raises(jax.errors.JaxRuntimeError, match="ct of x's shape"):
        jax.block_until_ready(bwd("expand_dims")(*operands))


def test_without_a_method_it_is_an_error():
    with pytest.raises(NotImplementedError, match="vmap is only supported"):
        rows(None)(X)


@jax.custom_batching.custom_vmap
def own_rule(x):
    return rms_norm(x)


@own_rule.def_vmap
def own_rule_vmap(axis_size, in_batched, x):
    return own_rule(x), in_batched[0]  # the handler takes any batch axes


def test_a_rule_of_ones_own_and_vmap_of_vmap():
    cube = np.stack([X, X + 1])
    for norm in (own_rule, rms_norm_op):
        got = jax.vmap(jax.vmap(norm))(cube)
        np.testing.assert_allclose(got, reference(cube), 1e-6)


def test_an_ffi_op_knows_by_its_kernel_axes():
    columns = jax.vmap(rms_norm_op, in_axes=1, out_axes=1)
    np.testing.assert_allclose(columns(X), reference(X.T).T, 1e-6)
    assert jax.jit(columns).lower(X).as_text().count("@rms_norm(") == 1
