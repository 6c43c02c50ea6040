"""The reference pages of handlers are what the libraries say of themselves."""

import pathlib

import pytest

import xla_ffi_accelerate
import xla_ffi_kit
from xla_ffi_kit.library import describe

ROOT = pathlib.Path(".").absolute()
PAGES = {
    "docs/handlers.md": xla_ffi_kit.KIT_LIBRARIES[0],
    "accelerate/docs/handlers.md": xla_ffi_accelerate.LIBRARIES[0],
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_current(page, capsys):
    assert describe.main([PAGES[page].path, "--markdown"]) == 0
    assert (ROOT / page).read_text() == capsys.readouterr().out, (
        f"run python -m xla_ffi_kit describe LIBRARY.so --markdown >{page}"
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_handler_with_a_signature_is_on_it(page):
    headings = [
        line[3:]
        for line in (ROOT / page).read_text().splitlines()
        if line.startswith("## ")
    ]
    library = PAGES[page]
    signed = [
        target for target in library.handlers if library.signature(target)
    ]
    assert sorted(headings) == sorted(signed)
