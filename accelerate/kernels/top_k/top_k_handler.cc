#include "accelerate/kernels/top_k/top_k_handler.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/top_k/top_k.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.top_k";
constexpr int64_t kMaxLength = int64_t{1} << 31;  // indices are s32

ffi::Error Check(ffi::AnyBuffer x, ffi::AnyBuffer values,
                 ffi::AnyBuffer indices) {
  const Place where_x = {kOp, "operand x"},
              where_values = {kOp, "result values"},
              where_indices = {kOp, "result indices"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where_x, x, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where_values, values, x.element_type(), "like operand x"));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where_indices, indices, ffi::S32, "for indices"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where_values, values, 1));
  const auto dims = x.dimensions();
  const int64_t k = values.dimensions().back();
  if (dims.back() > kMaxLength || k > dims.back()) {
    return InvalidArgument(
        where_x,
        "a last axis of k = " + std::to_string(k) + " to 2^31 elements",
        "shape " + ShapeText(dims));
  }
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckShapeButLast(where_values, values, dims, k, "from operand x"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShape(
      where_indices, indices, values.dimensions(), "like result values"));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where_x, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where_values, values));
  return CheckData(where_indices, indices);
}

ffi::Error TopKImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                    ffi::Result<ffi::AnyBuffer> values,
                    ffi::Result<ffi::AnyBuffer> indices,
                    ffi::Dictionary attributes) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckNoAttributes(kOp, attributes));
  XLA_FFI_KIT_RETURN_IF_ERROR(Check(x, *values, *indices));
  const BatchShape shape = SplitLastAxis(x.dimensions());
  TopKProblem problem;
  problem.rows = shape.rows;
  problem.length = shape.length;
  problem.k = values->dimensions().back();
  problem.in = x.untyped_data();
  problem.values = values->untyped_data();
  problem.indices = static_cast<int32_t*>(indices->untyped_data());
  return DispatchDtype(
      KeyTypes(), x.element_type(), {kOp, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        if (ElementCount(*values) == 0) return {};
        problem.code = OrderedKey<T>(/*subnormals_are_zero=*/false);
        problem.is_bf16 = std::is_same_v<T, BFloat16>;
        const ScratchStatus status = TopK(problem, pool);
        if (status) return {};
        return ScratchExhausted(
            kOp, "to select " + std::to_string(problem.k) + " elements", status,
            "select fewer at a time");
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateTopKCpu, xla_ffi_kit::TopKImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // values
                                  .Ret<xla::ffi::AnyBuffer>()  // indices
                                  .Attrs());                   // none
