"""Somebody else's handlers as they are: those of jax-finufft's wheel.

They want the sizes of a call, its batch included, as attributes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import mesh_of, on

from xla_ffi_kit import Advanced, FfiOp, HandlerLibrary

jax_finufft = pytest.importorskip("jax_finufft")
jax.config.update("jax_enable_x64", True)

LIBRARY = HandlerLibrary.from_capsules(
    jax_finufft.lowering.jax_finufft_cpu.registrations(), name="jax_finufft"
)
DEFAULTS = jax_finufft.options.Opts().to_finufft_opts()
OPTIONS = """modeord debug spread_debug showwarn nthreads fftw spread_sort
    spread_kerevalmeth spread_kerpad upsampfac spread_thread maxbatchsize
    spread_nthr_atomic spread_max_sp_size""".split()


def sizes(values, points, **given):
    """What FINUFFT calls vectors, points of their own, and modes."""
    own = int(np.prod(points.shape[:-1])) or 1
    found = {name: int(getattr(DEFAULTS, name)) for name in OPTIONS}
    found |= {"upsampfac": float(DEFAULTS.upsampfac), "n_j": points.shape[-1]}
    found |= {"n_k_1": values.shape[-1], "n_k_2": 0, "n_k_3": 0, "n_tot": own}
    found["n_transf"] = int(np.prod(values.shape[:-1])) // own
    return {k: v for k, v in found.items() if k not in given}


def operation(target, results, transpose, **attributes):
    attributes |= {"eps": np.float64, "iflag": np.int64}
    return FfiOp(
        target,
        results=results,
        kernel_axes=1,
        libraries=[LIBRARY],
        attributes=attributes,
        advanced=Advanced(shape_attributes=sizes),
        dtypes=["c128,f64"],
        linear="values",
        transpose=transpose,
    )


def of_points(values, points, *, n_k_1, eps=1e-12, iflag=1):
    return jax.ShapeDtypeStruct((n_k_1,), values.dtype)


def of_modes(values, points, *, eps=1e-12, iflag=-1):
    return jax.ShapeDtypeStruct(points.shape, values.dtype)


nufft1 = operation(
    "nufft1d1",
    of_points,
    lambda ct, c, x, *, n_k_1, **same: nufft2(ct, x, **same),
    n_k_1=np.int64,
)
nufft2 = operation(
    "nufft1d2",
    of_modes,
    lambda ct, f, x, **same: nufft1(ct, x, n_k_1=f.shape[-1], **same),
)


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_like_the_package_itself(kind):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(8, 5)) + 1j * rng.normal(size=(8, 5))
    points = rng.uniform(-3, 3, (8, 7))

    def both(transform):
        def loss(values, points):
            return jnp.sum(jnp.abs(transform(values, points)) ** 2)

        return jax.jit(jax.value_and_grad(loss))

    want = both(lambda f, x: jax_finufft.nufft2(f, x, eps=1e-12))(
        values, points
    )
    mesh = mesh_of(kind, (4,), ("d",))
    placed = [on(mesh, x, "d") for x in (values, points)]
    with jax.set_mesh(mesh):
        compiled = both(nufft2).lower(*placed).compile()
        sharded = compiled(*placed)
    # Each device's call has the size of what it holds.
    assert compiled.as_text().count("n_tot = 2") >= 2
    mapped = both(jax.vmap(nufft2))(values, points)
    for got in (both(nufft2)(values, points), mapped, sharded):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
