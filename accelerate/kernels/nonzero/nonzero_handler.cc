#include "accelerate/kernels/nonzero/nonzero_handler.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "accelerate/kernels/nonzero/nonzero.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.nonzero";

ffi::Error CheckMask(ffi::AnyBuffer mask, int64_t size) {
  const Place where = {kOp, "operand mask"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, mask, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, mask, ffi::PRED, "for truth values"));
  if (size >= 0) return CheckData(where, mask);
  return InvalidArgument({kOp, "attribute size"}, "0 or more",
                         std::to_string(size));
}

// Whether 32 bits hold every index and `fill`.
ffi::Error CheckFits(Dimensions dims, int64_t fill) {
  if (dims.back() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument({kOp, "result indices"},
                           "dtype s64 for a row of 2^31 elements or more",
                           "dtype s32");
  }
  if (fill == static_cast<int32_t>(fill)) return {};
  return InvalidArgument({kOp, "attribute fill"}, "a number of 32 bits",
                         std::to_string(fill));
}

ffi::Error NonzeroImpl(ffi::ThreadPool pool, ffi::AnyBuffer mask,
                       ffi::Result<ffi::AnyBuffer> indices, int64_t size,
                       int64_t fill) {
  const Place where = {kOp, "result indices"};
  const auto dims = mask.dimensions();
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckMask(mask, size));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapeButLast(
      where, *indices, dims, size,
      "matching operand mask except in the last dimension, which is size"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where, *indices));
  return DispatchDtype(
      TypeList<int32_t, int64_t>(), indices->element_type(), where,
      [&](auto tag) -> ffi::Error {
        using Index = typename decltype(tag)::type;
        if (sizeof(Index) == sizeof(int32_t)) {
          XLA_FFI_KIT_RETURN_IF_ERROR(CheckFits(dims, fill));
        }
        if (ElementCount(*indices) == 0) return {};
        const BatchShape shape = SplitLastAxis(dims);
        NonzeroProblem<Index> problem;
        problem.rows = shape.rows;
        problem.length = shape.length;
        problem.size = size;
        problem.fill = static_cast<Index>(fill);
        problem.mask = static_cast<const uint8_t*>(mask.untyped_data());
        problem.indices = static_cast<Index*>(indices->untyped_data());
        AdviseHugePages(problem.indices, SizeBytes(*indices));
        Nonzero(problem, pool);
        return {};
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateNonzeroCpu,
                              xla_ffi_kit::NonzeroImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // mask
                                  .Ret<xla::ffi::AnyBuffer>()  // indices
                                  .Attr<int64_t>("size")       // of a row
                                  .Attr<int64_t>("fill"));  // of what is left
