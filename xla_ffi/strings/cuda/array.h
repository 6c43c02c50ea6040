// The arrays and attributes that a kernel in a string gets, by value.

#ifndef XLA_FFI_STRINGS_CUDA_ARRAY_H_
#define XLA_FFI_STRINGS_CUDA_ARRAY_H_

#include "xla_ffi/strings/cuda/standard.h"
#include "xla_ffi/strings/half.h"

namespace kit {

// An array in row-major order: In<T> of an operand, Out<T> of a result. Its
// members are those of xla_ffi_kit::launch::Array.
template <typename T>
class Buffer {
 public:
  int64_t size() const { return size_; }  // elements
  int64_t rank() const { return rank_; }
  // Size of an axis; from the end if `axis` is negative.
  int64_t dim(int64_t axis) const {
    return dims_[axis < 0 ? axis + rank_ : axis];
  }
  // The array as a matrix: its last axis, and all others as one.
  int64_t columns() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  int64_t rows() const { return rank_ == 0 ? 1 : Product(rank_ - 1); }
  T* row(int64_t i) const { return data_ + i * columns(); }
  // Number of elements in the first `axes` axes.
  int64_t Product(int64_t axes) const {
    int64_t product = 1;
    for (int64_t i = 0; i < axes; ++i) product *= dims_[i];
    return product;
  }

  T& operator[](int64_t i) const { return data_[i]; }
  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

  // Elements of one of the items that the launch counts.
  int64_t size_per_item() const { return size_per_item_; }

 private:
  T* data_;
  int64_t size_;
  int64_t size_per_item_;
  int64_t rank_;
  int64_t dims_[8];
};

template <typename T>
struct In : Buffer<const T> {};
template <typename T>
struct Out : Buffer<T> {};

// The elements of an attribute that is a sequence. KIT_ARRAY_BYTES is the room
// for those of this kernel.
template <typename T>
class Sequence {
 public:
  int64_t size() const { return size_; }
  const T& operator[](int64_t i) const { return data_[i]; }
  const T* data() const { return data_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  int64_t size_;
  alignas(8) T data_[KIT_ARRAY_BYTES / sizeof(T)];
};

// An attribute that is a sequence of numbers.
template <typename T>
class Array : public Sequence<T> {};

// An attribute that is a string: what std::string_view becomes.
class String : public Sequence<char> {
 public:
  bool empty() const { return size() == 0; }
  bool operator==(const char* text) const {
    int64_t i = 0;
    while (i < size() && text[i] != 0 && text[i] == data()[i]) ++i;
    return i == size() && text[i] == 0;
  }
  bool operator!=(const char* text) const { return !(*this == text); }
};

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
template <typename A, typename T>
const Array<T>& AttributeFor(const Array<T>& value) {
  return value;
}
template <typename A>
const String& AttributeFor(const String& value) {
  return value;
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_CUDA_ARRAY_H_
