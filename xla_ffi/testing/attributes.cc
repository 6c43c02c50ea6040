#include "xla_ffi/testing/attributes.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace xla_ffi_kit::testing {

Attributes& Attributes::Set(const std::string& name, XLA_FFI_AttrType type,
                            XLA_FFI_DataType dtype, const void* bytes,
                            size_t size_bytes, size_t size) {
  Value value = {type, dtype, std::string(size_bytes, '\0'), size, nullptr};
  if (size_bytes > 0)
    value.bytes.assign(static_cast<const char*>(bytes), size_bytes);
  values_[name] = std::move(value);
  return *this;
}

Attributes& Attributes::Set(const std::string& name, Attributes dictionary) {
  values_[name] = {XLA_FFI_AttrType_DICTIONARY, XLA_FFI_DataType_INVALID, "", 0,
                   std::make_shared<Attributes>(std::move(dictionary))};
  return *this;
}

Attributes& Attributes::Remove(const std::string& name) {
  values_.erase(name);
  return *this;
}

std::vector<std::string> Attributes::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) names.push_back(name);
  return names;
}

int64_t Attributes::Integer(const std::string& name) const {
  int64_t number = 0;
  std::memcpy(&number, values_.at(name).bytes.data(), sizeof(number));
  return number;
}

EncodedAttributes::EncodedAttributes(const Attributes& attributes) {
  for (const auto& [name, value] : attributes.values_) {
    spans_.push_back({name.data(), name.size()});
    names_.push_back(&spans_.back());
    types_.push_back(value.type);
    values_.push_back(Encode(value));
  }
  attrs_.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  attrs_.size = static_cast<int64_t>(names_.size());
  attrs_.types = types_.data();
  attrs_.names = names_.data();
  attrs_.attrs = values_.data();
}

void* EncodedAttributes::Encode(const Attributes::Value& value) {
  // The FFI's structs are not const-correct; nobody writes through them.
  char* bytes = const_cast<char*>(value.bytes.data());
  switch (value.type) {
    case XLA_FFI_AttrType_SCALAR:
      scalars_.push_back({value.dtype, bytes});
      return &scalars_.back();
    case XLA_FFI_AttrType_ARRAY:
      arrays_.push_back({value.dtype, value.size, bytes});
      return &arrays_.back();
    case XLA_FFI_AttrType_STRING:
      spans_.push_back({bytes, value.size});
      return &spans_.back();
    default:
      dictionaries_.push_back(
          std::make_unique<EncodedAttributes>(*value.dictionary));
      return &dictionaries_.back()->attrs_;
  }
}

}  // namespace xla_ffi_kit::testing
