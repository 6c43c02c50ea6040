"""NVRTC of PyPI compiles strings, without a GPU; where CUDA is not asked for,
and where it is."""

import importlib.util
import inspect
import os
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import run_python

import xla_ffi_kit
from xla_ffi_kit.compile import cache
from xla_ffi_kit.errors import BuildError, CudaStringWarning
from xla_ffi_kit.strings.cuda import nvrtc

# Nothing here runs on CPUs, and so nothing is compiled for them.
os.environ["CXX"] = "no-such-compiler"

if not nvrtc.is_installed():
    pytest.skip("NVRTC is fetched with --config=cuda", allow_module_level=True)

import string_kernels  # noqa: E402


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(tmp_path / "cache"))
    nvrtc._compiled.cache_clear()


@pytest.fixture(autouse=True)
def _gpu(monkeypatch):
    """One GPU: without any, a program has code for several."""
    monkeypatch.setattr(nvrtc, "local_gpus", lambda: (90,))


def _lower(op, *operands, **attributes):
    """The program for CUDA."""
    call = jax.jit(lambda *x: op(*x, **attributes))
    lowered = call.trace(*operands).lower(lowering_platforms=("cuda",))
    return lowered.as_text()


def test_a_derivative_compiles():
    @xla_ffi_kit.elementwise(
        "x > 0 ? std::pow(x, 2 * scale) * std::erf(y) : A(std::fmod(y, x))",
        dtypes="f32 bf16",
        platforms=("cuda",),
        derivatives="kernel",
    )
    def f(x, y, *, scale=1.0):
        return jnp.where(x > 0, x ** (2 * scale), y)

    def loss(x, y):
        return jnp.sum(f(x, y))

    for dtype, transform in (
        ("bfloat16", lambda f: jax.grad(f, (0, 1))),
        ("float32", jax.hessian),
    ):
        x = jnp.ones(5, dtype)
        program = _lower(jax.jit(transform(loss)), x, x)
        assert "@xla_ffi_kit.launch(" in program


def _architectures(program):
    return re.findall(r'(?:"|\\0A|\\n)((?:sm|compute)_\d+) ', program)


@pytest.mark.parametrize("shown", string_kernels.SHOWN, ids=lambda s: s.op.name)
def test_each_loop_compiles(shown):
    operands = []
    for text in shown.operands:
        name, _, shape = text.rstrip("]").partition("[")
        dtype = {"f": jnp.float32, "s": jnp.int32}[name[0]]
        operands.append(jnp.ones(tuple(map(int, shape.split(","))), dtype))
    program = _lower(shown.op, *operands)
    assert "@xla_ffi_kit.launch(" in program
    assert _architectures(program) == ["sm_90"]


def _scale(expression="factor * x", **options):
    def scale(x, *, factor=2.0):
        return (x * factor).astype(x.dtype)

    options.setdefault("dtypes", "f32 f64 bf16 f16 s8 s16 s32 s64 u8 bool")
    return xla_ffi_kit.elementwise(expression, **options)(scale)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "bfloat16", "float16", "int8", "int16", "int32", "uint8"],
)
def test_each_dtype_compiles(dtype):
    op = _scale(platforms=("cuda",), dtypes=[dtype])
    assert "xla_ffi_kit.launch" in _lower(op, jnp.ones(5, dtype))


