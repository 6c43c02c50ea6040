"""What README.md shows is what the project does.

The Python snippets run, the C++ snippet is the one of the example that is built
and run as a test, and the two commands are those that .ci/run runs.
"""

import pathlib
import re
import textwrap

README = pathlib.Path("README.md").read_text()
EXAMPLE = pathlib.Path("examples/rms_norm_in_xla.cc").read_text()
CI = pathlib.Path(".ci/run").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"```{re.escape(language)}\n(.*?)```", README, re.DOTALL)


def test_python_snippets_run():
    snippets = blocks("python")
    assert snippets
    for snippet in snippets:
        exec(compile(snippet, "README.md", "exec"), {})  # noqa: S102


def test_cpp_snippet_is_the_tested_example():
    (snippet,) = blocks("c++")
    tested = EXAMPLE.split("  // [README]\n")[1]
    assert snippet == textwrap.dedent(tested)


def test_ci_runs_the_two_commands():
    commands = blocks("sh")[0].split("\n")[:2]
    for command in commands:
        assert command in CI
