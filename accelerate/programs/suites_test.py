"""The runner of others' tests, with suites of the test's own."""

import os
import sys
import tomllib

import packages
import pytest
import suite_runs
import suites

TESTS = """
import os, pathlib, jax.numpy as jnp, pytest
MODE = os.environ.get("XLA_FFI_ACCELERATE", "")

def test_sorts():
    assert jnp.sort(jnp.arange(1000.0)[::-1])[0] == 0

def test_always_fails():
    assert False

def test_fails_with_it():
    assert not MODE

def test_is_skipped_with_all():
    if MODE == "all":
        pytest.skip("on purpose")

@pytest.fixture
def breaks_with_it():
    yield
    assert not MODE

def test_tear_down(breaks_with_it):
    pass

def test_passes_in_the_first_plain_run_only():
    done = pathlib.Path(__file__).with_suffix(".done")
    assert not MODE and not done.exists()
    done.touch()
"""
CRASHES = """
import os
def test_a():
    pass
def test_b():
    if os.environ.get("XLA_FFI_ACCELERATE"):
        os.abort()
def test_not_chosen():
    assert False
"""
IMPORTS = """
import os
assert not os.environ.get("XLA_FFI_ACCELERATE")
def test_a():
    pass
"""
HANGS = """
import os, time
def test_a():
    pass
def test_b():
    if os.environ.get("XLA_FFI_ACCELERATE"):
        time.sleep(60)
"""


def compared(folder, text, modes=("exact",), select=""):
    (folder / "one_test.py").write_text(text)
    suite = suite_runs.Suite("one", "1.0", folder, ["*_test.py"], select)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv("XLA_FFI_ACCELERATE", "of the caller")
        return suite_runs.compare(sys.executable, suite, modes)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    return compared(folder, TESTS, ("exact", "all"))


def test_differences(found):
    broken = ["one_test.py::test_fails_with_it", "one_test.py::test_tear_down"]
    assert found.differ("exact") == broken and suites.wrong(found) == 2
    skipped = "one_test.py::test_is_skipped_with_all"
    assert found.differ("all") == sorted([*broken, skipped])


def test_flaky_tests_are_named(found):
    assert found.flaky() == [
        "one_test.py::test_passes_in_the_first_plain_run_only"
    ]
    said = suites.describe(found)
    assert "one: flaky: one_test.py::test_passes_in" in said
    assert (
        "failed with XLA_FFI_ACCELERATE=exact: one_test.py::test_tear" in said
    )
    assert "skipped with XLA_FFI_ACCELERATE=all: one_test.py::test_is" in said
    assert "assert not 'exact'" in said  # pytest's own words


def test_counts(found):
    off, exact = found.runs["off"], found.runs["exact"]
    assert (len(off.outcomes), off.passed(), exact.passed()) == (6, 5, 2)
    assert (off.lowered, off.lowering_tests) == (0, 0)
    assert (exact.lowered, exact.lowering_tests) == (1, 1)
    row = suites.table([found]).splitlines()[-1]
    assert row.startswith("| one | 1.0 | 6 | 5 | 2 | 2 | 1 | 1 times, by 1 ")
    assert row.endswith(" | 1 | 3 |")


def test_a_crash_is_a_difference(tmp_path):
    found = compared(tmp_path, CRASHES, select="not chosen")
    assert list(found.runs["off"].outcomes) == [
        "one_test.py::test_a",
        "one_test.py::test_b",
    ]
    assert found.differ("exact") == ["one_test.py::test_b"]
    assert found.flaky() == []
    assert "no outcome with" in suites.describe(found)
    assert "Fatal Python error: Aborted" in suites.describe(found)


def test_a_file_that_cannot_be_imported_is_a_difference(tmp_path):
    found = compared(tmp_path, IMPORTS)
    assert found.differ("exact") == ["one_test.py::test_a"]
    assert found.runs["exact"].outcomes == {"one_test.py": "failed"}


def test_tests_that_never_pass_compare_nothing(tmp_path):
    found = compared(tmp_path, "def test_a():\n    assert False\n")
    assert found.differ("exact") == [] and suites.wrong(found) == 1
    assert "one: no test passes without it" in suites.describe(found)


def test_time_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(suite_runs, "LIMIT", 5)
    found = compared(tmp_path, HANGS)
    assert found.differ("exact") == ["one_test.py::test_b"]


def test_patterns_have_to_match(tmp_path):
    suite = suite_runs.Suite("one", "1.0", tmp_path, ["*_test.py"])
    with pytest.raises(SystemExit, match=r"one: no file is \*_test.py"):
        suite_runs.run(sys.executable, suite, "off")


def test_what_is_listed_is_locked():
    listed = tomllib.loads((suites.HERE / "suites.toml").read_text())
    locked = packages.entries()
    assert not set(listed["suite"]) - set(locked)
    assert not {*listed["ci"], "jaxlib", "pytest"} - set(listed["ci_needs"])
    assert not any("sdist" in settings for settings in listed["ci"].values())
    assert not set(listed["ci_needs"]) - set(locked)
    assert all("--hash=sha256:" in entry for entry in locked.values())
    assert packages.version("jax") == "0.10.2"
