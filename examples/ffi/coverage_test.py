"""Every public name of the FFI headers has an example, or a reason not to.

    tools/bazel run //examples/ffi:coverage_test -- --list

prints each name with where it is used, or why it is not. The arguments of the
test are the headers, the list of exclusions, and the sources of the examples
and of the kit.
"""

import fnmatch
import functools
import pathlib
import re
import sys
import unittest

import header_names

_ARGUMENTS = [pathlib.Path(a) for a in sys.argv[1:] if a != "--list"]
_HEADERS = [p for p in _ARGUMENTS if p.parts[-3:-1] == ("ffi", "api")]
_EXCLUSIONS = next(p for p in _ARGUMENTS if p.suffix == ".txt")
_DOCUMENT = next(p for p in _ARGUMENTS if p.suffix == ".md")
_SOURCES = [
    p for p in _ARGUMENTS if p not in (*_HEADERS, _EXCLUSIONS, _DOCUMENT)
]


@functools.cache
def names() -> list[str]:
    found: set[str] = set()
    for header in _HEADERS:
        text = header.read_text()
        found |= header_names.macros(text) | header_names.declarations(text)
    return sorted(found)


@functools.cache
def exclusions() -> dict[str, str]:
    """Pattern -> reason, from lines of `pattern  reason`."""
    rows = {}
    for line in _EXCLUSIONS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, reason = line.split(maxsplit=1)
            rows[pattern] = reason
    return rows


# Constants that are too short to be looked for alone.
_DTYPE = re.compile(r"PRED|TOKEN|[SUFC]\d\w*|BF16")


def pattern_of(name: str) -> re.Pattern[str]:
    """What a use of the name looks like."""
    scope, _, last = name.rpartition("::")
    if scope == "DataType" or _DTYPE.fullmatch(name):
        return re.compile(rf"(ffi::|DataType::|DataType_){last}\b")
    if scope and last[0] == "k":  # an enumerator
        return re.compile(rf"{scope}::{last}\b")
    if scope and last[0].islower():  # a member
        return re.compile(rf"(\.|->|::|struct .*\b){last}\b")
    return re.compile(rf"\b{last}\b")


@functools.cache
def uses() -> dict[str, list[str]]:
    """Name -> the sources that use it."""
    texts = {
        path.name: header_names.without_comments(path.read_text())
        for path in _SOURCES
    }
    return {
        name: [
            file
            for file, text in texts.items()
            if pattern_of(name).search(text)
        ]
        for name in names()
    }


def excluded_by(name: str) -> str | None:
    return next((p for p in exclusions() if fnmatch.fnmatchcase(name, p)), None)


class CoverageTest(unittest.TestCase):
    def test_the_reader_finds_names_of_every_kind(self):
        found = names()
        for name in [
            "AnyBuffer",
            "AnyBuffer::typed_data",
            "Binding::OptionalArg",
            "BufferR2",
            "ErrorCode::kDataLoss",
            "F32",
            "MakeTypeInfo",
            "XLA_FFI_DEFINE_HANDLER_SYMBOL",
            "XLA_FFI_Error_Code_DATA_LOSS",
            "XLA_FFI_Future_SetError",
            "XLA_FFI_GetApi",
        ]:
            self.assertIn(name, found)
        self.assertFalse([n for n in found if "internal" in n])

    maxDiff = None

    def test_every_name_has_an_example_or_a_reason(self):
        missing = [
            name
            for name, files in uses().items()
            if not files and excluded_by(name) is None
        ]
        self.assertEqual(
            missing,
            [],
            "no example in examples/ffi uses these names of the FFI headers; "
            f"write one, or add a line with the reason to {_EXCLUSIONS.name}",
        )

    def test_every_exclusion_is_needed(self):
        unused = {name for name, files in uses().items() if not files}
        for pattern, reason in exclusions().items():
            self.assertGreater(len(reason.split()), 2, pattern)
            self.assertTrue(
                fnmatch.filter(unused, pattern),
                f"{pattern}: has an example now, or is no name any more",
            )


class DocumentTest(unittest.TestCase):
    def test_every_example_is_in_the_table(self):
        document = _DOCUMENT.read_text()
        examples = [
            p.name
            for p in _SOURCES
            if p.parent.name == "ffi" and p.suffix == ".cc"
            if not p.name.endswith("_test.cc")
        ]
        self.assertGreater(len(examples), 20)
        for example in examples:
            self.assertIn(f"| [{example}](../examples/ffi/{example})", document)


def report() -> None:
    """Prints every name, and how many there are."""
    rows = uses()
    for name, files in rows.items():
        reason = exclusions().get(excluded_by(name) or "", "")
        print(f"{name}  {', '.join(files[:3]) or '- ' + reason}")
    exampled = sum(1 for files in rows.values() if files)
    print(
        f"{len(rows)} names, {exampled} exampled, {len(rows) - exampled} "
        "excluded"
    )


if "--list" in sys.argv:

    def test_list(capsys):
        with capsys.disabled():
            report()