def test_what_cannot_be_cuda_warns_once_and_runs_the_reference():
    op = _scale("std::vector<A>(1, x)[0]", before="#include <vector>")
    x = jnp.ones(3)
    with pytest.warns(CudaStringWarning, match="no header vector on CUDA"):
        assert "xla_ffi_kit.launch" not in _lower(op, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _lower(op, x, factor=3.0)


def _error_of(body):
    @xla_ffi_kit.rows(body, dtypes="f32", platforms=("cuda",))
    def wrong(x):
        return x

    with pytest.raises(BuildError) as caught:
        _lower(wrong, jnp.ones((2, 3)))
    assert "wrong: does not compile for CUDA: " in str(caught.value)
    return str(caught.value)


def test_errors_are_at_the_place_of_the_string():
    line = inspect.currentframe().f_lineno + 3
    body = """
        out[0] = x[0];
        out[1] = nonsense;
        """
    said = f'{line}): error: identifier "nonsense" is undefined'
    assert f"nvrtc_test.py({said}" in _error_of(body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("out[0] = std::sph_bessel(1, x[0]);", "no std::sph_bessel on CUDA"),
        ("auto v = out[0]; out[1] = v;", "write `T v = out[i]`"),
        ("if (x[0] < 0) throw 1; out[0] = x[0];", "a GPU throws nothing"),
    ],
)
def test_advice(body, said):
    assert said in _error_of(body)


def test_wrong_dtype():
    op = _scale(dtypes="f32", platforms=("cpu", "cuda"))
    with pytest.raises(TypeError, match="expected dtype float32, got int32"):
        _lower(op, jnp.ones(3, jnp.int32))

    @xla_ffi_kit.rows("out[0] = x[0];", dtypes="f32", platforms=("cuda",))
    def two_dtypes(x):
        return x.astype(jnp.int32)

    with pytest.raises(BuildError, match="of one dtype .* got float32, int32"):
        _lower(two_dtypes, jnp.ones((2, 3)))


_SUM = """
template <typename T>
__global__ void total(kit::In<T> x, double factor, kit::Out<T> y) {
  T* partial = kit::shared_memory<T>();
  partial[threadIdx.x] = x[threadIdx.x];
  y[0] = factor * kit::block_sum(partial[threadIdx.x]);
}"""


def _total(code=_SUM):
    @xla_ffi_kit.cuda(
        code,
        grid=1,
        block=32,
        shared_memory=lambda x, factor: 4 * 32,
        kernel_axes=1,
    )
    def total(x, *, factor=1.0):
        return factor * jnp.sum(x, -1)

    return total


def test_blocks():
    program = _lower(_total(), jnp.ones(32))
    assert "totalIfEvN3kit2InI" in program  # the mangled name of the instance
    assert "shared = 128 : i64" in program
    assert re.search(r"block = \w+<\D*32, 1, 1\]?>", program)


def test_kernels_with_other_parameters():
    for change in (("double", "int"), ("total", "totals")):
        with pytest.raises(BuildError, match="kernel takes other parameters"):
            _lower(_total(_SUM.replace(*change)), jnp.ones(32))


def test_attributes_of_any_length_share_a_kernel():
    op, x = string_kernels.biquad, jnp.ones((2, 3))
    first = _lower(op, x)
    second = _lower(op, x, b=(1.0, 2.0, 3.0), a=(0.0, 0.5))
    digests = [re.search(r'digest = "(\w+)"', p)[1] for p in (first, second)]
    assert digests[0] == digests[1] and first != second
    with pytest.raises(BuildError, match="at most .* bytes on CUDA"):
        _lower(op, x, b=(1.0,) * 1000, a=(0.0, 0.5))


def test_the_cache_keeps_machine_code(monkeypatch):
    monkeypatch.setattr(nvrtc, "local_gpus", lambda: ())
    op, x = _scale(platforms=("cuda",)), jnp.ones(3)

    def written():
        return {
            e.library: os.stat(e.library).st_mtime_ns for e in cache.entries()
        }

    first = _lower(op, x)
    (entry, *others) = cache.entries()
    assert len(others) == 3 and entry.library.suffix == ".cubin"
    before = written()
    nvrtc._compiled.cache_clear()
    assert _lower(_scale(platforms=("cuda",)), x) == first
    assert written() == before
    other = _scale("factor * x + A(1)", platforms=("cuda",))
    assert _lower(other, x) != first
    entry.library.write_bytes(b"damaged")
    nvrtc._compiled.cache_clear()
    assert _lower(op, x) == first
    cache.folder().chmod(0o777)
    nvrtc._compiled.cache_clear()
    with pytest.raises(BuildError, match="others may write"):
        _lower(op, jnp.ones(3))


