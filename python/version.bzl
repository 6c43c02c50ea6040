"""The version of the project; MODULE.bazel, which cannot load, repeats it."""

VERSION = "0.1.0"
