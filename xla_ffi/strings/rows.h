// The loop over the rows of `xla_ffi_kit.rows`, and what `elementwise` and
// `rows` need besides.

#ifndef XLA_FFI_STRINGS_ROWS_H_
#define XLA_FFI_STRINGS_ROWS_H_

#include <cstdint>
#include <type_traits>

#include "xla_ffi/strings/for_each.h"  // IWYU pragma: export
#include "xla_ffi/strings/parameters.h"
#include "xla_ffi/strings/scan.h"   // IWYU pragma: export
#include "xla_ffi/strings/threads.h"
#include "xla_ffi/strings/value.h"  // IWYU pragma: export

namespace kit {

// The part of one array that one row of a call owns.
template <typename T>
class Row {
 public:
  Row() = default;
  Row(T* data, int64_t size) : data_(data), size_(size) {}
  int64_t size() const { return size_; }
  T& operator[](int64_t i) const { return data_[i]; }
  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

// Row `i` of `rows` equal parts of an array.
template <typename T>
Row<T> RowOf(const Row<T>& whole, int64_t rows, int64_t i) {
  const int64_t size = whole.size() / rows;
  return {whole.data() + i * size, size};
}

// A buffer as one row.
template <typename T>
Row<T> SharedRow(const Buffer<T>& buffer) {
  return {buffer.data(), buffer.size()};
}

// A real attribute in the type that rows compute in, so that a double does not
// widen a loop of floats, and C++ multiplies it with complex numbers; any other
// attribute as it is.
template <typename A, typename V>
auto AttributeFor(const V& value) {
  if constexpr (std::is_same_v<V, double> && std::is_floating_point_v<A>) {
    return A(value);
  } else if constexpr (std::is_same_v<V, double> && kIsComplex<A>) {
    return typename A::value_type(value);
  } else {
    return value;
  }
}

// The bytes of one of `rows` rows, those of results too; F::kit_is_shared says
// which operands all rows share.
template <typename F, typename T, int kIns, int kOuts>
int64_t BytesOfRow(int64_t rows, const Row<const T> (&in)[kIns],
                   const Row<T> (&out)[kOuts]) {
  int64_t size = 0;
  for (int k = 0; k < kIns; ++k) size += F::kit_is_shared[k] ? 0 : in[k].size();
  for (int k = 0; k < kOuts; ++k) size += out[k].size();
  return sizeof(T) * (size / rows);
}

// Calls f(in, whole, out) for one row after the other: with the row's parts of
// operands and results, and the whole operands.
template <typename T, typename F, int kIns, int kOuts>
void RunRows(const F& f, const Threads& threads, int64_t rows,
             const Row<const T> (&whole_in)[kIns],
             const Row<T> (&whole_out)[kOuts]) {
  if (rows == 0) return;
  const auto run = [&](int64_t begin, int64_t end) {
    Row<const T> in[kIns];
    Row<T> out[kOuts];
    for (int k = 0; k < kIns; ++k) in[k] = RowOf(whole_in[k], rows, begin);
    for (int k = 0; k < kOuts; ++k) out[k] = RowOf(whole_out[k], rows, begin);
    for (int64_t i = begin; i < end; ++i) {
      f(static_cast<const Row<const T>*>(in),
        static_cast<const Row<const T>*>(whole_in),
        static_cast<const Row<T>*>(out));
      for (auto& row : in) row = {row.end(), row.size()};
      for (auto& row : out) row = {row.end(), row.size()};
    }
  };
  threads.For(rows, BytesOfRow<F>(rows, whole_in, whole_out), run);
}

namespace for_each_internal {

template <typename T>
struct Traits<Row<const T>> {
  using Type = T;
  static constexpr bool kIsOperand = true, kIsResult = false;
};
template <typename T>
struct Traits<Row<T>> {
  using Type = T;
  static constexpr bool kIsOperand = false, kIsResult = true;
};

template <bool kForwards, typename T, typename Function, typename... Rows,
          int... ins, int... outs>
void Loop(int64_t size, Function& function, Indices<ins...>, Indices<outs...>,
          Rows&... rows) {
  constexpr int kIns = sizeof...(ins), kOuts = sizeof...(outs);
  for (int64_t j = 0; j < size; ++j) {
    const int64_t i = kForwards ? j : size - 1 - j;
    const T in[kIns + 1] = {Get<ins>(rows...)[i]..., T()};
    T out[kOuts + 1];
    Step<T, kOuts>(function, in, out, IndicesBelow<kIns>());
    ((Get<kIns + outs>(rows...)[i] = out[outs]), ...);
  }
}

template <bool kForwards, typename T, int kIns, int kOuts, typename Function,
          typename... Rows>
void Run(int64_t size, Function& function, Rows&... rows) {
  Loop<kForwards, T>(size, function, IndicesBelow<kIns>(),
                     IndicesBelow<kOuts>(), rows...);
}

}  // namespace for_each_internal
}  // namespace kit

#endif  // XLA_FFI_STRINGS_ROWS_H_
