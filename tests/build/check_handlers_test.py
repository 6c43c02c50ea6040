"""check_handlers.sh, on what nm says; e2e/mistakes_run has real objects."""

import pathlib
import subprocess

import pytest

SCRIPT = pathlib.Path("xla_ffi/private/check_handlers.sh").absolute()


GCC = "ENKUlP17XLA_FFI_CallFrameE_clES0_E7handler"
CLANG = "ENK3$_0clEP17XLA_FFI_CallFrameE7handler"


def defines(*handlers, functions=(), variable=GCC):
    """What nm prints of an object with these handlers and C functions."""
    lines = ["                 U memcpy", "table.o:"]
    for name in handlers:
        where = f"ZZ{len(name)}{name}{variable}"
        lines += [
            f"0000000000000000 T {name}",
            f"0000000000000000 b _ZGV{where}",
            f"0000000000000000 b _Z{where}",
        ]
    lines += [f"0000000000000010 T {name}" for name in functions]
    return "\n".join(lines) + "\n"


@pytest.fixture
def check(tmp_path):
    nm = tmp_path / "nm"
    nm.write_text('#!/bin/sh\ncat "$@"\n')  # the objects are its output
    nm.chmod(0o755)

    def run(expected, own, others="", listed=None):
        files = {
            "expected": expected,
            "listed": listed,
            "own": "",
            "others": "",
        }
        if listed is None:
            symbols = [line.split()[1] for line in expected.splitlines()]
            files["listed"] = "".join(f"{symbol}\n" for symbol in symbols)
        for name, text in (("own", own), ("others", others)):
            if text is not None:
                (tmp_path / f"{name}.o").write_text(text)
                files[name] = f"{tmp_path}/{name}.o\n"
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        output = tmp_path / "checked"
        paths = [tmp_path / name for name in files]
        done = subprocess.run(
            [SCRIPT, "//a:b", nm, output, *paths],
            capture_output=True,
            text=True,
            check=False,
        )
        assert output.exists() == (done.returncode == 0)
        return done.stderr

    return run


def test_all_named_are_defined_and_listed(check):
    assert check("x.a A\nx.b B\n", defines("A", "B")) == ""


def test_one_that_is_not_defined(check):
    said = check("x.a A\nx.b Bee\n", defines("A", "B"), listed="A\nB\nBee\n")
    assert said == (
        '//a:b: handlers["x.b"]: no source defines Bee: define it with '
        "XLA_FFI_DEFINE_HANDLER_SYMBOL(Bee, ...) or correct the name (its "
        "sources define A, B)\n"
    )


@pytest.mark.parametrize("variable", [GCC, CLANG])
def test_one_that_is_not_listed(check, variable):
    said = check("x.a A\n", defines("A", "B", variable=variable))
    assert said == (
        "//a:b: handlers: the sources define B, which is not listed: add "
        '"TARGET": "B" with the custom call target of your choice\n'
    )


def test_defined_in_a_library_that_is_linked(check):
    assert check("x.a A\n", defines(functions=["f"]), defines("A")) == ""


def test_handlers_of_linked_libraries_need_no_place_in_the_list(check):
    assert check("x.a A\n", defines("A"), defines("B", "C")) == ""


def test_other_functions_are_no_handlers(check):
    assert check("x.a A\n", defines("A", functions=["b_handler_table"])) == ""


def test_a_name_that_is_part_of_another(check):
    assert "no source defines A:" in check(
        "x.a A\n", defines("AA"), listed="AA"
    )


def test_objects_that_nm_cannot_read_are_left_to_the_linker(check):
    assert check("x.a A\n", "") == ""
