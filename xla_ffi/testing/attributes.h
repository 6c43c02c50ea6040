// The attributes of a call frame: scalars, strings, arrays, pointers and
// dictionaries in dictionaries.

#ifndef XLA_FFI_TESTING_ATTRIBUTES_H_
#define XLA_FFI_TESTING_ATTRIBUTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/checks.h"

namespace xla_ffi_kit::testing {

class Attributes {
 public:
  // Each replaces the attribute of that name, if there is one, and returns
  // *this. A scalar has the dtype of its C++ type: double is f64, int64_t s64,
  // bool pred.
  template <typename T, typename = std::enable_if_t<
                            !std::is_convertible_v<T, std::string_view>>>
  Attributes& Set(const std::string& name, T value) {
    return Set(name, XLA_FFI_AttrType_SCALAR,
               static_cast<XLA_FFI_DataType>(kDtypeOf<T>), &value,
               sizeof(value), 1);
  }
  template <typename T>
  Attributes& Set(const std::string& name, const std::vector<T>& values) {
    return Set(name, XLA_FFI_AttrType_ARRAY,
               static_cast<XLA_FFI_DataType>(kDtypeOf<T>), values.data(),
               values.size() * sizeof(T), values.size());
  }
  Attributes& Set(const std::string& name, std::string_view text) {
    return Set(name, XLA_FFI_AttrType_STRING, XLA_FFI_DataType_INVALID,
               text.data(), text.size(), text.size());
  }
  Attributes& Set(const std::string& name, const char* text) {
    return Set(name, std::string_view(text));
  }
  Attributes& Set(const std::string& name, Attributes dictionary);
  // A pointer travels as an s64 scalar.
  Attributes& SetPointer(const std::string& name, const void* pointer) {
    return Set(name, static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer)));
  }

  Attributes& Remove(const std::string& name);
  std::vector<std::string> names() const;          // in order
  int64_t Integer(const std::string& name) const;  // the value of an s64

 private:
  friend class EncodedAttributes;

  struct Value {
    XLA_FFI_AttrType type;
    XLA_FFI_DataType dtype;  // of a scalar or an array
    std::string bytes;       // scalar, array or string
    size_t size;             // elements of an array
    std::shared_ptr<const Attributes> dictionary;
  };

  Attributes& Set(const std::string& name, XLA_FFI_AttrType type,
                  XLA_FFI_DataType dtype, const void* bytes, size_t size_bytes,
                  size_t size);

  std::map<std::string, Value> values_;  // the FFI wants them sorted
};

// The FFI's structs for `attributes`, which must outlive this.
class EncodedAttributes {
 public:
  explicit EncodedAttributes(const Attributes& attributes);
  EncodedAttributes(const EncodedAttributes&) = delete;
  EncodedAttributes& operator=(const EncodedAttributes&) = delete;

  const XLA_FFI_Attrs& attrs() const { return attrs_; }

 private:
  void* Encode(const Attributes::Value& value);

  // Deques: their elements stay where they are.
  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::vector<std::unique_ptr<EncodedAttributes>> dictionaries_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<XLA_FFI_ByteSpan*> names_;
  std::vector<void*> values_;
  XLA_FFI_Attrs attrs_ = {};
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_ATTRIBUTES_H_
