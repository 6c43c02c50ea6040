"""A program ends when it starts if its XLA refuses one of its handlers."""

import subprocess
import sys


def test_it_says_why():
    ended = subprocess.run(
        [sys.argv[1]], capture_output=True, text=True, check=False
    )
    assert ended.returncode < 0
    # XLA logs some lines first; the sentence is its own.
    (said,) = [s for s in ended.stderr.splitlines() if s.startswith("newer: ")]
    assert "test.newer" in said and "0.99" in said
