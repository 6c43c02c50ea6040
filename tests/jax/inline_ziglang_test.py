"""Operations from strings where PyPI's ziglang is the one compiler."""

import importlib.util
import os
import tempfile

import numpy as np
import pytest

_folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
os.environ["XLA_FFI_KIT_CACHE"] = _folder.name

import xla_ffi_kit  # noqa: E402

_CODE = """
#include <string>
void double_it(kit::In<float> x, kit::Out<float> y) {
  if (x.size() > 3) throw std::string("too long");
  for (int64_t i = 0; i < x.size(); ++i) y[i] = x[i] + x[i];
}"""


@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None,
    reason="ziglang is not installed: pip install xla_ffi_kit[inline]",
)
def test_it_compiles_where_there_is_no_other_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)

    @xla_ffi_kit.inline(_CODE, kernel_axes=0)
    def double_it(x):
        return x + x

    np.testing.assert_array_equal(double_it(np.float32([1, 2])), [2, 4])
    with pytest.raises(Exception, match="double_it"):
        double_it(np.zeros(4, np.float32)).block_until_ready()
