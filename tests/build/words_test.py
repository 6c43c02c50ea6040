"""One word names an operation in every layer, and README's table lists all."""

import pathlib
import re

import pytest

BUILD = pathlib.Path("xla_ffi/BUILD").read_text()
README = pathlib.Path("README.md").read_text()
WORDS = sorted(set(re.findall(r'"//xla_ffi/ops/(\w+)"', BUILD)))
ROOMS = ("accelerate", "numpy", "ops")


def test_the_operations_are_found():
    assert {"relu", "rms_norm", "sort"} <= set(WORDS)


@pytest.mark.parametrize("word", WORDS)
def test_every_layer_has_the_word(word):
    package = pathlib.Path("python/xla_ffi_kit")
    modules = {
        path.relative_to(package).parts[1].removesuffix(".py").lstrip("_")
        for room in ROOMS
        for path in package.glob(f"{room}/**/*.py")
    }
    assert word in modules
    assert pathlib.Path(f"tests/jax/{word}_test.py").exists()


@pytest.mark.parametrize("word", WORDS)
def test_readme_lists_it(word):
    (row,) = re.findall(rf"(?m)^\| `{word}` \|.*$", README)
    for path in (
        f"(xla_ffi/ops/{word}/{word}.h)",
        f"(xla_ffi/ops/{word}/{word}_handler.cc)",
        f"(tests/jax/{word}_test.py)",
    ):
        assert path in row
