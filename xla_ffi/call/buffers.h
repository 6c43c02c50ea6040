// The buffers of a call of a C function, and what is said of those that do not
// fit.

#ifndef XLA_FFI_CALL_BUFFERS_H_
#define XLA_FFI_CALL_BUFFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/call/functions.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"

namespace xla_ffi_kit::call {

// As XLA has them.
struct Buffers : xla::ffi::RemainingArgs, xla::ffi::RemainingRets {
  const XLA_FFI_Buffer& operand(size_t i) const {
    return *static_cast<XLA_FFI_Buffer*>(args()->args[i]);
  }
  const XLA_FFI_Buffer& result(size_t i) const {
    return *static_cast<XLA_FFI_Buffer*>(rets()->rets[i]);
  }
  size_t num_operands() const { return xla::ffi::RemainingArgs::size(); }
  size_t num_results() const { return xla::ffi::RemainingRets::size(); }
};

inline Dimensions DimsOf(const XLA_FFI_Buffer& buffer) {
  return {buffer.dims, static_cast<size_t>(buffer.rank)};
}

// The sizes before a buffer's own axes, multiplied.
inline int64_t Rows(const XLA_FFI_Buffer& buffer, int64_t own) {
  const auto lead =
      static_cast<size_t>(std::max<int64_t>(buffer.rank - own, 0));
  return Product(DimsOf(buffer).first(lead));
}

inline xla::ffi::Error Invalid(const Function& function,
                               std::string_view argument,
                               const std::string& expected,
                               const std::string& got) {
  return InvalidArgument({function.name, argument},
                         expected + ", as " + function.signature, got);
}

// Fails if there are other numbers of operands or results.
inline xla::ffi::Error CheckCounts(const Function& function,
                                   const Buffers& buffers) {
  const auto check = [&](std::string_view what, size_t expected,
                         size_t got) -> xla::ffi::Error {
    if (expected == got) return {};
    return Invalid(function, what, std::to_string(expected),
                   std::to_string(got));
  };
  XLA_FFI_KIT_RETURN_IF_ERROR(
      check("operands", function.num_operands, buffers.num_operands()));
  return check("results", function.num_results, buffers.num_results());
}

}  // namespace xla_ffi_kit::call

#endif  // XLA_FFI_CALL_BUFFERS_H_
