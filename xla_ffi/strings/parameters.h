// The parameters that a C++ function may have to be an operation's handler.

#ifndef XLA_FFI_STRINGS_PARAMETERS_H_
#define XLA_FFI_STRINGS_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/strings/types.h"

namespace kit {

// What dim() throws for an axis that the array does not have.
struct AxisError : std::exception {
  const char* what() const noexcept override {
    return "dim: expected an axis of the array, of which the last is dim(-1)";
  }
};

// An array in row-major order: In<T> of an operand, Out<T> of a result. Under
// vmap, and wherever the caller has more axes than the function needs, batch
// axes come first: the axes of one item are counted from the end.
template <typename T>
class Buffer {
 public:
  explicit Buffer(const XLA_FFI_Buffer& buffer)
      : data_(static_cast<T*>(buffer.data)),
        dims_(buffer.dims),
        rank_(buffer.rank),
        size_(Product(rank_)) {}

  int64_t size() const { return size_; }  // elements
  int64_t rank() const { return rank_; }
  const int64_t* dims() const { return dims_; }
  // Size of an axis; from the end if `axis` is negative. dim(0) is the first
  // batch axis if there is one.
  int64_t dim(int64_t axis) const {
    if (axis < -rank_ || axis >= rank_) throw AxisError();
    return dims_[axis < 0 ? axis + rank_ : axis];
  }
  // The array as a matrix: its last axis, and all others as one.
  int64_t columns() const { return rank_ == 0 ? 1 : dims_[rank_ - 1]; }
  int64_t rows() const { return rank_ == 0 ? 1 : Product(rank_ - 1); }
  T* row(int64_t i) const { return data_ + i * columns(); }

  // Number of elements in the first `axes` axes. 0 where 64 bits do not hold
  // it, because another axis is empty then: there is no such memory.
  int64_t Product(int64_t axes) const {
    int64_t product = 1;
    for (int64_t i = 0; i < axes; ++i) {
      if (__builtin_mul_overflow(product, dims_[i], &product)) return 0;
    }
    return product;
  }

  T& operator[](int64_t i) const { return data_[i]; }
  T* data() const { return data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

 private:
  T* data_;
  const int64_t* dims_;
  int64_t rank_;
  int64_t size_;
};

template <typename T>
struct In : Buffer<const T> {
  using Buffer<const T>::Buffer;
};
template <typename T>
struct Out : Buffer<T> {
  using Buffer<T>::Buffer;
};

// An attribute that is a sequence of numbers.
template <typename T>
class Array {
 public:
  Array(const T* data, size_t size) : data_(data), size_(size) {}
  int64_t size() const { return static_cast<int64_t>(size_); }
  const T& operator[](int64_t i) const { return data_[i]; }
  const T* data() const { return data_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  const T* data_;
  size_t size_;
};

// The kind of a parameter and, if it has elements or is an attribute, its type.
struct Code {
  enum Kind { kEnd, kOperand, kResult, kAttribute, kThreads };

  constexpr bool operator==(const Code& other) const {
    return kind == other.kind && type == other.type &&
           attribute == other.attribute;
  }

  Kind kind = kEnd;
  XLA_FFI_DataType type = XLA_FFI_DataType_INVALID;
  XLA_FFI_AttrType attribute = {};
};

template <typename T>
constexpr XLA_FFI_DataType TypeOf() {
  static_assert(kDataType<T> != XLA_FFI_DataType_INVALID,
                "elements are float, double, std::complex of these, "
                "kit::bf16, kit::f16, bool, int8_t to int64_t or uint8_t to "
                "uint64_t");
  return kDataType<T>;
}

// Specialized for each type that a parameter may have. Get() takes the place
// of the parameter among those of its kind, sorted by name for attributes.
template <typename P>
struct Parameter {
  static_assert(kDataType<P> != XLA_FFI_DataType_INVALID,
                "parameters are kit::In<T> for operands, kit::Out<T> for "
                "results, kit::Threads, and for attributes numbers, bool, "
                "kit::Array<T> or std::string_view, all by value");
  static constexpr Code kCode = {Code::kAttribute, kDataType<P>,
                                 XLA_FFI_AttrType_SCALAR};
  static P Get(const XLA_FFI_CallFrame* frame, int64_t i) {
    const auto* scalar =
        static_cast<const XLA_FFI_Scalar*>(frame->attrs.attrs[i]);
    return *static_cast<const P*>(scalar->value);
  }
};

template <typename T>
struct Parameter<In<T>> {
  static constexpr Code kCode = {Code::kOperand, TypeOf<T>()};
  static In<T> Get(const XLA_FFI_CallFrame* frame, int64_t i) {
    return In<T>(*static_cast<const XLA_FFI_Buffer*>(frame->args.args[i]));
  }
};

template <typename T>
struct Parameter<Out<T>> {
  static constexpr Code kCode = {Code::kResult, TypeOf<T>()};
  static Out<T> Get(const XLA_FFI_CallFrame* frame, int64_t i) {
    return Out<T>(*static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[i]));
  }
};

template <typename T>
struct Parameter<Array<T>> {
  static constexpr Code kCode = {Code::kAttribute, TypeOf<T>(),
                                 XLA_FFI_AttrType_ARRAY};
  static Array<T> Get(const XLA_FFI_CallFrame* frame, int64_t i) {
    const auto* array =
        static_cast<const XLA_FFI_Array*>(frame->attrs.attrs[i]);
    return Array<T>(static_cast<const T*>(array->data), array->size);
  }
};

template <>
struct Parameter<std::string_view> {
  static constexpr Code kCode = {Code::kAttribute, XLA_FFI_DataType_INVALID,
                                 XLA_FFI_AttrType_STRING};
  static std::string_view Get(const XLA_FFI_CallFrame* frame, int64_t i) {
    const auto* span =
        static_cast<const XLA_FFI_ByteSpan*>(frame->attrs.attrs[i]);
    return std::string_view(span->ptr, span->len);
  }
};

}  // namespace kit

#endif  // XLA_FFI_STRINGS_PARAMETERS_H_
