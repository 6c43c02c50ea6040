"""An operation has one name in every layer, and in architecture.md."""

import pathlib
import re

import pytest

BUILD = pathlib.Path("xla_ffi/BUILD").read_text()
PAGE = pathlib.Path("docs/architecture.md").read_text()
WORDS = sorted(set(re.findall(r'"//xla_ffi/ops/(\w+)"', BUILD)))
# Not all WORDS: what new_op has just written is not there yet.
ROWS = dict(re.findall(r"(?m)^\| `(\w+)` \|(.*\(../xla_ffi/ops/.*)$", PAGE))


def test_the_operations_are_found():
    assert {"modular_add", "relu", "rms_norm"} <= set(WORDS) & ROWS.keys()


@pytest.mark.parametrize("word", WORDS)
def test_every_layer_has_the_word(word):
    package = pathlib.Path("python/xla_ffi_kit")
    modules = {
        path.relative_to(package).parts[1].removesuffix(".py").lstrip("_")
        for path in package.glob("ops/**/*.py")
    }
    assert word in modules


@pytest.mark.parametrize("word", ROWS)
def test_the_page_says_where_it_is(word):
    assert word in WORDS
    for path in (
        f"(../xla_ffi/ops/{word}/{word}.h)",
        f"(../xla_ffi/ops/{word}/{word}.cc)",
    ):
        assert path in ROWS[word]
