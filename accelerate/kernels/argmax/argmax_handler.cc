#include "accelerate/kernels/argmax/argmax_handler.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/argmax/argmax.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.argmax";
constexpr int64_t kMaxLength = int64_t{1} << 31;

ffi::Error Check(ffi::AnyBuffer x, ffi::AnyBuffer indices, int64_t axis,
                 std::string_view of) {
  const Place where_x = {kOp, "operand x"},
              where_indices = {kOp, "result indices"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where_x, x, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckAxis({kOp, "attribute axis"}, axis, x));
  const auto dims = x.dimensions();
  if (dims[axis] < 1 || dims[axis] > kMaxLength) {
    return InvalidArgument(
        where_x, "1 to 2^31 elements along axis " + std::to_string(axis),
        "shape " + ShapeText(dims));
  }
  std::vector<int64_t> want(dims.begin(), dims.end());
  want.erase(want.begin() + axis);
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShape(where_indices, indices, want,
                                         "of operand x without its axis"));
  if (of != "max" && of != "min") {
    return InvalidArgument({kOp, "attribute of"}, "max or min", of);
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where_x, x));
  return CheckData(where_indices, indices);
}

ffi::Error ArgmaxImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                      ffi::Result<ffi::AnyBuffer> indices, int64_t axis,
                      std::string_view of) {
  XLA_FFI_KIT_RETURN_IF_ERROR(Check(x, *indices, axis, of));
  const AxisShape shape = SplitAxis(x.dimensions(), axis);
  ArgmaxProblem problem;
  problem.outer = shape.outer;
  problem.length = shape.length;
  problem.inner = shape.inner;
  problem.is_min = of == "min";
  problem.subnormals_are_zero = SubnormalsAreZero();
  problem.in = x.untyped_data();
  problem.out = indices->untyped_data();
  XLA_FFI_KIT_RETURN_IF_ERROR(DispatchDtype(
      TypeList<int32_t, int64_t, uint32_t, uint64_t>(), indices->element_type(),
      {kOp, "result indices"}, [&](auto tag) {
        problem.index_width = sizeof(typename decltype(tag)::type);
        return ffi::Error();
      }));
  return DispatchDtype(KeyTypes(), x.element_type(), {kOp, "operand x"},
                       [&](auto tag) {
                         if (ElementCount(*indices) == 0) return ffi::Error();
                         Argmax<typename decltype(tag)::type>(problem, pool);
                         return ffi::Error();
                       });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateArgmaxCpu, xla_ffi_kit::ArgmaxImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .Arg<xla::ffi::AnyBuffer>()      // x
        .Ret<xla::ffi::AnyBuffer>()      // indices
        .Attr<int64_t>("axis")           // of x
        .Attr<std::string_view>("of"));  // "max" or "min"
