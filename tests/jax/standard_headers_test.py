"""Which standard header a compiler's error is about: gcc's words, clang's."""

import pytest

from xla_ffi_kit.strings import standard_headers


@pytest.mark.parametrize(
    ("error", "header"),
    [
        # gcc
        ("a.cc:3:8: error: 'sort' is not a member of 'std'", "algorithm"),
        (
            "a.cc:3:8: error: 'sort' is not a member of 'std'; did you mean "
            "'qsort'?",
            "algorithm",
        ),
        (
            "a.cc:1:6: error: 'vector' in namespace 'std' does not name a "
            "template type",
            "vector",
        ),
        ("a.cc:3:14: error: 'map' has not been declared in 'std'", "map"),
        ("a.cc:3:8: error: 'std::chrono' has not been declared", "chrono"),
        (
            "a.cc:3:8: error: aggregate 'std::array<int, 3> a' has incomplete "
            "type and cannot be defined",
            "array",
        ),
        (
            "a.cc:3:8: error: variable 'std::ostringstream o' has initializer "
            "but incomplete type",
            "sstream",
        ),
        (
            "a.cc:3:8: error: invalid use of incomplete type 'class "
            "std::tuple<int>'",
            "tuple",
        ),
        (
            "a.cc:3:8: error: 'INT_MAX' was not declared in this scope",
            "climits",
        ),
        # clang
        (
            "a.cc:3:8: error: no member named 'sort' in namespace 'std'",
            "algorithm",
        ),
        ("a.cc:3:8: error: no template named 'map' in namespace 'std'", "map"),
        ("a.cc:3:8: error: no type named 'mutex' in namespace 'std'", "mutex"),
        (
            "a.cc:3:8: error: implicit instantiation of undefined template "
            "'std::__1::array<float, 4>'",
            "array",
        ),
        (
            "a.cc:3:8: error: variable has incomplete type "
            "'std::ostringstream' (aka 'basic_ostringstream<char>')",
            "sstream",
        ),
        ("a.cc:3:8: error: use of undeclared identifier 'memcpy'", "cstring"),
        (
            "a.cc:3:8: error: implicit instantiation of undefined template "
            "'std::basic_ofstream<char>'",
            "fstream",
        ),
        # No header would help.
        ("a.cc:3:8: error: 'vector' was not declared in this scope", None),
        ("a.cc:3:8: error: 'nothing' is not a member of 'std'", None),
        (
            "a.cc:3:8: error: no member named 'front' in 'std::map<int, int>'",
            None,
        ),
        (
            "a.cc:3:8: error: 'class std::vector<int>' has no member named 'a'",
            None,
        ),
    ],
)
def test_which_header_an_error_is_about(error, header):
    assert standard_headers.missing(error) == header
