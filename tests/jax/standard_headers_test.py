"""Which standard header a compiler's error is about: gcc's words, clang's."""

import pytest

from xla_ffi_kit.strings.text import standard_headers

# The header, and the error's own words.
_GCC = """
algorithm 'sort' is not a member of 'std'
algorithm 'sort' is not a member of 'std'; did you mean 'qsort'?
vector    'vector' in namespace 'std' does not name a template type
map       'map' has not been declared in 'std'
chrono    'std::chrono' has not been declared
array     aggregate 'std::array<int, 3> a' has incomplete type
sstream   variable 'std::ostringstream o' has initializer but incomplete type
tuple     invalid use of incomplete type 'class std::tuple<int>'
climits   'INT_MAX' was not declared in this scope
"""
_CLANG = """
algorithm no member named 'sort' in namespace 'std'
map       no template named 'map' in namespace 'std'
mutex     no type named 'mutex' in namespace 'std'
array     instantiation of undefined template 'std::__1::array<float, 4>'
sstream   variable has incomplete type 'std::ostringstream' (aka 'basic_o')
cstring   use of undeclared identifier 'memcpy'
fstream   instantiation of undefined template 'std::basic_ofstream<char>'
"""
_WITHOUT_REMEDY = """
-         'vector' was not declared in this scope
-         'nothing' is not a member of 'std'
-         no member named 'front' in 'std::map<int, int>'
-         'class std::vector<int>' has no member named 'a'
"""


@pytest.mark.parametrize(
    "line", filter(None, (_GCC + _CLANG + _WITHOUT_REMEDY).splitlines())
)
def test_which_header_an_error_is_about(line):
    header, error = line.split(maxsplit=1)
    found = standard_headers.missing(f"a.cc:3:8: error: {error}")
    assert found == (None if header == "-" else header)
