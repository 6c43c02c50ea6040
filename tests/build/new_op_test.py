"""new_op: what it writes, what it refuses, and that it overwrites nothing.

e2e/new_op_run builds what it writes, and runs its tests.
"""

import ast
import pathlib
import re

import new_op
import pytest

# goals.md: files, lines, and edits of files that others share.
MOST = {False: (5, 140), True: (6, 185)}
MODULES = "python/xla_ffi_kit/ops"
KIT_BUILD = pathlib.Path("xla_ffi/BUILD").read_text()


@pytest.fixture
def user(tmp_path):
    (tmp_path / "MODULE.bazel").write_text('module(name = "my-models")\n')
    (tmp_path / "ops").mkdir()
    return tmp_path


@pytest.fixture
def kit(tmp_path):
    (tmp_path / "MODULE.bazel").write_text('module(name = "xla_ffi_kit")\n')
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "bazel").touch()
    (tmp_path / "xla_ffi").mkdir()
    (tmp_path / "xla_ffi" / "BUILD").write_text(KIT_BUILD)
    return tmp_path


def run(monkeypatch, folder, *arguments):
    monkeypatch.delenv("BUILD_WORKSPACE_DIRECTORY", raising=False)
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(folder))
    return new_op.main(list(arguments))


def files_below(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("workspace", ["user", "kit"])
def test_few_files_few_lines_no_word_left_over(
    workspace, cuda, request, monkeypatch
):
    root = request.getfixturevalue(workspace)
    before = files_below(root)
    assert not run(monkeypatch, root, "swish", *["--cuda"] * cuda)
    after = files_below(root)
    written = {path: after[path] for path in after.keys() - before.keys()}
    most_files, most_lines = MOST[cuda]
    assert len(written) <= most_files
    assert sum(text.count("\n") for text in written.values()) <= most_lines
    edited = [path for path in before if before[path] != after[path]]
    assert edited == (["xla_ffi/BUILD"] if workspace == "kit" else [])
    for path, text in written.items():
        assert not re.search(r"@[A-Z_]+@", text), path
        assert text.endswith("\n") and "\n\n\n\n" not in text
        assert not re.search(r"[ \t]$", text, re.MULTILINE), path
        assert max(map(len, text.splitlines())) <= 80, path
        if path.endswith((".py", "BUILD")):
            ast.parse(text)  # BUILD files are Python too, syntactically
    # The names that tie the files together.
    target = "xla_ffi_kit.swish" if workspace == "kit" else "my_models.swish"
    symbol = "XlaFfiKitSwish" if workspace == "kit" else "MyModelsSwish"
    for path, text in written.items():
        if path.endswith((".h", "swish.py", "BUILD")):
            assert target in text, path
    everything = "".join(written.values())
    for platform in ["Cpu", "Cuda"][: 1 + cuda]:
        # BUILD, the handler and its signature.
        assert everything.count(symbol + platform) == 3


def test_the_lines_in_the_kits_lists(kit, monkeypatch):
    assert not run(monkeypatch, kit, "--cuda", "aaa")
    written = files_below(kit)
    lines = written["xla_ffi/BUILD"].splitlines()
    added = [line for line in lines if line not in KIT_BUILD.splitlines()]
    assert added == [
        '        "//xla_ffi/ops/aaa",',
        '        "//xla_ffi/ops/aaa:aaa_cuda",',
    ]
    assert len(lines) == len(KIT_BUILD.splitlines()) + 2
    # Before all others, as the alphabet has it.
    others = [s for s in KIT_BUILD.splitlines() if '"//xla_ffi/ops/' in s]
    assert lines[lines.index(added[0]) + 1] == min(others)


def test_dry_run_writes_nothing(user, monkeypatch, capsys):
    before = files_below(user)
    assert not run(monkeypatch, user, "swish", "--dry-run")
    assert files_below(user) == before
    assert "--- swish/swish.cc" in capsys.readouterr().out


REFUSED = {
    "Swish": "snake_case",
    "2d": "snake_case",
    "a__b": "snake_case",
    "a_": "snake_case",
    "é": "snake_case",
    "../x": "snake_case",
    "": "snake_case",
    "template": "reserved word of C++",
    "lambda": "reserved word of Python",
    "match": "reserved word of Python",
    "json": "module that Python needs",
    "numpy": "module that Python needs",
    "relu": "name of xla_ffi_kit already",
    "errors": "name of xla_ffi_kit already",
    "modular_add": "name of xla_ffi_kit already",
    "a" * 41: "at most 40",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_names(name, user, monkeypatch, capsys):
    before = files_below(user)
    assert run(monkeypatch, user, "--", name) == 1
    said = capsys.readouterr().err
    assert REFUSED[name] in said
    assert said.count("\n") == 1 and said.startswith("new_op: ")
    assert files_below(user) == before


@pytest.mark.parametrize(
    ("workspace", "path", "named"),
    [
        ("user", "swish", "swish"),
        ("user", "swish/BUILD", "swish"),
        ("kit", "xla_ffi/ops/swish/notes", "xla_ffi/ops/swish"),
        ("kit", "tests/jax/swish_test.py", "tests/jax/swish_test.py"),
        ("kit", f"{MODULES}/swish.py", f"{MODULES}/swish.py"),
    ],
)
def test_nothing_is_overwritten(
    workspace, path, named, request, monkeypatch, capsys
):
    root = request.getfixturevalue(workspace)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("mine")
    before = files_below(root)
    assert run(monkeypatch, root, "swish") == 1
    assert f"new_op: {named} exists already" in capsys.readouterr().err
    assert files_below(root) == before


def test_outside_of_a_workspace(tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, tmp_path, "swish") == 1
    assert "is in no Bazel workspace" in capsys.readouterr().err


def test_a_kit_without_its_list_is_refused(kit, monkeypatch, capsys):
    (kit / "xla_ffi" / "BUILD").write_text("")
    assert run(monkeypatch, kit, "swish") == 1
    assert 'no list of `deps` in "cpu"' in capsys.readouterr().err
    assert not (kit / "python").exists()


def test_the_workspace_name(tmp_path):
    (tmp_path / "WORKSPACE").write_text('workspace(name = "older")\n')
    assert new_op.workspace_name(tmp_path) == "older"
    (tmp_path / "MODULE.bazel").write_text('module(\n    name = "mine",\n)\n')
    assert new_op.workspace_name(tmp_path) == "mine"
