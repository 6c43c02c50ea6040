#include "tempered.h"

#include <cmath>
#include <cstdint>

#include "xla_ffi/core/handler.h"

namespace author::tempered {
namespace {

namespace ffi = ::xla::ffi;

// Your kernel: plain C++. (The 16-bit types are computed in float.)
template <typename T>
void Kernel(const T* in, int64_t n, kit::AccumulationType<T> factor, T* out) {
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<kit::AccumulationType<T>>(in[i]);
    out[i] = static_cast<T>(v / (1 + std::exp(-factor * v)));
  }
}

// Gets calls that are what the keys say.
ffi::Error Run(const OpCall& call, const kit::Executor& executor) {
  return call.Dispatch<x>([&](auto tag) {
    const auto* in = call.get<x>().as(tag);
    auto* out = call.get<y>().as(tag);
    const double factor = call.get<beta>();
    kit::ParallelFor(executor, call.get<x>().count(), 2 * sizeof(*in),
                     [&](int64_t begin, int64_t end) noexcept {
                       Kernel(in + begin, end - begin, factor, out + begin);
                     });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(AuthorTemperedCpu, kit::Checked<Run>,
                              kit::BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(AuthorTemperedCpu, OpCall);

}  // namespace author::tempered
