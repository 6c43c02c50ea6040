"""When no handler runs: a warning, an error, a switch, XLA's own words."""

import ctypes
import functools
import os
import pathlib
import re
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import operation, run_python, said
from jax import export

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.op import implementation
from xla_ffi_kit.ops import LIBRARIES
from xla_ffi_kit.ops.rms_norm import rms_norm_op

X = jnp.arange(-2.0, 2.0)


def relu(name="xla_ffi_kit.relu", **options):
    return FfiOp(name, jax.nn.relu, kernel_axes=0, **options)


def register(name):
    execute = LIBRARIES[0].handler("xla_ffi_kit.relu", "cpu").stages["execute"]
    capsule = jax.ffi.pycapsule(execute)
    jax.ffi.register_ffi_target(name, capsule, platform="cpu")


def of_cuda():
    """A library that has the operation's handler for CUDA alone."""
    capsule = jax.ffi.pycapsule(1)  # never called
    return xla_ffi_kit.HandlerLibrary.from_capsules(
        {"xla_ffi_kit.relu": capsule}, "cuda"
    )


def test_a_target_that_nobody_has_registered_is_told_once_and_where():
    op = relu("test.reluu")
    with pytest.warns(UserWarning) as caught:
        np.testing.assert_array_equal(op(X), [0, 0, 0, 1])
        jax.jit(op)(X)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        "test.reluu: the reference runs on cpu, because no target 'test.reluu' "
        "is registered; give libraries= or register it with "
        "jax.ffi.register_ffi_target (as api_version=1) before the first call; "
        "handlers={} says that the reference is meant"
    )


