// Cumulative sums of floats, rounded as XLA's CPU backend rounds.
//
// XLA makes a reduce-window over everything before an element into a tree: the
// elements in blocks of 16, in each block one after the other; the blocks'
// totals treated like elements, and so on; and to each element of a block the
// result for the blocks before it is added. All levels of that tree advance
// together here, so that an array is read once. f16 and bf16 are added
// as f32, and every result is rounded to the dtype.
//
// Where two NaNs meet, whose bits remain depends on the order in which a
// compiler gives them to the processor, in XLA's code as in this.

#ifndef ACCELERATE_KERNELS_CUMULATIVE_FLOAT_LINES_H_
#define ACCELERATE_KERNELS_CUMULATIVE_FLOAT_LINES_H_

#include <cstdint>

namespace xla_ffi_accelerate::cumulative {

inline constexpr int64_t kScanBlock = 16;

// Columns scanned together when a line spans several blocks.
inline constexpr int64_t kMaxScanColumns = 64;

// R is Float16, BFloat16, float or double.
template <typename R>
struct FloatLines {
  const R* in = nullptr;
  R* out = nullptr;    // may be `in`
  int64_t length = 0;  // of a line
  int64_t stride = 1;  // from a line's element to its next
  int64_t count = 0;   // one after the other if `stride` is 1, else columns
};

// out[k] = in[0] + ... + in[k] for each line.
template <typename R>
void ScanFloatLines(const FloatLines<R>& lines);

// Several threads scan one line, or columns, in chunks, which are three levels
// of the tree. The value that a chunk ends with does not depend on the chunks
// before it, and the chunks after it need only this value.
inline constexpr int64_t kScanChunk = kScanBlock * kScanBlock * kScanBlock;

// Each array of [chunks, lines.count], of whole chunks.
template <typename R>
struct ChunkEnds {
  R* before_last;  // of the chunk's last block of blocks, what is before it
  R* last;         // the total of its last block's blocks
  R* total;
  R* results;  // of all chunks up to that one
};

// Sets all but `results` for chunks [begin, end).
template <typename R>
void ReduceFloatChunks(const FloatLines<R>& lines, int64_t begin, int64_t end,
                       const ChunkEnds<R>& ends);

// Scans chunks [begin, end). The last one may end with the lines.
template <typename R>
void ScanFloatChunks(const FloatLines<R>& lines, int64_t begin, int64_t end,
                     const ChunkEnds<R>& ends);

}  // namespace xla_ffi_accelerate::cumulative

#endif  // ACCELERATE_KERNELS_CUMULATIVE_FLOAT_LINES_H_
