#include "xla_ffi/ops/nonzero/nonzero.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace xla_ffi_kit {
namespace {

constexpr int64_t kWord = 8;  // elements that are looked at together

// Writes the indices of the true elements of mask[begin, end), up to `size` of
// them. Returns how many.
template <typename Index>
int64_t WriteIndices(const uint8_t* mask, int64_t begin, int64_t end,
                     int64_t size, Index* indices) {
  int64_t count = 0, i = begin;
  // Each index is written, and stays if its element is true: no branch, so
  // nothing for a random mask to mispredict. Words of zeros are passed over.
  for (; i + kWord <= end && count + kWord <= size; i += kWord) {
    uint64_t word;
    std::memcpy(&word, mask + i, kWord);
    if (word == 0) continue;
    for (int64_t j = 0; j < kWord; ++j) {
      indices[count] = static_cast<Index>(i + j);
      count += mask[i + j] != 0;
    }
  }
  for (; i < end && count < size; ++i) {
    if (mask[i] != 0) indices[count++] = static_cast<Index>(i);
  }
  return count;
}

template <typename Index>
void NonzeroRow(const uint8_t* mask, int64_t n, int64_t size, Index* indices) {
  const int64_t count = WriteIndices(mask, 0, n, size, indices);
  std::fill(indices + count, indices + size, static_cast<Index>(n));
}

// One row by all workers. Counted first, so that each part of the row knows
// where its indices go.
template <typename Index>
void NonzeroLongRow(const uint8_t* mask, int64_t n, int64_t size,
                    Index* indices, const Workers& workers) {
  const int64_t parts = 4 * workers.threads;
  std::vector<int64_t> begins(parts + 1);  // of a part's indices
  workers.run(parts, [&](int64_t part) {
    const uint8_t* const end = mask + (part + 1) * n / parts;
    begins[part + 1] = end - (mask + part * n / parts) -
                       std::count(mask + part * n / parts, end, uint8_t{0});
  });
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  const int64_t count = std::min(begins.back(), size);
  workers.run(parts, [&](int64_t part) {
    // Each part fills its share of what is left over, too.
    const auto share = [&](int64_t i) {
      return indices + count + i * (size - count) / parts;
    };
    std::fill(share(part), share(part + 1), static_cast<Index>(n));
    const int64_t begin = std::min(begins[part], size);
    WriteIndices(mask, part * n / parts, (part + 1) * n / parts,
                 std::min(begins[part + 1], size) - begin, indices + begin);
  });
}

}  // namespace

template <typename Index>
void Nonzero(const uint8_t* mask, int64_t rows, int64_t length, int64_t size,
             Index* indices, const Workers& workers) {
  if (rows == 0 || size == 0) return;
  // Some 50 microseconds of work: then another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 16;
  if (workers.threads > 1 && rows < 2 * workers.threads &&
      length + size >= 4 * kMinElements) {
    for (int64_t row = 0; row < rows; ++row) {
      NonzeroLongRow(mask + row * length, length, size, indices + row * size,
                     workers);
    }
    return;
  }
  const int64_t parts =
      std::max<int64_t>(std::min({rows * (length + size) / kMinElements, rows,
                                  4 * workers.threads}),
                        1);
  workers.run(parts, [&](int64_t part) {
    const int64_t end = (part + 1) * rows / parts;
    for (int64_t row = part * rows / parts; row < end; ++row) {
      NonzeroRow(mask + row * length, length, size, indices + row * size);
    }
  });
}

template void Nonzero(const uint8_t*, int64_t, int64_t, int64_t, int32_t*,
                      const Workers&);
template void Nonzero(const uint8_t*, int64_t, int64_t, int64_t, int64_t*,
                      const Workers&);

}  // namespace xla_ffi_kit
