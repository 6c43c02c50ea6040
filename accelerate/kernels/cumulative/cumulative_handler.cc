#include "accelerate/kernels/cumulative/cumulative_handler.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/cumulative/cumulative.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.cumulative";

std::optional<CumulativeOp> OpOf(std::string_view name) {
  if (name == "sum") return CumulativeOp::kSum;
  if (name == "product") return CumulativeOp::kProduct;
  if (name == "max") return CumulativeOp::kMax;
  if (name == "min") return CumulativeOp::kMin;
  return std::nullopt;
}

ffi::Error CumulativeImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                          ffi::Result<ffi::AnyBuffer> y, int64_t axis,
                          std::string_view name, int64_t reverse) {
  const std::optional<CumulativeOp> op = OpOf(name);
  if (!op.has_value()) {
    return InvalidArgument({kOp, "attribute op"}, "sum, product, max or min",
                           name);
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckAxis({kOp, "attribute axis"}, axis, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData({kOp, "operand x"}, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kOp, "result y"}, *y, x, "like operand x"));
  const AxisShape shape = SplitAxis(x.dimensions(), axis);
  CumulativeProblem problem;
  problem.outer = shape.outer;
  problem.length = shape.length;
  problem.inner = shape.inner;
  problem.op = *op;
  problem.reverse = reverse != 0;
  problem.subnormals_are_zero = SubnormalsAreZero();
  problem.in = x.untyped_data();
  problem.out = y->untyped_data();
  const auto run = [&](auto tag) {
    if (ElementCount(x) == 0) return ffi::Error();
    AdviseHugePages(y->untyped_data(), SizeBytes(*y));
    Cumulative<typename decltype(tag)::type>(problem, pool);
    return ffi::Error();
  };
  if (!problem.reverse || *op > CumulativeOp::kProduct) {
    return DispatchDtype(RealTypes(), x.element_type(), {kOp, "operand x"},
                         run);
  }
  return DispatchDtype(
      IntegerTypes(), x.element_type(),
      {kOp, "operand x (no float for a sum or a product from the end)"}, run);
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateCumulativeCpu, xla_ffi_kit::CumulativeImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .Arg<xla::ffi::AnyBuffer>()    // x
        .Ret<xla::ffi::AnyBuffer>()    // y
        .Attr<int64_t>("axis")         // of x
        .Attr<std::string_view>("op")  // "sum", "product", "max", "min"
        .Attr<int64_t>("reverse"));    // 1: from the end
