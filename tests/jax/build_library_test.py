"""Handler libraries from files, and a pip package made of one."""

import ctypes
import os
import pathlib
import subprocess
import sys
import sysconfig
import textwrap

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from common import raises, run_python, said
from inline_data import program

import xla_ffi_kit
from xla_ffi_kit import HandlerLibrary
from xla_ffi_kit.__main__ import main
from xla_ffi_kit.compile import flags as compiler_flags
from xla_ffi_kit.compile import nvcc
from xla_ffi_kit.errors import BuildError, HandlerLibraryError
from xla_ffi_kit.library import releases

SCALE = """
#include "helper.h"
#include "xla_ffi/strings/kit.h"
template <typename T>
void Scale(kit::In<T> x, double factor, kit::Out<T> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = T(helper::Times(x[i], factor));
}
KIT_DEFINE_HANDLER(ScaleHandler, "x", "factor", Scale<float>, Scale<double>);
"""

PLAIN = """
#include "xla_ffi/strings/kit.h"
void Scale(kit::In<float> x, kit::Out<float> y) { y[0] = 2 * x[0]; }
KIT_DEFINE_HANDLER(ScaleHandler, "x", "", Scale);
"""

# A handler with state, as one writes it against XLA's own headers.
COUNTER = """
#include <atomic>
#include <memory>
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/define_type.h"
namespace ffi = xla::ffi;
struct Counter {
  static ffi::TypeId id;
  std::atomic<int32_t> runs = 0;
};
XLA_FFI_KIT_DEFINE_TYPE(TestCounter, Counter);
static ffi::ErrorOr<std::unique_ptr<Counter>> Make() {
  return std::make_unique<Counter>();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(CountMake, Make, ffi::Ffi::BindInstantiate());
static ffi::Error Count(Counter* counter,
                        ffi::Result<ffi::BufferR0<ffi::S32>> y) {
  *y->typed_data() = ++counter->runs;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    CountRun, Count,
    ffi::Ffi::Bind().Ctx<ffi::State<Counter>>().Ret<ffi::BufferR0<ffi::S32>>());
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    (folder / "helper.h").write_text(
        "#pragma once\nnamespace helper { double Times(double, double); }\n"
    )
    (folder / "helper.cc").write_text(
        '#include "helper.h"\n'
        "double helper::Times(double a, double b) { return a * b; }\n"
    )
    (folder / "scale.cc").write_text(SCALE)
    (folder / "counter.cc").write_text(COUNTER)
    return xla_ffi_kit.build_library(
        [folder / f"{name}.cc" for name in ("helper", "scale", "counter")],
        {
            "files.scale": "ScaleHandler",
            "files.count": {"instantiate": "CountMake", "execute": "CountRun"},
        },
        folder / "files_cpu.so",
        types={"files.counter": "TestCounter"},
    )


def test_handlers_stages_and_types(library):
    assert sorted(library.targets) == ["files.count", "files.scale"]
    assert sorted(library.handler("files.count").stages) == [
        "execute",
        "instantiate",
    ]
    assert [t.name for t in library.types] == ["files.counter"]
    assert library.api_version == (0, 2)
    scale = xla_ffi_kit.FfiOp(
        "files.scale",
        lambda x, *, factor=2.0: x * factor,
        kernel_axes=0,
        libraries=library,
        attributes={"factor": np.float64},
    )
    np.testing.assert_array_equal(scale(np.float32([1, 2])), [2, 4])
    assert "@files.scale(" in jax.jit(scale).lower(jnp.ones(3)).as_text()


@pytest.mark.skipif(
    jaxlib.__version__ in releases.NO_OLD_STATE, reason="crashes on state"
)
def test_state_is_kept(library):
    count = xla_ffi_kit.FfiOp(
        "files.count",
        lambda: jnp.int32(0),
        kernel_axes=0,
        libraries=[library],
        advanced=xla_ffi_kit.Advanced(has_side_effect=True),
    )
    run = jax.jit(lambda: count())
    assert [int(run()) for _ in range(3)] == [1, 2, 3]


@pytest.mark.skipif(
    jaxlib.__version__ in releases.NO_OLD_STATE, reason="crashes on state"
)
def test_the_state_of_capsules(tmp_path):
    (tmp_path / "counter.cc").write_text(COUNTER)
    library = xla_ffi_kit.build_library(  # whose type nobody has registered
        [tmp_path / "counter.cc"],
        {"count": {"instantiate": "CountMake", "execute": "CountRun"}},
        tmp_path / "counter.so",
        types={"counter": "TestCounter"},
    )
    symbols = ctypes.CDLL(library.path)
    stages = {
        "instantiate": jax.ffi.pycapsule(symbols["CountMake"]),
        "execute": jax.ffi.pycapsule(symbols["CountRun"]),
    }
    counter = {}
    for part in ("type_id", "type_info"):
        function = symbols[f"TestCounter_{part}"]
        function.restype = ctypes.c_void_p
        counter[part] = jax.ffi.pycapsule(function())

    def count(name, **options):
        taken = HandlerLibrary.from_capsules({name: stages}, **options)
        op = xla_ffi_kit.FfiOp(
            name,
            results=lambda: jax.ShapeDtypeStruct((), np.int32),
            kernel_axes=0,
            libraries=taken,
            advanced=xla_ffi_kit.Advanced(has_side_effect=True),
        )
        run = jax.jit(lambda: op())
        return [int(run()) for _ in range(2)]

    with pytest.raises(HandlerLibraryError) as caught:
        count("capsules.typeless")
    assert (
        "pass the types of its state to HandlerLibrary.from_capsules, types=..."
    ) in str(caught.value)
    assert count("capsules.count", types={"capsules.type": counter}) == [1, 2]
    assert said(
        HandlerLibrary.from_capsules, {"a": stages}, types={"t": {"id": 3}}
    ) == (
        "TypeError: HandlerLibrary.from_capsules: type 't': expected type_id "
        "and type_info, or the first, got ['id']"
    )


def test_it_exports_nothing_but_handlers_types_and_table(library):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", library.path],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert sorted(line.split()[-1] for line in listing.splitlines()) == [
        "CountMake",
        "CountRun",
        "ScaleHandler",
        "TestCounter_type_id",
        "TestCounter_type_info",
        "XlaFfiKit_GetHandlerTable",
        "XlaFfiKit_parallel_for",
    ]


# --- CUDA sources -------------------------------------------------------------

# build_library_cuda_test has the true nvcc; this one writes down how it was
# called, and compiles for the CPU.
NVCC = """#!/bin/bash
printf '%s\n' "$@" >"$(dirname "$0")/arguments"
while (($#)); do
  case $1 in
    -isystem | -c | -o) own+=("$1" "$2"); shift ;;
  esac
  shift
done
exec c++ -x c++ -fPIC "${own[@]}"
"""


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    folder = tmp_path / "toolkit"
    for name in ("bin", "include", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "bin/nvcc").write_text(NVCC)
    (folder / "bin/nvcc").chmod(0o755)
    (folder / "include/cuda_runtime_api.h").write_text("#define HAS_CUDA 1\n")
    (folder / "lib/libcudart_static.a").write_text("!<arch>\n")
    monkeypatch.setenv("NVCC", str(folder / "bin/nvcc"))
    return folder


def build_cuda(tmp_path, **options):
    (tmp_path / "value.cu").write_text("int Value() { return 1; }\n")
    (tmp_path / "handler.cc").write_text(
        """
        #include <cuda_runtime_api.h>
        #include "xla/ffi/api/ffi.h"
        int Value();
        static xla::ffi::Error Run() {
          return Value() == HAS_CUDA ? xla::ffi::Error::Success()
                                     : xla::ffi::Error::Internal("");
        }
        XLA_FFI_DEFINE_HANDLER_SYMBOL(Handler, Run, xla::ffi::Ffi::Bind());
        """
    )
    return xla_ffi_kit.build_library(
        [tmp_path / "value.cu", tmp_path / "handler.cc"],
        {"files.cuda": "Handler"},
        tmp_path / "ops_cuda.so",
        platform="cuda",
        **options,
    )


def test_nvcc_compiles_cuda_sources(toolkit, tmp_path):
    library = build_cuda(
        tmp_path,
        compute_capabilities=["90a", "80"],
        flags=["-DMINE", "-march=x86-64"],
    )
    assert [*library.handlers] == [("files.cuda", "cuda")]
    arguments = (toolkit / "bin/arguments").read_text().splitlines()
    assert [a for a in arguments if "-gencode" in a] == [
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=compute_90",
    ]
    assert "-DMINE" in arguments
    assert "-Xcompiler=-march=x86-64" in arguments
    assert "-Xcompiler=-fPIC" in arguments


def test_what_cuda_sources_need(toolkit, monkeypatch, tmp_path):
    said = "ops_cuda: compute_capabilities: expected some such as"
    for given in ([], ["sm_90"], ["9.0"]):
        with pytest.raises(BuildError, match=said):
            build_cuda(tmp_path, compute_capabilities=given)
    (toolkit / "lib/libcudart_static.a").unlink()
    with pytest.raises(BuildError, match="libcudart_static.a"):
        build_cuda(tmp_path)
    monkeypatch.setenv("NVCC", "absent-nvcc")
    with pytest.raises(BuildError, match="NVCC is 'absent-nvcc'"):
        build_cuda(tmp_path)


# --- From an experiment to a wheel of one's own -------------------------------

PACKAGE = '''
"""An operation of one's own."""
import os
import numpy as np
import xla_ffi_kit

def _reference(x, *, factor=2.0):
    return x * factor

scale = xla_ffi_kit.FfiOp(
    "my_ops.scale", _reference, kernel_axes=0,
    libraries=os.path.join(os.path.dirname(__file__), "my_ops_cpu.so"),
    attributes={"factor": np.float64}, dtypes=["float32", "float64"])
'''

# What pip asks for a wheel: PEP 517, in a file of the package's own.
BACKEND = """
import pathlib, zipfile
import xla_ffi_kit

def build_wheel(folder, config_settings=None, metadata_directory=None):
    xla_ffi_kit.build_library(
        ["scale.cc"], {"my_ops.scale": "ScaleHandler"}, "my_ops/my_ops_cpu.so")
    name = "my_ops-1.0-py3-none-any.whl"
    info = {
        "METADATA": "Metadata-Version: 2.1\\nName: my_ops\\nVersion: 1.0\\n",
        "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\n"
                 "Tag: py3-none-any\\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for path in sorted(pathlib.Path("my_ops").iterdir()):
            wheel.write(path)
        for file, text in info.items():
            wheel.writestr(f"my_ops-1.0.dist-info/{file}", text)
    return name
"""


def test_a_package_of_ones_own(tmp_path):
    pytest.importorskip("pip")
    source = SCALE.replace('#include "helper.h"', "").replace(
        "helper::Times(x[i], factor)", "x[i] * factor"
    )
    files = {
        "scale.cc": source,
        "backend.py": BACKEND,
        "my_ops/__init__.py": PACKAGE,
        "pyproject.toml": textwrap.dedent(
            """
            [build-system]
            requires = []
            build-backend = "backend"
            backend-path = ["."]
            [project]
            name = "my_ops"
            version = "1.0"
            """
        ),
    }
    for name, text in files.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(text)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--no-index", "--no-deps", "--no-build-isolation"]
        + ["--target", tmp_path / "site", tmp_path / "src"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
    )
    done = run_python(
        "import jax, my_ops\n"
        "text = jax.jit(my_ops.scale).lower(jax.numpy.ones(3)).as_text()\n"
        "assert '@my_ops.scale(' in text\n"
        "print(float(my_ops.scale(3.0)), my_ops.__file__)\n",
        cwd=tmp_path / "site",
    )
    printed = f"6.0 {tmp_path}/site/my_ops/__init__.py\n"
    assert done.stdout == printed, done.stderr


def test_the_command_line(library, tmp_path, capsys):
    folder = os.path.dirname(library.path)
    arguments = ["build", f"{folder}/scale.cc", f"{folder}/helper.cc"]
    output = str(tmp_path / "lib" / "ops.so")
    arguments += ["-o", output, "--handler", "cli.scale=ScaleHandler"]
    assert main([*arguments, "--", "-O1"]) == 0
    assert capsys.readouterr() == (f"{output}: cli.scale\n", "")
    assert main(["include"]) == 0
    printed = capsys.readouterr().out.strip()
    assert printed == xla_ffi_kit.include_dir()
    assert os.path.exists(os.path.join(printed, "xla/ffi/api/ffi.h"))
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "COMMAND" in capsys.readouterr().out


# --- Names and paths that are not plain ---------------------------------------


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "scale.cc"
    path.write_text(PLAIN)
    return path


def build(source, output, target="scale", symbol="ScaleHandler", **options):
    return xla_ffi_kit.build_library(
        [source], {target: symbol}, output, flags=["-O0"], **options
    )


@pytest.mark.parametrize(
    "target", ['a"b', "a\\b", "a\nb", "a\0b", "a\u2028b", "", 3]
)
def test_targets_and_types_that_cpp_cannot_have(source, tmp_path, target):
    output = tmp_path / "out" / "ops.so"
    said = (
        f"expected printable names without quotes and backslashes, got "
        f"{target!r}"
    )
    with raises(BuildError, f"ops: handlers: {said}"):
        build(source, output, target)
    with raises(BuildError, f"ops: types: {said}"):
        build(source, output, types={target: "Scale"})
    assert not output.parent.exists()


@pytest.mark.parametrize(
    "symbol", ["", "A::B", "a;}; evil", "1a", "a\n", "new", "é", None]
)
def test_symbols_that_are_no_names(source, tmp_path, symbol):
    output = tmp_path / "out" / "ops.so"
    said = f"expected the name of a C function, got {symbol!r}"
    for handlers in (symbol, {"execute": symbol}):
        with raises(BuildError, f"ops: handlers: scale: {said}"):
            build(source, output, symbol=handlers)
    with raises(BuildError, f"ops: types: state: {said}"):
        build(source, output, types={"state": symbol})
    assert not output.parent.exists()


def test_the_command_refuses_them_too(source, tmp_path, capsys):
    output = str(tmp_path / "ops.so")
    arguments = ["build", str(source), "-o", output, "--handler"]
    for handler, text in (
        ('a"=ScaleHandler', "ops: handlers: expected printable names"),
        ("a=Scale Handler", "ops: handlers: a: expected the name of a C"),
        ("a=execute:S,execute:T", "a: the stage execute is given twice"),
        ("a", "expected NAME=SYMBOL, got 'a'"),
    ):
        assert main([*arguments, handler]) == 1
        assert capsys.readouterr().err.startswith(text)
    twice = ["a=ScaleHandler", "--handler", "a=OtherHandler"]
    assert main([*arguments, *twice]) == 1
    assert capsys.readouterr().err == "a is given twice\n"


def test_an_output_that_cannot_be_written(source, tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    said = f"folder: output: expected a file to write, got the folder {folder}"
    with raises(BuildError, said):
        build(source, folder)
    handler = ["--handler", "scale=ScaleHandler"]
    assert main(["build", str(source), "-o", str(folder), *handler]) == 1
    assert "expected a file to write" in capsys.readouterr().err
    for output in (source / "ops.so", "/proc/none/ops.so"):
        said = f"^ops: output: {output} cannot be written: "
        with pytest.raises(BuildError, match=said):
            build(source, output)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "kind", ["source", "link", "hard link", "header", "object"]
)
def test_an_output_that_is_no_library_stays(source, tmp_path, kind, capsys):
    output = tmp_path / "ops"
    if kind == "source":
        output = source
    elif kind == "link":
        output.symlink_to(source)
    elif kind == "hard link":
        output.hardlink_to(source)
    elif kind == "header":
        output.write_text("#pragma once\n")
    else:
        output.write_bytes(b"\x7fELF" + bytes(12) + b"\1\0")
    before = output.read_bytes()
    handler = ["--handler", "scale=ScaleHandler"]
    assert main(["build", str(source), "-o", str(output), *handler]) == 1
    assert capsys.readouterr().err == (
        f"{output.stem}: output: expected a new file, or an older library to "
        f"replace, got {output}, which is neither\n"
    )
    assert output.read_bytes() == before
    assert output.is_symlink() == (kind == "link")


def test_an_output_that_is_a_library_or_empty_is_replaced(source, tmp_path):
    output = tmp_path / "ops.so"
    output.touch()
    build(source, output)
    assert build(source, output).targets == ["scale"]


@pytest.mark.parametrize(
    "word",
    ["-ffast-math", "-Ofast", "-mdaz-ftz", "-ffp-model=fast", "@{}/words"],
)
def test_words_that_change_the_process(source, tmp_path, monkeypatch, word):
    (tmp_path / "words").write_text("-O2 -funsafe-math-optimizations")
    word = word.format(tmp_path)
    monkeypatch.setenv("CXX", f"c++ {word}")
    said = "ops: CXX: .* makes denormals zero in all of the process; use only"
    with pytest.raises(BuildError, match=said):
        build(source, tmp_path / "ops.so")
    said = said.replace("ops: CXX", "lambda: CXX")
    with pytest.raises(BuildError, match=said):
        xla_ffi_kit.elementwise("x", dtypes="f32")(lambda x: x)
    monkeypatch.delenv("CXX")
    said = said.replace("CXX", "flags")
    with pytest.raises(BuildError, match=said):
        xla_ffi_kit.elementwise("x", dtypes="f32", flags=[word])(lambda x: x)


def test_the_linker_gets_what_it_needs():
    flags = [
        "-O1",
        "-fopenmp",
        "-fopenmp-simd",
        "-lm",
        "-Da",
        "-fopenmp=libomp",
    ]
    compiles, links = compiler_flags.split(flags)
    assert compiles == [flag for flag in flags if flag != "-lm"]
    assert links == ["-fopenmp", "-lm", "-fopenmp=libomp"]


def test_an_nvcc_that_is_a_script_is_asked_for_its_toolkit(tmp_path):
    script = program(tmp_path / "bin/nvcc", "echo '#$ TOP=/toolkit/bin/..' >&2")
    assert nvcc.Nvcc(script).include == pathlib.Path("/toolkit/include")
    with pytest.raises(BuildError, match="unset it and `pip inst"):
        nvcc.Nvcc(script).link_flags()
    beside = tmp_path / "include/cuda_runtime.h"
    beside.parent.mkdir()
    beside.touch()
    assert nvcc.Nvcc(script).root == tmp_path


NAME = 'a, b "c" \\ $x #\U0001f600 é;\n'


def test_any_path_and_most_targets_work(tmp_path, monkeypatch):
    folder = tmp_path / NAME
    folder.mkdir()
    source = folder / f"source{NAME}.cc"
    source.write_text(PLAIN)
    monkeypatch.chdir(folder)
    target = "m\u00fc.scale=, \U0001f600 %s ??/ {x}"
    library = build(source.name, f"ops{NAME}.so", target)
    assert library.targets == [target]
    assert pathlib.Path(library.path) == folder / f"ops{NAME}.so"
    scale = xla_ffi_kit.FfiOp(
        target, lambda x: 2 * x, kernel_axes=0, libraries=library
    )
    assert scale(np.float32(2)) == 4


# A handler in C, whose names are words of C++.
IN_C = """
#include <stddef.h>
#include "xla/ffi/api/c_api.h"
XLA_FFI_Error* Negate(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* next = frame->extension_start; next != NULL;
       next = next->next) {
    if (next->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* template = ((XLA_FFI_Metadata_Extension*)next)->metadata;
    template->api_version.major_version = XLA_FFI_API_MAJOR;
    template->api_version.minor_version = XLA_FFI_API_MINOR;
    return NULL;
  }
  const XLA_FFI_Buffer* x = frame->args.args[0];
  const XLA_FFI_Buffer* y = frame->rets.rets[0];
  const float* const this = x->data;
  float* const new = y->data;
  for (int64_t i = 0; i < x->dims[0]; ++i) new[i] = -this[i];
  return NULL;
}
"""


def test_a_source_in_c(tmp_path):
    (tmp_path / "negate.c").write_text(IN_C)
    (tmp_path / "scale.cc").write_text(PLAIN)
    library = xla_ffi_kit.build_library(
        [tmp_path / "negate.c", tmp_path / "scale.cc"],
        {"c.negate": "Negate", "c.scale": "ScaleHandler"},
        tmp_path / "c.so",
        flags=["-std=c++20"],
    )
    negate = xla_ffi_kit.FfiOp(
        "c.negate",
        lambda x: -x,
        axes="(n)->(n)",
        libraries=library,
        advanced=xla_ffi_kit.Advanced(vmap_method="sequential"),
    )
    assert negate(np.float32([1, 2])).tolist() == [-1, -2]


# A module of Python in the file of a handler.
MODULE = """
#include <Python.h>
#include "xla_ffi/strings/kit.h"
void Scale(kit::In<float> x, kit::Out<float> y) { y[0] = 2 * x[0]; }
KIT_DEFINE_HANDLER(ScaleHandler, "x", "", Scale);
static PyObject* Answer(PyObject*, PyObject*) { return PyLong_FromLong(42); }
static PyMethodDef kMethods[] = {{"answer", Answer, METH_NOARGS, nullptr}, {}};
static PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "both", nullptr, -1,
                              kMethods};
PyMODINIT_FUNC PyInit_both() { return PyModule_Create(&kModule); }
"""


def test_a_python_module_in_the_file_of_a_handler(tmp_path):
    file = tmp_path / "both.cc"
    file.write_text(MODULE)
    include = f"-I{sysconfig.get_path('include')}"
    if not os.path.exists(f"{include[2:]}/Python.h"):
        pytest.skip("no headers of Python")

    def build():
        return xla_ffi_kit.build_library(
            [file],
            {"both.scale": "ScaleHandler"},
            tmp_path / "both.so",
            flags=[include],
        )

    library = build()
    scale = xla_ffi_kit.FfiOp(
        "both.scale", lambda x: 2 * x, kernel_axes=0, libraries=library
    )
    assert scale(np.float32(3)) == 6
    answer = run_python("import both; print(both.answer())", cwd=tmp_path)
    assert answer.stdout == "42\n", answer.stderr
    # Any other function that nobody defines stays an error, and so do Python's
    # in a file that is no module.
    for text, missing in (
        (MODULE.replace("2 * x[0]", "Nowhere()"), "Nowhere"),
        (MODULE.replace("PyInit_both", "Py_init"), "Py"),
    ):
        file.write_text("extern float Nowhere();\n" + text)
        with pytest.raises(BuildError, match=f"undefined .*{missing}"):
            build()
