"""The same handlers as a hijax primitive and as an `FfiOp`: what works."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import hijax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from rms_norm import reference, rms_norm_op

if jax.__version_info__ < (0, 9):
    pytest.skip("the rules had other parameters", allow_module_level=True)

X = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
EPS = 1e-5

# The name until jax 0.11, and the one since.
Primitive = getattr(hijax, "VJPHiPrimitive", None) or hijax.HiPrim


def call(target, results, *operands, **attributes):
    made = jax.ffi.ffi_call(target, results, vmap_method="broadcast_all")
    return made(*operands, **attributes)


class Norm(Primitive):
    def __init__(self, x):
        self.in_avals, self.out_aval, self.params = (x,), x, {}
        super().__init__()

    def expand(self, x):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return call("rms_norm", out, x, eps=np.float32(EPS))

    def vjp_fwd(self, nonzero, x):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        scales = jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)
        y, scale = call("rms_norm_fwd", (out, scales), x, eps=np.float32(EPS))
        return y, (scale, x)

    def vjp_bwd_retval(self, saved, ct):
        scale, x = saved
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return (call("rms_norm_bwd", out, scale, x, ct),)

    def jvp(self, primals, tangents):
        (x,), (v,) = primals, tangents
        y, saved = self.vjp_fwd((True,), x)
        return y, self.vjp_bwd_retval(saved, v)[0]  # J is symmetric

    def batch(self, axis_data, operands, axes):
        return norm(jnp.moveaxis(operands[0], axes[0], 0)), 0


def norm(x):
    return Norm(jax.typeof(x))(x)


def loss(f):
    return lambda x: (f(x) ** 2 * jnp.arange(16.0)).sum()


def on_mesh(kind, f):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("d")))
        run = jax.jit(f).lower(x).compile()
        return run(x), "all-gather" in run.as_text()


def in_shard_map(f):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    return jax.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=P("d"))


def thrice(f):
    def body(x, _):
        return f(x) + 1, None

    return lambda x: jax.lax.scan(body, x, None, length=3)[0]


def exported(f):
    checks = [
        jax.export.DisabledSafetyCheck.custom_call(target)
        for target in ("rms_norm", "rms_norm_fwd", "rms_norm_bwd")
    ]
    return jax.export.export(jax.jit(f), disabled_checks=checks)(X).call(X)


CASES = {
    "eager": lambda f: f(X),
    "`jit`": lambda f: jax.jit(f)(X),
    "`vmap`, nested": lambda f: jax.vmap(jax.vmap(f), 1)(X.reshape(2, 4, 16)),
    "`jvp`": lambda f: jax.jvp(f, (X,), (X,))[1],
    "`grad`": lambda f: jax.jit(jax.grad(loss(f)))(X),
    "`vmap` of `grad`": lambda f: jax.vmap(jax.grad(loss(f)))(X),
    "`grad` of `vmap`": lambda f: jax.grad(loss(jax.vmap(f)))(X),
    "`jacrev`": lambda f: jax.jacrev(f)(X[0]),
    "`jacfwd`": lambda f: jax.jacfwd(f)(X[0]),
    "`linearize`": lambda f: jax.linearize(f, X)[1](X),
    "`grad` of `grad`": lambda f: jax.grad(
        lambda x: jax.grad(loss(f))(x).sum()
    )(X),
    "`hessian`": lambda f: jax.hessian(loss(f))(X[0]),
    "`grad` of `scan`": lambda f: jax.grad(loss(thrice(f)))(X),
    "`grad` of `checkpoint`": lambda f: jax.grad(jax.checkpoint(loss(f)))(X),
    "`shard_map`": lambda f: jax.jit(in_shard_map(f))(X),
    "`grad` of `shard_map`": lambda f: jax.grad(loss(in_shard_map(f)))(X),
    "sharded rows, Auto mesh": lambda f: on_mesh(AxisType.Auto, f),
    "sharded rows, Explicit mesh": lambda f: on_mesh(AxisType.Explicit, f),
    "`grad` on an Explicit mesh": lambda f: on_mesh(
        AxisType.Explicit, jax.grad(loss(f))
    ),
    "export": exported,
}


def outcome(case, f, want):
    """ "yes", "gathers", or "no" for an error."""
    try:
        got, gathers = case(f), False
        if isinstance(got, tuple):
            got, gathers = got
    except Exception:  # whatever JAX says of a missing rule
        return "no"
    want = want[0] if isinstance(want, tuple) else want
    np.testing.assert_allclose(got, want, 2e-3, 2e-3)
    return "gathers" if gathers else "yes"


# By hand, an `FfiOp`; the page has these lines.
TABLE = """
| eager | yes | yes |
| `jit` | yes | yes |
| `vmap`, nested | yes | yes |
| `jvp` | yes | yes |
| `grad` | yes | yes |
| `vmap` of `grad` | yes | yes |
| `grad` of `vmap` | yes | yes |
| `jacrev` | yes | yes |
| `jacfwd` | yes | yes |
| `linearize` | no | yes |
| `grad` of `grad` | no | yes |
| `hessian` | no | yes |
| `grad` of `scan` | yes | yes |
| `grad` of `checkpoint` | no | yes |
| `shard_map` | yes | yes |
| `grad` of `shard_map` | no | yes |
| sharded rows, Auto mesh | gathers | yes |
| sharded rows, Explicit mesh | gathers | yes |
| `grad` on an Explicit mesh | no | yes |
| export | yes | yes |
"""


@pytest.mark.parametrize("name", CASES)
def test_what_works(name):
    case = CASES[name]
    want = case(reference)
    found = [outcome(case, f, want) for f in (norm, rms_norm_op)]
    assert f"| {name} | {' | '.join(found)} |\n" in TABLE
