#include "xla_ffi/ops/rms_norm/rms_norm.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/half.h"

namespace xla_ffi_kit {
namespace {

using Wide = long double;
using WideComplex = std::complex<Wide>;

template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};

template <typename T>
WideComplex Widen(T value) {
  if constexpr (IsComplex<T>::value) {
    return WideComplex(value.real(), value.imag());
  } else {
    return static_cast<Wide>(static_cast<AccumulationType<T>>(value));
  }
}

template <typename T>
T Narrow(std::complex<double> value) {
  using A = AccumulationType<T>;
  if constexpr (IsComplex<T>::value) {
    return T(static_cast<A>(value.real()), static_cast<A>(value.imag()));
  } else {
    return T(static_cast<A>(value.real()));
  }
}

// Half the distance of neighbouring values of T, relative to them.
template <typename T>
Wide UnitRoundoff() {
  if constexpr (std::is_same_v<T, Float16>) {
    return 0x1p-11L;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return 0x1p-8L;
  } else {
    return std::numeric_limits<AccumulationType<T>>::epsilon() / 2;
  }
}

template <typename T>
std::vector<T> Random(int64_t size, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(size);
  for (T& value : values) value = Narrow<T>({normal(engine), normal(engine)});
  return values;
}

template <typename T>
Wide ReferenceScale(const T* x, int64_t n, double eps) {
  Wide sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::norm(Widen(x[i]));
  return 1 / std::sqrt(sum / n + eps);
}

template <typename T>
class RmsNormTest : public ::testing::Test {};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RmsNormTest, Types);

template <typename T>
void ExpectForwardMatches(int64_t rows, int64_t n, double eps) {
  using A = AccumulationType<T>;
  const std::vector<T> x = Random<T>(rows * n, 17 + n);
  std::vector<T> y(rows * n);
  std::vector<A> scale(rows);
  RmsNorm(x.data(), rows, n, eps, y.data(), scale.data());
  // One rounding of the scale if it was computed in double for A = float, a
  // few if A is double itself; one of the product; one of the result.
  const Wide u = UnitRoundoff<T>(), a = UnitRoundoff<A>();
  const Wide of_scale = std::is_same_v<A, double> ? 4 * a : 1.1L * a;
  for (int64_t r = 0; r < rows; ++r) {
    const Wide expected = ReferenceScale(x.data() + r * n, n, eps);
    EXPECT_LE(std::abs(scale[r] - expected), of_scale * expected);
    for (int64_t i = r * n; i < (r + 1) * n; ++i) {
      const WideComplex want = Widen(x[i]) * expected;
      const Wide tolerance = (u + a + of_scale) * std::abs(want) + 0x1p-25L;
      EXPECT_LE(std::abs(Widen(y[i]) - want), tolerance) << n << ", " << i;
    }
  }
}

template <typename T>
void ExpectBackwardMatches(int64_t rows, int64_t n) {
  using A = AccumulationType<T>;
  const std::vector<T> x = Random<T>(rows * n, 19 + n);
  const std::vector<T> ct = Random<T>(rows * n, 23 + n);
  std::vector<T> y(rows * n), dx(rows * n);
  std::vector<A> scale(rows);
  RmsNorm(x.data(), rows, n, 1e-3, y.data(), scale.data());
  RmsNormBackward(scale.data(), x.data(), ct.data(), rows, n, dx.data());
  const Wide u = UnitRoundoff<T>(), a = UnitRoundoff<A>();
  for (int64_t r = 0; r < rows; ++r) {
    const Wide s = scale[r];
    Wide mean = 0;
    for (int64_t i = r * n; i < (r + 1) * n; ++i) {
      mean += (Widen(x[i]) * Widen(ct[i])).real() / n;
    }
    for (int64_t i = r * n; i < (r + 1) * n; ++i) {
      const WideComplex first = s * Widen(ct[i]);
      const WideComplex second = std::conj(Widen(x[i])) * s * s * s * mean;
      const WideComplex want = first - second;
      // The two terms may cancel: errors are relative to them.
      const Wide tolerance = u * std::abs(want) + 0x1p-25L +
                             8 * a * (std::abs(first) + std::abs(second));
      EXPECT_LE(std::abs(Widen(dx[i]) - want), tolerance) << n << ", " << i;
    }
  }
}

