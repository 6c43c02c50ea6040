#include "accelerate/kernels/cumlogsumexp/cumlogsumexp_handler.h"

#include "accelerate/kernels/cumlogsumexp/cumlogsumexp.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::cumlogsumexp {
namespace {

namespace ffi = ::xla::ffi;

using Types = TypeList<float, double>;

constexpr Argument kArguments[] = {
    Operand("operand x").Of(Types()).RankAtLeast(1),
    Result("result y").Like(0),
};
constexpr Attribute kAttributes[] = {Scalar<bool>("reverse")};  // from the end
constexpr XlaFfiKit_Signature kCumlogsumexp =
    MakeSignature("xla_ffi_accelerate.cumlogsumexp", kArguments, kAttributes);

ffi::Error RunCumlogsumexp(const Call& call, const Executor& executor) {
  const ffi::AnyBuffer y = call.result(0);
  if (ElementCount(y) == 0) return {};
  const BatchShape shape = SplitLastAxis(y.dimensions());
  return call.Dispatch(Types(), 0, [&](auto tag) {
    using T = typename decltype(tag)::type;
    CumlogsumexpProblem<T> problem;
    problem.rows = shape.rows;
    problem.length = shape.length;
    problem.reverse = call.Get<bool>("reverse");
    problem.in = call.In<T>(0);
    problem.out = call.Out<T>(0);
    AdviseHugePages(problem.out, SizeBytes(y));
    Cumlogsumexp(problem, executor);
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateCumlogsumexpCpu,
                              (Checked<kCumlogsumexp, RunCumlogsumexp>),
                              BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateCumlogsumexpCpu, kCumlogsumexp);

}  // namespace xla_ffi_accelerate::cumlogsumexp
