"""The page of explained programs is what `explain` says today."""

import pathlib

import compare_explained

from xla_ffi_accelerate import _processor


def _sections(page):
    return dict(part.partition("\n")[::2] for part in page.split("## "))


def test_the_page_is_up_to_date():
    file = pathlib.Path("accelerate/docs/explained.md")
    want = _sections(file.read_text())
    got = _sections(compare_explained.page())
    if not _processor.has_avx512():
        # XLA adds the products of this program in other orders there.
        del want["Camera poses"], got["Camera poses"]
    assert got == want
