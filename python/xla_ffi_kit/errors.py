"""The errors and warnings of the package, by which you can catch them."""


class HandlerLibraryError(RuntimeError):
    """A handler library cannot be used; the text says which, and why."""


class NotDifferentiableError(TypeError):
    """An operation without a reference lacks the rule for a derivative."""


class BuildError(RuntimeError):
    """A library cannot be built; the text says which, and why."""


class NoCompilerError(BuildError):
    """There is no C++ compiler."""


class CudaStringWarning(UserWarning):
    """A string compiles for CPUs only, so CUDA runs the reference."""
