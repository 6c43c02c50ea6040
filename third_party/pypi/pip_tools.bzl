"""The pip and setuptools that rules_python 0.22.1 unpacks wheels with.

Its own, pip 22.3 and setuptools 60, do not run on Python 3.12 and newer. It
declares them only where nobody has, under these names.
"""

load(":pypi_wheel.bzl", "pypi_wheel")

_TOOLS = {
    "pypi__pip": struct(
        requirement = "pip==25.3",
        sha256 = "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd",
    ),
    "pypi__setuptools": struct(
        requirement = "setuptools==80.10.2",
        sha256 = "95b30ddfb717250edb492926c92b5221f7ef3fbcc2b07579bcd4a27da21d0173",
    ),
}

def pip_tools():
    """Declares newer tools for pip_parse(), which has to come after it."""
    for name, tool in _TOOLS.items():
        if not native.existing_rule(name):
            pypi_wheel(
                name = name,
                build_file = Label("//third_party/pypi:pip_tool.BUILD"),
                platform = "any",
                python_version = "3.11",
                requirement = tool.requirement,
                sha256 = tool.sha256,
            )