TYPED_TEST(RmsNormTest, ForwardMatchesTheFormulaAtEveryLength) {
  for (int64_t n = 1; n <= 70; ++n) ExpectForwardMatches<TypeParam>(3, n, 1e-6);
  for (const int64_t n : {1023, 1024, 1025, 4099, 100003}) {
    ExpectForwardMatches<TypeParam>(2, n, 1e-6);
  }
}

TYPED_TEST(RmsNormTest, BackwardMatchesTheFormulaAtEveryLength) {
  for (int64_t n = 1; n <= 70; ++n) ExpectBackwardMatches<TypeParam>(3, n);
  for (const int64_t n : {1023, 1024, 1025, 4099, 100003}) {
    ExpectBackwardMatches<TypeParam>(2, n);
  }
}

TYPED_TEST(RmsNormTest, EpsCountsInTheAccumulationType) {
  ExpectForwardMatches<TypeParam>(1, 5, 0.0);
  ExpectForwardMatches<TypeParam>(1, 5, 1e-300);
  ExpectForwardMatches<TypeParam>(1, 5, 0.123456789012345678);
}

TYPED_TEST(RmsNormTest, NoRowsAreNoWork) {
  RmsNorm<TypeParam>(nullptr, 0, 5, 1e-6, nullptr, nullptr);
  RmsNormBackward<TypeParam>(nullptr, nullptr, nullptr, 0, 5, nullptr);
}

TYPED_TEST(RmsNormTest, WorksInPlace) {
  using A = AccumulationType<TypeParam>;
  const auto x = Random<TypeParam>(2 * 37, 1), ct = Random<TypeParam>(74, 2);
  std::vector<A> scale(2);
  std::vector<TypeParam> y(74), in_place = x, dx(74), dx_in_place = ct;
  RmsNorm(x.data(), 2, 37, 1e-6, y.data(), scale.data());
  RmsNorm<TypeParam>(in_place.data(), 2, 37, 1e-6, in_place.data(), nullptr);
  RmsNormBackward(scale.data(), x.data(), ct.data(), 2, 37, dx.data());
  RmsNormBackward(scale.data(), x.data(), dx_in_place.data(), 2, 37,
                  dx_in_place.data());
  for (int64_t i = 0; i < 74; ++i) {
    EXPECT_EQ(Widen(in_place[i]), Widen(y[i]));
    EXPECT_EQ(Widen(dx_in_place[i]), Widen(dx[i]));
  }
}

TYPED_TEST(RmsNormTest, NanStaysInItsRow) {
  auto x = Random<TypeParam>(2 * 9, 3);
  x[4] = Narrow<TypeParam>(std::numeric_limits<double>::quiet_NaN());
  std::vector<TypeParam> y(18);
  RmsNorm<TypeParam>(x.data(), 2, 9, 1e-6, y.data(), nullptr);
  for (int64_t i = 0; i < 18; ++i) {
    EXPECT_EQ(std::isnan(Widen(y[i]).real()), i < 9) << i;
  }
}

TEST(RmsNormRangeTest, SquaresBeyondTheElementTypeDoNotOverflow) {
  std::vector<float> x = {2e19f, -2e30f, 3e-30f, 0.0f};
  std::vector<float> y(4);
  RmsNorm<float>(x.data(), 4, 1, 0.0, y.data(), nullptr);
  EXPECT_FLOAT_EQ(y[0], 1);
  EXPECT_FLOAT_EQ(y[1], -1);
  EXPECT_FLOAT_EQ(y[2], 1);
  EXPECT_TRUE(std::isnan(y[3]));  // 0 / 0

  std::vector<Float16> half = {Float16(60000.0f), Float16(60000.0f)};
  RmsNorm<Float16>(half.data(), 1, 2, 1e-6, half.data(), nullptr);
  EXPECT_EQ(static_cast<float>(half[0]), 1);
}

TEST(RmsNormRangeTest, InfinityGivesZerosAndNan) {
  std::vector<float> x = {1, std::numeric_limits<float>::infinity()};
  std::vector<float> y(2);
  RmsNorm<float>(x.data(), 1, 2, 1e-6, y.data(), nullptr);
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]));
}

}  // namespace
}  // namespace xla_ffi_kit
