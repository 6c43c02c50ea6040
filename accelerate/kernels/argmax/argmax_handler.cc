#include "accelerate/kernels/argmax/argmax_handler.h"

#include <cstdint>
#include <string>

#include "accelerate/core/ordered_key.h"
#include "accelerate/kernels/argmax/argmax.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::argmax {
namespace {

namespace ffi = ::xla::ffi;

constexpr int64_t kMaxLength = int64_t{1} << 31;

using IndexTypes = TypeList<int32_t, int64_t, uint32_t, uint64_t>;

constexpr Argument kArguments[] = {
    Operand("operand x").Of(KeyTypes()).RankAtLeast(1),
    Result("result indices")
        .Of(IndexTypes())
        .ShapeWithoutAxisOf(0, "axis", "of operand x without its axis"),
};
constexpr const char* kExtrema[] = {"max", "min"};
constexpr Attribute kAttributes[] = {Integer("axis").AxisOf(0),
                                     Word("of", kExtrema)};
constexpr XlaFfiKit_Signature kArgmax =
    MakeSignature("xla_ffi_accelerate.argmax", kArguments, kAttributes);

ffi::Error RunArgmax(const Call& call, const Executor& executor) {
  const Dimensions dims = call.operand(0).dimensions();
  const auto axis = call.Get<int64_t>("axis");
  const AxisShape shape = SplitAxis(dims, axis);
  if (shape.length < 1 || shape.length > kMaxLength) {
    return call.Invalid(0,
                        "1 to 2^31 elements along axis " + std::to_string(axis),
                        "shape " + ShapeText(dims));
  }
  const ffi::AnyBuffer indices = call.result(0);
  if (ElementCount(indices) == 0) return {};
  ArgmaxProblem problem;
  problem.outer = shape.outer;
  problem.length = shape.length;
  problem.inner = shape.inner;
  problem.is_min = call.WordOf("of") == 1;
  problem.subnormals_are_zero = SubnormalsAreZero();
  problem.in = call.In<void>(0);
  problem.out = call.Out<void>(0);
  problem.index_width = ffi::ByteWidth(indices.element_type());
  return call.Dispatch(KeyTypes(), 0, [&](auto tag) {
    Argmax<typename decltype(tag)::type>(problem, executor);
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateArgmaxCpu,
                              (Checked<kArgmax, RunArgmax>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateArgmaxCpu, kArgmax);

}  // namespace xla_ffi_accelerate::argmax
