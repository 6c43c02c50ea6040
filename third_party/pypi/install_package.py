"""Fetches one package of a lock file, and unpacks it into site-packages.

Run by a repository rule in the repository's folder, where requirements.txt has
the package's lines: standard library only. A package that is not for this
machine leaves an empty folder.
"""

import importlib.util
import pathlib
import py_compile
import shutil
import sys
import tempfile
import warnings

# Where PYTHONSAFEPATH is set, Python does not look there by itself.
sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))

from fetch_wheel import pip_download, unpack  # noqa: E402

SITE = pathlib.Path("site-packages")

# Where a wheel keeps what does not belong into site-packages as it is.
PACKAGES_OF_DATA = ("purelib", "platlib")

# What `import jax` and a test with pytest load. A sandbox starts without
# `__pycache__`, and what Python writes there is gone with it.
COMPILED = ("jax", "jaxlib", "numpy", "opt_einsum", "pluggy", "pytest")

# Their own tests are a third of their files.
WITHOUT_TESTS = (*COMPILED, "scipy")

PINS = "has none of the hashes in the lock file"
NAMESPACE = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"


def place(wheel: pathlib.Path) -> None:
    """Unpacks the wheel as pip would, without its scripts."""
    unpack(wheel, SITE)
    for data in SITE.glob("*.data"):
        for kind in PACKAGES_OF_DATA:
            if (data / kind).exists():
                shutil.copytree(data / kind, SITE, dirs_exist_ok=True)
        shutil.rmtree(data)


def remove_tests() -> None:
    for tests in sorted(SITE.glob("*/**/tests")):
        shutil.rmtree(tests, ignore_errors=True)


def mark_namespaces() -> None:
    """Names folders of modules packages, which several wheels may share.

    Bazel 7 would write an empty `__init__.py`, which hides the others' modules.
    """
    modules = (p for p in SITE.rglob("*") if p.suffix in (".py", ".so"))
    folders = {folder for path in modules for folder in path.parents}
    for folder in folders - {SITE, *SITE.parents}:
        init = folder / "__init__.py"
        if not init.exists():
            init.write_text(NAMESPACE)


def compile_sources() -> None:
    """Compiles all modules to bytecode that Python takes as it is."""
    warnings.simplefilter("ignore")
    for source in sorted(SITE.rglob("*.py")):
        # Templates that are no Python yet stay sources. The date of a source
        # means nothing in a sandbox, hence no check of it.
        py_compile.compile(
            str(source),
            cfile=importlib.util.cache_from_source(str(source)),
            quiet=2,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def main() -> None:
    """Fetches, unpacks and compiles."""
    lock = pathlib.Path("requirements.txt")
    name = lock.read_text().partition("==")[0].replace("-", "_").lower()
    SITE.mkdir()
    # Beside the repository and not in /tmp: the wheel may be larger than that.
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for wheel in pip_download(lock, pathlib.Path(folder), PINS):
            place(wheel)
    if name in WITHOUT_TESTS:
        remove_tests()
    mark_namespaces()
    if name in COMPILED:
        compile_sources()


if __name__ == "__main__":
    sys.exit(main())
