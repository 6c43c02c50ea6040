// The part of C++'s standard library that a kernel in a string is likely to
// use. NVRTC has no headers, and a machine with JAX need not have CUDA's. Each
// header of the standard library that a string may include is this one.

#ifndef XLA_FFI_STRINGS_CUDA_STANDARD_H_
#define XLA_FFI_STRINGS_CUDA_STANDARD_H_

#ifndef __CUDACC_RTC__
// The emulator's kernels are compiled for the host, which has all of it.
#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#else
#include "xla_ffi/strings/cuda/standard_types.h"
// After the types, which it uses.
#include "xla_ffi/strings/cuda/standard_math.h"
// After both.
#include "xla_ffi/strings/cuda/standard_algorithms.h"
#endif

#endif  // XLA_FFI_STRINGS_CUDA_STANDARD_H_
