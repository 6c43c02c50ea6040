"""The site: warnings of Sphinx fail its build; and the reference is there."""

import pathlib
import re
import sys

import pytest

SITE = pathlib.Path(sys.argv[1])


def test_the_reference_has_the_public_names():
    text = (SITE / "python.html").read_text()
    for name in (
        *("FfiOp", "HandlerLibrary", "testing.check_op", "extend.divided"),
        *("rms_norm", "relu", "modular_add", "errors.BuildError"),
    ):
        assert f'id="xla_ffi_kit.{name}"' in text, name


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("docs/handlers", "xla_ffi_kit.rms_norm"),
        ("commands", "usage: python -m xla_ffi_kit build"),
        ("docs/errors", "HandlerLibraryError"),
        ("docs/environment", "XLA_FFI_KIT_CACHE"),
    ],
)
def test_the_reference_has_each_layer(page, said):
    text = re.sub("<[^>]*>", "", (SITE / f"{page}.html").read_text())
    assert said in text
