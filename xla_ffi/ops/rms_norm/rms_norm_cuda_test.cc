// The CUDA kernels, run by the emulator and compared with the CPU's.

#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "cuda_runtime.h"
#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward.h"
#include "xla_ffi/ops/rms_norm/rms_norm_pack.h"
#include "xla_ffi/testing/cuda/emulator.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using testing::Device;
using testing::Distance;
using testing::Largest;

constexpr double kEps = 1e-3;
constexpr double kUnits = 8;

template <typename T>
class RmsNormCudaTest : public ::testing::Test {
 protected:
  using R = ComponentType<T>;
  using A = AccumulationType<T>;

  void TearDown() override { Device() = {}; }

  // In both orders of threads, for arrays that begin with a pack and that do
  // not.
  void ExpectLikeCpu(int64_t rows, int64_t n) {
    for (const bool is_backwards : testing::Orders()) {
      Device().is_backwards = is_backwards;
      for (const int64_t offset : {0, 1}) {
        SCOPED_TRACE(::testing::Message()
                     << rows << " rows of " << n << " from " << offset);
        ExpectForward(rows, n, offset);
        ExpectBackward(rows, n, offset);
      }
    }
  }

  // Leaves the CPU's scale.
  void ExpectForward(int64_t rows, int64_t n, int64_t offset) {
    const auto x = testing::RandomNormal<T>(offset + rows * n, 1);
    // In place, as it may be.
    std::vector<T> y = x, want_y = x;
    std::vector<A> got_scale(rows);
    scale.assign(rows, 0);
    RmsNormForward<T> cpu;
    cpu.x = x.data() + offset;
    cpu.y = want_y.data() + offset;
    cpu.scale = scale.data();
    cpu.n = n;
    cpu.rows_per_weight = rows;
    cpu.eps = kEps;
    RmsNorm(cpu, 0, rows);
    R* in_place = AsComponents(y.data() + offset);
    ASSERT_EQ(RmsNormCuda<R>({rows, n, kComponents<T>}, in_place, kEps,
                             in_place, got_scale.data(), nullptr),
              cudaSuccess);
    EXPECT_LT(Distance(y, want_y, Largest(want_y)), kUnits);
    EXPECT_LT(Distance(got_scale, scale, Largest(scale)), kUnits);
  }

  void ExpectBackward(int64_t rows, int64_t n, int64_t offset) {
    const auto x = testing::RandomNormal<T>(offset + rows * n, 1);
    const auto ct = testing::RandomNormal<T>(offset + rows * n, 2);
    std::vector<T> want_dx(x.size());
    RmsNormBackward<T> cpu;
    cpu.scale = scale.data();
    cpu.x = x.data() + offset;
    cpu.ct = ct.data() + offset;
    cpu.dx = want_dx.data() + offset;
    cpu.n = n;
    cpu.rows_per_weight = rows;
    RmsNormGradient(cpu, 0, rows);
    // In the place of x and in that of ct, as it may be; with the scale of the
    // forward, and without.
    for (const bool replaces_x : {false, true}) {
      std::vector<T> dx = replaces_x ? x : ct;
      std::copy_n(dx.begin(), offset, want_dx.begin());
      R* out = AsComponents(dx.data() + offset);
      ASSERT_EQ(
          RmsNormBackwardCuda<R>(
              {rows, n, kComponents<T>}, replaces_x ? scale.data() : nullptr,
              replaces_x ? out : AsComponents(x.data() + offset),
              replaces_x ? AsComponents(ct.data() + offset) : out, kEps, out,
              nullptr),
          cudaSuccess);
      // Of the terms: in a row of one element they cancel.
      const double terms = Largest(scale) * Largest(ct);
      EXPECT_LT(Distance(dx, want_dx, terms), kUnits);
    }
  }

  std::vector<A> scale;
};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RmsNormCudaTest, Types);

TYPED_TEST(RmsNormCudaTest, EveryLengthIsLikeTheCpu) {
  for (const int64_t n :
       {1, 2, 3, 4, 7, 8, 16, 40, 63, 64, 250, 1000, 1024, 2047, 4096, 8192}) {
    this->ExpectLikeCpu(3, n);
  }
}

TYPED_TEST(RmsNormCudaTest, RowsTooLongForRegistersAndForSharedMemory) {
  for (const int64_t n : {8200, 20000, 80000}) this->ExpectLikeCpu(2, n);
  // Too small for some types' clusters, too.
  Device().max_shared_bytes = 40 * 1024;
  this->ExpectLikeCpu(2, 16400);
  // A GPU without clusters.
  Device().major = 8;
  this->ExpectLikeCpu(2, 16400);
}

using LongRowsTest = RmsNormCudaTest<float>;

TEST_F(LongRowsTest, HaveAClusterWhereThereIsRoom) {
  const auto cluster = [this] {
    ExpectForward(3, 80000, 0);
    return testing::Launches().back().cluster;
  };
  EXPECT_EQ(cluster(), 2);
  Device().max_shared_bytes = 100 * 1024;
  EXPECT_EQ(cluster(), 4);
  Device().processors = 3;
  EXPECT_EQ(cluster(), 1);
  Device() = {};
  Device().major = 8;
  EXPECT_EQ(cluster(), 1);
}

// Rows of a part of a warp, of one and of several.
using ManyRowsTest = RmsNormCudaTest<float>;

TEST_F(ManyRowsTest, ShareABlock) {
  for (const int64_t n : {32, 512, 1000}) {
    const int64_t rows = n < 128 ? 1030 : 515;
    for (const bool is_backwards : testing::Orders()) {
      Device().is_backwards = is_backwards;
      ExpectForward(rows, n, 0);
      ExpectBackward(rows, n, 0);
      EXPECT_LT(testing::Launches().back().blocks, rows);
    }
  }
}

TEST(RmsNormCudaNumbersTest, SumsOfLongRowsDoNotDrift) {
  const int64_t n = int64_t{1} << 22;
  const std::vector<float> x(static_cast<size_t>(n), 0.1f);
  std::vector<float> y(x.size());
  float scale = 0;
  ASSERT_EQ(
      RmsNormCuda<float>({1, n, 1}, x.data(), 0, y.data(), &scale, nullptr),
      cudaSuccess);
  EXPECT_NEAR(scale * 0.1f, 1.0, 2e-7);
}

TEST(RmsNormCudaNumbersTest, ReciprocalSqrtOfEveryMagnitude) {
  using rms_norm_internal::ReciprocalSqrt;
  for (double value = 1e-300; value < 1e300; value *= 1e10) {
    EXPECT_DOUBLE_EQ(ReciprocalSqrt<double>(value), 1 / std::sqrt(value));
  }
  EXPECT_TRUE(std::isinf(ReciprocalSqrt<float>(0)));
  EXPECT_TRUE(std::isnan(ReciprocalSqrt<float>(std::nan(""))));
  EXPECT_EQ(ReciprocalSqrt<float>(INFINITY), 0);
}

}  // namespace
}  // namespace xla_ffi_kit
