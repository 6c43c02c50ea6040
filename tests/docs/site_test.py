"""The site: warnings of Sphinx fail its build; and the reference is there.

The page of handlers is what the library says of itself.
"""

import pathlib
import re
import sys

import pytest

import xla_ffi_kit
from xla_ffi_kit.library import describe

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


def test_the_page_of_handlers_is_current(capsys):
    library = xla_ffi_kit.ops.LIBRARIES[0]
    assert describe.main([library.path]) == 0
    page = pathlib.Path("docs/handlers.md")
    assert page.read_text() == capsys.readouterr().out, (
        f"run python -m xla_ffi_kit describe LIBRARY.so >{page}"
    )
    assert len(library.targets) >= 5
