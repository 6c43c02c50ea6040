"""Tests that a mistake in a BUILD file stops the build with a useful sentence.

Mistakes that only a build shows are in e2e/mistakes.
"""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@bazel_skylib//rules:write_file.bzl", "write_file")
load("//third_party/cuda:defs.bzl", "architecture_flags")
load("//xla_ffi:defs.bzl", "xla_ffi_library")

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    for text in ctx.attr.texts:
        asserts.expect_failure(env, text)
    return analysistest.end(env)

_failure_test = analysistest.make(
    _failure_test_impl,
    attrs = {"texts": attr.string_list()},
    expect_failure = True,
)

def _handlers(handlers, types = {}):
    return {"handlers": handlers, "types": types}

_RIGHT = {"target": "Symbol"}

# Mistake -> (attributes with it, the target that fails, what the error says).
_MISTAKES = {
    "empty": (
        _handlers({"": "Symbol"}),
        "_exports",
        ["handlers[\"\"]", "refuses an empty target"],
    ),
    "dollar": (
        _handlers({"$target": "Symbol"}),
        "_exports",
        ["handlers[\"$target\"]", "begin with $"],
    ),
    "library_name": (
        {"handlers": _RIGHT, "library": "my-library"},
        "_exports",
        ["library: \"my-library\" is not a C identifier", "set `library`"],
    ),
    "no_execute": (
        _handlers({"target": {"instantiate": "Symbol"}}),
        "_exports",
        ["handlers[\"target\"]", "no \"execute\" stage"],
    ),
    "no_handlers": (
        {},
        "_exports",
        ["no handlers", "name them in `handlers`"],
    ),
    "not_a_symbol": (
        _handlers({"target": "no symbol"}),
        "_exports",
        ["handlers[\"target\"]", "\"no symbol\" is not the name of a C symbol"],
    ),
    "platform": (
        {"handlers": _RIGHT, "platform": "cpu"},
        "_exports",
        ["platform: expected one of [\"Host\", \"CUDA\", \"ROCM\"]", "got \"cpu\""],
    ),
    "two_highways": (
        {
            "deps": ["//xla_ffi/core:simd"],
            "handlers": _RIGHT,
            "hdrs": ["another/hwy/highway.h"],
        },
        "",
        [
            "Highway's headers come from @ and @",
            "highway",
            "in MODULE.bazel by bazel_dep(name = \"highway\")",
        ],
    ),
    "two_xla": (
        {
            "deps": ["@xla_header_copy//xla/ffi/api:ffi"],
            "handlers": _RIGHT,
        },
        "",
        [
            # In bzlmod mode the names are longer.
            "FFI headers come from @",
            "xla_header_copy",
            "//third_party/xla:ffi_api",
        ],
    ),
    "type_not_a_symbol": (
        _handlers(_RIGHT, {"State": "no symbol"}),
        "_exports",
        ["types[\"State\"]", "\"no symbol_type_id\" is not the name of a C symbol"],
    ),
    "type_without_info": (
        _handlers(_RIGHT, {"State": {"type_id": "Id"}}),
        "_exports",
        ["types[\"State\"]", "[\"type_id\", \"type_info\"]"],
    ),
    "type_without_name": (
        _handlers(_RIGHT, {"": "State"}),
        "_exports",
        ["a type needs a name"],
    ),
    "unknown_stage": (
        _handlers({"target": {"compile": "Symbol", "execute": "Symbol"}}),
        "_exports",
        ["unknown stage \"compile\"", "instantiate"],
    ),
    "wrong_type": (
        _handlers({"target": 1}),
        "_exports",
        ["expected a symbol or a dictionary from stage to symbol, got 1"],
    ),
}

def _capabilities_probe_impl(ctx):
    architecture_flags(ctx.attr.capabilities)

_capabilities_probe = rule(
    implementation = _capabilities_probe_impl,
    attrs = {"capabilities": attr.string_list()},
)

# Mistake -> (the value of the flag with it, what the error says).
_CAPABILITIES = {
    "no_capability": ([], ["compute_capabilities: expected at least one"]),
    "no_number": (["sm_90"], ["does not know \"sm_90\"", "90,90a"]),
    "unknown_capability": (["90", "42"], ["does not know \"42\"", "90,90a"]),
}

def handlers_test_suite(name):
    """Declares one test per mistake, and the libraries that make them.

    Args:
      name: of the test suite.
    """
    write_file(
        name = name + "_another_highway",
        out = "another/hwy/highway.h",
    )
    tests = []
    for mistake, (attributes, target, texts) in _MISTAKES.items():
        library = "%s_%s_library" % (name, mistake)
        xla_ffi_library(name = library, tags = ["manual"], **attributes)
        tests.append(_test(name, mistake, library + target, texts))

    for mistake, (capabilities, texts) in _CAPABILITIES.items():
        _capabilities_probe(
            name = "%s_%s" % (name, mistake),
            capabilities = capabilities,
            tags = ["manual"],
        )
        tests.append(_test(name, mistake, "%s_%s" % (name, mistake), texts))

    # Each of two libraries is right; together they claim one name.
    for clash, first, second in [
        ("target", {"target": "Symbol"}, {"target": "Symbol"}),
        ("State", {"one": "Symbol"}, {"two": "Symbol"}),
    ]:
        twins = "%s_%s" % (name, clash)
        for twin, handlers in [("first", first), ("second", second)]:
            xla_ffi_library(
                name = "%s_%s_twin" % (twins, twin),
                handlers = handlers,
                tags = ["manual"],
                types = {"State": "State"} if clash == "State" else {},
            )
        xla_ffi_library(
            name = twins + "_twins",
            tags = ["manual"],
            deps = ["%s_first_twin" % twins, "%s_second_twin" % twins],
        )
        tests.append(_test(
            name,
            "duplicate_" + clash,
            twins + "_twins_exports",
            ["\"%s\"" % clash, "first_twin", "second_twin", "rename one"],
        ))
    native.test_suite(name = name, tests = tests)

def _test(name, mistake, target, texts):
    test = "%s_%s_test" % (name, mistake)
    _failure_test(name = test, target_under_test = target, texts = texts)
    return test
