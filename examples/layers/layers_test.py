"""Drop-in layers: the numbers and checkpoints of the layers they replace."""

import collections
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

WIDTH, DEPTH, ROWS, STEPS = 24, 2, 6, 20


def data(seed=0):
    rng = np.random.default_rng(seed)
    shape = (ROWS, WIDTH)
    return tuple(jnp.asarray(rng.normal(size=shape), "f4") for _ in range(2))


def assert_same(a, b, tolerance=1e-5):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    for x, y in leaves:
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def norms_of(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name == "xla_ffi_kit.rms_norm":
            yield len(equation.invars)
        if "jaxpr" in equation.params:
            yield from norms_of(equation.params["jaxpr"])


def norms_by_operands(function, x):
    """How often the kit's norm is called with so many operands."""
    return dict(collections.Counter(norms_of(jax.make_jaxpr(function)(x))))


# --- Flax NNX -----------------------------------------------------------------


@pytest.fixture(name="flax")
def flax_fixture():
    pytest.importorskip("flax")
    import flax_rms_norm

    return flax_rms_norm


def flax_models(flax):
    from flax import nnx

    plain = flax.Model(WIDTH, DEPTH, rngs=nnx.Rngs(0))
    kit = flax.Model(WIDTH, DEPTH, rngs=nnx.Rngs(0))
    assert flax.use_kit(kit) == DEPTH + 1
    return plain, kit


def test_flax_trains_alike(flax):
    from flax import nnx

    plain, kit = flax_models(flax)
    x, target = data()
    first = flax.train_step(kit, x, target)
    assert_same(first, flax.train_step(plain, x, target))
    for _ in range(STEPS):
        losses = [flax.train_step(m, x, target) for m in (plain, kit)]
        assert_same(*losses)
    assert losses[0] < first
    assert_same(nnx.state(plain), nnx.state(kit), 1e-4)
    program = nnx.jit(lambda m, x: m(x)).lower(kit, x).compile().as_text()
    target = 'custom_call_target="xla_ffi_kit.rms_norm"'
    assert program.count(target) == DEPTH + 1
    assert norms_by_operands(kit, x) == {2: 1, 3: DEPTH}


def test_flax_checkpoints_are_interchangeable(flax):
    from flax import nnx

    plain, kit = flax_models(flax)
    x, target = data()
    flax.train_step(kit, x, target)
    assert jax.tree.structure(nnx.state(plain)) == jax.tree.structure(
        nnx.state(kit)
    )
    nnx.update(plain, nnx.state(kit))
    assert_same(plain(x), kit(x))


def test_flax_settings_are_kept(flax):
    from flax import nnx

    x = data()[0].astype(jnp.bfloat16)
    for options in (
        {"dtype": jnp.bfloat16},
        {"use_scale": False},
        {"epsilon": 0.5},
        {"reduction_axes": 0, "feature_axes": 1},
    ):
        plain = nnx.RMSNorm(WIDTH, rngs=nnx.Rngs(0), **options)
        kit = flax.RMSNorm(WIDTH, rngs=nnx.Rngs(0), **options)
        assert plain(x).dtype == kit(x).dtype
        assert_same(plain(x).astype("f4"), kit(x).astype("f4"), 2e-2)


def test_flax_residual(flax):
    from flax import nnx

    x, r = data()
    norm = flax.RMSNorm(WIDTH, rngs=nnx.Rngs(0))
    y, total = norm.of_sum(x, r)
    assert_same(total, x + r)
    assert_same(y, nnx.RMSNorm(WIDTH, rngs=nnx.Rngs(0))(x + r))


# --- Equinox ------------------------------------------------------------------


@pytest.fixture(name="equinox")
def equinox_fixture():
    pytest.importorskip("equinox")
    import equinox_rms_norm

    return equinox_rms_norm


def equinox_models(equinox):
    plain = equinox.Model(WIDTH, DEPTH, key=jax.random.key(0))
    return plain, equinox.use_kit(plain)


def test_equinox_trains_alike(equinox):
    plain, kit = equinox_models(equinox)
    x, target = data()
    assert norms_by_operands(jax.vmap(kit), x) == {2: 1, 3: DEPTH}
    losses = []
    for _ in range(STEPS):
        plain, loss = equinox.train_step(plain, x, target)
        kit, kit_loss = equinox.train_step(kit, x, target)
        assert_same(loss, kit_loss)
        losses.append(loss)
    assert losses[-1] < losses[0]


def test_equinox_checkpoints_are_interchangeable(equinox):
    import equinox as eqx

    plain, kit = equinox_models(equinox)
    x, target = data()
    kit, _ = equinox.train_step(kit, x, target)
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, kit)
    file.seek(0)
    plain = eqx.tree_deserialise_leaves(file, plain)
    assert_same(jax.vmap(plain)(x), jax.vmap(kit)(x))


def test_equinox_settings_are_kept(equinox):
    import equinox as eqx

    x = data()[0][0].astype(jnp.bfloat16)
    for options in (
        {"use_weight": False},
        {"use_bias": False},
        {"eps": 0.5},
    ):
        plain = eqx.nn.RMSNorm(WIDTH, **options)
        kit = equinox.use_kit(plain)
        assert kit(x).dtype == x.dtype
        assert_same(plain(x).astype("f4"), kit(x).astype("f4"), 2e-2)
