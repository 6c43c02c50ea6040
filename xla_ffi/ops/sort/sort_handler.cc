#include "xla_ffi/ops/sort/sort_handler.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/ops/sort/handler_types.h"
#include "xla_ffi/ops/sort/key_code.h"
#include "xla_ffi/ops/sort/sort.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.sort";

bool IsPayload(ffi::DataType dtype) {
  return KindOf(dtype).has_value() || dtype == ffi::DataType::C64 ||
         dtype == ffi::DataType::C128;
}

ffi::Error CheckCounts(size_t operands, size_t results, int64_t num_keys) {
  if (operands == 0)
    return InvalidArgument({kOp, "operands"}, "1 or more", "0");
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

ffi::Error CheckOperand(size_t i, bool is_key, ffi::AnyBuffer operand,
                        ffi::AnyBuffer first, ffi::AnyBuffer result) {
  const std::string name = "operand " + std::to_string(i);
  const Place where = {kOp, name};
  if (ffi::Error e = CheckRankAtLeast(where, operand, 1); e.failure()) return e;
  ffi::Error e =
      CheckShape(where, operand, first.dimensions(), "like operand 0");
  if (e.failure()) return e;
  const ffi::DataType dtype = operand.element_type();
  if (is_key ? !KindOf(dtype).has_value() : !IsPayload(dtype)) {
    return InvalidArgument(
        where,
        std::string("one of the dtypes pred, s8 to s64, u8 to u64, f16, bf16, "
                    "f32, f64") +
            (is_key ? " for a key" : ", c64, c128"),
        DtypeName(dtype));
  }
  if (e = CheckData(where, operand); e.failure()) return e;
  return CheckLike({kOp, "result " + std::to_string(i)}, result, operand,
                   "like " + name);
}

ffi::Error SortImpl(ffi::ThreadPool pool, ffi::RemainingArgs operands,
                    ffi::RemainingRets results, int64_t num_keys) {
  ffi::Error e = CheckCounts(operands.size(), results.size(), num_keys);
  if (e.failure()) return e;
  const auto first = operands.get<ffi::AnyBuffer>(0);
  if (first.has_error()) return first.error();
  SortProblem problem;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto operand = operands.get<ffi::AnyBuffer>(i);
    if (operand.has_error()) return operand.error();
    auto result = results.get<ffi::AnyBuffer>(i);
    if (result.has_error()) return result.error();
    const bool is_key = static_cast<int64_t>(i) < num_keys;
    e = CheckOperand(i, is_key, *operand, *first, **result);
    if (e.failure()) return e;
    AdviseHugePages((*result)->untyped_data(), (*result)->size_bytes());
    problem.operands.push_back(
        {static_cast<int64_t>(ffi::ByteWidth(operand->element_type())),
         operand->untyped_data(), (*result)->untyped_data(),
         KindOf(operand->element_type()).value_or(KeyKind::kUnsigned)});
  }
  const BatchShape shape = SplitLastAxis(first->dimensions());
  problem.rows = shape.rows;
  problem.length = shape.length;
  problem.num_keys = num_keys;
  // Asked here and not on each thread, so that all of them agree.
  problem.subnormals_are_zero = SubnormalsAreZero();
  if (Sort(problem, WorkersOf(pool))) return {};
  return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                    std::string(kOp) + ": scratch: no memory to sort rows of " +
                        std::to_string(shape.length) +
                        " elements; sort fewer at a time");
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitSortCpu, xla_ffi_kit::SortImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .RemainingArgs()              // operands, keys first
        .RemainingRets()              // each operand, sorted
        .Attr<int64_t>("num_keys"));  // how many operands are keys
