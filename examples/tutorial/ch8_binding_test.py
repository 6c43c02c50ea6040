"""A binding that does not fit its function does not compile."""

import pathlib

import pytest

import xla_ffi_kit

SOURCE = (pathlib.Path(__file__).parent / "rms_norm.cc").read_text()
EPS = '.Attr<float>("eps")'
# What the binding of RmsNorm says instead of EPS, and what the compiler says.
SAYS = "FFI binding signature is not compatible with a function type"
WRONG = ["", '.Attr<std::string_view>("eps")', EPS + EPS]


@pytest.mark.parametrize("instead", WRONG)
def test_the_compiler_says_so(tmp_path, instead):
    file = tmp_path / "bad.cc"
    assert EPS in SOURCE
    file.write_text(SOURCE.replace(EPS, instead, 1))
    with pytest.raises(xla_ffi_kit.errors.BuildError, match=SAYS):
        xla_ffi_kit.build_library(
            [file], {"bad": "RmsNorm"}, tmp_path / "bad.so", flags=["-O0"]
        )
