"""The bundle unpacks, is small, and says when there is no GPU."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

BUNDLE, PLUGIN = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
MAX_BYTES = 30 << 20


class BundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with tarfile.open(BUNDLE) as archive:
            archive.extractall(folder.name, filter="data")
        cls.top = pathlib.Path(folder.name, "xla_ffi_kit_gpu")

    def run_python(self, *command: str, **environment: str):
        # JAX is where this test finds it; the kit must be the bundle's.
        paths = [p for p in sys.path if "xla_ffi_kit/python" not in p]
        return subprocess.run(
            [sys.executable, *command],
            cwd=self.top,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(paths),
                "XLA_FFI_KIT_CACHE": str(self.top / "cache"),
            }
            | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_it_is_small(self):
        self.assertLess(BUNDLE.stat().st_size, MAX_BYTES)

    def test_without_a_gpu_it_says_so_and_exits_3(self):
        result = self.run_python("run.py", CUDA_VISIBLE_DEVICES="")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(
            result.stdout,
            "JAX finds no NVIDIA GPU on this machine: no test was run.\n",
        )

    def test_its_programs_run_on_a_plugin(self):
        result = self.run_python(
            *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
            "gpu_plugin_test.py",
            PJRT_PLUGIN=str(PLUGIN),
            XLA_FFI_KIT_TEST_PLATFORM="cpu",
            JAX_PLATFORMS="cpu",
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("3 passed", result.stdout)

    def test_its_tests_run_and_call_all_that_is_registered_for_cuda(self):
        # On the CPU, where they compare a handler with itself.
        out = self.top / "targets.json"
        result = self.run_python(
            *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "called_targets"),
            *("gpu_ops_test.py", "gpu_graph_test.py", "gpu_examples_test.py"),
            *("gpu_strings_test.py", "-k"),
            "8x4 and float32 or 37 and float32 or modular_add and int8 "
            "or handlers or relu_values or batch or no_rows or lowers or calls "
            "or 7-31 or block_values or transformed or exported",
            CALLED_TARGETS=str(out),
            XLA_FFI_KIT_TEST_PLATFORM="cpu",
            JAX_PLATFORMS="cpu",
        )
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(" passed", result.stdout)
        targets = json.loads(out.read_text())
        # And nothing is registered that no test calls.
        self.assertEqual(targets["called"], targets["registered"])
        for one in ("examples.table", "xla_ffi_kit.rms_norm_weight_bwd"):
            self.assertIn(one, targets["called"])
