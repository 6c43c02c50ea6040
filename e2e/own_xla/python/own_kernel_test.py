"""A handler of the codebase's own, as an operation, without the kit's."""

import jax
import twice

import xla_ffi_kit
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_num_cpu_devices", 4)  # check_op's meshes

assert not any(library.exists for library in xla_ffi_kit.ops.LIBRARIES)

op = xla_ffi_kit.FfiOp(
    "own.twice",
    lambda x: 2 * x,
    kernel_axes=0,
    libraries=xla_ffi_kit.HandlerLibrary.from_capsules(twice.registrations()),
    dtypes=["f32"],
)
print(check_op(op, [Case("f32[3]")]))
