#include "xla_ffi/ops/cumulative/cumulative_handler.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/ops/cumulative/cumulative.h"
#include "xla_ffi/ops/sort/handler_types.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.cumulative";

std::optional<CumulativeOp> OpOf(std::string_view name) {
  if (name == "sum") return CumulativeOp::kSum;
  if (name == "product") return CumulativeOp::kProduct;
  if (name == "max") return CumulativeOp::kMax;
  if (name == "min") return CumulativeOp::kMin;
  return std::nullopt;
}

bool IsCovered(ffi::DataType dtype, CumulativeOp op, bool reverse) {
  switch (dtype) {
    case ffi::DataType::F16:
    case ffi::DataType::BF16:
    case ffi::DataType::F32:
    case ffi::DataType::F64:
      return !reverse && op <= CumulativeOp::kProduct;
    case ffi::DataType::PRED:
      return false;
    default:
      return KindOf(dtype).has_value();
  }
}

ffi::Error CumulativeImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                          ffi::Result<ffi::AnyBuffer> y, int64_t axis,
                          std::string_view name, int64_t reverse) {
  const std::optional<CumulativeOp> op = OpOf(name);
  if (!op.has_value()) {
    return InvalidArgument({kOp, "attribute op"}, "sum, product, max or min",
                           name);
  }
  if (!IsCovered(x.element_type(), *op, reverse != 0)) {
    return InvalidArgument({kOp, "operand x"},
                           "one of the dtypes s8 to s64, u8 to u64; f16, bf16, "
                           "f32, f64 for a sum or a product from the front",
                           DtypeName(x.element_type()));
  }
  ffi::Error e = CheckAxis({kOp, "attribute axis"}, axis, x);
  if (e.failure()) return e;
  e = CheckData({kOp, "operand x"}, x);
  if (e.success()) e = CheckLike({kOp, "result y"}, *y, x, "like operand x");
  if (e.failure()) return e;
  AdviseHugePages(y->untyped_data(), y->size_bytes());
  const AxisShape shape = SplitAxis(x.dimensions(), axis);
  Cumulative({shape.outer, shape.length, shape.inner, *KindOf(x.element_type()),
              static_cast<int64_t>(ffi::ByteWidth(x.element_type())), *op,
              reverse != 0, x.untyped_data(), y->untyped_data()},
             WorkersOf(pool));
  return {};
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitCumulativeCpu, xla_ffi_kit::CumulativeImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .Arg<xla::ffi::AnyBuffer>()    // x
        .Ret<xla::ffi::AnyBuffer>()    // y
        .Attr<int64_t>("axis")         // of x
        .Attr<std::string_view>("op")  // "sum", "product", "max", "min"
        .Attr<int64_t>("reverse"));    // 1: from the end
