#include "xla_ffi/ops/relu/relu.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "xla_ffi/ops/relu/relu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_kit::relu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Integers: the larger one; the bound is not needed.
struct IntegerBody {
  template <class V>
  HWY_INLINE V operator()(V v, V) const {
    return hn::Max(v, hn::Zero(hn::DFromV<V>()));
  }
};

// Floats, as signed integers: the patterns from -0.0 to -infinity are the
// lowest ones, above them come the NaNs with the sign set, which stay. So one
// comparison with -infinity serves, whatever the thread does with denormals.
struct FloatBody {
  template <class V>
  HWY_INLINE V operator()(V v, V minus_infinity) const {
    return hn::IfThenElseZero(hn::Gt(v, minus_infinity), v);
  }
};

template <class Body, typename Int>
HWY_INLINE void ForEach(const Int* x, size_t count, Int bound, Int* y,
                        const Body& body) {
  const hn::ScalableTag<Int> d;
  const size_t lanes = hn::Lanes(d);
  const auto b = hn::Set(d, bound);
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto v0 = body(hn::LoadU(d, x + i), b);
    const auto v1 = body(hn::LoadU(d, x + i + lanes), b);
    const auto v2 = body(hn::LoadU(d, x + i + 2 * lanes), b);
    const auto v3 = body(hn::LoadU(d, x + i + 3 * lanes), b);
    hn::StoreU(v0, d, y + i);
    hn::StoreU(v1, d, y + i + lanes);
    hn::StoreU(v2, d, y + i + 2 * lanes);
    hn::StoreU(v3, d, y + i + 3 * lanes);
  }
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(body(hn::LoadU(d, x + i), b), d, y + i);
  }
  if (i < count) {
    hn::StoreN(body(hn::LoadN(d, x + i, count - i), b), d, y + i, count - i);
  }
}

template <typename Int>
void ReluInteger(const Int* x, size_t count, Int* y) {
  ForEach(x, count, Int{0}, y, IntegerBody());
}

template <typename Int>
void ReluFloat(const Int* x, size_t count, Int minus_infinity, Int* y) {
  ForEach(x, count, minus_infinity, y, FloatBody());
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_kit::relu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_kit::relu {
namespace {

namespace ffi = ::xla::ffi;

template <typename T>
void Relu(const T* in, int64_t count, T* out) {
  const auto size = static_cast<size_t>(count);
  if constexpr (std::is_integral_v<T>) {
    HWY_EXPORT_T(Table, ReluInteger<T>);
    HWY_DYNAMIC_DISPATCH_T(Table)(in, size, out);
  } else {
    using Int = std::make_signed_t<BitsOf<T>>;
    HWY_EXPORT_T(Table, ReluFloat<Int>);
    HWY_DYNAMIC_DISPATCH_T(Table)
    (reinterpret_cast<const Int*>(in), size, kMinusInfinity<T>,
     reinterpret_cast<Int*>(out));
  }
}

ffi::Error Run(const ReluCall& call, const Executor& executor) {
  return call.Dispatch<x>([&](auto tag) {
    const auto* in = call.get<x>().as(tag);
    auto* out = call.get<y>().as(tag);
    ParallelFor(executor, call.get<x>().count(), 2 * sizeof(*in),
                [&](int64_t begin, int64_t end) noexcept {
                  Relu(in + begin, end - begin, out + begin);
                });
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitReluCpu, Checked<Run>, BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitReluCpu, ReluCall);

}  // namespace xla_ffi_kit::relu

#endif  // HWY_ONCE
