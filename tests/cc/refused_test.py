"""A program ends when it starts if its XLA refuses one of its handlers."""

import subprocess
import sys


def test_it_says_why():
    ended = subprocess.run(
        [sys.argv[1]], capture_output=True, text=True, check=False
    )
    assert ended.returncode < 0
    # XLA logs some lines, too.
    assert "newer: registering handler test.newer: " in ended.stderr
    assert "0.99" in ended.stderr
