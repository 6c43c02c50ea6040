#include "xla_ffi/ops/isin/isin_handler.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/ops/isin/isin.h"
#include "xla_ffi/ops/sort/handler_types.h"
#include "xla_ffi/ops/sort/key_code.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.isin";

ffi::Error Check(ffi::AnyBuffer element, ffi::AnyBuffer test,
                 ffi::AnyBuffer is_in) {
  ffi::Error e = CheckRankAtLeast({kOp, "operand element"}, element, 1);
  if (e.failure()) return e;
  if (!KindOf(element.element_type()).has_value()) {
    return InvalidArgument({kOp, "operand element"},
                           "one of the dtypes pred, s8 to s64, u8 to u64, f16, "
                           "bf16, f32, f64",
                           DtypeName(element.element_type()));
  }
  e = CheckRankAtLeast({kOp, "operand test"}, test, 1);
  if (e.failure()) return e;
  e = CheckDtype({kOp, "operand test"}, test, element.element_type(),
                 "like operand element");
  if (e.failure()) return e;
  const auto dims = element.dimensions();
  std::vector<int64_t> want(dims.begin(), dims.end());
  want.back() = test.dimensions().back();
  e = CheckShape({kOp, "operand test"}, test, want,
                 "like operand element but for the last axis");
  if (e.failure()) return e;
  e = CheckDtype({kOp, "result is_in"}, is_in, ffi::DataType::PRED,
                 "for truth values");
  if (e.failure()) return e;
  e = CheckShape({kOp, "result is_in"}, is_in, dims, "like operand element");
  if (e.success()) e = CheckData({kOp, "operand element"}, element);
  if (e.success()) e = CheckData({kOp, "operand test"}, test);
  if (e.success()) e = CheckData({kOp, "result is_in"}, is_in);
  return e;
}

ffi::Error IsinImpl(ffi::ThreadPool pool, ffi::AnyBuffer element,
                    ffi::AnyBuffer test, ffi::Result<ffi::AnyBuffer> is_in,
                    ffi::Dictionary attributes) {
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.success()) e = Check(element, test, *is_in);
  if (e.failure()) return e;
  const BatchShape shape = SplitLastAxis(element.dimensions());
  const IsinProblem problem = {
      shape.rows, shape.length, test.dimensions().back(),
      *KindOf(element.element_type()),
      static_cast<int64_t>(ffi::ByteWidth(element.element_type())),
      // Asked here and not on each thread, so that all of them agree.
      SubnormalsAreZero(), element.untyped_data(), test.untyped_data(),
      static_cast<bool*>(is_in->untyped_data())};
  if (Isin(problem, WorkersOf(pool))) return {};
  return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                    std::string(kOp) + ": scratch: no memory for a table of " +
                        std::to_string(problem.tests) + " tests");
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitIsinCpu, xla_ffi_kit::IsinImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // element
                                  .Arg<xla::ffi::AnyBuffer>()  // test
                                  .Ret<xla::ffi::AnyBuffer>()  // is_in
                                  .Attrs());                   // none
