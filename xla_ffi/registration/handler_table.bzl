"""The rule that turns a list of handlers into sources and a version script."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load(":handler_library.bzl", "HandlersInfo", "STAGES", "is_identifier")

ENTRY_POINT = "XlaFfiKit_GetHandlerTable"

def _check_unique(handlers, label):
    """Fails when two handlers claim the same target on the same platform."""
    seen = {}
    for handler in handlers:
        key = (handler.target, handler.platform)
        if key in seen:
            fail("%s: the target %r on %s is declared by %s and by %s: rename one" %
                 (label, handler.target, handler.platform, seen[key], handler.owner))
        seen[key] = handler.owner

def _check_unique_types(types, label):
    """Fails when two types claim the same name; XLA has one list of names."""
    seen = {}
    for state_type in types:
        if state_type.name in seen:
            fail("%s: the type %r is declared by %s and by %s: rename one" %
                 (label, state_type.name, seen[state_type.name], state_type.owner))
        seen[state_type.name] = state_type.owner

def _symbols(handlers):
    """Returns the symbols of all stages, each once, in order."""
    symbols = {}
    for handler in handlers:
        for stage in STAGES:
            if getattr(handler, stage):
                symbols[getattr(handler, stage)] = True
    return symbols.keys()

def _row(handler):
    stages = [getattr(handler, stage) or "nullptr" for stage in STAGES]
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
    if not is_identifier(ctx.attr.library):
        fail("%s: library: %r is not a C identifier: set `library` to one" %
             (ctx.label, ctx.attr.library))
    major, minor = _newest_ffi_api(ctx)
    handlers = ctx.attr.handlers[HandlersInfo].handlers.to_list()
    if not handlers:
        fail("%s: no handlers in %s: name them in `handlers`" %
             (ctx.label, ctx.attr.handlers.label))
    _check_unique(handlers, ctx.label)
    types = ctx.attr.handlers[HandlersInfo].types.to_list()
    _check_unique_types(types, ctx.label)
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
        "@ENTRY_POINT@": ENTRY_POINT,
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
        "\n".join(sorted(symbols + [ENTRY_POINT])) + "\n",
    )
    return [DefaultInfo(files = depset([exports]))]

def _template(name):
    return attr.label(
        default = "//xla_ffi/registration:%s.tpl" % name,
        allow_single_file = True,
    )

handler_table = rule(
    doc = """Generates what follows from the list of a library's handlers.

Its default output lists the symbols that the shared library exports.""",
    implementation = _handler_table_impl,
    attrs = {
        "entry": attr.output(
            doc = "C++: the entry point that the shared library exports.",
            mandatory = True,
        ),
        "handlers": attr.label(
            doc = "The handler_list.",
            mandatory = True,
            providers = [HandlersInfo],
        ),
        "library": attr.string(
            doc = "The library's name, a C identifier.",
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
)
