#include <cstdint>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/output_pages.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward.h"
#include "xla_ffi/ops/rms_norm/rms_norm_calls.h"
#include "xla_ffi/ops/rms_norm/rms_norm_checks.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the handlers' own helpers

// dx and dweight, one weight after the other.
template <typename T>
void RunWithWeights(ffi::ThreadPool& pool, const RmsNormBackward<T>& args,
                    int64_t weights, T* dweight) {
  for (int64_t i = 0; i < weights; ++i) {
    const int64_t row = i * args.rows_per_weight;
    RmsNormBackward<T> of_weight = args;
    of_weight.scale += row;
    of_weight.x += row * args.n;
    of_weight.weight += i * args.n;
    of_weight.ct += row * args.n;
    if (args.ct_sum != nullptr) of_weight.ct_sum += row * args.n;
    of_weight.dx += row * args.n;
    ParallelRmsNormWeightGradient(pool, of_weight, args.rows_per_weight,
                                  dweight + i * args.n);
  }
}

ffi::Error Backward(ffi::ThreadPool& pool, const BackwardCall& call) {
  if (ffi::Error e = CheckBackward(call); e.failure()) return e;
  return DispatchDtype(
      FloatTypes(), call.x.element_type(), {call.operation, "operand x"},
      [&](auto tag) -> ffi::Error {
        using T = typename decltype(tag)::type;
        ffi::Error e = CheckScale<T>({call.operation, "operand scale"},
                                     call.scale, call.x);
        if (e.failure()) return e;
        const BatchShape shape = SplitLastAxis(call.x.dimensions());
        RmsNormBackward<T> args;
        args.scale = Data<const AccumulationType<T>>(call.scale);
        args.x = static_cast<const T*>(call.x.untyped_data());
        args.weight = Data<const T>(call.weight);
        args.ct = static_cast<const T*>(call.ct.untyped_data());
        args.ct_sum = Data<const T>(call.ct_sum);
        args.dx = static_cast<T*>(call.dx.untyped_data());
        args.n = shape.length;
        args.rows_per_weight = RowsPerWeight(shape.rows, call.weight);
        args.eps = call.eps;
        AdviseHugePages(args.dx, call.dx.size_bytes());
        if (call.dweight) {
          RunWithWeights(pool, args,
                         SplitLastAxis(call.weight->dimensions()).rows,
                         Data<T>(call.dweight));
        } else {
          ParallelRmsNormGradient(pool, args, shape.rows);
        }
        return {};
      });
}

using Handlers = BackwardHandlers<Backward, ffi::ThreadPool>;

template <int kOperands, int kResults>
auto Bind() {
  return BindBuffers<kOperands, kResults>(
      ffi::Ffi::Bind().Ctx<ffi::ThreadPool>());
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormGradCpu,
                              xla_ffi_kit::Handlers::Grad,
                              (xla_ffi_kit::Bind<2, 1>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu,
                              xla_ffi_kit::Handlers::Bwd,
                              (xla_ffi_kit::Bind<3, 1>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCpu,
                              xla_ffi_kit::Handlers::WeightBwd,
                              (xla_ffi_kit::Bind<4, 2>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightResidualBwdCpu,
                              xla_ffi_kit::Handlers::WeightResidualBwd,
                              (xla_ffi_kit::Bind<5, 2>()));
