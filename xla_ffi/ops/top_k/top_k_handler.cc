#include "xla_ffi/ops/top_k/top_k_handler.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/ops/sort/handler_types.h"
#include "xla_ffi/ops/top_k/top_k.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.top_k";
constexpr int64_t kMaxLength = int64_t{1} << 31;  // indices are s32

ffi::Error CheckTypes(ffi::AnyBuffer x, ffi::AnyBuffer values,
                      ffi::AnyBuffer indices) {
  ffi::Error e = CheckRankAtLeast({kOp, "operand x"}, x, 1);
  if (e.failure()) return e;
  if (!KindOf(x.element_type()).has_value()) {
    return InvalidArgument({kOp, "operand x"},
                           "one of the dtypes pred, s8 to s64, u8 to u64, f16, "
                           "bf16, f32, f64",
                           DtypeName(x.element_type()));
  }
  e = CheckDtype({kOp, "result values"}, values, x.element_type(),
                 "like operand x");
  if (e.failure()) return e;
  return CheckDtype({kOp, "result indices"}, indices, ffi::DataType::S32,
                    "for indices");
}

ffi::Error CheckShapes(ffi::AnyBuffer x, ffi::AnyBuffer values,
                       ffi::AnyBuffer indices) {
  ffi::Error e = CheckRankAtLeast({kOp, "result values"}, values, 1);
  if (e.failure()) return e;
  const auto dims = x.dimensions();
  const int64_t k = values.dimensions().back();
  if (dims.back() > kMaxLength || k > dims.back()) {
    return InvalidArgument(
        {kOp, "operand x"},
        "a last axis of k = " + std::to_string(k) + " to 2^31 elements",
        "shape " + ShapeText(dims));
  }
  std::vector<int64_t> want(dims.begin(), dims.end());
  want.back() = k;
  e = CheckShape({kOp, "result values"}, values, want, "from operand x");
  if (e.failure()) return e;
  e = CheckShape({kOp, "result indices"}, indices, want, "like result values");
  if (e.success()) e = CheckData({kOp, "operand x"}, x);
  if (e.success()) e = CheckData({kOp, "result values"}, values);
  if (e.success()) e = CheckData({kOp, "result indices"}, indices);
  return e;
}

ffi::Error TopKImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                    ffi::Result<ffi::AnyBuffer> values,
                    ffi::Result<ffi::AnyBuffer> indices,
                    ffi::Dictionary attributes) {
  ffi::Error e = CheckNoAttributes(kOp, attributes);
  if (e.success()) e = CheckTypes(x, *values, *indices);
  if (e.failure()) return e;
  e = CheckShapes(x, *values, *indices);
  if (e.failure()) return e;
  const BatchShape shape = SplitLastAxis(x.dimensions());
  const TopKProblem problem = {
      shape.rows,
      shape.length,
      values->dimensions().back(),
      *KindOf(x.element_type()),
      static_cast<int64_t>(ffi::ByteWidth(x.element_type())),
      x.untyped_data(),
      values->untyped_data(),
      static_cast<int32_t*>(indices->untyped_data())};
  if (TopK(problem, WorkersOf(pool))) return {};
  return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                    std::string(kOp) + ": scratch: no memory to select " +
                        std::to_string(problem.k) +
                        " elements; select fewer at a time");
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitTopKCpu, xla_ffi_kit::TopKImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // values
                                  .Ret<xla::ffi::AnyBuffer>()  // indices
                                  .Attrs());                   // none
