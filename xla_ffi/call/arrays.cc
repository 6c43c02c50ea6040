#include "xla_ffi/call/arrays.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/call/buffers.h"
#include "xla_ffi/call/functions.h"
#include "xla_ffi/core/checks.h"

namespace xla_ffi_kit::call {
namespace {

namespace ffi = ::xla::ffi;

// What the function gets.
struct Arrays {
  std::vector<const void*> data;
  std::vector<int64_t> sizes;
};

ffi::Error AddBuffer(const Function& function, const char* what, size_t i,
                     const XLA_FFI_Buffer& buffer, const Parameter& parameter,
                     Arrays* arrays) {
  const int64_t own = parameter.num_sizes;
  if (buffer.dtype != static_cast<XLA_FFI_DataType>(parameter.dtype) ||
      buffer.rank < own) {
    const auto dtype = static_cast<ffi::DataType>(parameter.dtype);
    return Invalid(
        function, what + std::to_string(i),
        DtypeName(dtype) + " with at least " + std::to_string(own) + " axes",
        DtypeName(static_cast<ffi::DataType>(buffer.dtype)) +
            ShapeText(DimsOf(buffer)));
  }
  arrays->data.push_back(buffer.data);
  arrays->sizes.push_back(Rows(buffer, own));
  const int64_t* const end = buffer.dims + buffer.rank;
  arrays->sizes.insert(arrays->sizes.end(), end - own, end);
  return {};
}

// Takes an attribute from the front of `values`.
ffi::Error AddAttribute(const Function& function, const Parameter& parameter,
                        ffi::Span<const int64_t>* values, Arrays* arrays) {
  const int64_t* const at = values->begin();
  const size_t left = values->size();
  const bool fits = left >= 3 && at[0] == parameter.dtype && at[1] >= 0 &&
                    (parameter.num_sizes > 0 || at[1] == 1) && at[2] >= 0 &&
                    static_cast<size_t>(at[2]) <= left - 3;
  if (!fits) {
    return Invalid(function, "values", "attributes of the declared types",
                   "others");
  }
  arrays->data.push_back(at + 3);
  arrays->sizes.push_back(at[1]);
  const size_t taken = 3 + static_cast<size_t>(at[2]);
  *values = {at + taken, left - taken};
  return {};
}

}  // namespace

ffi::Error CallWithArrays(const Function& function, const Buffers& buffers,
                          const ffi::Dictionary& attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckCounts(function, buffers));
  ffi::Span<const int64_t> values;
  if (attributes.contains("values")) {
    const auto given = attributes.get<ffi::Span<const int64_t>>("values");
    if (!given.has_value()) return given.error();
    values = *given;
  }
  Arrays arrays;
  arrays.data.reserve(function.parameters.size());
  arrays.sizes.reserve(4 * function.parameters.size());
  size_t operands = 0, results = 0;
  for (const Parameter& parameter : function.parameters) {
    if (parameter.is_operand()) {
      XLA_FFI_KIT_RETURN_IF_ERROR(AddBuffer(function, "operand ", operands,
                                            buffers.operand(operands),
                                            parameter, &arrays));
      ++operands;
    } else if (parameter.is_result()) {
      XLA_FFI_KIT_RETURN_IF_ERROR(AddBuffer(function, "result ", results,
                                            buffers.result(results), parameter,
                                            &arrays));
      ++results;
    } else {
      XLA_FFI_KIT_RETURN_IF_ERROR(
          AddAttribute(function, parameter, &values, &arrays));
    }
  }
  auto* const call = reinterpret_cast<XlaFfiKit_ArraysFn*>(
      const_cast<void*>(function.address));
  if (call(arrays.data.data(), arrays.sizes.data()) == 0) return {};
  return {ffi::ErrorCode::kInternal, function.failure};
}

}  // namespace xla_ffi_kit::call
