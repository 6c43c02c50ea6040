#include "accelerate/kernels/cumlogsumexp/cumlogsumexp_handler.h"

#include <string_view>

#include "accelerate/kernels/cumlogsumexp/cumlogsumexp.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.cumlogsumexp";

ffi::Error CumlogsumexpImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                            ffi::Result<ffi::AnyBuffer> y, bool reverse) {
  const Place where = {kOp, "operand x"};
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRankAtLeast(where, x, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckData(where, x));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckLike({kOp, "result y"}, *y, x, "like operand x"));
  const BatchShape shape = SplitLastAxis(x.dimensions());
  return DispatchDtype(TypeList<float, double>(), x.element_type(), where,
                       [&](auto tag) {
                         using T = typename decltype(tag)::type;
                         if (ElementCount(x) == 0) return ffi::Error();
                         CumlogsumexpProblem<T> problem;
                         problem.rows = shape.rows;
                         problem.length = shape.length;
                         problem.reverse = reverse;
                         problem.in = static_cast<const T*>(x.untyped_data());
                         problem.out = static_cast<T*>(y->untyped_data());
                         AdviseHugePages(problem.out, SizeBytes(*y));
                         Cumlogsumexp(problem, pool);
                         return ffi::Error();
                       });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateCumlogsumexpCpu,
                              xla_ffi_kit::CumlogsumexpImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attr<bool>("reverse"));     // from the end
