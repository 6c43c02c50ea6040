"""`build_library` and its command: names and paths that are not plain."""

import pathlib

import numpy as np
import pytest
from common import raises, run_python
from inline_data import program

import xla_ffi_kit
from xla_ffi_kit.__main__ import main
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings import compiler_flags, nvcc

SCALE = """
#include "xla_ffi/inline/kit.h"
void Scale(kit::In<float> x, kit::Out<float> y) { y[0] = 2 * x[0]; }
KIT_DEFINE_HANDLER(ScaleHandler, "x", "", Scale);
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "scale.cc"
    path.write_text(SCALE)
    return path


def build(source, output, target="scale", symbol="ScaleHandler", **options):
    return xla_ffi_kit.build_library(
        [source], {target: symbol}, output, flags=["-O0"], **options
    )


@pytest.mark.parametrize(
    "target",
    ['a"b', "a\\b", "a\nb", "a\0b", "a\x7fb", "a\u2028b", "a\ud800b", "", 3],
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
    "symbol",
    ["", "a b", "A::B", "a;}; evil", "*", "1a", "a\n", "new", "é", "a-b", None],
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
    for handler, said in (
        ('a"=ScaleHandler', "ops: handlers: expected printable names"),
        ("a=Scale Handler", "ops: handlers: a: expected the name of a C"),
        ("a=execute:S,execute:T", "a: the stage execute is given twice"),
        ("a", "expected NAME=SYMBOL, got 'a'"),
    ):
        assert main([*arguments, handler]) == 1
        assert capsys.readouterr().err.startswith(said)
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


def test_a_library_that_is_missing_is_named(source, tmp_path):
    flags = ["-O0", "-lnotthere"]
    with pytest.raises(BuildError, match="lambda: does not .*notthere"):
        xla_ffi_kit.elementwise("x", dtypes="f32", flags=flags)(lambda x: x)
    handlers, output = {"scale": "ScaleHandler"}, tmp_path / "ops.so"
    with pytest.raises(BuildError, match="ops: does not compile: .*notthere"):
        xla_ffi_kit.build_library([source], handlers, output, flags=flags)


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


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"sources": ["/"]},
            BuildError,
            "sources: expected files, got the folder /",
        ),
        (
            {"sources": []},
            BuildError,
            "sources: expected at least one, got none",
        ),
        (
            {"sources": "a.cc"},
            TypeError,
            "sources: expected a sequence, got 'a.cc'",
        ),
        ({"flags": "-O0"}, TypeError, "flags: expected a sequence, got '-O0'"),
        (
            {"compute_capabilities": "90"},
            TypeError,
            "compute_capabilities: expected a sequence, got '90'",
        ),
    ],
)
def test_what_is_no_sequence_of_files_or_words(
    source, tmp_path, options, error, said
):
    given = {"sources": [source], "handlers": {"a": "A"}, **options}
    with raises(error, f"ops: {said}"):
        xla_ffi_kit.build_library(output=tmp_path / "ops.so", **given)


def test_a_static_handler_is_not_defined_for_the_linker(tmp_path):
    source = tmp_path / "static.cc"
    source.write_text(
        '#include "xla/ffi/api/ffi.h"\n'
        "XLA_FFI_DEFINE_HANDLER(kStatic, [] { return xla::ffi::Error(); },\n"
        "                       xla::ffi::Ffi::Bind());\n"
    )
    says = r"XLA_FFI_DEFINE_HANDLER_SYMBOL\(kStatic, ...\) or correct the name"
    with pytest.raises(BuildError, match=says):
        build(source, tmp_path / "ops.so", symbol="kStatic")


def test_an_nvcc_that_is_a_script_is_asked_for_its_toolkit(tmp_path):
    script = program(tmp_path / "bin/nvcc", "echo '#$ TOP=/toolkit/bin/..' >&2")
    assert nvcc.Nvcc(script).include == pathlib.Path("/toolkit/include")
    with pytest.raises(BuildError, match="unset it and `pip inst"):
        nvcc.Nvcc(script).link_flags()
    beside = tmp_path / "include/cuda_runtime.h"
    beside.parent.mkdir()
    beside.touch()
    assert nvcc.Nvcc(script).root == tmp_path


def test_commas_in_flags_for_nvcc(tmp_path):
    flags = ["-Da", "-Db=f(1, 2)", "-Ic", "-Id,e", "-fsanitize=f,g"]
    found = nvcc.Nvcc(tmp_path / "nvcc").command("c++", [], flags, ["90"])
    assert found[-5:] == [
        "-Da",
        "-Db=f(1\\, 2)",
        "-Ic",
        "-Xcompiler=-Id\\,e",
        "-Xcompiler=-fsanitize=f\\,g",
    ]


NAME = 'a, b "c" \\ $x #\U0001f600 é;\n'


def test_any_path_and_most_targets_work(tmp_path, monkeypatch):
    folder = tmp_path / NAME
    folder.mkdir()
    source = folder / f"source{NAME}.cc"
    source.write_text(SCALE)
    monkeypatch.chdir(folder)
    target = "m\u00fc.scale=, \U0001f600 %s ??/ {x}"
    library = build(source.name, f"ops{NAME}.so", target)
    assert library.targets == [target]
    assert pathlib.Path(library.path) == folder / f"ops{NAME}.so"
    scale = xla_ffi_kit.FfiOp(
        target, lambda x: 2 * x, kernel_axes=0, libraries=library
    )
    assert scale(np.float32(2)) == 4


def test_the_error_of_a_source_names_any_path(tmp_path):
    source = tmp_path / "mod\U0001f600, \udcff.cc"
    source.write_text("int f() { return nowhere; }")
    with pytest.raises(BuildError, match="mod\U0001f600, .*nowhere"):
        build(source, tmp_path / "ops.so")


def test_a_comma_in_the_path_of_the_cache(tmp_path):
    code = (
        "import sys, xla_ffi_kit, numpy as np\n"
        "@xla_ffi_kit.elementwise('2 * x', dtypes='f32', flags=['-O0'])\n"
        "def f(x): return 2 * x\n"
        "print(f(np.float32(2)))\n"
    )
    cache = tmp_path / 'c,a "c" $h #é\U0001f600 '
    done = run_python(code, XLA_FFI_KIT_CACHE=str(cache))
    assert (done.returncode, done.stdout) == (0, "4.0\n"), done.stderr
    assert list(cache.glob("*/*.so"))
