"""xla_ffi_fuzz_test(): libFuzzer's calls of every handler of a library."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def xla_ffi_fuzz_test(name, handlers, library, hooks = None, **kwargs):
    """Calls every handler of a library as its signature says, or not quite so.

    A call that fits must succeed, one with a mistake must be refused, and none
    may write anything but its results. By default the test makes 400 calls of
    each handler. With --config=fuzz, clang's libFuzzer searches until its time
    limit.

    Args:
      name: name of the `cc_test`.
      handlers: the xla_ffi_library.
      library: its `library`, or its name if it has none.
      hooks: a library that defines GetHandlerHooks(), as for
        xla_ffi_handler_tests().
      **kwargs: passed to the `cc_test`.
    """
    with_libfuzzer = Label("//xla_ffi/testing/fuzz:with_libfuzzer")
    cc_test(
        name = name,
        srcs = [Label("//xla_ffi/testing/handlers:table.cc")],
        args = select({
            with_libfuzzer: [
                "-len_control=0",
                "-max_len=16",
                "-max_total_time=10",
                "-print_final_stats=1",
                "-rss_limit_mb=4096",
                "-timeout=30",
                "-verbosity=0",
            ],
            "//conditions:default": [],
        }),
        linkopts = select({
            with_libfuzzer: ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        local_defines = ["XLA_FFI_KIT_HANDLER_TABLE=%s_handler_table" % library],
        deps = [
            handlers,
            Label("//xla_ffi/core:handler_table"),
            Label("//xla_ffi/testing/fuzz:call_frame_fuzz_main"),
            hooks or Label("//xla_ffi/testing/handlers:no_hooks"),  # after what calls it
        ],
        **kwargs
    )
