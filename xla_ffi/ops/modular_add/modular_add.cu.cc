#include "xla_ffi/ops/modular_add/modular_add.h"

#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/cuda/handler.h"

namespace xla_ffi_kit::modular_add {
namespace {

namespace ffi = ::xla::ffi;

struct QuotientAndRemainder {
  uint64_t quotient;
  uint64_t remainder;
};

// A GPU divides 64-bit numbers in a hundred instructions, and 32-bit ones in
// twenty: the usual case is worth the test.
XLA_FFI_KIT_HOST_DEVICE constexpr QuotientAndRemainder Divide(uint64_t x,
                                                              uint64_t y) {
  if (((x | y) >> 32) == 0) {
    const auto low_x = static_cast<uint32_t>(x);
    const auto low_y = static_cast<uint32_t>(y);
    return {low_x / low_y, low_x % low_y};
  }
  return {x / y, x % y};
}
// Tests are too small to come here.
static_assert(Divide((uint64_t{1} << 40) + 5, 7).quotient == 157073089683);
static_assert(Divide((uint64_t{1} << 40) + 6, 7).remainder == 1);
static_assert(Divide(5, uint64_t{1} << 33).quotient == 0);
static_assert(Divide(5, uint64_t{1} << 33).remainder == 5);

// Integers are unsigned: they wrap around.
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline T AddElements(T left, T right) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(left + right);
  } else {
    return T(static_cast<float>(left) + static_cast<float>(right));
  }
}

// One thread's step: a[r, i] = b[r, i % n] + c[r, i] for rows of m elements of
// a and c and n of b; element numbers count through all rows.
template <typename T>
struct ModularAddPack {
  const T* b;
  int64_t n;
  const T* c;
  int64_t m;
  T* a;
  bool packs_of_b;  // no pack crosses the end of b's row, or of c's

  template <int N>
  XLA_FFI_KIT_HOST_DEVICE void operator()(int64_t first, Width<N>) const {
    const QuotientAndRemainder row = Divide(first, m);
    int64_t in_row = static_cast<int64_t>(row.remainder);
    int64_t in_b = static_cast<int64_t>(Divide(row.remainder, n).remainder);
    const T* b_row = b + static_cast<int64_t>(row.quotient) * n;
    Pack<T, N> pack = LoadPack<N>(c + first);
    if (packs_of_b) {
      const Pack<T, N> left = LoadPack<N>(b_row + in_b);
      for (int k = 0; k < N; ++k) {
        pack.values[k] = AddElements(left.values[k], pack.values[k]);
      }
    } else {
      for (int k = 0; k < N; ++k) {
        pack.values[k] = AddElements(b_row[in_b], pack.values[k]);
        ++in_row;
        ++in_b;
        if (in_row == m) {
          b_row += n;
          in_row = in_b = 0;
        } else if (in_b == n) {
          in_b = 0;
        }
      }
    }
    StorePack(pack, a + first);
  }
};

template <typename T>
cudaError_t ModularAdd(const T* left, int64_t n, const T* right, int64_t m,
                       int64_t rows, T* out, cudaStream_t stream) {
  ModularAddPack<T> step = {left, n, right, m, out, /*packs_of_b=*/true};
  if (!IsPackAligned(right) || !IsPackAligned(out)) {
    return LaunchElementwise<1>(rows * m, step, stream);
  }
  constexpr int kWidth = kPackWidth<T>;
  step.packs_of_b = n % kWidth == 0 && m % kWidth == 0 && IsPackAligned(left);
  return LaunchElementwise<kWidth>(rows * m, step, stream);
}

ffi::Error Run(const ModularAddCall& call, cudaStream_t stream) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckPeriod(call));
  if (call.get<c>().count() == 0) return {};
  return call.Dispatch<b>([&](auto tag) {
    using T = typename decltype(tag)::type;
    using R = Addend<T>;
    constexpr int64_t k = kComponents<T>;
    const BatchShape shape = SplitLastAxis(call.get<c>().dims());
    return CudaStatus(
        call.operation(),
        ModularAdd(static_cast<const R*>(call.get<b>().data()),
                   k * call.get<b>().dims().back(),
                   static_cast<const R*>(call.get<c>().data()),
                   k * shape.length, shape.rows,
                   static_cast<R*>(call.get<a>().data()), stream));
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitModularAddCuda, Checked<Run>,
                              BindCall<Run>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitModularAddCuda, ModularAddCall);

}  // namespace xla_ffi_kit::modular_add
