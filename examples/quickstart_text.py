"""The text the quickstart learns from, as numbers, and batches of it."""

from __future__ import annotations

import collections
import importlib
import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

# Rarer characters than these become one stand-in, so that the size of the
# model does not depend on the text.
MAX_CHARACTERS = 95
STAND_IN = "\N{REPLACEMENT CHARACTER}"
MIN_LENGTH = 20_000


class Text(NamedTuple):
    """A text as indices into its alphabet.

    Attributes:
      alphabet: the characters; index i of the text means alphabet[i].
      train: int32[n], the first nine tenths.
      held_out: int32[m], the last tenth, which training never reads.
      source: where the text comes from, in words.
    """

    alphabet: str
    train: np.ndarray
    held_out: np.ndarray
    source: str

    def decode(self, indices: np.ndarray) -> str:
        """The characters that int32[n] stands for."""
        return "".join(self.alphabet[i] for i in indices)


def read_text(path: str | None) -> Text:
    """Reads `path`, or the help texts of the Python that runs this program.

    Layout says little about language: each run of white space is one space.

    Raises:
      SystemExit: with one sentence, if there is no text to be had.
    """
    if path is None:
        source = "the language reference in Python's pydoc_data.topics"
        try:
            topics = importlib.import_module("pydoc_data.topics").topics
        except ImportError:
            raise SystemExit(
                "quickstart: this Python has no pydoc_data.topics to learn "
                "from: name any English text with --text FILE"
            ) from None
        text = "\n".join(topics[name] for name in sorted(topics))
    else:
        source = path
        # `bazel run` starts programs elsewhere, and says here where it was.
        folder = os.environ.get("BUILD_WORKING_DIRECTORY", "")
        try:
            text = pathlib.Path(folder, path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SystemExit(
                f"quickstart: --text {path}: expected a UTF-8 text file: "
                f"{error}"
            ) from None
    if len(text) < MIN_LENGTH:
        raise SystemExit(
            f"quickstart: {source}: expected at least {MIN_LENGTH} characters, "
            f"got {len(text)}: name a longer text with --text FILE"
        )
    text = " ".join(text.split())
    common = collections.Counter(text).most_common(MAX_CHARACTERS)
    alphabet = STAND_IN + "".join(sorted(character for character, _ in common))
    index = {character: i for i, character in enumerate(alphabet)}
    encoded = np.array([index.get(c, 0) for c in text], dtype=np.int32)
    split = len(encoded) * 9 // 10
    return Text(alphabet, encoded[:split], encoded[split:], source)


def batches(
    characters: np.ndarray, size: int, length: int, seed: int
) -> Iterator[np.ndarray]:
    """Yields int32[size, length] windows from random places, without end."""
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(len(characters) - length, size=(size, 1))
        yield characters[starts + np.arange(length)]
