"""The Python snippets of docs/ run, each page as one program."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import pathlib
import re

import pytest

import xla_ffi_kit

# The tree's root, in the source tree and in Bazel's runfiles alike.
ROOT = pathlib.Path(os.path.abspath(__file__)).parents[2]
PAGES = sorted(page.name for page in (ROOT / "docs").glob("*.md"))
WITH_PYTHON = [
    page for page in PAGES if "```python" in (ROOT / "docs" / page).read_text()
]


@pytest.fixture(autouse=True)
def each_page_for_itself():
    yield
    xla_ffi_kit.accelerate(False)


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_snippets_run(page):
    text = (ROOT / "docs" / page).read_text()
    snippets = list(re.finditer(r"```python\n(.*?)```", text, re.DOTALL))
    assert snippets
    scope = {}
    for snippet in snippets:
        # Blank lines before it: errors then give the line of the page.
        above = "\n" * text[: snippet.start(1)].count("\n")
        exec(compile(above + snippet[1], page, "exec"), scope)


def test_an_operation_is_at_most_40_lines():
    text = (ROOT / "docs/ffi_op.md").read_text()
    specs = [
        snippet
        for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "FfiOp(" in snippet
    ]
    assert len(specs) == 4
    # Blank lines are counted too; the second one has its own derivative.
    assert max(len(snippet.splitlines()) for snippet in specs) <= 40


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_page_lead_somewhere(page):
    text = (ROOT / "docs" / page).read_text()
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {
        re.sub(r"[^\w -]", "", t).lower().replace(" ", "-") for t in titles
    }
    for anchor in re.findall(r"\]\(#([^)]*)\)", text):
        assert anchor in anchors
