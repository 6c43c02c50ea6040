#include "accelerate/kernels/nonzero/nonzero_handler.h"

#include <cstdint>
#include <limits>
#include <string>

#include "accelerate/kernels/nonzero/nonzero.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::nonzero {
namespace {

namespace ffi = ::xla::ffi;

using IndexTypes = TypeList<int32_t, int64_t>;

constexpr Argument kArguments[] = {
    Operand("operand mask").Of<bool>("for truth values").RankAtLeast(1),
    Result("result indices")
        .Of(IndexTypes())
        .ShapeButLastOf(
            0,
            "matching operand mask except in the last dimension, which is size",
            "size"),
};
constexpr Attribute kAttributes[] = {
    Integer("fill"),             // of what is left of a row
    Integer("size").AtLeast(0),  // of a row
};
constexpr XlaFfiKit_Signature kNonzero =
    MakeSignature("xla_ffi_accelerate.nonzero", kArguments, kAttributes);

// Whether 32 bits hold every index and `fill`.
ffi::Error CheckFits(const Call& call, int64_t length, int64_t fill) {
  if (length > std::numeric_limits<int32_t>::max()) {
    return call.Invalid(1, "dtype s64 for a row of 2^31 elements or more",
                        "dtype s32");
  }
  if (fill == static_cast<int32_t>(fill)) return {};
  return InvalidArgument({call.operation(), "attribute fill"},
                         "a number of 32 bits", std::to_string(fill));
}

ffi::Error RunNonzero(const Call& call, const Executor& executor) {
  const BatchShape shape = SplitLastAxis(call.operand(0).dimensions());
  const auto fill = call.Get<int64_t>("fill");
  const ffi::AnyBuffer indices = call.result(0);
  return call.Dispatch(IndexTypes(), 1, [&](auto tag) -> ffi::Error {
    using Index = typename decltype(tag)::type;
    if (sizeof(Index) == sizeof(int32_t)) {
      XLA_FFI_KIT_RETURN_IF_ERROR(CheckFits(call, shape.length, fill));
    }
    if (ElementCount(indices) == 0) return {};
    NonzeroProblem<Index> problem;
    problem.rows = shape.rows;
    problem.length = shape.length;
    problem.size = indices.dimensions().back();
    problem.fill = static_cast<Index>(fill);
    problem.mask = call.In<uint8_t>(0);
    problem.indices = call.Out<Index>(0);
    AdviseHugePages(problem.indices, SizeBytes(indices));
    Nonzero(problem, executor);
    return {};
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateNonzeroCpu,
                              (Checked<kNonzero, RunNonzero>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateNonzeroCpu, kNonzero);

}  // namespace xla_ffi_accelerate::nonzero
