"""The rules behind xla_ffi_library(): what becomes of a list of handlers."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:defs.bzl", "CcInfo")

_PLATFORMS = ["Host", "CUDA", "ROCM"]

_STAGES = ["instantiate", "prepare", "initialize", "execute"]

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
        if stage not in _STAGES:
            fail("%s: unknown stage %r, expected one of %s" % (where, stage, _STAGES))
        if not _is_identifier(symbol):
            fail("%s: %r is not the name of a C symbol" % (where, symbol))
    if "execute" not in stages:
        fail("%s: no \"execute\" stage: every custom call needs one" % where)
    return struct(
        target = target,
        platform = ctx.attr.platform,
        owner = str(ctx.label),
        **{stage: stages.get(stage, "") for stage in _STAGES}
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
        if not _is_identifier(symbol):
            fail("%s: %r is not the name of a C symbol" % (where, symbol))
    return struct(
        name = name,
        platform = ctx.attr.platform,
        owner = str(ctx.label),
        **symbols
    )

def _is_identifier(name):
    """Whether a value is a name in C."""
    if type(name) != "string" or not name or name[0].isdigit():
        return False
    return all([c.isalnum() or c == "_" for c in name.elems()])

def _handlers_info(ctx):
    """Returns the handlers and types of a library, and of those below it."""
    if ctx.attr.platform not in _PLATFORMS:
        fail("%s: platform: expected one of %s, as XLA spells them, got %r" %
             (ctx.label, _PLATFORMS, ctx.attr.platform))
    below = [dep[HandlersInfo] for dep in ctx.attr.deps if HandlersInfo in dep]
    return HandlersInfo(
        handlers = depset(
            [
                _parse_handler(target, stages, ctx)
                for target, stages in json.decode(ctx.attr.handlers).items()
            ],
            transitive = [info.handlers for info in below],
            order = "postorder",
        ),
        types = depset(
            [
                _parse_type(name, symbols, ctx)
                for name, symbols in json.decode(ctx.attr.types).items()
            ],
            transitive = [info.types for info in below],
            order = "postorder",
        ),
    )

# --- The table ----------------------------------------------------------------

_ENTRY_POINT = "XlaFfiKit_GetHandlerTable"

def _check_unique(label, claims):
    """Fails when two of the claims, (what, owner), are of the same thing."""
    owners = {}
    for what, owner in claims:
        if what in owners:
            fail("%s: %s is declared by %s and by %s: rename one" %
                 (label, what, owners[what], owner))
        owners[what] = owner

def _symbols(handlers):
    """Returns the symbols of all stages, each once, in order."""
    symbols = {}
    for handler in handlers:
        for stage in _STAGES:
            if getattr(handler, stage):
                symbols[getattr(handler, stage)] = True
    return symbols.keys()

def _row(handler):
    stages = [getattr(handler, stage) or "nullptr" for stage in _STAGES]
    return "    {\"%s\", \"%s\", %s, &%s_signature}," % (
        handler.target,
        handler.platform,
        ", ".join(stages),
        handler.execute,
    )

def _newest_ffi_api(ctx):
    """Returns the parts of the flag's version, as text."""
    flag = ctx.attr._newest_ffi_api
    parts = flag[BuildSettingInfo].value.split(".")
    if len(parts) != 2 or not all([part.isdigit() for part in parts]):
        fail("%s: expected a version such as 0.2, got %r" %
             (flag.label, flag[BuildSettingInfo].value))
    return parts

def _type_row(state_type):
    return "      {\"%s\", \"%s\", %s(), %s()}," % (
        state_type.name,
        state_type.platform,
        state_type.type_id,
        state_type.type_info,
    )

