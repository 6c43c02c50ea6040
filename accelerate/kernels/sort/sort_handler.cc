#include "accelerate/kernels/sort/sort_handler.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/sort/sort.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::sort {
namespace {

namespace ffi = ::xla::ffi;

using PayloadTypes =
    TypeList<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
             uint32_t, uint64_t, Float16, BFloat16, float, double,
             std::complex<float>, std::complex<double>>;

constexpr Argument kArguments[] = {
    Operand("operand").Of(PayloadTypes()).RankAtLeast(1).ShapeOf(0).Repeated(),
    Result("result").Like(0).Repeated(),  // each operand, sorted
};
constexpr Attribute kAttributes[] = {
    Integer("num_keys").AtLeast(1),  // how many operands are keys, the first
};
constexpr XlaFfiKit_Signature kSort =
    MakeSignature("xla_ffi_accelerate.sort", kArguments, kAttributes);

// Sets how keys of that dtype are ordered; of payload only bf16 matters.
ffi::Error SetCode(const Call& call, size_t i, bool is_key,
                   bool subnormals_are_zero, SortOperand* operand) {
  const ffi::DataType dtype = call.operand(i).element_type();
  const auto set = [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_arithmetic_v<T> || sizeof(T) == 2) {
      operand->code = OrderedKey<T>(subnormals_are_zero);
    }
    operand->is_bf16 = std::is_same_v<T, BFloat16>;
    return ffi::Error();
  };
  if (!is_key) return call.Dispatch(PayloadTypes(), i, set);
  return DispatchDtype(KeyTypes(), dtype,
                       {call.operation(), "key " + call.NameOf(i)}, set);
}

ffi::Error RunSort(const Call& call, const Executor& executor) {
  const size_t operands = call.num_operands();
  const auto num_keys = call.Get<int64_t>("num_keys");
  if (num_keys > static_cast<int64_t>(operands)) {
    return InvalidArgument({call.operation(), "attribute num_keys"},
                           "1 to " + std::to_string(operands),
                           std::to_string(num_keys));
  }
  SortProblem problem;
  problem.operands.resize(operands);
  const bool subnormals_are_zero = SubnormalsAreZero();
  for (size_t i = 0; i < operands; ++i) {
    SortOperand* const to = &problem.operands[i];
    const bool is_key = static_cast<int64_t>(i) < num_keys;
    XLA_FFI_KIT_RETURN_IF_ERROR(
        SetCode(call, i, is_key, subnormals_are_zero, to));
    const ffi::AnyBuffer result = call.result(i);
    to->in = call.In<void>(i);
    to->out = call.Out<void>(i);
    to->width = static_cast<int64_t>(ffi::ByteWidth(result.element_type()));
    AdviseHugePages(to->out, SizeBytes(result));
  }
  const ffi::AnyBuffer first = call.operand(0);
  if (ElementCount(first) == 0) return {};
  const BatchShape shape = SplitLastAxis(first.dimensions());
  problem.rows = shape.rows;
  problem.length = shape.length;
  problem.num_keys = num_keys;
  const ScratchStatus status = Sort(problem, executor);
  if (status) return {};
  return ScratchExhausted(
      call.operation(),
      "to sort rows of " + std::to_string(shape.length) + " elements", status,
      "sort fewer at a time");
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateSortCpu,
                              (Checked<kSort, RunSort>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateSortCpu, kSort);

}  // namespace xla_ffi_accelerate::sort
