"""The package finds its CUDA library, and lowers to its handlers; no GPU.

What lowering needs of the library - loading it, reading its table, the metadata
of its handlers - needs neither a GPU nor a driver.
"""

import unittest

import jax
import jax.numpy as jnp

import xla_ffi_kit

(_, LIBRARY) = xla_ffi_kit.ops.LIBRARIES
X = jnp.ones((4, 8), jnp.float32)
W = X[0]


def lowered(function, *operands) -> str:
    traced = jax.jit(function).trace(*operands)
    return traced.lower(lowering_platforms=("cuda",)).as_text()


class CudaLoweringTest(unittest.TestCase):
    def test_handlers_answer_for_themselves(self):
        self.assertIn("xla_ffi_kit.rms_norm", LIBRARY.targets)
        for handler in LIBRARY.handlers.values():
            self.assertEqual(handler.platform, "cuda")
            self.assertEqual(handler.metadata().api_version, (0, 2))

    def test_operations_lower_to_their_handlers(self):
        def of_weight(x, w):
            return xla_ffi_kit.rms_norm(x, w).sum()

        def of_residual(x, w):
            y, h = xla_ffi_kit.rms_norm(x, w, residual=x)
            return (y * h).sum()

        name = "xla_ffi_kit.rms_norm"
        for function, operands, targets in [
            (xla_ffi_kit.relu, (X,), ["xla_ffi_kit.relu"]),
            (xla_ffi_kit.modular_add, (X, X), ["xla_ffi_kit.modular_add"]),
            (xla_ffi_kit.rms_norm, (X,), ["xla_ffi_kit.rms_norm"]),
            (
                jax.grad(lambda x: xla_ffi_kit.rms_norm(x).sum()),
                (X,),
                ["xla_ffi_kit.rms_norm_bwd"],
            ),
            (of_weight, (X, W), [name]),
            (of_residual, (X, W), [name]),
            (
                jax.grad(of_weight, (0, 1)),
                (X, W),
                [name, f"{name}_weight_bwd"],
            ),
            (
                jax.grad(of_residual, (0, 1)),
                (X, W),
                [name, f"{name}_weight_bwd"],
            ),
            (jax.vmap(of_weight), (X, X), [name]),
        ]:
            text = lowered(function, *operands)
            for target in targets:
                with self.subTest(target):
                    self.assertIn(f"@{target}(", text)

    def test_the_cpu_is_unaffected(self):
        self.assertEqual(float(xla_ffi_kit.relu(-X).sum()), 0)
        y = jax.jit(xla_ffi_kit.rms_norm)(X)
        self.assertAlmostEqual(float(y[0, 0]), 1, places=5)
