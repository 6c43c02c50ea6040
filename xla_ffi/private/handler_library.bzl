"""The rules that say which handlers a C++ library holds."""

load("@rules_cc//cc:defs.bzl", "CcInfo")

STAGES = ["instantiate", "prepare", "initialize", "execute"]

HandlersInfo = provider(
    doc = "The handlers of a library and of the libraries it depends on.",
    fields = {
        "handlers": """depset of structs: `target` (custom call target),
`platform` (XLA's name of it), `owner` (label that declares it), and one field
per stage with the handler's symbol, or "" where the target has no such stage.""",
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
        if not _is_identifier(symbol):
            fail("%s: %r is not the name of a C symbol" % (where, symbol))
    if "execute" not in stages:
        fail("%s: no \"execute\" stage: every custom call needs one" % where)
    return struct(
        target = target,
        platform = ctx.attr.platform,
        owner = str(ctx.label),
        **{stage: stages.get(stage, "") for stage in STAGES}
    )

def _is_identifier(name):
    if type(name) != "string" or not name or name[0].isdigit():
        return False
    return all([c.isalnum() or c == "_" for c in name.elems()])

def _handler_list_impl(ctx):
    own = [
        _parse_handler(target, stages, ctx)
        for target, stages in json.decode(ctx.attr.handlers).items()
    ]
    return [HandlersInfo(handlers = depset(
        own,
        transitive = [
            dep[HandlersInfo].handlers
            for dep in ctx.attr.deps
            if HandlersInfo in dep
        ],
        order = "postorder",
    ))]

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
            values = ["Host", "CUDA"],
            default = "Host",
        ),
    },
    provides = [HandlersInfo],
)

def _handler_library_impl(ctx):
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
