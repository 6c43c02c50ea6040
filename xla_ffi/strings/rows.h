// The parts of the loops that `xla_ffi_kit.elementwise` and `rows` write.

#ifndef XLA_FFI_STRINGS_ROWS_H_
#define XLA_FFI_STRINGS_ROWS_H_

#include <cstdint>
#include <type_traits>

#include "xla_ffi/strings/for_each.h"  // IWYU pragma: export
#include "xla_ffi/strings/parameters.h"
#include "xla_ffi/strings/scan.h"   // IWYU pragma: export
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

// Row `i` of `rows` equal parts of a buffer.
template <typename T>
Row<T> RowOf(const Buffer<T>& buffer, int64_t rows, int64_t i) {
  const int64_t size = buffer.size() / rows;
  return {buffer.data() + i * size, size};
}

// All of a buffer that every row shares.
template <typename T>
Row<T> SharedRow(const Buffer<T>& buffer) {
  return {buffer.data(), buffer.size()};
}

// A real attribute in the type that rows compute in, so that a double does not
// widen a loop of floats; any other attribute as it is.
template <typename A, typename V>
auto AttributeFor(const V& value) {
  if constexpr (std::is_same_v<V, double> && std::is_floating_point_v<A>) {
    return A(value);
  } else {
    return value;
  }
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
