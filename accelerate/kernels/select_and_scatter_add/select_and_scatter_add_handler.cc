#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add_handler.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.select_and_scatter_add";

using Pair = ffi::Span<const int64_t>;

ffi::Error CheckImages(const Place& where, ffi::AnyBuffer images) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRank(where, images, 4));
  const Dimensions dims = images.dimensions();
  if (dims[1] > kMaxPoolSize || dims[2] > kMaxPoolSize) {
    return InvalidArgument(where, "spatial dimensions up to 2^30",
                           "shape " + ShapeText(dims));
  }
  return CheckData(where, images);
}

ffi::Error Check(ffi::AnyBuffer source, ffi::AnyBuffer operand,
                 ffi::AnyBuffer result, Pair window, Pair strides,
                 Pair padding) {
  const Place where_source = {kOp, "operand source"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckImages(where_source, source));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckImages({kOp, "operand operand"}, operand));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckDtype(
      where_source, source, operand.element_type(), "of operand operand"));
  const Dimensions s = source.dimensions(), o = operand.dimensions();
  if (s[0] != o[0] || s[3] != o[3]) {
    return InvalidArgument(
        where_source,
        "batch and channels of operand operand, of shape " + ShapeText(o),
        "shape " + ShapeText(s));
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kOp, "result"}, result, operand, "of operand operand"));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckPair({kOp, "attribute window"}, window, 1, kMaxPoolWindow));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckPair({kOp, "attribute strides"}, strides, 1, kMaxPoolSize));
  return CheckPair({kOp, "attribute padding"}, padding, 0, kMaxPoolWindow);
}

ffi::Error SelectAndScatterAddImpl(ffi::ThreadPool thread_pool,
                                   ffi::AnyBuffer source,
                                   ffi::AnyBuffer operand,
                                   ffi::Result<ffi::AnyBuffer> result,
                                   Pair window, Pair strides, Pair padding,
                                   int64_t is_min) {
  XLA_FFI_KIT_RETURN_IF_ERROR(
      Check(source, operand, *result, window, strides, padding));
  const Dimensions s = source.dimensions(), o = operand.dimensions();
  Pool pool;
  pool.outer = o[0];
  pool.inner = o[3];
  pool.rows = {o[1], s[1], window[0], strides[0], padding[0]};
  pool.columns = {o[2], s[2], window[1], strides[1], padding[1]};
  pool.is_min = is_min != 0;
  return DispatchDtype(
      TypeList<float, double>(), operand.element_type(),
      {kOp, "operand operand"}, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (ElementCount(*result) == 0) return ffi::Error();
        AdviseHugePages(result->untyped_data(), SizeBytes(*result));
        SelectAndScatterAdd(pool, static_cast<const T*>(operand.untyped_data()),
                            static_cast<const T*>(source.untyped_data()),
                            static_cast<T*>(result->untyped_data()),
                            thread_pool);
        return ffi::Error();
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateSelectAndScatterAddCpu,
    xla_ffi_kit::SelectAndScatterAddImpl,
    xla::ffi::Ffi::Bind()
        .Ctx<xla::ffi::ThreadPool>()
        .Arg<xla::ffi::AnyBuffer>()  // source
        .Arg<xla::ffi::AnyBuffer>()  // operand
        .Ret<xla::ffi::AnyBuffer>()  // result
        .Attr<xla::ffi::Span<const int64_t>>("window")
        .Attr<xla::ffi::Span<const int64_t>>("strides")
        .Attr<xla::ffi::Span<const int64_t>>("padding")  // before, of operand
        .Attr<int64_t>("is_min"));                       // 0 or 1