def test_what_is_meant_is_silent(tmp_path):
    register("test.of_cpu")
    missing = xla_ffi_kit.HandlerLibrary(tmp_path / "no.so", optional=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relu(handlers={})(X)
        relu(libraries=missing)(X)
        relu(libraries=of_cuda())(X)
        relu("test.switched")(X, implementation="reference")
        op = relu("test.of_cpu")
        op(X)
        jax.jit(op).trace(X).lower(lowering_platforms=("cuda",))


def insists(op):
    return lambda x: op(x, implementation="handler")


def test_a_call_that_insists_runs_the_handler():
    op = relu(libraries=LIBRARIES)
    f = insists(op)
    for g in (f, jax.jit(f), jax.vmap(f)):
        np.testing.assert_array_equal(g(X), [0, 0, 0, 1])
    assert "@xla_ffi_kit.relu(" in jax.jit(f).lower(X).as_text()
    composed = relu(handlers={"cpu": lambda x: op(x)})
    np.testing.assert_array_equal(insists(composed)(X), [0, 0, 0, 1])
    slope = jax.grad(lambda x: f(x).sum())  # the derivative is the reference's
    np.testing.assert_array_equal(slope(X), [0, 0, 0, 1])


def nowhere(tmp_path):
    path = tmp_path / "no.so"
    optional = xla_ffi_kit.HandlerLibrary(path, optional=True)
    cuda = of_cuda()
    return [
        (
            relu("test.reluuu"),
            "no target 'test.reluuu' is registered; give libraries= or "
            "register it with jax.ffi.register_ffi_target (as api_version=1) "
            "before the first call",
        ),
        (relu(libraries=optional), "its library no.so is missing"),
        (relu(libraries=cuda), "it has handlers for cuda alone"),
        (relu(handlers={}), "it has handlers for no platform"),
    ]


def test_a_call_that_insists_is_an_error_without_a_handler(tmp_path):
    for op, why in nowhere(tmp_path):
        f = insists(op)
        assert implementation.reason(op.spec, "cpu") == why
        slope = jax.grad(lambda x, f=f: f(x).sum())
        for g in (f, jax.jit(f), jax.vmap(f), slope):
            assert said(g, X) == (
                f"NotImplementedError: {op.name}: implementation: expected the "
                f"handler on cpu, but the reference would run: {why}"
            )
    # A plain call is another program.
    np.testing.assert_array_equal(relu(handlers={})(X), [0, 0, 0, 1])


def test_what_else_keeps_a_handler_from_running():
    op = relu(libraries=LIBRARIES)
    with xla_ffi_kit.use_reference("relu"):
        with pytest.raises(NotImplementedError, match="use_reference switches"):
            insists(op)(X)
    traced = jax.jit(insists(op)).trace(X)
    with xla_ffi_kit.use_reference("relu"):
        with pytest.raises(NotImplementedError, match="use_reference switches"):
            traced.lower()
    with pytest.raises(NotImplementedError, match="on tpu, .* for cpu, cuda a"):
        traced.lower(lowering_platforms=("tpu",))
    nowhere = {"handlers": {"cpu": "test.no_handler"}}
    scaled = operation(lambda x, w: x * w, kernel_axes=1, shared="w", **nowhere)
    call = jax.vmap(lambda x, w: scaled(x, w, implementation="handler"))
    with pytest.raises(NotImplementedError, match="on cpu, .* this call runs"):
        jax.jit(call).lower(jnp.ones((2, 3)), jnp.ones((2, 3)))
    total = operation(lambda x: jax.lax.psum(x, "i"), **nowhere)
    with pytest.raises(NotImplementedError, match="collective over the axis i"):
        jax.vmap(insists(total), axis_name="i")(X)


# --- The switch of each operation to its reference ----------------------------


def test_switch_by_context():
    x = jnp.ones((2, 3))
    both = jax.jit(lambda x: xla_ffi_kit.rms_norm(xla_ffi_kit.relu(x)))
    text = both.lower(x).as_text()
    assert "@xla_ffi_kit.relu(" in text and "@xla_ffi_kit.rms_norm(" in text
    with xla_ffi_kit.use_reference("relu"):
        # The same jitted function, traced anew.
        text = both.lower(x).as_text()
        assert "@xla_ffi_kit.relu(" not in text
        assert "@xla_ffi_kit.rms_norm(" in text
        with xla_ffi_kit.use_reference("xla_ffi_kit.rms_norm"):
            assert "custom_call" not in both.lower(x).as_text()
        with xla_ffi_kit.use_reference():
            assert "custom_call" not in both.lower(x).as_text()
    assert "@xla_ffi_kit.relu(" in both.lower(x).as_text()


def twice_of(**rules):
    """It takes more dtypes than one, so that a number's type stays weak."""
    return operation(lambda x: 2 * x, dtypes=["f32", "bf16"], **rules)


TWICES = {
    "the reference's": twice_of(),
    "jvp=": twice_of(jvp=lambda p, t: (2 * p[0], 2 * t[0])),
    "vjp=": twice_of(vjp=(lambda x: (2 * x, None), lambda _, ct: 2 * ct)),
    "linear=": twice_of(linear="x", transpose=lambda ct, x: 2 * ct),
    "a function": twice_of(handlers={"cpu": lambda x: 2 * x}),
}


@pytest.mark.parametrize("rule", TWICES)
def test_results_are_strong_whatever_runs(rule):
    """The dtype of what is computed with them depends on it."""
    op = TWICES[rule]
    by_reference = functools.partial(op, implementation="reference")

    def beside(f):
        return [y.dtype.name for y in jax.tree.leaves((f(2.0), HALF + f(2.0)))]

    def both(f):
        found = beside(f) + beside(jax.vmap(f, axis_size=2, in_axes=None))
        if rule != "vjp=":
            found += beside(lambda x: jax.jvp(f, (x,), (1.0,))[0])
        return found + beside(lambda x: jax.vjp(f, x)[0])

    for f in (op, by_reference):
        assert set(both(f)) == {"float32"}
    with xla_ffi_kit.use_reference():
        assert set(both(op)) == {"float32"}


HALF = jnp.bfloat16(0.5)
MATRIX, ROW = jnp.ones((3, 4)), jnp.ones(4)
PUBLIC = {
    "relu": (xla_ffi_kit.relu, (MATRIX,)),
    "modular_add": (xla_ffi_kit.modular_add, (MATRIX[..., :2], MATRIX)),
    "rms_norm": (xla_ffi_kit.rms_norm, (MATRIX,)),
    "rms_norm of a weight": (xla_ffi_kit.rms_norm, (MATRIX, ROW)),
    "rms_norm of a residual": (
        lambda x, w, h: xla_ffi_kit.rms_norm(x, w, residual=h),
        (MATRIX, ROW, MATRIX),
    ),
    "rms_norm of a residual in place": (
        lambda x, w, h: xla_ffi_kit.rms_norm(x, w, residual=h, in_place=True),
        (MATRIX, ROW, MATRIX),
    ),
}


def programs(function, arguments):
    """The function under JAX's transformations: name -> function, arguments."""

    def loss(*values):
        leaves = jax.tree.leaves(function(*values))
        return sum((y**2).sum() for y in leaves)

    every = tuple(range(len(arguments)))

    def second(*values):
        gradients = jax.grad(loss, every)(*values)
        return sum((g**2).sum() for g in gradients)

    stacked = tuple(jnp.stack([a, a]) for a in arguments)
    return {
        "forward": (function, arguments),
        "jvp": (lambda *a: jax.jvp(function, a, a), arguments),
        "grad of grad": (jax.grad(second, every), arguments),
        "vmap of grad": (jax.vmap(jax.grad(loss, every)), stacked),
        "remat": (jax.grad(jax.checkpoint(loss), every), arguments),
    }


def targets(lowered):
    return set(re.findall(r"@(xla_ffi_kit\.\w+)", lowered.as_text()))


@pytest.mark.parametrize("case", PUBLIC)
def test_a_public_name_reaches_all_that_its_function_runs(case):
    function, arguments = PUBLIC[case]
    name = case.partition(" ")[0]
    for what, (program, given) in programs(function, arguments).items():
        traced = jax.jit(program).trace(*given)
        if what == "forward":
            assert targets(traced.lower()), what
        with xla_ffi_kit.use_reference(name):
            left = targets(jax.jit(program).lower(*given))
            assert not left, (what, left)
            # Traced without the switch, and lowered with it.
            left = targets(traced.lower())
            assert not left, (what, left)


def test_a_backward_pass_is_switched_by_itself():
    """That of `jax.vjp`, whose forward pass ran the kernel."""
    function, arguments = PUBLIC["rms_norm of a weight"]
    y, pull_back = jax.vjp(function, *arguments)
    assert targets(jax.jit(pull_back).lower(y))
    with xla_ffi_kit.use_reference("rms_norm"):
        assert not targets(jax.jit(pull_back).lower(y))
    assert targets(jax.jit(pull_back).lower(y))


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ("rms_norm, other", ["xla_ffi_kit.modular_add", "xla_ffi_kit.relu"]),
        ("*", []),
    ],
)
def test_the_environment_reaches_the_same(names, left):
    code = """if True:
        import jax
        from fallback_test import PUBLIC, programs, targets
        found = set()
        for function, arguments in PUBLIC.values():
            for program, given in programs(function, arguments).values():
                found |= targets(jax.jit(program).lower(*given))
        print(*sorted(found))
    """
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, *sys.path])
    done = run_python(code, XLA_FFI_KIT_REFERENCE=names, PYTHONPATH=path)
    assert done.stdout.split() == left, done.stderr


