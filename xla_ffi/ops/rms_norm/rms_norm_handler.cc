#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/attributes.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kForward = "xla_ffi_kit.rms_norm";
constexpr std::string_view kForwardScale = "xla_ffi_kit.rms_norm_fwd";
constexpr std::string_view kBackward = "xla_ffi_kit.rms_norm_bwd";

ffi::Error CheckX(std::string_view operation, ffi::AnyBuffer x) {
  const Place where = {operation, "operand x"};
  if (ffi::Error e = CheckRankAtLeast(where, x, 1); e.failure()) return e;
  return CheckLastAxisNotEmpty(where, x);
}

// The scale that the forward returns and the backward takes.
template <typename T>
ffi::Error CheckScale(const Place& where, ffi::AnyBuffer scale,
                      ffi::AnyBuffer x) {
  ffi::Error e = CheckDtype(where, scale, kDtypeOf<AccumulationType<T>>,
                            "to accumulate x's " + DtypeName(kDtypeOf<T>));
  if (e.failure()) return e;
  return CheckShape(where, scale, BatchAxes(x.dimensions()),
                    "like operand x without its last axis");
}

// Both forward handlers; `scale` is null where it is not wanted.
ffi::Error Forward(std::string_view operation, ffi::ThreadPool& pool,
                   ffi::AnyBuffer x, ffi::AnyBuffer y, ffi::AnyBuffer* scale,
                   const ffi::Dictionary& attributes) {
  const ffi::ErrorOr<double> eps =
      GetOnlyF64Attribute(operation, "eps", attributes);
  if (eps.has_error()) return eps.error();
  ffi::Error e = CheckFiniteNotNegative({operation, "attribute eps"}, *eps);
  if (e.failure()) return e;
  if (e = CheckX(operation, x); e.failure()) return e;
  e = CheckLike({operation, "result y"}, y, x, "like operand x");
  if (e.failure()) return e;

  return DispatchDtype(
      FloatTypes(), x.element_type(), {operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        using A = AccumulationType<T>;
        if (scale != nullptr) {
          ffi::Error e = CheckScale<T>({operation, "result scale"}, *scale, x);
          if (e.failure()) return e;
        }
        const BatchShape shape = SplitLastAxis(x.dimensions());
        const int64_t n = shape.length;
        const auto* in = static_cast<const T*>(x.untyped_data());
        auto* out = static_cast<T*>(y.untyped_data());
        auto* scales =
            scale == nullptr ? nullptr : static_cast<A*>(scale->untyped_data());
        const int64_t row_bytes = 2 * n * static_cast<int64_t>(sizeof(T));
        ParallelFor(
            pool, shape.rows, row_bytes, [&](int64_t begin, int64_t end) {
              RmsNorm(in + begin * n, end - begin, n, *eps, out + begin * n,
                      scales == nullptr ? nullptr : scales + begin);
            });
        return {};
      });
}

ffi::Error RmsNormImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                       ffi::Result<ffi::AnyBuffer> y,
                       ffi::Dictionary attributes) {
  return Forward(kForward, pool, x, *y, nullptr, attributes);
}

ffi::Error RmsNormFwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer x,
                          ffi::Result<ffi::AnyBuffer> y,
                          ffi::Result<ffi::AnyBuffer> scale,
                          ffi::Dictionary attributes) {
  return Forward(kForwardScale, pool, x, *y, &*scale, attributes);
}

ffi::Error RmsNormBwdImpl(ffi::ThreadPool pool, ffi::AnyBuffer scale,
                          ffi::AnyBuffer x, ffi::AnyBuffer ct,
                          ffi::Result<ffi::AnyBuffer> dx) {
  ffi::Error e = CheckX(kBackward, x);
  if (e.failure()) return e;
  e = CheckLike({kBackward, "operand ct"}, ct, x, "like operand x");
  if (e.failure()) return e;
  e = CheckLike({kBackward, "result dx"}, *dx, x, "like operand x");
  if (e.failure()) return e;

  return DispatchDtype(
      FloatTypes(), x.element_type(), {kBackward, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        using A = AccumulationType<T>;
        ffi::Error e = CheckScale<T>({kBackward, "operand scale"}, scale, x);
        if (e.failure()) return e;
        const BatchShape shape = SplitLastAxis(x.dimensions());
        const int64_t n = shape.length;
        const auto* scales = static_cast<const A*>(scale.untyped_data());
        const auto* in = static_cast<const T*>(x.untyped_data());
        const auto* cts = static_cast<const T*>(ct.untyped_data());
        auto* out = static_cast<T*>(dx->untyped_data());
        const int64_t row_bytes = 3 * n * static_cast<int64_t>(sizeof(T));
        ParallelFor(
            pool, shape.rows, row_bytes, [&](int64_t begin, int64_t end) {
              RmsNormBackward(scales + begin, in + begin * n, cts + begin * n,
                              end - begin, n, out + begin * n);
            });
        return {};
      });
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu, xla_ffi_kit::RmsNormImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormFwdCpu,
                              xla_ffi_kit::RmsNormFwdImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // scale
                                  .Attrs());                   // eps

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu,
                              xla_ffi_kit::RmsNormBwdImpl,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()    // scale
                                  .Arg<xla::ffi::AnyBuffer>()    // x
                                  .Arg<xla::ffi::AnyBuffer>()    // ct
                                  .Ret<xla::ffi::AnyBuffer>());  // dx
