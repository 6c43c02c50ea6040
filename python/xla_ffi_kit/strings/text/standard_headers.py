"""Finds the header of C++'s standard library that an error is about."""

from __future__ import annotations

import re

# A name of the namespace std, as gcc and clang say that they do not know it.
_OF_STD = (
    r"'(?:std::)?(\w+)' is not a member of 'std'",
    r"'(?:std::)?(\w+)' has not been declared in 'std'",
    r"'(\w+)' in namespace 'std' does not name",
    r"'std::(\w+)' has not been declared",
    r"no (?:member|template|type) named '(\w+)' in namespace 'std'",
    # A name that another header declares but does not define.
    r"'[\w ]*\bstd::(?:__\w+::)?(\w+)[^']*' has (?:initializer but )?incomp",
    r"incomplete type '[\w ]*\bstd::(?:__\w+::)?(\w+)",
    r"undefined template 'std::(?:__\w+::)?(\w+)",
)
# A name of C or of a macro.
_OF_C = (
    r"'(\w+)' was not declared in this scope",
    r"'(\w+)' does not name a type",
    r"use of undeclared identifier '(\w+)'",
    r"unknown type name '(\w+)'",
)
_STD_NAMES = {
    "algorithm": """adjacent_find all_of any_of binary_search clamp
        copy copy_if copy_n count count_if equal equal_range fill fill_n find
        find_if for_each generate includes inplace_merge is_sorted
        lexicographical_compare lower_bound make_heap max max_element merge min
        min_element minmax minmax_element mismatch none_of nth_element
        partial_sort partial_sort_copy partition pop_heap push_heap remove
        remove_if replace reverse rotate search set_difference set_intersection
        set_union shuffle sort sort_heap stable_partition stable_sort
        swap_ranges transform unique upper_bound""",
    "array": "array",
    "atomic": "atomic atomic_flag atomic_int memory_order_relaxed",
    "bitset": "bitset",
    "chrono": "chrono",
    "cmath": """abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign
        cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod frexp
        hypot isfinite isinf isnan ldexp lgamma lround llround log log10 log1p
        log2
        modf nextafter pow remainder rint round signbit sin sinh sqrt tan tanh
        tgamma trunc""",
    "complex": "complex",
    "condition_variable": "condition_variable",
    "cstdint": """int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t
        uint64_t intptr_t uintptr_t INT32_MAX INT64_MAX UINT32_MAX
        UINT64_MAX""",
    "cstdio": "printf fprintf snprintf puts FILE stderr stdout fflush",
    "cstdlib": """malloc calloc free realloc abort exit getenv qsort
        aligned_alloc""",
    "cstring": "memcpy memmove memset memcmp strlen strcmp strncmp",
    "deque": "deque",
    "functional": """bind function greater hash invoke less minus multiplies
        plus ref""",
    "future": "async future promise",
    "iostream": "cerr cin clog cout",
    "fstream": "fstream ifstream ofstream",
    "iterator": """back_inserter make_move_iterator istream_iterator
        ostream_iterator reverse_iterator""",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": """make_shared make_unique shared_ptr unique_ptr weak_ptr
        allocator""",
    "mutex": """call_once lock_guard mutex once_flag recursive_mutex scoped_lock
        unique_lock""",
    "numeric": """accumulate adjacent_difference exclusive_scan gcd
        inclusive_scan inner_product iota lcm partial_sum reduce
        transform_reduce""",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "random": """bernoulli_distribution discrete_distribution
        exponential_distribution gamma_distribution mt19937 mt19937_64
        normal_distribution poisson_distribution random_device
        uniform_int_distribution uniform_real_distribution""",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "sstream": "istringstream ostringstream stringstream",
    "stack": "stack",
    "stdexcept": """domain_error invalid_argument length_error logic_error
        out_of_range overflow_error range_error runtime_error""",
    "string": "string stod stof stoi stoll to_string",
    "string_view": "string_view",
    "thread": "thread this_thread",
    "tuple": "apply forward_as_tuple make_tuple tie tuple tuple_size",
    "type_traits": """conditional_t decay_t enable_if enable_if_t
        is_floating_point is_floating_point_v is_integral is_integral_v
        is_same is_same_v is_signed_v make_unsigned_t remove_reference_t""",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_multiset unordered_set",
    "utility": """declval exchange forward make_pair move pair swap
        index_sequence make_index_sequence""",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
_C_NAMES = {
    "cassert": "assert",
    "cerrno": "errno",
    "cfloat": "DBL_EPSILON DBL_MAX DBL_MIN FLT_EPSILON FLT_MAX FLT_MIN",
    "climits": "CHAR_BIT INT_MAX INT_MIN LLONG_MAX LONG_MAX UINT_MAX",
    "cmath": "INFINITY M_PI NAN",
} | {
    header: _STD_NAMES[header]
    for header in ("cstdint", "cstdio", "cstdlib", "cstring")
}


def _headers(names: dict[str, str]) -> dict[str, str]:
    return {n: header for header, all_ in names.items() for n in all_.split()}


_TABLES = (
    (_OF_STD, _headers(_C_NAMES) | _headers(_STD_NAMES)),
    (_OF_C, _headers(_C_NAMES)),
)


def missing(error: str) -> str | None:
    """The header that defines what the compiler misses, if it is known."""
    for patterns, headers in _TABLES:
        for pattern in patterns:
            found = re.search(pattern, error)
            if found:
                return headers.get(found[1].removeprefix("basic_"))
    return None
