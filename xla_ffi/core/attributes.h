// Named decoding of attributes.
//
// A handler that binds `Attr<double>("eps")` answers a wrong attribute with
// "Wrong scalar data type: expected F64 but got F32", which names neither the
// attribute nor the operation. Binding the whole dictionary (`.Attrs()`) and
// decoding it here names both, at a small cost for each call.

#ifndef XLA_FFI_CORE_ATTRIBUTES_H_
#define XLA_FFI_CORE_ATTRIBUTES_H_

#include <cmath>
#include <sstream>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"

namespace xla_ffi_kit {

// "{eps, mode}", for messages.
inline std::string AttributeNames(const xla::ffi::Dictionary& attributes) {
  std::string text = "{";
  for (const std::string_view name : attributes) {
    if (text.size() > 1) text += ", ";
    text += name;
  }
  return text + "}";
}

// Refuses attributes of an operation that has none. The FFI ignores attributes
// if a handler binds none.
inline xla::ffi::Error CheckNoAttributes(
    std::string_view operation, const xla::ffi::Dictionary& attributes) {
  if (attributes.size() == 0) return {};
  return InvalidArgument({operation, "attributes"}, "none",
                         AttributeNames(attributes));
}

inline xla::ffi::Error CheckFiniteNotNegative(const Place& where,
                                              double value) {
  if (std::isfinite(value) && value >= 0) return {};
  std::ostringstream got;
  got << value;
  return InvalidArgument(where, "a finite value >= 0", got.str());
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_ATTRIBUTES_H_
