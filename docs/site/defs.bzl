"""sphinx_site(): the pages of the tree as a site."""

def _sphinx_site_impl(ctx):
    site = ctx.actions.declare_directory(ctx.label.name + "_html")
    ctx.actions.run(
        executable = ctx.executable.tool,
        arguments = [site.path, ctx.attr.version] + [page.path for page in ctx.files.pages],
        inputs = ctx.files.pages,
        outputs = [site],
        mnemonic = "Sphinx",
        progress_message = "Writing the site %{label}",
    )
    return [DefaultInfo(files = depset([site]), runfiles = ctx.runfiles([site]))]

sphinx_site = rule(
    doc = "A folder of HTML; warnings of Sphinx are errors.",
    implementation = _sphinx_site_impl,
    attrs = {
        "pages": attr.label_list(
            doc = "Markdown files, pictures and conf.py, all of them sources.",
            allow_files = True,
        ),
        # In the target's configuration: it imports the packages, whose kernels
        # would be compiled a second time for another one.
        "tool": attr.label(
            doc = "The program that calls Sphinx.",
            mandatory = True,
            executable = True,
            cfg = "target",
        ),
        "version": attr.string(doc = "The project's.", mandatory = True),
    },
)