def _handler_table_impl(ctx):
    if not _is_identifier(ctx.attr.library):
        fail("%s: library: %r is not a C identifier: set `library` to one" %
             (ctx.label, ctx.attr.library))
    major, minor = _newest_ffi_api(ctx)
    info = _handlers_info(ctx)
    handlers = info.handlers.to_list()
    if not handlers:
        fail("%s: no handlers: name them in `handlers`" % ctx.label)
    types = info.types.to_list()
    _check_unique(ctx.label, [
        ("the target %r on %s" % (handler.target, handler.platform), handler.owner)
        for handler in handlers
    ] + [
        # XLA has one list of names.
        ("the type %r" % state_type.name, state_type.owner)
        for state_type in types
    ])
    symbols = _symbols(handlers)
    declarations = ["XLA_FFI_Error* %s(XLA_FFI_CallFrame*);" % s for s in symbols]

    # Of a handler without a signature there is none, and its address is null.
    declarations += [
        "extern const XlaFfiKit_Signature %s_signature __attribute__((weak));" % s
        for s in {h.execute: None for h in handlers}
    ]
    for state_type in types:
        declarations.append("XLA_FFI_TypeId* %s();" % state_type.type_id)
        declarations.append("const XLA_FFI_TypeInfo* %s();" % state_type.type_info)
        symbols.extend([state_type.type_id, state_type.type_info])
    substitutions = {
        "@DECLARATIONS@": "\n".join(declarations),
        "@ENTRY_POINT@": _ENTRY_POINT,
        "@LIBRARY@": ctx.attr.library,
        "@NEWEST_FLAG@": str(ctx.attr._newest_ffi_api.label),
        "@NEWEST_MAJOR@": major,
        "@NEWEST_MINOR@": minor,
        "@NUM_TYPES@": str(len(types)),
        "@ROWS@": "\n".join([_row(handler) for handler in handlers]),
        "@SYMBOLS@": "\n".join(["    %s;" % s for s in symbols]),
        "@TARGET@": str(ctx.label),
        "@TYPES@": "\n".join([_type_row(state_type) for state_type in types]),
    }
    for template, output in [
        (ctx.file._table_template, ctx.outputs.table),
        (ctx.file._entry_template, ctx.outputs.entry),
        (ctx.file._register_template, ctx.outputs.register),
        (ctx.file._version_script_template, ctx.outputs.version_script),
    ]:
        ctx.actions.expand_template(
            template = template,
            output = output,
            substitutions = substitutions,
        )
    exports = ctx.actions.declare_file(ctx.label.name + ".exports")
    ctx.actions.write(
        exports,
        "\n".join(sorted(symbols + [_ENTRY_POINT])) + "\n",
    )
    return [DefaultInfo(files = depset([exports])), info]

def _template(name):
    return attr.label(
        default = "//xla_ffi/registration:%s.tpl" % name,
        allow_single_file = True,
    )

handler_table = rule(
    doc = """Generates what follows from the list of a library's handlers, and of
those of the handler libraries below it.

Its default output lists the symbols that the shared library exports.""",
    implementation = _handler_table_impl,
    attrs = {
        "deps": attr.label_list(
            doc = "Libraries; the handlers of handler libraries are collected.",
            providers = [CcInfo],
        ),
        "entry": attr.output(
            doc = "C++: the entry point that the shared library exports.",
            mandatory = True,
        ),
        "handlers": attr.string(
            doc = "JSON of the `handlers` of xla_ffi_library().",
            mandatory = True,
        ),
        "library": attr.string(
            doc = "The library's name, a C identifier.",
            mandatory = True,
        ),
        "platform": attr.string(
            doc = "XLA's name of the platform the handlers run on.",
            mandatory = True,
        ),
        "register": attr.output(
            doc = "C++: registers the table when the program starts.",
            mandatory = True,
        ),
        "table": attr.output(
            doc = "C++: the handler table.",
            mandatory = True,
        ),
        "types": attr.string(
            doc = "JSON of the `types` of xla_ffi_library().",
            mandatory = True,
        ),
        "version_script": attr.output(
            doc = "Linker script that exports handlers, types and entry point.",
            mandatory = True,
        ),
        "_newest_ffi_api": attr.label(
            default = "//third_party/xla:newest_ffi_api",
        ),
        "_entry_template": _template("entry.cc"),
        "_register_template": _template("register.cc"),
        "_table_template": _template("table.cc"),
        "_version_script_template": _template("version_script.lds"),
    },
    provides = [HandlersInfo],
)

# --- The library --------------------------------------------------------------

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
            doc = "The handler_table.",
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
