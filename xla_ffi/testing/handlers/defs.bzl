"""xla_ffi_handler_tests(): what holds for every handler of a library."""

load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

# Test -> its size and what it needs beside the calls.
_TESTS = {
    "empty_arrays_test": ("small", []),
    "memory_failure_test": ("large", ["//xla_ffi/testing:failing_memory"]),
    "scratch_bounds_test": ("medium", ["//xla_ffi/testing:counted_memory"]),
    "signatures_test": ("medium", ["//xla_ffi/testing/handlers:described_call"]),
}

def xla_ffi_handler_tests(name, handlers, library, calls, **kwargs):
    """Tests every handler of a library with calls that the package provides.

    Declares
      * `<name>_calls`: the calls as a library, for xla_ffi_fuzz_test(), too;
      * `<name>_scratch_bounds_test`: no call allocates more than it says;
      * `<name>_memory_failure_test`: if any allocation fails during a call, the
        call is right or returns an error, and so does the next one; the
        environment may change while handlers run;
      * `<name>_empty_arrays_test`: arrays without elements are accepted or
        refused at once, whatever their other dimensions are;
      * `<name>_signatures_test`: every handler has a signature, accepts the calls
        and each dtype that it names, and refuses calls with one mistake, of
        every kind that the signature names.

    Args:
      name: prefix of the tests.
      handlers: the xla_ffi_library, on the CPU.
      library: its `library`, or its name if it has none.
      calls: C++ sources that define HandlerCalls(), SharedRowCalls() and
        EmptyCalls() of xla_ffi/testing/handlers/handler_calls.h.
      **kwargs: passed to the `cc_test` targets.
    """
    cc_library(
        name = name + "_calls",
        testonly = True,
        srcs = calls,
        # For xla_ffi_fuzz_test().
        visibility = ["//visibility:public"],
        deps = [Label("//xla_ffi/testing/handlers:handler_calls")],
    )
    for test, (size, needs) in _TESTS.items():
        cc_test(
            name = name + "_" + test,
            size = size,
            srcs = [Label("//xla_ffi/testing/handlers:%s.cc" % test)],
            local_defines = ["XLA_FFI_KIT_HANDLER_TABLE=%s_handler_table" % library],
            deps = [
                handlers,
                ":" + name + "_calls",
                Label("//xla_ffi/core:handler_table"),
                "@com_google_googletest//:gtest_main",
            ] + [Label(need) for need in needs],
            **kwargs
        )
