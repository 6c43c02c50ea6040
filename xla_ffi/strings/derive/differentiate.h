// Runs the derivatives of derived.h for all elements, or all rows, of a call.

#ifndef XLA_FFI_STRINGS_DERIVE_DIFFERENTIATE_H_
#define XLA_FFI_STRINGS_DERIVE_DIFFERENTIATE_H_

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla_ffi/strings/derive/derived.h"
#include "xla_ffi/strings/derive/tape.h"
#include "xla_ffi/strings/half.h"
#include "xla_ffi/strings/rows.h"
#include "xla_ffi/strings/threads.h"

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

// Runs a derivative for all rows of arrays of T, in units of Unit, each of some
// rows. `kSums` are the results that are sums over the rows. These are added in
// an order that no number of threads changes: in blocks of units, and then the
// blocks.
template <uint64_t kSums, typename Unit, typename T, int kOuts>
struct RowsOfDerivative {
  using S = Accumulate<T>;
  static constexpr int64_t kMostBlocks = 64;

  const int64_t units;
  const Row<T> (&out)[kOuts];  // the whole arrays
  std::vector<S> sums = {};    // of each block
  int64_t sum_size = 0, blocks = 0;

  // `bytes` is what a unit reads.
  void Run(const Threads& threads, int64_t bytes, const Unit& unit) {
    for (int k = 0; k < kOuts; ++k) {
      if (Has(kSums, k)) sum_size += out[k].size();
    }
    blocks = kSums != 0 && units > kMostBlocks ? kMostBlocks : units;
    sums.assign(blocks * sum_size, S());
    // What a row costs is some times what it reads.
    const int64_t each = blocks > 0 ? 8 * bytes * units / blocks : 0;
    threads.For(blocks, each, [&](int64_t begin, int64_t end) {
      const OfCall::Scope scope;
      typename Unit::Kept kept(unit);
      for (int64_t b = begin; b < end; ++b) {
        const int64_t last = (b + 1) * units / blocks;
        for (int64_t i = b * units / blocks; i < last; ++i) {
          unit.Run(i, kept, sums.data() + b * sum_size);
        }
      }
    });
    AddBlocks();
  }

 private:
  void AddBlocks() {
    int64_t at = 0;
    for (int k = 0; k < kOuts; ++k) {
      if (!Has(kSums, k)) continue;
      for (int64_t j = 0; j < out[k].size(); ++j, ++at) {
        S total = S();
        for (int64_t b = 0; b < blocks; ++b) total += sums[b * sum_size + at];
        out[k][j] = T(total);
      }
    }
  }
};

// The arrays of a call. `kShared` are those that every row has whole.
template <uint64_t kShared, uint64_t kSums, typename T, int kIns, int kOuts>
struct ArraysOfDerivative {
  const int64_t rows;
  const Row<const T> (&in)[kIns];
  const Row<T> (&out)[kOuts];

  int64_t SizeOfIn(int k) const {
    return Has(kShared, k) ? in[k].size() : in[k].size() / rows;
  }
  int64_t SizeOfOut(int k) const {
    return Has(kSums, k) ? out[k].size() : out[k].size() / rows;
  }
  int64_t BytesOfRow() const {
    int64_t bytes = 0;
    for (int k = 0; k < kIns; ++k) bytes += SizeOfIn(k) * sizeof(T);
    return bytes;
  }
};

// One row of them; `make(i)` is the derivative for row i.
template <uint64_t kShared, uint64_t kSums, typename T, typename Make, int kIns,
          int kOuts>
struct OneRow {
  using S = Accumulate<T>;
  using Scalar = S;
  const Make& make;
  const ArraysOfDerivative<kShared, kSums, T, kIns, kOuts>& arrays;

  struct Kept {
    explicit Kept(const OneRow&) {}
    std::vector<S> wide[kIns + kOuts];
  };

  void Run(int64_t i, Kept& kept, S* sum) const {
    Row<const S> x[kIns];
    Row<S> y[kOuts];
    for (int k = 0; k < kIns; ++k) {
      const int64_t size = arrays.SizeOfIn(k);
      const T* const data = arrays.in[k].data();
      x[k] = Widened<S>(Has(kShared, k) ? data : data + i * size, size,
                        kept.wide[k]);
    }
    for (int k = 0; k < kOuts; ++k) {
      auto& wide = kept.wide[kIns + k];
      wide.resize(arrays.SizeOfOut(k));
      y[k] = Row<S>(wide.data(), wide.size());
    }
    make(i)(static_cast<const Row<const S>*>(x), static_cast<const Row<S>*>(y));
    for (int k = 0; k < kOuts; ++k) {
      T* const to = arrays.out[k].data() + i * y[k].size();
      for (int64_t j = 0; j < y[k].size(); ++j) {
        if (Has(kSums, k)) {
          *sum++ += y[k][j];
        } else {
          to[j] = T(y[k][j]);
        }
      }
    }
  }
};

template <uint64_t kShared, uint64_t kSums, typename T, typename Make, int kIns,
          int kOuts>
void DeriveRows(const Make& make, const Threads& threads, int64_t rows,
                const Row<const T> (&in)[kIns], const Row<T> (&out)[kOuts]) {
  using Unit = OneRow<kShared, kSums, T, Make, kIns, kOuts>;
  const ArraysOfDerivative<kShared, kSums, T, kIns, kOuts> arrays{rows, in,
                                                                  out};
  RowsOfDerivative<kSums, Unit, T, kOuts>{rows, out}.Run(
      threads, rows > 0 ? arrays.BytesOfRow() : 0, Unit{make, arrays});
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_DERIVE_DIFFERENTIATE_H_
