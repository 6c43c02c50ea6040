// The CUDA kernels that normalize rows, and their backward without dweight.
//
// Both reduce a row to a number or two, so that they share their kernels; what
// differs is a Row.

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/cuda/device.h"
#include "xla_ffi/ops/rms_norm/cuda/kernels.h"
#include "xla_ffi/ops/rms_norm/cuda/plan.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"

namespace xla_ffi_kit {
namespace rms_norm_internal {

// The operands beside x. kAny are those whose pointers are not null; a residual
// never comes without a weight.
enum class Operands { kAny, kNone, kWeight, kWeightAndResidual };

template <typename Vector, Operands kOperands>
struct ForwardRow {
  using V = Vector;
  using T = typename V::Element;
  using A = typename V::A;
  using In = Inputs<typename V::Bits>;
  using Args = Rows<RmsNormForwardArgs<T>>;
  using Terms = Sums<A, 1>;
  using Sum = Sums<double, 1>;  // of h^2
  static constexpr bool kIsAny = kOperands == Operands::kAny;
  static constexpr bool kHasWeight = kOperands >= Operands::kWeight;
  static constexpr bool kHasOther = kOperands == Operands::kWeightAndResidual;
  // x + other is what is normalized, and a result.
  static constexpr bool kAddsOther = kHasOther || kIsAny;
  // Vectors that a thread adds up in A; more of them might drift.
  static constexpr int kTerms = kMaxRegisterVectors;
  static constexpr int kUnrolled = 1;  // else it needs too many registers

  A scale;

  __device__ ForwardRow(const Args& args, int64_t, const Sum& power)
      : scale(ScaleOf(args, power.of[0])) {}

  __device__ static const T* Other(const Args& args) { return args.residual; }
  __device__ static const T* CtSum(const Args&) { return nullptr; }
  __device__ static T* Out(const Args& args) { return args.y; }

  // h = x + residual.
  __device__ static typename V::Bits Added(const In& in) {
    return V::Rounded(V::Sum(V::Widened(in.x), V::Widened(in.other)));
  }
  __device__ static Terms TermsOf(const Args&, const In& in) {
    const auto h = V::Widened(in.x);
    return {V::Dot(h, h)};
  }
  // y = (h * scale) * weight, in this order: h * weight may overflow.
  __device__ typename V::Bits Result(const Args& args, const In& in) const {
    auto y = V::Scaled(V::Widened(in.x), scale);
    if (kIsAny ? args.weight != nullptr : kHasWeight) {
      y = V::Product(y, V::Widened(in.weight));
    }
    return V::Rounded(y);
  }
  __device__ void Epilogue(const Args& args, int64_t row) const {
    if (args.scale != nullptr) args.scale[row] = scale;
  }
};

// kOperands is kAny or kNone, no weight and no ct_sum.
template <typename Vector, Operands kOperands>
struct BackwardRow {
  using V = Vector;
  using T = typename V::Element;
  using A = typename V::A;
  using In = Inputs<typename V::Bits>;
  using Args = Rows<RmsNormBackwardArgs<T>>;
  using Terms = Sums<A, 2>;
  using Sum = Sums<double, 2>;  // of x * g and x^2
  static constexpr bool kIsAny = kOperands == Operands::kAny;
  static constexpr bool kHasWeight = false, kHasOther = true;
  static constexpr bool kAddsOther = false;
  static constexpr int kTerms = 1;
  static constexpr int kUnrolled = kSharedVectors;

  A scale, mean;  // mean of x * g, times scale

  __device__ BackwardRow(const Args& args, int64_t row, const Sum& sums)
      : scale(args.scale != nullptr ? args.scale[row]
                                    : ScaleOf(args, sums.of[1])),
        mean(static_cast<A>(scale * (sums.of[0] * args.inverse_n))) {}

  __device__ static const T* Other(const Args& args) { return args.ct; }
  __device__ static const T* CtSum(const Args& args) { return args.ct_sum; }
  __device__ static T* Out(const Args& args) { return args.dx; }

  // g = weight * ct.
  __device__ static typename V::Wide G(const Args& args, const In& in) {
    const auto ct = V::Widened(in.other);
    return kIsAny && args.weight != nullptr
               ? V::Product(ct, V::Widened(in.weight))
               : ct;
  }
  __device__ static Terms TermsOf(const Args& args, const In& in) {
    const auto x = V::Widened(in.x);
    return {V::Dot(x, G(args, in)), V::Dot(x, x)};
  }
  __device__ typename V::Bits Result(const Args& args, const In& in) const {
    auto dx = V::Backward(V::Widened(in.x), G(args, in), scale, mean);
    if (kIsAny && args.ct_sum != nullptr) {
      dx = V::Sum(dx, V::Widened(in.ct_sum));
    }
    return V::Rounded(dx);
  }
  __device__ void Epilogue(const Args&, int64_t) const {}
};

}  // namespace rms_norm_internal

using rms_norm_internal::BackwardRow;
using rms_norm_internal::ForwardRow;
using rms_norm_internal::LaunchReadOnce;
using rms_norm_internal::LaunchReadTwice;
using rms_norm_internal::Operands;
using rms_norm_internal::WithVectors;

template <typename T>
cudaError_t RmsNormCuda(const RmsNormForwardArgs<T>& args,
                        cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const auto launch = [&](auto vectors, const auto& rows) {
    using V = decltype(vectors);
    using Any = ForwardRow<V, Operands::kAny>;
    if constexpr (V::kIsFull) {
      using Plain = ForwardRow<V, Operands::kNone>;
      using Weighted = ForwardRow<V, Operands::kWeight>;
      using Added = ForwardRow<V, Operands::kWeightAndResidual>;
      return args.weight == nullptr ? LaunchReadOnce<Plain, Any>(rows, stream)
             : args.residual == nullptr
                 ? LaunchReadOnce<Weighted, Any>(rows, stream)
                 : LaunchReadOnce<Added, Any>(rows, stream);
    } else {
      return LaunchReadTwice<Any>(rows, stream);
    }
  };
  return WithVectors(args, launch, args.x, args.weight, args.residual, args.y,
                     args.sum);
}

template <typename T>
cudaError_t RmsNormBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const auto launch = [&](auto vectors, const auto& rows) {
    using V = decltype(vectors);
    using Any = BackwardRow<V, Operands::kAny>;
    if constexpr (V::kIsFull) {
      if (args.weight == nullptr && args.ct_sum == nullptr) {
        using Plain = BackwardRow<V, Operands::kNone>;
        return LaunchReadOnce<Plain, Any>(rows, stream);
      }
    }
    return LaunchReadTwice<Any>(rows, stream);
  };
  return WithVectors(args, launch, args.x, args.ct, args.weight, args.ct_sum,
                     args.dx);
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                        \
  template cudaError_t RmsNormCuda(const RmsNormForwardArgs<T>&,          \
                                   cudaStream_t);                         \
  template cudaError_t RmsNormBackwardCuda(const RmsNormBackwardArgs<T>&, \
                                           cudaStream_t)
XLA_FFI_KIT_RMS_NORM_TYPES(XLA_FFI_KIT_INSTANTIATE);

}  // namespace xla_ffi_kit
