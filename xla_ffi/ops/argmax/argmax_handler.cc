#include "xla_ffi/ops/argmax/argmax_handler.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/ops/argmax/argmax.h"
#include "xla_ffi/ops/sort/handler_types.h"
#include "xla_ffi/ops/sort/key_code.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.argmax";
constexpr int64_t kMaxLength = int64_t{1} << 31;

ffi::Error Check(ffi::AnyBuffer x, ffi::AnyBuffer indices, int64_t axis) {
  ffi::Error e = CheckRankAtLeast({kOp, "operand x"}, x, 1);
  if (e.failure()) return e;
  if (!KindOf(x.element_type()).has_value()) {
    return InvalidArgument({kOp, "operand x"},
                           "one of the dtypes pred, s8 to s64, u8 to u64, f16, "
                           "bf16, f32, f64",
                           DtypeName(x.element_type()));
  }
  const auto dims = x.dimensions();
  e = CheckAxis({kOp, "attribute axis"}, axis, x);
  if (e.failure()) return e;
  if (dims[axis] < 1 || dims[axis] > kMaxLength) {
    return InvalidArgument(
        {kOp, "operand x"},
        "1 to 2^31 elements along axis " + std::to_string(axis),
        "shape " + ShapeText(dims));
  }
  switch (indices.element_type()) {
    case ffi::DataType::S32:
    case ffi::DataType::S64:
    case ffi::DataType::U32:
    case ffi::DataType::U64:
      break;
    default:
      return InvalidArgument({kOp, "result indices"},
                             "one of the dtypes s32, s64, u32, u64",
                             DtypeName(indices.element_type()));
  }
  std::vector<int64_t> want(dims.begin(), dims.end());
  want.erase(want.begin() + axis);
  e = CheckShape({kOp, "result indices"}, indices, want,
                 "of operand x without its axis");
  if (e.success()) e = CheckData({kOp, "operand x"}, x);
  if (e.success()) e = CheckData({kOp, "result indices"}, indices);
  return e;
}

ffi::Error ArgmaxImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                      ffi::Result<ffi::AnyBuffer> indices, int64_t axis,
                      std::string_view of) {
  if (ffi::Error e = Check(x, *indices, axis); e.failure()) return e;
  if (of != "max" && of != "min") {
    return InvalidArgument({kOp, "attribute of"}, "max or min", of);
  }
  const AxisShape shape = SplitAxis(x.dimensions(), axis);
  const auto index_width =
      static_cast<int64_t>(ffi::ByteWidth(indices->element_type()));
  Argmax({shape.outer, shape.length, shape.inner, *KindOf(x.element_type()),
          static_cast<int64_t>(ffi::ByteWidth(x.element_type())), of == "min",
          SubnormalsAreZero(), x.untyped_data(), index_width,
          indices->untyped_data()},
         WorkersOf(pool));
  return {};
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitArgmaxCpu, xla_ffi_kit::ArgmaxImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .Arg<xla::ffi::AnyBuffer>()      // x
        .Ret<xla::ffi::AnyBuffer>()      // indices
        .Attr<int64_t>("axis")           // of x
        .Attr<std::string_view>("of"));  // "max" or "min"
