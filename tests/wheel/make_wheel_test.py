"""The program that makes the wheel: what it refuses, and which links go."""

import sys
import zipfile

import pytest

import make_wheel

PLACE = "xla_ffi_kit/_lib/xla_ffi_kit_cpu.so"
with zipfile.ZipFile(sys.argv[1]) as archive:
    LIBRARY = archive.read(PLACE)


def test_the_page_has_no_links_into_the_repository():
    page = (
        "[a\nfile](b/c.md#d), [there](https://host/a), [here](#a)\n\n"
        "![picture](a.svg)\n```py\nx[0](y)\n```\n[b](c)\n"
    )
    assert make_wheel.standalone(page) == (
        "a\nfile, [there](https://host/a), [here](#a)\n\n"
        "\n```py\nx[0](y)\n```\nb\n"
    )


@pytest.mark.parametrize("name", ["GLIBC_2.18", "GLIBCXX_3.4.20"])
def test_a_library_that_needs_a_newer_system_is_refused(name):
    make_wheel.check_libraries({PLACE: LIBRARY}, "2.17")
    with pytest.raises(
        SystemExit,
        match=rf"^{PLACE} needs {name}, but manylinux_2_17 promises less: "
        "build it with the compiler of //third_party/cc, or raise ",
    ):
        make_wheel.check_libraries(
            {PLACE: LIBRARY + f"\0{name}\0".encode()}, "2.17"
        )
