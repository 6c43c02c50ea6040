// RMS normalization whose handler checks its calls: docs/signatures.md.

#include <cmath>
#include <cstdint>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace {

namespace ffi = xla::ffi;
namespace kit = xla_ffi_kit;

constexpr auto x =
    kit::Operand{"x", kit::TypeList<float, double>(), "(..., n)"}.Where("n", 1);
constexpr kit::Result y{"y", x};  // like x
constexpr auto eps = kit::Attribute<double>{"eps"}.AtLeast(0);
constexpr char kName[] = "rms_norm_checked";
using RmsNormCall = kit::Call<kName, x, eps, y>;

template <typename T>
void NormalizeRow(T added, int64_t n, const T* in, T* out) {
  T squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += in[i] * in[i];
  const T scale = 1 / std::sqrt(squares / static_cast<T>(n) + added);
  for (int64_t i = 0; i < n; ++i) out[i] = scale * in[i];
}

ffi::Error Run(const RmsNormCall& call, const kit::Executor& executor) {
  return call.Dispatch<x>([&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = call.get<x>().as(tag);
    T* out = call.get<y>().as(tag);
    const auto added = static_cast<T>(call.get<eps>());
    const kit::BatchShape shape = kit::SplitLastAxis(call.get<x>().dims());
    const int64_t n = shape.length;
    kit::ParallelFor(executor, shape.rows, 2 * n * sizeof(T),
                     [&](int64_t begin, int64_t end) noexcept {
                       for (int64_t i = begin * n; i < end * n; i += n) {
                         NormalizeRow(added, n, in + i, out + i);
                       }
                     });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(RmsNormChecked, kit::Checked<Run>,
                              kit::BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(RmsNormChecked, RmsNormCall);
