"""docs/defs.md is what the docstrings say, and all of them say enough."""

import pathlib

import bzl_docs
import pytest

ROOT = pathlib.Path(".").absolute()


def test_the_page_is_current():
    assert (ROOT / bzl_docs.PAGE).read_text() == bzl_docs.page(ROOT), (
        "run python3 tools/bzl_docs/bzl_docs.py"
    )


def function(text):
    (node,) = bzl_docs.ast.parse(text).body
    return bzl_docs.function("x.bzl", node)


GOOD = '''
def f(name, deps = [], **kwargs):
    """Does it.

    More of
      * this.

    Args:
      name: of the
        target.
      deps: libraries, `a|b`.
      **kwargs: the rest.

    Returns:
      nothing.
    """
'''


def test_a_function():
    assert function(GOOD) == (
        "Does it.\n\nMore of\n  * this.\n\n"
        "| argument | default | meaning |\n|---|---|---|\n"
        "| `name` | required | of the target. |\n"
        "| `deps` | `[]` | libraries, `a\\|b`. |\n"
        "| `**kwargs` |  | the rest. |"
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("deps = []", "deps = [], tags = []", "differ in tags"),
        ("deps = [], ", "", "differ in deps"),
        ("**kwargs)", "*, other)", "differ in \\*\\*kwargs"),
    ],
)
def test_an_argument_that_is_not_explained_is_an_error(old, new, says):
    with pytest.raises(bzl_docs.Undocumented, match=says):
        function(GOOD.replace(old, new, 1))


def test_a_row_of_a_table_is_one_line():
    rows = [("`a`", "required", "a | of\n  two lines.")]
    shown = bzl_docs.table(rows, "| a | b | c |").splitlines()[-1]
    assert shown == "| `a` | required | a \\| of two lines. |"


def test_no_docstring_is_an_error():
    with pytest.raises(bzl_docs.Undocumented, match="f has no docstring"):
        function("def f(): pass")
