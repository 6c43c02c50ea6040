// Cumulative sums and products of floats, rounded as XLA's CPU backend rounds.
//
// XLA makes a reduce-window over everything before an element into a tree: the
// elements in blocks of 16, in each block one after the other; the blocks'
// totals treated like elements, and so on; and to each element of a block the
// result for the blocks before it is added. All levels of that tree advance
// together here, so that an array is read once. f16 and bf16 are added and
// multiplied as f32, and every result is rounded to the dtype.
//
// Where two NaNs meet, whose bits remain depends on the order in which a
// compiler gives them to the processor, in XLA's code as in this.

#ifndef XLA_FFI_OPS_CUMULATIVE_FLOAT_LINES_H_
#define XLA_FFI_OPS_CUMULATIVE_FLOAT_LINES_H_

#include <cstdint>

#include "xla_ffi/ops/sort/pack.h"

namespace xla_ffi_kit {

inline constexpr int64_t kScanBlock = 16;

// Of lines that are longer than a block, so many side by side.
inline constexpr int64_t kMaxScanColumns = 64;

struct FloatLines {
  KeyKind kind;     // kF16, kBF16, kF32 or kF64
  bool is_product;  // or a sum
  const void* in;
  void* out;       // may be `in`
  int64_t length;  // of a line
  int64_t stride;  // from a line's element to its next
  // With a stride of 1 they lie one after the other, otherwise side by side.
  int64_t count;
};

// out[k] = in[0] op ... op in[k] for each line.
void ScanFloatLines(const FloatLines& lines);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_CUMULATIVE_FLOAT_LINES_H_
