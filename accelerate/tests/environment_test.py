"""XLA_FFI_ACCELERATE: switched on without a line of code."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

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


def run(value, code=SORTS, path=None):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or sys.path),
        "XLA_FFI_ACCELERATE": value,
    }
    if value is None:
        del environment["XLA_FFI_ACCELERATE"]
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.mark.parametrize("value", [None, " "])
def test_unset_nothing_is_imported(value):
    done = run(value)
    assert done.stdout.split() == []


def test_exact_and_all():
    exact, every = run("exact"), run("all")
    assert exact.stdout.split()[:3] == ["sort", "cumulative", "imported"]
    assert "sort" in exact.stdout.split()[3:]
    assert "linalg" not in exact.stdout and "linalg" in every.stdout


def test_names():
    done = run("sort, linalg")
    assert done.stdout.split() == ["sort", "imported", "linalg", "sort"]


def test_a_wrong_value_is_one_sentence():
    done = run("sorts")
    assert done.stdout.split() == ["imported"]
    (said,) = [
        line for line in done.stderr.splitlines() if "is left out" in line
    ]
    assert "XLA_FFI_ACCELERATE=sorts is left out: enable: names: exp" in said
    assert "Traceback" not in done.stderr


def test_by_an_entry_point(tmp_path):
    """As an installed wheel has, beside a package that hides the namespace."""
    shutil.copy(PLUGIN, tmp_path)
    info = tmp_path / "xla_ffi_accelerate-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: xla_ffi_accelerate\nVersion: 1.0\n")
    named = "xla_ffi_accelerate = xla_ffi_accelerate_plugin"  # wheel_test
    (info / "entry_points.txt").write_text(f"[jax_plugins]\n{named}\n")
    (tmp_path / "jax_plugins").mkdir()
    (tmp_path / "jax_plugins" / "__init__.py").touch()
    done = run("sort", path=[str(tmp_path), *sys.path])
    assert done.stdout.split() == ["sort", "imported", "sort"]


UNVERIFIED = """
import jax, jax.numpy as jnp, numpy as np
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
x = np.ones(300, np.float32)
text = jax.jit(jnp.cumsum).lower(x).as_text()
assert "@xla_ffi_accelerate.cumulative(" in text
assert up == [True], up
"""


def test_rules_test_themselves_when_they_are_first_lowered():
    run("exact", UNVERIFIED)
