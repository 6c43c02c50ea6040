"""XLA_FFI_ACCELERATE: switched on without a line of code."""

import importlib.util
import os
import shutil
import sys

from accelerate_data import python

PLUGIN = importlib.util.find_spec("xla_ffi_accelerate_plugin").origin
SORTS = """
import sys
import numpy as np
import jax, jax.numpy as jnp
x = np.arange(300)[::-1].astype(np.float32)
assert jnp.sort(x)[0] == 0
text = jax.jit(lambda x: (jnp.sort(x), jnp.cumsum(x))).lower(x).as_text()
print(*(n for n in ("sort", "cumulative") if f"accelerate.{n}(" in text))
if "xla_ffi_accelerate" in sys.modules:
    print("imported", *sorted(sys.modules["xla_ffi_accelerate"].status()))
"""
# Rules test themselves when they are first lowered.
UNVERIFIED = """
import jax
from jax._src import xla_bridge
from xla_ffi_accelerate import _self_tests
_self_tests.VERIFIED = {}
own, up = _self_tests._run, []
def run(*arguments, **options):
    up.append(xla_bridge.backends_are_initialized())
    return own(*arguments, **options)
_self_tests._run = run
jax.devices()
assert not up
"""


def run(value, code=SORTS, path=()):
    """The words that a process prints, and what it says of errors."""
    paths = os.pathsep.join([*path, *sys.path])
    done = python("-c", code, PYTHONPATH=paths, XLA_FFI_ACCELERATE=value)
    return done.stdout.split(), done.stderr


def test_unset_nothing_is_imported():
    assert run(" ")[0] == []


def test_exact_and_all():
    exact, _ = run("exact", UNVERIFIED + SORTS + "assert up == [True], up\n")
    every, _ = run("all")
    assert exact[:3] == ["sort", "cumulative", "imported"]
    assert "sort" in exact[3:]
    assert "linalg" not in exact and "linalg" in every


def test_a_wrong_value_is_one_sentence():
    words, errors = run("gamma")
    assert words == ["imported"]
    (said,) = [line for line in errors.splitlines() if "is left out" in line]
    assert "XLA_FFI_ACCELERATE=gamma is left out: enable: names: 'gam" in said
    assert "Traceback" not in errors


def test_names_and_an_entry_point(tmp_path):
    """As an installed wheel has, beside a package that hides the namespace."""
    shutil.copy(PLUGIN, tmp_path)
    info = tmp_path / "xla_ffi_accelerate-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: xla_ffi_accelerate\nVersion: 1.0\n")
    named = "xla_ffi_accelerate = xla_ffi_accelerate_plugin"  # wheel_test
    (info / "entry_points.txt").write_text(f"[jax_plugins]\n{named}\n")
    (tmp_path / "jax_plugins").mkdir()
    (tmp_path / "jax_plugins" / "__init__.py").touch()
    words, _ = run("sort, linalg", path=[str(tmp_path)])
    assert words == ["sort", "imported", "linalg", "sort"]
