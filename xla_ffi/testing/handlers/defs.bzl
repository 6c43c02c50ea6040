"""xla_ffi_handler_tests(): what holds for every handler of a library."""

load("@rules_cc//cc:defs.bzl", "cc_test")

# Test -> its size, and whether it is for handlers on the CPU alone.
_TESTS = {
    "memory_failure_test": ("large", True),
    "signatures_test": ("medium", False),
}

def xla_ffi_handler_tests(name, handlers, library, hooks = None, on_cpu = True, **kwargs):
    """Tests every handler of a library with calls made of its signature.

    Declares
      * `<name>_signatures_test`: every handler has a signature, accepts random
        calls that fit it, with each dtype that it names, and refuses calls with
        one mistake, of every kind that the signature names; arrays without
        elements are accepted or refused at once, whatever their other
        dimensions are;
      * `<name>_memory_failure_test`: if any allocation fails during a call, the
        call is right or returns an error, and so does the next one; the
        environment may change while handlers run.

    Args:
      name: prefix of the tests.
      handlers: the xla_ffi_library.
      library: its `library`, or its name if it has none.
      hooks: a library that defines GetHandlerHooks() of
        xla_ffi/testing/handlers/handlers.h: what signatures do not say of
        handlers. Needed only if a handler refuses calls that fit its
        signature.
      on_cpu: whether they are handlers on the CPU. For CUDA handlers that the
        emulator runs, only the first test is declared.
      **kwargs: passed to the `cc_test` targets.
    """
    for test, (size, is_of_cpu) in _TESTS.items():
        if is_of_cpu and not on_cpu:
            continue
        cc_test(
            name = name + "_" + test,
            size = size,
            srcs = [Label("//xla_ffi/testing/handlers:table.cc")],
            local_defines = ["XLA_FFI_KIT_HANDLER_TABLE=%s_handler_table" % library],
            deps = [
                handlers,
                Label("//xla_ffi/core:handler_table"),
                Label("//xla_ffi/testing/handlers:" + test),
                hooks or Label("//xla_ffi/testing/handlers:no_hooks"),  # after what calls it
                "@com_google_googletest//:gtest_main",
            ],
            **kwargs
        )
