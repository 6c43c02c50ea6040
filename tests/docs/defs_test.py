"""docs/defs.md is what the docstrings say."""

import pathlib

import bzl_docs

ROOT = pathlib.Path(".").absolute()


def test_the_page_is_current():
    assert (ROOT / bzl_docs.PAGE).read_text() == bzl_docs.page(ROOT), (
        "run python3 tools/bzl_docs/bzl_docs.py"
    )


def function(text):
    (node,) = bzl_docs.ast.parse(text).body
    return bzl_docs.function(node)


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


def test_a_row_of_a_table_is_one_line():
    rows = [("`a`", "required", "a | of\n  two lines.")]
    shown = bzl_docs.table(rows, "| a | b | c |").splitlines()[-1]
    assert shown == "| `a` | required | a \\| of two lines. |"
