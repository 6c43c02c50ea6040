// How far results are from the exact ones, at any length and for inputs chosen
// to make sums go wrong.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/thread_sanitizer.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using testing::ForEachSimdTarget;
using testing::Wide;
using testing::Widen;

// In [-1, 1), a function of i alone.
double Uniform(int64_t i) {
  uint64_t bits = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 29)) * 0xbf58476d1ce4e5b9;
  return static_cast<double>(static_cast<int64_t>(bits ^ (bits >> 32))) *
         0x1p-63;
}

enum class Input { kUniform, kConstant, kOffset, kOneHuge, kTiny };
constexpr Input kInputs[] = {Input::kUniform, Input::kConstant, Input::kOffset,
                             Input::kOneHuge, Input::kTiny};

double Value(Input input, int64_t i) {
  switch (input) {
    case Input::kUniform:
      return Uniform(i);
    case Input::kConstant:  // the same rounding error in every addition
      return 1.1;
    case Input::kOffset:
      return 1000 + Uniform(i);
    case Input::kOneHuge:
      return i == 12345 ? 3e4 : Uniform(i);
    case Input::kTiny:  // squares are denormal floats
      return 1e-21 * Uniform(i);
  }
  return 0;
}

template <typename T>
T Element(Input input, int64_t i) {
  return T(static_cast<AccumulationType<T>>(Value(input, i)));
}

template <typename T>
std::vector<T> Row(Input input, int64_t n) {
  std::vector<T> row(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) row[i] = Element<T>(input, i);
  return row;
}

// The row, normalized in place; eps = 0.
template <typename T>
std::vector<T> Normalized(std::vector<T> row) {
  RmsNormForwardArgs<T> args;
  args.x = row.data();
  args.y = row.data();
  args.n = static_cast<int64_t>(row.size());
  RmsNorm(args, 0, 1);
  return row;
}

// A type that is exact compared with T. For floats, the most frequent case, it
// is double, whose error in sums of blocks, 1e-12, is far below theirs.
template <typename T>
using Exact = std::conditional_t<std::is_same_v<T, float>, double, Wide>;

template <typename T>
Exact<T> Exactly(T value) {
  return static_cast<Exact<T>>(static_cast<AccumulationType<T>>(value));
}

template <typename T>
Exact<T> ExactScale(const std::vector<T>& row) {
  const auto n = static_cast<int64_t>(row.size());
  // In blocks: a plain sum of 2^24 equal terms is off by 5e-14 even as Wide.
  Exact<T> power = 0;
  for (int64_t begin = 0; begin < n; begin += 4096) {
    Exact<T> block = 0;
    for (int64_t i = begin; i < std::min(begin + 4096, n); ++i) {
      const Exact<T> x = Exactly(row[i]);
      block += x * x;
    }
    power += block;
  }
  return 1 / std::sqrt(power / static_cast<Exact<T>>(n));
}

// The largest relative error of an output.
template <typename T>
double WorstError(Input input, int64_t n) {
  const std::vector<T> x = Row<T>(input, n), y = Normalized(x);
  const Exact<T> scale = ExactScale(x);
  Exact<T> worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Exact<T> want = Exactly(x[i]) * scale;
    if (want == 0) continue;
    worst = std::max(worst, std::abs(Exactly(y[i]) / want - 1));
  }
  return static_cast<double>(worst);
}

// The fraction of outputs that a neighbour would be nearer to.
template <typename T>
double WronglyRounded(Input input, int64_t n) {
  const std::vector<T> x = Row<T>(input, n), y = Normalized(x);
  const Wide scale = ExactScale(x);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Wide want = Exactly(x[i]) * scale;
    const auto distance = [&](int step) {
      const auto bits = static_cast<uint16_t>(y[i].bits() + step);
      return std::abs(Widen(T::FromBits(bits)).real() - want);
    };
    if (distance(0) > std::min(distance(1), distance(-1))) ++wrong;
  }
  return static_cast<double>(wrong) / static_cast<double>(n);
}

TEST(RmsNormAccuracyTest, FloatIsRightTo2e7AtAnyLength) {
  for (const Input input : kInputs) {
    SCOPED_TRACE(static_cast<int>(input));
    ForEachSimdTarget([&] {
      for (const int64_t n : {1, 7, 64, 1000, 4096, 65536, 1 << 20}) {
        EXPECT_LE(WorstError<float>(input, n), 2e-7) << n;
      }
    });
    if (testing::kIsThreadSanitizer) continue;
    EXPECT_LE(WorstError<float>(input, 1 << 26), 2e-7);
  }
}

TEST(RmsNormAccuracyTest, DoubleIsRightTo1e15AtAnyLength) {
  for (const Input input : kInputs) {
    SCOPED_TRACE(static_cast<int>(input));
    ForEachSimdTarget([&] {
      for (const int64_t n : {1, 7, 64, 1000, 65536, 1 << 20}) {
        EXPECT_LE(WorstError<double>(input, n), 1e-15) << n;
      }
    });
    if (testing::kIsThreadSanitizer) continue;
    EXPECT_LE(WorstError<double>(input, 1 << 24), 1e-15);
  }
}

TEST(RmsNormAccuracyTest, HalvesAreRoundedRight) {
  ForEachSimdTarget([] {
    // Lengths that are no squares: else exact results near ties abound.
    for (const int64_t n : {1009, 65521, 1000003}) {
      EXPECT_LE(WronglyRounded<BFloat16>(Input::kUniform, n), 1e-4) << n;
      EXPECT_LE(WronglyRounded<Float16>(Input::kUniform, n), 1e-4) << n;
      EXPECT_LE(WronglyRounded<BFloat16>(Input::kOneHuge, n), 1e-4) << n;
      EXPECT_LE(WronglyRounded<Float16>(Input::kOneHuge, n), 1e-4) << n;
    }
  });
}

#ifdef __SSE2__
// XLA's threads flush denormals to zero.
TEST(RmsNormAccuracyTest, HoldsWhereDenormalsAreFlushed) {
  const unsigned int control = _mm_getcsr();
  ForEachSimdTarget([&] {
    for (const Input input : kInputs) {
      _mm_setcsr(control | 0x8040);  // FTZ and DAZ
      const std::vector<float> y = Normalized(Row<float>(input, 5000));
      _mm_setcsr(control);
      EXPECT_EQ(y, Normalized(Row<float>(input, 5000)))
          << static_cast<int>(input);
    }
  });
}
#endif

}  // namespace
}  // namespace xla_ffi_kit
