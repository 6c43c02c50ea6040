"""Which custom calls `export_checks` allows, of what it is given."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax import export

import xla_ffi_kit
import xla_ffi_kit as kit
from xla_ffi_kit import FfiOp, export_checks, rms_norm
from xla_ffi_kit.library import registration
from xla_ffi_kit.ops.relu import relu_op
from xla_ffi_kit.primitive.called_operations import operations_in


def targets(*functions):
    return {str(check) for check in export_checks(*functions)}


def allowed(target):
    return str(export.DisabledSafetyCheck.custom_call(target))


RELU = allowed("xla_ffi_kit.relu")


def by_module(x):
    return kit.relu(x)


def by_name(x):
    return rms_norm(x)


def by_import(x):
    from xla_ffi_kit import relu

    return relu(x)


def by_import_of_a_module(x):
    import xla_ffi_kit.ops.relu

    return xla_ffi_kit.ops.relu.relu(x)


def by_default(x, act=kit.relu):
    return act(x)


def by_nested(x):
    return jax.vmap(lambda row: kit.relu(row))(x)


def closure():
    act = kit.relu

    def call(x):
        return act(x)

    return call


def closure_over_a_module():
    import xla_ffi_kit as here

    return lambda x: here.relu(x)


class Layer:
    """One that is called, and one whose methods are."""

    def __init__(self, act):
        self.acts = {"first": [act]}

    def __call__(self, x):
        return self.apply(x)

    def apply(self, x):
        return self.acts["first"][0](x)

    @property
    def act(self):
        return kit.relu

    def by_property(self, x):
        return self.act(x)

    @staticmethod
    def by_static(x):
        return kit.relu(x)

    @classmethod
    def by_class(cls, x):
        return cls.by_static(x)


def makes_a_layer(x):
    return Layer(kit.relu)(x)


class Model:
    def __init__(self):
        self.layers = [Layer(kit.relu)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


MODEL = Model()
TABLE = {"act": functools.partial(by_module)}


def by_model(x):
    return MODEL(x)


def by_table(x):
    return TABLE["act"](x)


@jax.custom_vjp
def with_rule(x):
    return kit.relu(x)


def with_rule_forward(x):
    return with_rule(x), x


def with_rule_backward(x, ct):
    return (rms_norm(ct),)


with_rule.defvjp(with_rule_forward, with_rule_backward)

FUNCTIONS = {
    "an operation": relu_op,
    "a public function": kit.relu,
    "a module's": by_module,
    "a name": by_name,
    "an import": by_import,
    "an import of a module": by_import_of_a_module,
    "a default": by_default,
    "a nested function": by_nested,
    "a lambda": lambda x: kit.relu(x),
    "a closure": closure(),
    "a closure over a module": closure_over_a_module(),
    "a partial function": functools.partial(by_default, act=kit.relu),
    "a partial function's argument": functools.partial(
        lambda act, x: act(x), kit.relu
    ),
    "a jitted function": jax.jit(by_module),
    "jax.jit with options": jax.jit(by_default, static_argnames="act"),
    "a jitted partial function": jax.jit(functools.partial(by_module)),
    "jax.grad": jax.grad(lambda x: kit.relu(x).sum()),
    "jax.vmap": jax.vmap(by_module),
    "jax.checkpoint": jax.checkpoint(by_module),
    "jax.custom_vjp": with_rule,
    "jax.value_and_grad of jit": jax.value_and_grad(jax.jit(by_module)),
    "a method": Layer(kit.relu).apply,
    "an object that is called": Layer(kit.relu),
    "a property": Layer(None).by_property,
    "a static method": Layer.by_static,
    "a class method": Layer.by_class,
    "a method of a class": Layer(None).by_static,
    "an object of a class": makes_a_layer,
    "a model of layers": MODEL,
    "a model in a global": by_model,
    "a table of functions": by_table,
    "a cached function": functools.lru_cache(by_module),
}


@pytest.mark.parametrize("what", FUNCTIONS)
def test_a_function_is_followed(what):
    assert targets(FUNCTIONS[what]) >= {RELU}, what


def test_what_is_allowed_is_enough():
    pytest.importorskip("flatbuffers", reason="jax.export serializes with it")
    for what in ("a module's", "jax.custom_vjp", "a model of layers"):
        function = FUNCTIONS[what]
        program = export.export(
            jax.jit(lambda x, f=function: f(x)),
            disabled_checks=export_checks(function),
        )(jnp.ones((2, 3)))
        assert "@xla_ffi_kit.relu(" in program.mlir_module()
        program.serialize(vjp_order=1)


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_a_rule_of_another_operation(rule):
    """An operation whose derivative another one computes, elsewhere."""
    backward = FfiOp(
        "test.backward",
        lambda x, ct: ct,
        kernel_axes=0,
        handlers={"cpu": "test.backward_target"},
    )

    def jvp(primals, tangents):
        return relu_op(primals[0]), backward(primals[0], tangents[0])

    def fwd(x):
        return relu_op(x), x

    def bwd(x, ct):
        return (backward(x, ct),)

    op = FfiOp(
        "test.forward",
        lambda x: x,
        kernel_axes=0,
        handlers={"cpu": "test.forward_target"},
        **{rule: jvp if rule == "jvp" else (fwd, bwd)},
    )
    assert targets(op) >= {
        allowed("test.forward_target"),
        allowed("test.backward_target"),
    }


def gets_its_operation(op, x):
    return op(x)


def test_where_nothing_is_seen_the_error_names_the_way():
    for hidden in (gets_its_operation, len, jax.jit(gets_its_operation)):
        with pytest.raises(TypeError) as caught:
            export_checks(hidden)
        assert str(caught.value).startswith(
            "export_checks: expected an operation, or a function that calls "
            "some, got "
        )
        assert "export_checks() without arguments allows" in str(caught.value)
    with pytest.raises(TypeError, match="export_checks: "):
        export_checks(kit.relu, len)


def test_a_function_calls_no_more_than_it_spells():
    assert operations_in(by_module) == [relu_op]


def test_without_arguments_all_of_the_process():
    op = FfiOp(
        "test.of_the_process",
        lambda x: x,
        kernel_axes=0,
        handlers={"cpu": "test.its_target"},
    )
    unusable = FfiOp(
        "test.unusable", lambda x: x, kernel_axes=0, libraries=__file__
    )
    everything = targets()
    assert everything >= {RELU, allowed("test.its_target")}
    assert everything >= {
        allowed(name) for name in xla_ffi_kit.KIT_LIBRARIES[0].handlers
    }
    assert len(export_checks()) == len(everything)
    assert everything >= targets(op, kit.rms_norm)
    assert targets(unusable) == {allowed("test.unusable")}


def test_without_arguments_what_no_operation_has(monkeypatch):
    """A library that is only registered, as where a program is read back."""
    monkeypatch.setitem(registration._handlers, ("other.one", "cpu"), "a.so")
    assert targets() >= {RELU, allowed("other.one")}
