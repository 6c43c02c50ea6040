// Checks of a handler's operands, results and attributes.
//
// Each returns success or INVALID_ARGUMENT with a message of one form,
//
//   xla_ffi_kit.rms_norm: operand x: expected rank >= 1, got rank 0
//
// because XLA itself names neither the operation nor the argument. A handler
// returns the first error:
//
//   XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast({kOp, "operand x"}, x, 1));

#ifndef XLA_FFI_CORE_CHECKS_H_
#define XLA_FFI_CORE_CHECKS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/status_macros.h"

namespace xla_ffi_kit {

namespace dtype_internal {

// Replaces the FFI's own mapping, in which all 16-bit floats are uint16_t.
template <typename T>
struct DtypeOf;

#define XLA_FFI_KIT_DTYPE_OF(dtype, name, T, ...)                          \
  template <>                                                              \
  struct DtypeOf<T> {                                                      \
    static constexpr xla::ffi::DataType value = xla::ffi::DataType::dtype; \
  };
XLA_FFI_KIT_DTYPES(XLA_FFI_KIT_DTYPE_OF)
#undef XLA_FFI_KIT_DTYPE_OF

}  // namespace dtype_internal

// XLA's name of the C++ type T.
template <typename T>
inline constexpr xla::ffi::DataType kDtypeOf =
    dtype_internal::DtypeOf<T>::value;

// The name HLO text uses. A type that dtypes.h does not list, or that the FFI
// headers of this build do not know because the running XLA is newer, is named
// by its number: no operation takes it.
inline std::string DtypeName(xla::ffi::DataType dtype) {
  switch (dtype) {
#define XLA_FFI_KIT_NAME(dtype, name, ...) \
  case xla::ffi::DataType::dtype:          \
    return name;
    XLA_FFI_KIT_DTYPES(XLA_FFI_KIT_NAME)
#undef XLA_FFI_KIT_NAME
    case xla::ffi::DataType::TOKEN:
      return "token";
    default:
      return "dtype " + std::to_string(static_cast<int>(dtype));
  }
}

using Dimensions = xla::ffi::Span<const int64_t>;

// A place in an operation's signature: {"xla_ffi_kit.relu", "operand x"}.
struct Place {
  std::string_view operation;
  std::string_view argument;
};

inline xla::ffi::Error InvalidArgument(const Place& where,
                                       std::string_view expected,
                                       std::string_view got) {
  std::string message;
  message.append(where.operation).append(": ").append(where.argument);
  message.append(": expected ").append(expected).append(", got ").append(got);
  return xla::ffi::Error::InvalidArgument(std::move(message));
}

// Returns RESOURCE_EXHAUSTED for missing scratch memory. The message says how
// much was needed, what for, and what to do: "to sort rows of 8 elements",
// "sort fewer at a time".
inline xla::ffi::Error ScratchExhausted(
    std::string_view operation, std::string_view purpose,
    const ScratchStatus& status,
    std::string_view remedy = "free memory, or use fewer threads") {
  std::string message(operation);
  message.append(": failed to allocate scratch memory ").append(purpose);
  message.append(": ").append(std::to_string(status.missing_bytes));
  message.append(" bytes; ").append(remedy);
  return {xla::ffi::ErrorCode::kResourceExhausted, std::move(message)};
}

// "(2, 3)"; "()" for rank 0.
inline std::string ShapeText(Dimensions dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return text + ")";
}

inline xla::ffi::Error CheckRankAtLeast(const Place& where,
                                        xla::ffi::AnyBuffer buffer,
                                        size_t rank) {
  if (buffer.dimensions().size() >= rank) return {};
  return InvalidArgument(where, "rank >= " + std::to_string(rank),
                         "rank " + std::to_string(buffer.dimensions().size()));
}

inline xla::ffi::Error CheckRank(const Place& where, xla::ffi::AnyBuffer buffer,
                                 size_t rank) {
  if (buffer.dimensions().size() == rank) return {};
  return InvalidArgument(where, "rank " + std::to_string(rank),
                         "rank " + std::to_string(buffer.dimensions().size()));
}

// Checks two numbers, one for each spatial dimension. `max_text` is the name of
// `max` in messages, if it has a better one than its digits.
inline xla::ffi::Error CheckPair(const Place& where, Dimensions pair,
                                 int64_t min, int64_t max,
                                 std::string_view max_text = "") {
  if (pair.size() != 2) {
    return InvalidArgument(where, "2 elements", std::to_string(pair.size()));
  }
  for (const int64_t value : pair) {
    if (value >= min && value <= max) continue;
    const std::string end =
        max_text.empty() ? std::to_string(max) : std::string(max_text);
    return InvalidArgument(where, std::to_string(min) + " to " + end,
                           std::to_string(value));
  }
  return {};
}

inline xla::ffi::Error CheckAxis(const Place& where, int64_t axis,
                                 xla::ffi::AnyBuffer buffer) {
  const auto rank = static_cast<int64_t>(buffer.dimensions().size());
  if (axis >= 0 && axis < rank) return {};
  return InvalidArgument(where, "0 to " + std::to_string(rank - 1),
                         std::to_string(axis));
}

// Refuses an empty last axis, for operations such as a mean. Requires rank >=
// 1.
inline xla::ffi::Error CheckLastAxisNotEmpty(const Place& where,
                                             xla::ffi::AnyBuffer buffer) {
  if (buffer.dimensions().back() > 0) return {};
  return InvalidArgument(where, "a last axis of at least one element",
                         "shape " + ShapeText(buffer.dimensions()));
}

// `reason` says where the expectation comes from: "like operand x".
inline xla::ffi::Error CheckShape(const Place& where,
                                  xla::ffi::AnyBuffer buffer,
                                  Dimensions expected,
                                  std::string_view reason) {
  if (buffer.dimensions() == expected) return {};
  return InvalidArgument(
      where, "shape " + ShapeText(expected) + " " + std::string(reason),
      "shape " + ShapeText(buffer.dimensions()));
}

// Checks for the shape of `model`, except that the last dimension is `last`.
inline xla::ffi::Error CheckShapeButLast(const Place& where,
                                         xla::ffi::AnyBuffer buffer,
                                         Dimensions model, int64_t last,
                                         std::string_view reason) {
  std::vector<int64_t> expected(model.begin(), model.end());
  expected.back() = last;
  return CheckShape(where, buffer, expected, reason);
}

inline xla::ffi::Error CheckDtype(const Place& where,
                                  xla::ffi::AnyBuffer buffer,
                                  xla::ffi::DataType expected,
                                  std::string_view reason) {
  if (buffer.element_type() == expected) return {};
  return InvalidArgument(
      where, "dtype " + DtypeName(expected) + " " + std::string(reason),
      "dtype " + DtypeName(buffer.element_type()));
}

// Returns fn(TypeTag<T>()) for the type T of the list that `dtype` names, or
// an error about `where` that lists the types there are:
//
//   const Place where = {kOp, "operand x"};
//   return DispatchDtype(RealFloatTypes(), dtype, where, [&](auto tag) {
//     return Run<typename decltype(tag)::type>(x, y);
//   });
template <typename... Ts, typename Fn>
xla::ffi::Error DispatchDtype(TypeList<Ts...>, xla::ffi::DataType dtype,
                              const Place& where, Fn&& fn) {
  xla::ffi::Error error;
  const bool is_known =
      ((kDtypeOf<Ts> == dtype && (error = fn(TypeTag<Ts>()), true)) || ...);
  if (is_known) return error;
  std::string known;
  ((known += (known.empty() ? "" : ", ") + DtypeName(kDtypeOf<Ts>)), ...);
  return InvalidArgument(where, "one of the dtypes " + known, DtypeName(dtype));
}

// Refuses a buffer that has elements but no data.
inline xla::ffi::Error CheckData(const Place& where,
                                 xla::ffi::AnyBuffer buffer) {
  const Dimensions dims = buffer.dimensions();
  if (buffer.untyped_data() != nullptr ||
      std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return {};
  }
  return InvalidArgument(where, "data of shape " + ShapeText(dims), "null");
}

// Checks dtype, shape and data at once, because most results are like an
// operand.
inline xla::ffi::Error CheckLike(const Place& where, xla::ffi::AnyBuffer buffer,
                                 xla::ffi::AnyBuffer model,
                                 std::string_view reason) {
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, buffer, model.element_type(), reason));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckShape(where, buffer, model.dimensions(), reason));
  return CheckData(where, buffer);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CHECKS_H_
