// Instruction sets that the SIMD kernels are compiled for.
//
// Include before anything of Highway's. On x86-64: the baseline (SSE2), AVX2
// (with FMA and F16C) and AVX-512; which one runs is decided when it runs. The
// steps between are left out because they gain little and cost compile time,
// and AVX-512's bfloat16 conversions because they flush denormals to zero. On
// Arm: NEON. The compiler does not know the size of SVE's vectors, so the
// kernels' classes cannot hold them.

#ifndef XLA_FFI_CORE_SIMD_TARGETS_H_
#define XLA_FFI_CORE_SIMD_TARGETS_H_

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS                                           \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | \
   HWY_ALL_SVE)
#endif

#endif  // XLA_FFI_CORE_SIMD_TARGETS_H_
