"""check_snippets, which CI runs, sees a block that nothing runs."""

import check_snippets
import pytest

PAGE = "docs/page.md"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setattr(check_snippets, "SCRIPTS", ("ci",))
    monkeypatch.setattr(check_snippets, "DOCS_TEST", "docs_test.py")
    monkeypatch.setattr(check_snippets, "CHECKED", {(PAGE, "c"): "c_test"})
    monkeypatch.setattr(check_snippets, "NOT_RUN", {(PAGE, "rm -rf /"): "no"})
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Nothing\n")
    (tmp_path / "ci").write_text(
        "stage one bazel test \\\n  //... --config=ci\n"
    )
    (tmp_path / "c_test").write_text("reads page.md")
    (tmp_path / "docs_test.py").write_text('glob("*.md")')
    return tmp_path


GOOD = """
```c
int x;
```

```python
x = 1
```

```sh
# A comment
bazel test //...   # all of it
rm -rf /
```
"""


def problems(tree, text):
    (tree / PAGE).write_text(text)
    return [
        *check_snippets.unchecked(tree),
        *check_snippets.stale(tree),
        *check_snippets.broken_fences(tree),
    ]


def test_a_page_of_which_everything_is_run(tree):
    assert problems(tree, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("```c\n", "```rust\n", f"{PAGE}:2: no test runs 'int x;'"),
        ("//... ", "//:x ", f"{PAGE}:10: no test runs 'bazel test //:x'"),
        ("rm -rf /\n", "", f"{PAGE} has no 'rm -rf /'"),
        ("```c\nint x;\n```\n", "", f"{PAGE} has no 'c'"),
        ("x = 1\n```", "x = 1", "page.md: a ``` is not closed"),
    ],
)
def test_what_is_wrong_is_said(tree, old, new, says):
    assert old in GOOD
    said = problems(tree, GOOD.replace(old, new))
    assert any(says in problem for problem in said), said


def test_a_checker_that_forgot_its_page(tree):
    (tree / "c_test").write_text("")
    assert problems(tree, GOOD) == [
        f"c_test does not name {PAGE}, which it should check"
    ]
