// The CUDA kernels' work, run on the CPU for every thread of their launches and
// compared with the CPU kernels.

#include "xla_ffi/ops/rms_norm/rms_norm_row_work.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/row_work_runner.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the kernels' own work
using testing::Distance;
using testing::Largest;
using testing::RunLaunch;
using testing::RunRows;

template <typename T>
class RowWorkTest : public ::testing::Test {
 protected:
  using R = ComponentType<T>;
  using A = AccumulationType<T>;

  // The three ways to hold a row, short and long packs.
  template <int W>
  void ExpectLikeCpu(int64_t n, int64_t max_shared) {
    constexpr int64_t kRows = 3;
    constexpr double kEps = 1e-3;
    constexpr double kUnits = 8;
    const int64_t count = n * kComponents<T>;
    if (count % W != 0) return;
    const auto x = testing::RandomNormal<T>(kRows * n, 1);
    const auto ct = testing::RandomNormal<T>(kRows * n, 2);
    std::vector<T> y(x.size()), dx(x.size()), want_y(x.size()),
        want_dx(x.size());
    std::vector<A> scale(kRows), want_scale(kRows);

    RmsNormForward<T> cpu;
    cpu.x = x.data();
    cpu.y = want_y.data();
    cpu.scale = want_scale.data();
    cpu.n = n;
    cpu.rows_per_weight = kRows;
    cpu.eps = kEps;
    RmsNorm(cpu, 0, kRows);
    ForwardRows<R> forward = {AsComponents(x.data()),
                              AsComponents(y.data()),
                              scale.data(),
                              kRows,
                              count / W,
                              1.0 / static_cast<double>(n),
                              kEps};
    const int64_t bytes = count * static_cast<int64_t>(sizeof(R));
    RunLaunch<ForwardInRegisters<R, W>, ForwardWide<R, W>>(forward, bytes,
                                                           max_shared);
    EXPECT_LT(Distance(y, want_y, Largest(want_y)), kUnits)
        << n << " in packs of " << W;
    EXPECT_LT(Distance(scale, want_scale, Largest(want_scale)), kUnits)
        << n << " in packs of " << W;

    RmsNormBackward<T> cpu_back;
    cpu_back.scale = want_scale.data();
    cpu_back.x = x.data();
    cpu_back.ct = ct.data();
    cpu_back.dx = want_dx.data();
    cpu_back.n = n;
    cpu_back.rows_per_weight = kRows;
    RmsNormGradient(cpu_back, 0, kRows);
    BackwardRows<R> backward = {want_scale.data(),
                                AsComponents(x.data()),
                                AsComponents(ct.data()),
                                AsComponents(dx.data()),
                                kRows,
                                count / W,
                                1.0 / static_cast<double>(n),
                                A(kComponents<T> == 2 ? -1 : 1)};
    RunLaunch<BackwardInRegisters<R, W>, BackwardWide<R, W>>(
        backward, 2 * bytes, max_shared);
    // Of the terms: in a row of one element they cancel.
    const double terms = Largest(want_scale) * Largest(ct);
    EXPECT_LT(Distance(dx, want_dx, terms), kUnits)
        << n << " in packs of " << W;
  }
};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RowWorkTest, Types);

TYPED_TEST(RowWorkTest, EveryLengthIsLikeTheCpu) {
  constexpr int kFull = kPackWidth<ComponentType<TypeParam>>;
  for (const int64_t n : {1, 2, 3, 4, 7, 8, 16, 40, 63, 64, 250, 1000, 1024,
                          2047, 4096, 8192, 8200, 16384, 40000}) {
    for (const int64_t max_shared : {0, 227 * 1024}) {
      this->template ExpectLikeCpu<kFull>(n, max_shared);
      this->template ExpectLikeCpu<1>(n, max_shared);
    }
  }
}

TEST(RowNumbersTest, SumsOfLongRowsDoNotDrift) {
  const int64_t n = int64_t{1} << 22;
  const std::vector<float> x(static_cast<size_t>(n), 0.1f);
  std::vector<float> y(x.size());
  float scale = 0;
  const ForwardRows<float> args = {x.data(), y.data(), &scale, 1,
                                   n / 4,    1.0 / n,  0};
  RunRows<ForwardWide<float, 4>>(args, 1024, nullptr);
  EXPECT_NEAR(scale * 0.1f, 1.0, 2e-7);
}

TEST(RowNumbersTest, ReciprocalSqrtOfEveryMagnitude) {
  for (double value = 1e-300; value < 1e300; value *= 1e10) {
    EXPECT_DOUBLE_EQ(ReciprocalSqrt<double>(value), 1 / std::sqrt(value));
  }
  EXPECT_TRUE(std::isinf(ReciprocalSqrt<float>(0)));
  EXPECT_TRUE(std::isnan(ReciprocalSqrt<float>(std::nan(""))));
  EXPECT_EQ(ReciprocalSqrt<float>(INFINITY), 0);
}

}  // namespace
}  // namespace xla_ffi_kit
