"""Somebody else's handlers as they are: those of jax-finufft's wheel.

They want the sizes of a call, its batch included, as attributes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import mesh_of, on

from xla_ffi_kit import Advanced, FfiOp, HandlerLibrary
from xla_ffi_kit.testing import Case, check_op

jax_finufft = pytest.importorskip("jax_finufft")
jax.config.update("jax_enable_x64", True)

LIBRARY = HandlerLibrary.from_capsules(
    jax_finufft.lowering.jax_finufft_cpu.registrations(), name="jax_finufft"
)
POINTS, MODES = 7, 5
DEFAULTS = jax_finufft.options.Opts().to_finufft_opts()
OPTIONS = """modeord debug spread_debug showwarn nthreads fftw spread_sort
    spread_kerevalmeth spread_kerpad upsampfac spread_thread maxbatchsize
    spread_nthr_atomic spread_max_sp_size""".split()


def sizes(values, points, **given):
    """What FINUFFT calls vectors, points of their own, and modes."""
    own = int(np.prod(points.shape[:-1])) or 1
    found = {
        "n_tot": own,
        "n_transf": int(np.prod(values.shape[:-1])) // own,
        "n_j": points.shape[-1],
        "n_k_1": values.shape[-1],  # of type 1: an attribute of the call
        "n_k_2": 0,
        "n_k_3": 0,
        **{
            name: float(getattr(DEFAULTS, name))
            if name == "upsampfac"
            else int(getattr(DEFAULTS, name))
            for name in OPTIONS
        },
    }
    return {k: v for k, v in found.items() if k not in given}


def jvp_of(transform, scale, places):
    """The derivative towards the points multiplies modes by i k."""

    def jvp(primals, tangents, **attributes):
        (values, points), (d_values, d_points) = primals, tangents

        def run(values):
            return transform(values, points, **attributes)

        return run(values), run(d_values) + scale(
            run, values, d_points, places(values, attributes)
        )

    return jvp


def wave_numbers(count, iflag):
    return 1j * iflag * np.arange(-(count // 2), (count + 1) // 2)


def operation(target, linear, results, attributes, jvp, transpose):
    return FfiOp(
        target,
        results=results,
        kernel_axes=1,
        libraries=[LIBRARY],
        attributes={"eps": np.float64, "iflag": np.int64, **attributes},
        advanced=Advanced(shape_attributes=sizes),
        dtypes=["c128,f64"],
        linear=linear,
        jvp=jvp,
        transpose=transpose,
    )


nufft1 = operation(
    "nufft1d1",
    "c",
    lambda c, x, *, n_k_1, eps=1e-12, iflag=1: jax.ShapeDtypeStruct(
        (n_k_1,), c.dtype
    ),
    {"n_k_1": np.int64},
    jvp_of(
        lambda *operands, **attributes: nufft1(*operands, **attributes),
        lambda run, c, dx, ik: ik * run(c * dx),
        lambda c, attributes: wave_numbers(
            attributes["n_k_1"], attributes["iflag"]
        ),
    ),
    lambda ct, c, x, *, n_k_1, **same: nufft2(ct, x, **same),
)
nufft2 = operation(
    "nufft1d2",
    "f",
    lambda f, x, *, eps=1e-12, iflag=-1: jax.ShapeDtypeStruct(x.shape, f.dtype),
    {},
    jvp_of(
        lambda *operands, **attributes: nufft2(*operands, **attributes),
        lambda run, f, dx, ik: dx * run(ik * f),
        lambda f, attributes: wave_numbers(f.shape[-1], attributes["iflag"]),
    ),
    lambda ct, f, x, **same: nufft1(ct, x, n_k_1=f.shape[-1], **same),
)

TYPE1 = (
    lambda c, x: nufft1(c, x, n_k_1=MODES),
    lambda c, x: jax_finufft.nufft1(MODES, c, x, eps=1e-12),
    POINTS,
)
TYPE2 = (
    nufft2,
    lambda f, x: jax_finufft.nufft2(f, x, eps=1e-12),
    MODES,
)
BOTH = pytest.mark.parametrize(
    ("ours", "theirs", "size"), [TYPE1, TYPE2], ids=["type 1", "type 2"]
)


def data(*lead, size):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, *lead, size))
    return values[0] + 1j * values[1], rng.uniform(-3, 3, (*lead, POINTS))


def loss(transform):
    return lambda *x: jnp.sum(jnp.abs(transform(*x)) ** 2)


def close(got, want):
    for a, b in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@BOTH
def test_like_the_package_itself(ours, theirs, size):
    values, points = data(4, size=size)
    want = theirs(values, points)
    close(ours(values, points), want)
    close(ours(values[0], points[0]), want[0])
    # The package's own vmap fails on this release of JAX.
    close(jax.jit(jax.vmap(ours))(values, points), want)
    for axes in ((0, None), (None, 0)):
        x = [
            v if axis == 0 else v[0]
            for v, axis in zip((values, points), axes, strict=True)
        ]
        whole = [np.broadcast_to(v, (4, v.shape[-1])) for v in x]
        close(jax.jit(jax.vmap(ours, axes))(*x), theirs(*whole))
    one, other = (jax.jit(jax.grad(loss(f), (0, 1))) for f in (ours, theirs))
    close(one(values, points), other(values, points))


@BOTH
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_a_mesh_keeps_its_shards(ours, theirs, size, kind):
    mesh = mesh_of(kind, (4,), ("d",))
    values, points = data(8, size=size)
    placed = [on(mesh, x, "d") for x in (values, points)]
    with jax.set_mesh(mesh):
        program = jax.jit(jax.value_and_grad(loss(ours), (0, 1)))
        compiled = program.lower(*placed).compile()
        assert "all-gather" not in compiled.as_text()
        # Each device's call has the size of what it holds.
        assert compiled.as_text().count("n_tot = 2") >= 2
        got = compiled(*placed)
    close(got, jax.value_and_grad(loss(theirs), (0, 1))(values, points))


@pytest.mark.ci
def test_contract():
    def host(f, x, *, eps=0, iflag=-1):
        k = wave_numbers(f.shape[-1], iflag)
        return np.exp(np.multiply.outer(x, k)) @ f

    report = check_op(
        nufft2,
        [Case(data(size=MODES)[0], data(size=POINTS)[1])],
        host=host,
        tolerance_factor=1e4,
        # With a batch of unknown size there are no sizes.
        skip=["symbolic batch", "jacobians", "second order"],
    )
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"grad", "vmap of grad", "auto mesh", "explicit mesh"} <= passed


def test_attributes_that_do_not_fit():
    def transform(**attributes):
        return FfiOp(
            "nufft1d2",
            results=lambda f, x: jax.ShapeDtypeStruct(x.shape, f.dtype),
            kernel_axes=1,
            libraries=[LIBRARY],
            advanced=Advanced(shape_attributes=lambda f, x: attributes),
        )

    with pytest.raises(Exception, match="(?i)attribute"):
        transform(n=1)(*data(size=MODES))


@pytest.mark.parametrize(
    ("registrations", "message"),
    [
        ({}, "argument registrations: expected a mapping of targets to"),
        ({"f": 3}, "target 'f': expected a PyCapsule, got 3"),
        (
            {"f": {"run": 3}},
            r"target 'f': expected stages of .*, got \['run'\]",
        ),
    ],
)
def test_no_registrations(registrations, message):
    with pytest.raises(TypeError, match=f"from_capsules: {message}"):
        HandlerLibrary.from_capsules(registrations)