def test_an_operation_of_ones_own_is_part_of_a_function():
    op = xla_ffi_kit.FfiOp(
        "test.scale_fwd",
        jax.nn.relu,
        kernel_axes=0,
        handlers={"cpu": "xla_ffi_kit.relu"},
        libraries=xla_ffi_kit.ops.LIBRARIES,
        advanced=xla_ffi_kit.Advanced(part_of="test.scale"),
    )
    for name in ("scale", "test.scale", "scale_fwd"):
        with xla_ffi_kit.use_reference(name):
            assert not targets(jax.jit(op).lower(MATRIX))
            np.testing.assert_array_equal(op(MATRIX), MATRIX)
    assert targets(jax.jit(op).lower(MATRIX))


def test_switch_checks_as_the_kernel_does():
    with xla_ffi_kit.use_reference(), pytest.raises(ValueError, match="rank 0"):
        rms_norm_op(jnp.float32(1), eps=1e-6)


# --- What XLA says if it has no handler, as docs/errors.md quotes it ----------

PAGE = pathlib.Path(__file__).absolute().parents[2] / "docs" / "errors.md"
NEWER = 99  # than any XLA's FFI

# A handler in C: it answers a question for its version, and runs nothing.
_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


def handler(minor):
    """A handler of FFI version 0.`minor`."""

    @_Handler
    def answer(frame):
        if extension := frame[1]:
            metadata = ctypes.cast(
                extension + 24, ctypes.POINTER(ctypes.c_void_p)
            )[0]
            major_minor = ctypes.cast(
                metadata + 24, ctypes.POINTER(ctypes.c_int)
            )
            major_minor[0], major_minor[1] = 0, minor

    return answer


_registered = []  # XLA keeps the functions' addresses for ever


def register_in_c(name, minor=1):
    jax.devices()  # or XLA registers it, and refuses it, when it starts
    _registered.append(handler(minor))
    capsule = jax.ffi.pycapsule(_registered[-1])
    jax.ffi.register_ffi_target(name, capsule, platform="cpu")


def newer_headers():
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        register_in_c("missing.newer_headers", NEWER)
    said = re.sub(r"0\.\d+", "0.N", str(caught.value))
    quoted = (
        "the handler's API version (0.N) is incompatible with the framework's "
        "API version (0.N)"
    )
    assert quoted in said
    assert quoted in re.sub(r"0\.\d+", "0.N", page())


def typo():
    register_in_c("missing.mistyped")


def not_loaded():
    pass


def page():
    return " ".join(PAGE.read_text().split())


def call_of(name):
    result = jax.ShapeDtypeStruct((3,), np.float32)
    return jax.jit(lambda x: jax.ffi.ffi_call(name, result)(x))


def exported(name):
    """Calls it as a program that another process exported."""
    allowed = [export.DisabledSafetyCheck.custom_call(name)]
    x = jnp.ones(3)
    program = export.export(call_of(name), disabled_checks=allowed)(x)
    return export.deserialize(program.serialize()).call


def message(call):
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(call(jnp.ones(3)))
    return str(caught.value)


CAUSES = (newer_headers, typo, not_loaded)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_the_message_of_the_page(cause):
    cause()
    name = f"missing.{cause.__name__}"
    quoted = "No FFI handler registered for NAME on a platform Host"
    assert f"`{quoted}`" in page()
    assert quoted.replace("NAME", name) in message(call_of(name))


def test_the_message_of_an_exported_program():
    said = message(exported("missing.exported"))
    assert "No FFI handler registered for missing.exported on a pla" in said
