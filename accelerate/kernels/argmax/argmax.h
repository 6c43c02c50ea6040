// The index of the largest or smallest element along an axis, on the CPU.

#ifndef ACCELERATE_KERNELS_ARGMAX_ARGMAX_H_
#define ACCELERATE_KERNELS_ARGMAX_ARGMAX_H_

#include <cstdint>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/call.h"

namespace xla_ffi_accelerate::argmax {

using namespace xla_ffi_kit;  // its types and threads

// The index, along `axis`, of the first NaN, or else of the first of the
// largest elements; where `of` is "min", of the smallest. -0.0 equals 0.0; f32
// and f64 are compared as the thread compares them, subnormals too.
inline constexpr Operand x{"x", KeyTypes(), "(...)"};
inline constexpr Axis axis{"axis", x, 1, int64_t{1} << 31};
inline constexpr Word of{"of", "max", "min"};
inline constexpr Result indices{
    "indices", TypeList<int32_t, int64_t, uint32_t, uint64_t>(),
    x.Without(axis)};
inline constexpr char kName[] = "xla_ffi_accelerate.argmax";
using ArgmaxCall = Call<kName, x, axis, of, indices>;

struct ArgmaxProblem {
  // The operand is [outer, length, inner], the result [outer, inner].
  int64_t outer = 1;
  int64_t length = 1;  // 1 to 2^31
  int64_t inner = 1;
  bool is_min = false;
  bool subnormals_are_zero = false;  // to the comparisons of bf16
  const void* in = nullptr;
  void* out = nullptr;
  int64_t index_width = 4;  // bytes of an index: 4 or 8
};

// The same, of elements of type T, one of KeyTypes.
template <typename T>
void Argmax(const ArgmaxProblem& problem, const Executor& executor);

}  // namespace xla_ffi_accelerate::argmax

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateArgmaxCpu);

#endif  // ACCELERATE_KERNELS_ARGMAX_ARGMAX_H_
