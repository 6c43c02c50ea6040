"""The Python of every page runs, each page as one program.

A block `output` is what the Python above it prints.
"""

import contextlib
import io
import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import tempfile

import pages
import pytest

import xla_ffi_accelerate

# What the pages compile from strings is not for the user's own cache.
_cache = tempfile.TemporaryDirectory()
os.environ["XLA_FFI_KIT_CACHE"] = _cache.name


def python_blocks(page):
    if page.startswith(pages.TUTORIAL):  # blocks_test finds them elsewhere
        return []
    languages = ("python", "output")
    return [b for b in pages.blocks(page) if b.language in languages]


@pytest.fixture(autouse=True)
def each_page_for_itself():
    yield
    xla_ffi_accelerate.disable()


@pytest.mark.parametrize("page", [*filter(python_blocks, pages.pages())])
def test_it_runs(page):
    scope, printed = {}, ""
    for block in python_blocks(page):
        if block.language == "output":
            assert printed == block.text, block
            continue
        # Blank lines before it: errors then give the line of the page.
        text = "\n" * (block.line - 1) + block.text
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(text, page, "exec"), scope)
        printed = output.getvalue()
