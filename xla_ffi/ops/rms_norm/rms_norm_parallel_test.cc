#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/threaded_pool.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using testing::Magnitude;
using testing::Narrow;
using testing::RandomNormal;
using testing::ThreadedPool;
using testing::UnitRoundoff;
using testing::Wide;
using testing::Widen;

template <typename T>
class RmsNormParallelTest : public ::testing::Test {};
using Types = ::testing::Types<BFloat16, float, std::complex<double>>;
TYPED_TEST_SUITE(RmsNormParallelTest, Types);

struct Shape {
  int64_t rows, n;
};
// Rows divided among threads; few long rows, shared; one row; no row; dweight
// by rows and by columns.
constexpr Shape kShapes[] = {{3000, 257}, {3, 300000}, {1, 1 << 20},
                             {0, 7},      {40, 20000}, {5, 3}};

template <typename T>
void ExpectClose(const std::vector<T>& got, const std::vector<T>& want,
                 double magnitude) {
  const Wide tolerance = 64 * UnitRoundoff<T>() * magnitude;
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(Magnitude(Widen(got[i]) - Widen(want[i])), tolerance) << i;
  }
}

TYPED_TEST(RmsNormParallelTest, EveryDivisionGivesWhatOneThreadGives) {
  using T = TypeParam;
  using A = AccumulationType<T>;
  for (const auto [rows, n] : kShapes) {
    SCOPED_TRACE(n);
    const auto x = RandomNormal<T>(rows * n, 1);
    const auto ct = RandomNormal<T>(rows * n, 2);
    const auto weight = RandomNormal<T>(n, 3);
    std::vector<T> y[3], dx[3], dweight[3];
    std::vector<A> scale[3];
    for (const int64_t threads : {1, 2, 3}) {
      const int64_t k = threads - 1;
      y[k].resize(rows * n);
      dx[k].resize(rows * n);
      dweight[k].resize(n);
      scale[k].resize(rows);
      ThreadedPool pool(threads);
      RmsNormForwardArgs<T> forward;
      forward.x = x.data();
      forward.weight = weight.data();
      forward.y = y[k].data();
      forward.scale = scale[k].data();
      forward.rows = rows;
      forward.n = n;
      forward.rows_per_weight = rows;
      forward.eps = 1e-6;
      ParallelRmsNorm(pool, forward);
      ExpectClose(y[k], y[0], 8);
      ExpectClose(scale[k], scale[0], 8);

      RmsNormBackwardArgs<T> backward;
      backward.scale = scale[0].data();
      backward.x = x.data();
      backward.weight = weight.data();
      backward.ct = ct.data();
      backward.dx = dx[k].data();
      backward.rows = rows;
      backward.n = n;
      backward.rows_per_weight = rows;
      ParallelRmsNormBackward(pool, backward);
      ExpectClose(dx[k], dx[0], 32);

      std::fill(dx[k].begin(), dx[k].end(), Narrow<T>(0));
      backward.dweight = dweight[k].data();
      ParallelRmsNormBackward(pool, backward);
      ExpectClose(dx[k], dx[0], 32);
      ExpectClose(dweight[k], dweight[0], 10 * std::sqrt(rows + 1.0));
    }
    // And dweight is what the formula says.
    for (int64_t i = 0; i < n; i += 1 + n / 5) {
      testing::WideComplex want = 0;
      for (int64_t r = 0; r < rows; ++r) {
        want += Widen(x[r * n + i]) * Wide{scale[0][r]} * Widen(ct[r * n + i]);
      }
      EXPECT_LE(std::abs(Widen(dweight[2][i]) - want),
                64 * UnitRoundoff<T>() * std::sqrt(rows + 1.0L));
    }
  }
}

TEST(RmsNormPartsTest, CoverTheRow) {
  for (const int64_t n : {int64_t{1}, int64_t{65536}, int64_t{65537},
                          int64_t{1} << 31, (int64_t{1} << 40) + 5}) {
    const rms_norm_internal::Parts parts(n);
    EXPECT_EQ(parts.Begin(0), 0);
    EXPECT_EQ(parts.End(parts.count - 1), n);
    EXPECT_LT(parts.Begin(parts.count - 1), n);
    EXPECT_LE(parts.count, 4096);  // sums of 16 bytes: 64 KiB
  }
}

}  // namespace
}  // namespace xla_ffi_kit
