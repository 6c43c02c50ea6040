"""The rules that say which handlers a C++ library holds."""

load("@rules_cc//cc:defs.bzl", "CcInfo")

_PLATFORMS = ["Host", "CUDA", "ROCM"]

STAGES = ["instantiate", "prepare", "initialize", "execute"]

_TYPE_PARTS = ["type_id", "type_info"]

HandlersInfo = provider(
    doc = "The handlers of a library and of the libraries it depends on.",
    fields = {
        "handlers": """depset of structs: `target` (custom call target),
`platform` (XLA's name of it), `owner` (label that declares it), and one field
per stage with the handler's symbol, or "" where the target has no such stage.""",
        "types": """depset of structs: `name` (the name XLA knows the type by),
`platform`, `owner`, and the symbols `type_id` and `type_info`.""",
    },
)

def _parse_handler(target, stages, ctx):
    """Returns the struct for one entry of `handlers`, or fails saying why."""
    where = "%s: handlers[%r]" % (ctx.label, target)
    if type(stages) == "string":
        stages = {"execute": stages}
    if type(stages) != "dict":
        fail("%s: expected a symbol or a dictionary from stage to symbol, got %r" %
             (where, stages))
    if not target or target.startswith("$"):
        fail("%s: XLA refuses an empty target and targets that begin with $" % where)
    for stage, symbol in stages.items():
        if stage not in STAGES:
            fail("%s: unknown stage %r, expected one of %s" % (where, stage, STAGES))
        if not is_identifier(symbol):
            fail("%s: %r is not the name of a C symbol" % (where, symbol))
    if "execute" not in stages:
        fail("%s: no \"execute\" stage: every custom call needs one" % where)
    return struct(
        target = target,
        platform = ctx.attr.platform,
        owner = str(ctx.label),
        **{stage: stages.get(stage, "") for stage in STAGES}
    )

def _parse_type(name, symbols, ctx):
    """Returns the struct for one entry of `types`, or fails saying why."""
    where = "%s: types[%r]" % (ctx.label, name)
    if type(symbols) == "string":
        symbols = {part: "%s_%s" % (symbols, part) for part in _TYPE_PARTS}
    if type(symbols) != "dict" or sorted(symbols) != _TYPE_PARTS:
        fail(("%s: expected the name given to XLA_FFI_KIT_DEFINE_TYPE, or a " +
              "dictionary from each of %s to a symbol, got %r") %
             (where, _TYPE_PARTS, symbols))
    if not name:
        fail("%s: a type needs a name" % where)
    for symbol in symbols.values():
        if not is_identifier(symbol):
            fail("%s: %r is not the name of a C symbol" % (where, symbol))
    return struct(
        name = name,
        platform = ctx.attr.platform,
        owner = str(ctx.label),
        **symbols
    )

def is_identifier(name):
    """Whether `name` is one in C.

    Args:
      name: any value.

    Returns:
      A boolean.
    """
    if type(name) != "string" or not name or name[0].isdigit():
        return False
    return all([c.isalnum() or c == "_" for c in name.elems()])

def _handler_list_impl(ctx):
    if ctx.attr.platform not in _PLATFORMS:
        fail("%s: platform: expected one of %s, as XLA spells them, got %r" %
             (ctx.label, _PLATFORMS, ctx.attr.platform))
    handlers = [
        _parse_handler(target, stages, ctx)
        for target, stages in json.decode(ctx.attr.handlers).items()
    ]
    types = [
        _parse_type(name, symbols, ctx)
        for name, symbols in json.decode(ctx.attr.types).items()
    ]
    below = [dep[HandlersInfo] for dep in ctx.attr.deps if HandlersInfo in dep]
    return [HandlersInfo(
        handlers = depset(
            handlers,
            transitive = [info.handlers for info in below],
            order = "postorder",
        ),
        types = depset(
            types,
            transitive = [info.types for info in below],
            order = "postorder",
        ),
    )]

handler_list = rule(
    doc = "The handlers of a library, and of the handler libraries below it.",
    implementation = _handler_list_impl,
    attrs = {
        "deps": attr.label_list(
            doc = "Libraries; the handlers of handler libraries are collected.",
            providers = [CcInfo],
        ),
        "handlers": attr.string(
            doc = "JSON of the `handlers` of xla_ffi_library().",
            default = "{}",
        ),
        "platform": attr.string(
            doc = "XLA's name of the platform the handlers run on.",
            default = "Host",
        ),
        "types": attr.string(
            doc = "JSON of the `types` of xla_ffi_library().",
            default = "{}",
        ),
    },
    provides = [HandlersInfo],
)

# Two copies of such a library in one binary have functions of the same names, of
# which the linker takes any: a header that each copy has -> what the library is,
# and how a codebase has it once.
_ONCE = {
    "hwy/highway.h": (
        "Highway's headers",
        "take them from one, in MODULE.bazel by bazel_dep(name = \"highway\"), " +
        "as the kit does, in WORKSPACE by declaring yours before " +
        "xla_ffi_kit_repositories()",
    ),
    "xla/ffi/api/c_api.h": (
        "XLA's FFI headers",
        "take them from one, by depending on %s, which is a label flag" %
        Label("//third_party/xla:ffi_api"),
    ),
}

def _check_once(ctx):
    """Fails where such a library comes from more than one repository."""
    repositories = {header: {} for header in _ONCE}
    for file in ctx.attr.library[CcInfo].compilation_context.headers.to_list():
        for header in _ONCE:
            if file.path.endswith("/" + header):
                repositories[header]["@" + file.owner.workspace_name] = True
    for header, (what, remedy) in _ONCE.items():
        names = sorted(repositories[header])
        if len(names) > 1:
            fail("%s: deps: %s come from %s: %s" %
                 (ctx.label, what, " and ".join(names), remedy))

def _handler_library_impl(ctx):
    _check_once(ctx)
    library = ctx.attr.library
    return [
        library[DefaultInfo],
        library[CcInfo],
        ctx.attr.handlers[HandlersInfo],
    ]

handler_library = rule(
    doc = "A C++ library together with the list of the handlers in it.",
    implementation = _handler_library_impl,
    attrs = {
        "handlers": attr.label(
            doc = "The handler_list.",
            mandatory = True,
            providers = [HandlersInfo],
        ),
        "library": attr.label(
            doc = "The cc_library that defines the symbols.",
            mandatory = True,
            providers = [CcInfo],
        ),
    },
    provides = [CcInfo, HandlersInfo],
)
