#include "xla_ffi/ops/nonzero/nonzero_handler.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/ops/nonzero/nonzero.h"
#include "xla_ffi/ops/sort/handler_types.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_kit.nonzero";

ffi::Error Check(ffi::AnyBuffer mask, ffi::AnyBuffer indices, int64_t size,
                 int64_t fill) {
  ffi::Error e = CheckRankAtLeast({kOp, "operand mask"}, mask, 1);
  if (e.failure()) return e;
  e = CheckDtype({kOp, "operand mask"}, mask, ffi::DataType::PRED,
                 "for truth values");
  if (e.failure()) return e;
  const auto dims = mask.dimensions();
  const bool is_s32 = indices.element_type() == ffi::DataType::S32;
  if (!is_s32 && indices.element_type() != ffi::DataType::S64) {
    return InvalidArgument({kOp, "result indices"}, "dtype s32 or s64",
                           "dtype " + DtypeName(indices.element_type()));
  }
  if (is_s32 && dims.back() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument({kOp, "result indices"},
                           "dtype s64 for a row of 2^31 elements or more",
                           "dtype s32");
  }
  if (size < 0) {
    return InvalidArgument({kOp, "attribute size"}, "0 or more",
                           std::to_string(size));
  }
  if (is_s32 && fill != static_cast<int32_t>(fill)) {
    return InvalidArgument({kOp, "attribute fill"}, "a number of 32 bits",
                           std::to_string(fill));
  }
  std::vector<int64_t> want(dims.begin(), dims.end());
  want.back() = size;
  e = CheckShape({kOp, "result indices"}, indices, want,
                 "like operand mask, of which the last axis is size");
  if (e.success()) e = CheckData({kOp, "operand mask"}, mask);
  if (e.success()) e = CheckData({kOp, "result indices"}, indices);
  return e;
}

ffi::Error NonzeroImpl(ffi::ThreadPool pool, ffi::AnyBuffer mask,
                       ffi::Result<ffi::AnyBuffer> indices, int64_t size,
                       int64_t fill) {
  if (ffi::Error e = Check(mask, *indices, size, fill); e.failure()) return e;
  AdviseHugePages(indices->untyped_data(), indices->size_bytes());
  const BatchShape shape = SplitLastAxis(mask.dimensions());
  const auto* bytes = static_cast<const uint8_t*>(mask.untyped_data());
  const auto run = [&](auto* out) {
    using Index = std::remove_pointer_t<decltype(out)>;
    Nonzero(bytes, shape.rows, shape.length, size, static_cast<Index>(fill),
            out, WorkersOf(pool));
  };
  if (indices->element_type() == ffi::DataType::S32) {
    run(static_cast<int32_t*>(indices->untyped_data()));
  } else {
    run(static_cast<int64_t*>(indices->untyped_data()));
  }
  return {};
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitNonzeroCpu, xla_ffi_kit::NonzeroImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // mask
                                  .Ret<xla::ffi::AnyBuffer>()  // indices
                                  .Attr<int64_t>("size")       // of a row
                                  .Attr<int64_t>("fill"));  // of what is left
