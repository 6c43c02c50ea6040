"""The reference pages of handlers are what the libraries say of themselves."""

import pathlib
import re

import pytest

import xla_ffi_kit
from xla_ffi_kit.library import describe

ROOT = pathlib.Path(".").absolute()
PAGES = {
    "docs/handlers.md": xla_ffi_kit.ops.LIBRARIES[0],
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_current(page, capsys):
    assert describe.main([PAGES[page].path]) == 0
    assert (ROOT / page).read_text() == capsys.readouterr().out, (
        f"run python -m xla_ffi_kit describe LIBRARY.so >{page}"
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_handler_with_a_signature_is_on_it(page):
    rows = (ROOT / page).read_text().splitlines()
    named = [found[1] for r in rows if (found := re.match(r"\| `(.*?)`", r))]
    library = PAGES[page]
    signed = [target for target in library.targets if library.signature(target)]
    assert sorted(named) == sorted(signed)
