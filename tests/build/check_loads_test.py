"""check_loads, which CI runs, sees rules that are not loaded."""

import pytest
from check_loads import problems


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('cc_library(name = "a")', ["cc_library"]),
        ('load("@rules_cc//cc:defs.bzl", "cc_library")\ncc_library()', []),
        ('load("//a:a.bzl", cc_a = "b")\ncc_a()', []),
        ("def f():\n    native.py_test()", ["native.py_test"]),
        ("def f(dep):\n    return dep[CcInfo]", ["CcInfo"]),
        ('native.filegroup(name = "a")', []),
    ],
)
def test_what_it_sees(text, found):
    assert problems(text) == found