def test_an_exported_program_has_the_code():
    op = _scale(platforms=("cuda",))
    exported = jax.export.export(
        jax.jit(op),
        platforms=("cpu", "cuda"),
        disabled_checks=xla_ffi_kit.export_checks(),
    )(jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, m"), "float32"))
    again = jax.export.deserialize(exported.serialize())
    several = ["sm_80", "sm_90", "sm_100", "compute_100"]
    assert _architectures(again.mlir_module()) == several
    x = jnp.ones((4, 5))
    np.testing.assert_array_equal(again.call(x), 2 * x)


@pytest.mark.parametrize(
    ("gpus", "names"),
    [
        ([90], ["sm_90"]),
        ([80, 90], ["sm_80", "sm_90"]),
        ([90, 130], ["sm_90", "compute_120"]),
    ],
)
def test_gpus(gpus, names):
    assert nvrtc.architectures_for("op", gpus, (75, 80, 90, 100, 120)) == names
    with pytest.raises(BuildError, match="7.5 or newer, .* got 7.0"):
        nvrtc.architectures_for("op", [70], (75, 80))


def test_code_for_the_gpus_of_the_process(monkeypatch):
    monkeypatch.setattr(nvrtc, "local_gpus", lambda: (86,))
    program = _lower(_scale(platforms=("cuda",)), jnp.ones(3))
    assert _architectures(program) == ["sm_86"]


def test_missing_or_of_another_version(monkeypatch, tmp_path):
    x, op = jnp.ones(3), _scale()
    nvrtc.get.cache_clear()
    monkeypatch.setattr(nvrtc, "_folders", lambda: [tmp_path])
    monkeypatch.setattr(nvrtc, "_on_the_machine", lambda name: False)
    try:
        assert "xla_ffi_kit.launch" not in _lower(op, x)
        with pytest.raises(BuildError, match="no NVRTC, .*`pip install"):
            _lower(_scale(platforms=("cuda",)), x)
        place = tmp_path / "cuda_nvrtc/lib/libnvrtc.so.12"
        place.parent.mkdir(parents=True)
        place.touch()
        monkeypatch.setattr(
            nvrtc, "_is_installed", lambda name: name == "jax-cuda13-plugin"
        )
        said = r"no NVRTC of CUDA 13 \(only that of CUDA 12\)"
        with pytest.raises(BuildError, match=said):
            _lower(_scale(platforms=("cuda",)), x)
    finally:
        nvrtc.get.cache_clear()


def test_without_a_compiler_for_cpus():
    op = _scale()
    assert "xla_ffi_kit.launch" in _lower(op, jnp.ones(3))
    with pytest.raises(BuildError, match="CXX is 'no-such-compiler'"):
        op(jnp.ones(3))
    only = _scale(platforms=("cuda",))
    np.testing.assert_array_equal(only(jnp.ones(3)), 2 * jnp.ones(3))


def test_platforms_are_checked(monkeypatch):
    monkeypatch.delenv("CXX")
    for wrong in ((), ("rocm",), "cuda"):
        with pytest.raises((ValueError, TypeError), match="platforms"):
            _scale(platforms=wrong)
    op = _scale(
        "no_cuda(x)",
        before="template <typename A> A no_cuda(A x) {"
        "static long y = 0; if (x < 0) throw 1; return x; }",
        dtypes="f32",
        flags=["-O0"],
        platforms=("cpu",),
    )
    assert "xla_ffi_kit.launch" not in _lower(op, jnp.ones(3))


def test_import_loads_neither_compiler_nor_driver():
    code = (
        "import xla_ffi_kit, string_kernels\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'xla_ffi_kit_cpu' in maps\n"
        "assert 'libnvrtc' not in maps and 'libcuda.so' not in maps\n"
    )
    assert importlib.util.find_spec("string_kernels")
    done = run_python(code)
    assert done.returncode == 0, done.stderr
