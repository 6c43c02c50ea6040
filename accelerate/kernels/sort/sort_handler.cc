#include "accelerate/kernels/sort/sort_handler.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/sort/sort.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.sort";

ffi::Error CheckCounts(size_t operands, size_t results, int64_t num_keys) {
  if (operands == 0) {
    return InvalidArgument({kOp, "operands"}, "1 or more", "0");
  }
  if (results != operands) {
    return InvalidArgument({kOp, "results"},
                           std::to_string(operands) + ", one per operand",
                           std::to_string(results));
  }
  if (num_keys < 1 || num_keys > static_cast<int64_t>(operands)) {
    return InvalidArgument({kOp, "attribute num_keys"},
                           "1 to " + std::to_string(operands),
                           std::to_string(num_keys));
  }
  return {};
}

using PayloadTypes =
    TypeList<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
             uint32_t, uint64_t, Float16, BFloat16, float, double,
             std::complex<float>, std::complex<double>>;

ffi::Error CheckBuffers(const std::string& name, size_t i,
                        ffi::AnyBuffer operand, ffi::AnyBuffer first,
                        ffi::AnyBuffer result) {
  const Place where = {kOp, name};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, operand, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckShape(where, operand, first.dimensions(), "like operand 0"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where, operand));
  return CheckLike({kOp, "result " + std::to_string(i)}, result, operand,
                   "like " + name);
}

// Sets how keys of that dtype are ordered; of payload only bf16 matters.
ffi::Error SetCode(const std::string& name, bool is_key,
                   bool subnormals_are_zero, ffi::DataType dtype,
                   SortOperand* operand) {
  const auto set = [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_arithmetic_v<T> || sizeof(T) == 2) {
      operand->code = OrderedKey<T>(subnormals_are_zero);
    }
    operand->is_bf16 = std::is_same_v<T, BFloat16>;
    return ffi::Error();
  };
  return is_key ? DispatchDtype(KeyTypes(), dtype, {kOp, "key " + name}, set)
                : DispatchDtype(PayloadTypes(), dtype, {kOp, name}, set);
}

ffi::Error SortImpl(ffi::ThreadPool pool, ffi::RemainingArgs operands,
                    ffi::RemainingRets results, int64_t num_keys) {
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckCounts(operands.size(), results.size(), num_keys));
  XLA_FFI_KIT_ASSIGN_OR_RETURN(const auto first,
                               operands.get<ffi::AnyBuffer>(0));
  SortProblem problem;
  problem.operands.resize(operands.size());
  const bool subnormals_are_zero = SubnormalsAreZero();
  for (size_t i = 0; i < operands.size(); ++i) {
    XLA_FFI_KIT_ASSIGN_OR_RETURN(const auto operand,
                                 operands.get<ffi::AnyBuffer>(i));
    XLA_FFI_KIT_ASSIGN_OR_RETURN(auto result, results.get<ffi::AnyBuffer>(i));
    const std::string name = "operand " + std::to_string(i);
    SortOperand* const to = &problem.operands[i];
    XLA_FFI_KIT_RETURN_IF_ERROR(
        SetCode(name, static_cast<int64_t>(i) < num_keys, subnormals_are_zero,
                operand.element_type(), to));
    XLA_FFI_KIT_RETURN_IF_ERROR(CheckBuffers(name, i, operand, first, *result));
    to->in = operand.untyped_data();
    to->out = result->untyped_data();
    to->width = static_cast<int64_t>(ffi::ByteWidth(operand.element_type()));
    AdviseHugePages(to->out, SizeBytes(*result));
  }
  if (ElementCount(first) == 0) return {};
  const BatchShape shape = SplitLastAxis(first.dimensions());
  problem.rows = shape.rows;
  problem.length = shape.length;
  problem.num_keys = num_keys;
  const ScratchStatus status = Sort(problem, pool);
  if (status) return {};
  return ScratchExhausted(
      kOp, "to sort rows of " + std::to_string(shape.length) + " elements",
      status, "sort fewer at a time");
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateSortCpu, xla_ffi_kit::SortImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .RemainingArgs()              // operands, keys first
        .RemainingRets()              // each operand, sorted
        .Attr<int64_t>("num_keys"));  // how many operands are keys
