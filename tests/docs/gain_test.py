"""README's picture is what docs/gain.py draws of the figures in the pages."""

import runpy

from pages import ROOT


def test_the_picture_is_current():
    gain = runpy.run_path(str(ROOT / "docs/gain.py"))
    drawn = (ROOT / "docs/gain.svg").read_text(encoding="utf-8")
    assert drawn == gain["picture"](), "run python docs/gain.py"
