// Runs the derivatives of derived.h for all elements, or all rows, of a call.

#ifndef XLA_FFI_INLINE_DIFFERENTIATE_H_
#define XLA_FFI_INLINE_DIFFERENTIATE_H_

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla_ffi/inline/derived.h"
#include "xla_ffi/inline/half.h"
#include "xla_ffi/inline/rows.h"
#include "xla_ffi/inline/tape.h"
#include "xla_ffi/inline/threads.h"

namespace kit {

// Runs a derivative for all elements of arrays of T.
template <typename T, typename F>
void DeriveElements(const F& f, const Threads& threads, int64_t size,
                    const T* const (&in)[F::kIns], T* const (&out)[F::kOuts]) {
  using S = Accumulate<T>;
  threads.For(size, 2 * (F::kIns + F::kOuts) * sizeof(T),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  S x[F::kIns], y[F::kOuts];
                  for (int k = 0; k < F::kIns; ++k) x[k] = in[k][i];
                  f(static_cast<const S*>(x), y);
                  for (int k = 0; k < F::kOuts; ++k) out[k][i] = T(y[k]);
                }
              });
}

// A row of T as one of S, in which it is computed.
template <typename S, typename T>
Row<const S> Widened(const T* data, int64_t size, std::vector<S>& kept) {
  if constexpr (std::is_same_v<S, T>) {
    return {data, size};
  } else {
    kept.assign(data, data + size);
    return {kept.data(), size};
  }
}

// Runs a derivative for all rows of arrays of T; `make(i)` is that of row i.
// `kShared` are the arrays that
// every row has whole; `kSums` the results that are sums over the rows. These
// are added in an order that no number of threads changes: in blocks of rows,
// and then the blocks.
template <uint64_t kShared, uint64_t kSums, typename T, typename Make>
struct RowsOfDerivative {
  using F = std::decay_t<decltype(std::declval<Make>()(int64_t()))>;
  using S = Accumulate<T>;
  static constexpr int64_t kMostBlocks = 64;

  const Make& make;
  const int64_t rows;
  const Row<const T> (&in)[F::kIns];  // the whole arrays
  const Row<T> (&out)[F::kOuts];
  std::vector<S> sums = {};  // of each block
  int64_t sum_size = 0, blocks = 0;

  void Run(const Threads& threads) {
    int64_t bytes = 0;
    for (int i = 0; i < F::kIns; ++i) bytes += in[i].size() * sizeof(T);
    for (int k = 0; k < F::kOuts; ++k) {
      if (Has(kSums, k)) sum_size += out[k].size();
    }
    blocks = kSums != 0 && rows > kMostBlocks ? kMostBlocks : rows;
    sums.assign(blocks * (kSums != 0 ? sum_size : 0), S());
    // What a row costs is some times what it reads.
    const int64_t each = 8 * bytes / (blocks > 0 ? blocks : 1);
    threads.For(blocks, each, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * rows / blocks; i < end * rows / blocks; ++i) {
        RunRow(i);
      }
      Tape<S>::OfThread().Trim();
    });
    AddBlocks();
  }

 private:
  // Of row i, the block's sums from `offset` on.
  S* SumsOf(int64_t i) { return sums.data() + BlockOf(i) * sum_size; }
  int64_t BlockOf(int64_t i) const {
    int64_t block = i * blocks / rows;  // within one of it
    while ((block + 1) * rows / blocks <= i) ++block;
    while (block * rows / blocks > i) --block;
    return block;
  }

  void RunRow(int64_t i) {
    static thread_local std::vector<S> wide[F::kIns + F::kOuts];
    Row<const S> x[F::kIns];
    Row<S> y[F::kOuts];
    for (int k = 0; k < F::kIns; ++k) {
      const int64_t size = Has(kShared, k) ? in[k].size() : in[k].size() / rows;
      const int64_t at = Has(kShared, k) ? 0 : i * size;
      x[k] = Widened<S>(in[k].data() + at, size, wide[k]);
    }
    for (int k = 0; k < F::kOuts; ++k) {
      const int64_t size = Has(kSums, k) ? out[k].size() : out[k].size() / rows;
      auto& kept = wide[F::kIns + k];
      kept.resize(size);
      y[k] = Row<S>(kept.data(), size);
    }
    make(i)(static_cast<const Row<const S>*>(x), static_cast<const Row<S>*>(y));
    S* sum = SumsOf(i);
    for (int k = 0; k < F::kOuts; ++k) {
      for (int64_t j = 0; j < y[k].size(); ++j) {
        if (Has(kSums, k)) {
          *sum++ += y[k][j];
        } else {
          out[k].data()[i * y[k].size() + j] = T(y[k][j]);
        }
      }
    }
  }

  void AddBlocks() {
    int64_t at = 0;
    for (int k = 0; k < F::kOuts; ++k) {
      if (!Has(kSums, k)) continue;
      for (int64_t j = 0; j < out[k].size(); ++j, ++at) {
        S total = S();
        for (int64_t b = 0; b < blocks; ++b) total += sums[b * sum_size + at];
        out[k][j] = T(total);
      }
    }
  }
};

template <uint64_t kShared, uint64_t kSums, typename T, typename Make, int kIns,
          int kOuts>
void DeriveRows(const Make& make, const Threads& threads, int64_t rows,
                const Row<const T> (&in)[kIns], const Row<T> (&out)[kOuts]) {
  RowsOfDerivative<kShared, kSums, T, Make>{make, rows, in, out}.Run(threads);
}

}  // namespace kit

#endif  // XLA_FFI_INLINE_DIFFERENTIATE_H_
