#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add_handler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "accelerate/kernels/select_and_scatter_add/select_and_scatter_add.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::select_and_scatter_add {
namespace {

namespace ffi = ::xla::ffi;

using Types = TypeList<float, double>;

constexpr Argument kArguments[] = {
    Operand("operand source").Rank(4).DtypeOf(1, "of operand operand"),
    Operand("operand operand").Rank(4).Of(Types()),
    Result("result").Like(1, "of operand operand"),
};
constexpr Attribute kAttributes[] = {
    Integer("is_min"),
    Integers("padding", 2).Between(0, kMaxPoolWindow),  // before, of operand
    Integers("strides", 2).Between(1, kMaxPoolSize),
    Integers("window", 2).Between(1, kMaxPoolWindow),
};
constexpr XlaFfiKit_Signature kSelectAndScatterAdd = MakeSignature(
    "xla_ffi_accelerate.select_and_scatter_add", kArguments, kAttributes);

// Checks what a signature cannot express: both operands have the same batch and
// channels.
ffi::Error CheckShapes(const Call& call) {
  const Dimensions operand = call.operand(1).dimensions();
  for (size_t i = 0; i < 2; ++i) {
    const Dimensions dims = call.operand(i).dimensions();
    if (std::max(dims[1], dims[2]) > kMaxPoolSize) {
      return call.Invalid(i, "spatial dimensions up to 2^30",
                          "shape " + ShapeText(dims));
    }
    if (dims[0] != operand[0] || dims[3] != operand[3]) {
      return call.Invalid(i,
                          "batch and channels of operand operand, of shape " +
                              ShapeText(operand),
                          "shape " + ShapeText(dims));
    }
  }
  return {};
}

ffi::Error RunSelectAndScatterAdd(const Call& call, const Executor& executor) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapes(call));
  const ffi::AnyBuffer result = call.result(0);
  if (ElementCount(result) == 0) return {};
  const Dimensions s = call.operand(0).dimensions(), o = result.dimensions();
  const auto window = call.Get<Dimensions>("window"),
             strides = call.Get<Dimensions>("strides"),
             padding = call.Get<Dimensions>("padding");
  Pool pool;
  pool.outer = o[0];
  pool.inner = o[3];
  pool.rows = {o[1], s[1], window[0], strides[0], padding[0]};
  pool.columns = {o[2], s[2], window[1], strides[1], padding[1]};
  pool.is_min = call.Get<int64_t>("is_min") != 0;
  AdviseHugePages(result.untyped_data(), SizeBytes(result));
  return call.Dispatch(Types(), 1, [&](auto tag) {
    using T = typename decltype(tag)::type;
    SelectAndScatterAdd(pool, call.In<T>(1), call.In<T>(0), call.Out<T>(0),
                        executor);
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateSelectAndScatterAddCpu,
    (Checked<kSelectAndScatterAdd, RunSelectAndScatterAdd>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateSelectAndScatterAddCpu,
                             kSelectAndScatterAdd);

}  // namespace xla_ffi_accelerate::select_and_scatter_add
