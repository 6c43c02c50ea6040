#include "xla_ffi/ops/nonzero/nonzero.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace xla_ffi_kit {
namespace {

constexpr int64_t kWord = 8;  // elements that are looked at together

template <typename Index>
void NonzeroRow(const uint8_t* mask, int64_t n, int64_t size, Index* indices) {
  int64_t count = 0, i = 0;
  // Each index is written, and stays if its element is true: no branch, so
  // nothing for a random mask to mispredict. Words of zeros are passed over.
  for (; i + kWord <= n && count + kWord <= size; i += kWord) {
    uint64_t word;
    std::memcpy(&word, mask + i, kWord);
    if (word == 0) continue;
    for (int64_t j = 0; j < kWord; ++j) {
      indices[count] = static_cast<Index>(i + j);
      count += mask[i + j] != 0;
    }
  }
  for (; i < n && count < size; ++i) {
    if (mask[i] != 0) indices[count++] = static_cast<Index>(i);
  }
  std::fill(indices + count, indices + size, static_cast<Index>(n));
}

}  // namespace

template <typename Index>
void Nonzero(const uint8_t* mask, int64_t rows, int64_t length, int64_t size,
             Index* indices, const Workers& workers) {
  if (rows == 0 || size == 0) return;
  // Some 50 microseconds of work: then another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 16;
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
