#include "accelerate/kernels/dot_general/dot_general.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "gtest/gtest.h"
#include "xla_ffi/testing/for_each_simd_target.h"
#include "xla_ffi/testing/threaded_pool.h"
// After for_each_simd_target.h.
#include "hwy/targets.h"

namespace xla_ffi_accelerate::dot_general {
namespace {

namespace testing = ::xla_ffi_kit::testing;

constexpr DotOrder kOrders[] = {DotOrder::kFma, DotOrder::kMultiplyAdd,
                                DotOrder::kEvenOddFma, DotOrder::kFmaThenZero,
                                DotOrder::kMultiplyAddThenZero};

// volatile: the compiler may otherwise make an FMA of a product and a sum.
template <typename T>
T Product(T x, T y) {
  const volatile T product = x * y;
  return product;
}

// With a product rounded first, unless `is_fused`.
template <typename T>
T AddProduct(T sum, T x, T y, bool is_fused) {
  return is_fused ? std::fma(x, y, sum) : sum + Product(x, y);
}

template <typename T>
T Want(DotOrder order, const std::vector<T>& x, const std::vector<T>& y,
       bool has_fma) {
  const bool is_fused = has_fma && order != DotOrder::kMultiplyAdd &&
                        order != DotOrder::kMultiplyAddThenZero;
  T sum = 0;
  size_t l = 0;
  if (order == DotOrder::kEvenOddFma) {
    T odd = 0;
    for (; l + 2 <= x.size(); l += 2) {
      sum = AddProduct(sum, x[l], y[l], is_fused);
      odd = AddProduct(odd, x[l + 1], y[l + 1], is_fused);
    }
    sum = sum + odd;
  }
  for (; l < x.size(); ++l) sum = AddProduct(sum, x[l], y[l], is_fused);
  return order >= DotOrder::kFmaThenZero ? sum + T(0) : sum;
}

// Operands whose dimensions lie in memory in the order that `lhs_order` and
// `rhs_order` give, outermost first: 0 batch, 1 rows, 2 columns.
template <typename T>
struct Case {
  Case(int64_t batch, int64_t m, int64_t k, int64_t n,
       const std::vector<int>& lhs_order, const std::vector<int>& rhs_order,
       std::mt19937_64& random)
      : count(batch),
        lhs(batch * m * k),
        rhs(batch * k * n),
        out(batch * m * n) {
    const auto fill = [&](std::vector<T>& values) {
      for (T& value : values) {
        value = static_cast<T>(std::normal_distribution<double>()(random));
      }
    };
    fill(lhs);
    fill(rhs);
    problem.m = m;
    problem.n = n;
    problem.k = k;
    const auto l = Strides(lhs_order, {batch, m, k});
    const auto r = Strides(rhs_order, {batch, k, n});
    problem.batch = {{batch, l[0], r[0]}};
    for (int64_t i = 0; i < m * k; ++i) {
      problem.lhs_offsets[i] = i / k * l[1] + i % k * l[2];
    }
    for (int64_t i = 0; i < k * n; ++i) {
      problem.rhs_offsets[i] = i / n * r[1] + i % n * r[2];
    }
    problem.lhs = lhs.data();
    problem.rhs = rhs.data();
    problem.rhs_size = batch * k * n;
    problem.out = out.data();
  }

  static std::vector<int64_t> Strides(const std::vector<int>& order,
                                      const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(3);
    int64_t stride = 1;
    for (int i = 2; i >= 0; --i) {
      strides[order[i]] = stride;
      stride *= sizes[order[i]];
    }
    return strides;
  }

  T WantAt(int64_t b, int64_t i, int64_t j, bool has_fma) const {
    std::vector<T> x, y;
    for (int64_t l = 0; l < problem.k; ++l) {
      x.push_back(lhs[b * problem.batch[0].lhs_stride +
                      problem.lhs_offsets[i * problem.k + l]]);
      y.push_back(rhs[b * problem.batch[0].rhs_stride +
                      problem.rhs_offsets[l * problem.n + j]]);
    }
    return Want(problem.order, x, y, has_fma);
  }

  void ExpectWanted(bool has_fma) const {
    for (int64_t b = 0; b < count; ++b) {
      for (int64_t i = 0; i < problem.m; ++i) {
        for (int64_t j = 0; j < problem.n; ++j) {
          const T want = WantAt(b, i, j, has_fma);
          const T got = out[(b * problem.m + i) * problem.n + j];
          if (std::isnan(want) && std::isnan(got)) continue;
          ASSERT_EQ(std::memcmp(&got, &want, sizeof(T)), 0)
              << problem.m << " x " << problem.k << " x " << problem.n
              << ", order " << static_cast<int>(problem.order) << ", [" << b
              << ", " << i << ", " << j << "]: " << got << ", not " << want;
        }
      }
    }
  }

  int64_t count;
  // Exactly as long as they are: a sanitizer sees what is read beyond.
  std::vector<T> lhs, rhs, out;
  DotProblem<T> problem;
};

bool HasFma() {
  constexpr int64_t kWithout =
      HWY_SSE2 | HWY_SSSE3 | HWY_SSE4 | HWY_EMU128 | HWY_SCALAR;
  return (hwy::SupportedTargets() & ~kWithout) != 0;
}

template <typename T>
class DotGeneralTest : public ::testing::Test {};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DotGeneralTest, Types);

TYPED_TEST(DotGeneralTest, EverySizeOrderAndLayout) {
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(1);
    const std::vector<int> layouts[] = {
        {0, 1, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}};
    int which = 0;
    for (int64_t m = 1; m <= kMaxDotSize; ++m) {
      for (int64_t k = 0; k <= kMaxDotSize; ++k) {
        for (int64_t n = 1; n <= kMaxDotSize; ++n) {
          ++which;
          Case<TypeParam> c(5, m, k, n, layouts[which % 4],
                            layouts[which / 4 % 4], random);
          for (const DotOrder order : kOrders) {
            c.problem.order = order;
            std::fill(c.out.begin(), c.out.end(), TypeParam(7));
            ASSERT_TRUE(DotGeneral<TypeParam>(c.problem, {}));
            ASSERT_NO_FATAL_FAILURE(c.ExpectWanted(HasFma()));
          }
        }
      }
    }
  });
}

TYPED_TEST(DotGeneralTest, EverySpecialInEveryPlace) {
  using Limits = std::numeric_limits<TypeParam>;
  testing::ForEachSimdTarget([] {
    std::mt19937_64 random(2);
    for (const TypeParam special :
         {Limits::quiet_NaN(), Limits::infinity(), Limits::max(),
          Limits::denorm_min(), -TypeParam(0)}) {
      for (size_t i = 0; i < 16; ++i) {
        Case<TypeParam> c(2, 4, 4, 4, {0, 1, 2}, {0, 1, 2}, random);
        c.lhs[i] = c.rhs[31 - i] = special;
        ASSERT_TRUE(DotGeneral<TypeParam>(c.problem, {}));
        ASSERT_NO_FATAL_FAILURE(c.ExpectWanted(HasFma()));
      }
    }
  });
}

#ifdef __SSE2__
// XLA's threads flush: a sum that is too small has its sign left.
TEST(DotGeneralBatchTest, SignsOfFlushedSums) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, subnormals are zero
  const double tiny = std::numeric_limits<double>::min();
  std::mt19937_64 random(4);
  for (const DotOrder order : kOrders) {
    Case<double> c(1, 4, 4, 3, {0, 1, 2}, {0, 1, 2}, random);
    std::fill(c.lhs.begin(), c.lhs.end(), -tiny);
    std::fill(c.rhs.begin(), c.rhs.end(), 0.01);
    c.problem.order = order;
    ASSERT_TRUE(DotGeneral<double>(c.problem, {}));
    for (const double sum : c.out) {
      EXPECT_EQ(sum, 0);
      EXPECT_EQ(std::signbit(sum), order < DotOrder::kFmaThenZero &&
                                       order != DotOrder::kMultiplyAdd &&
                                       HasFma())
          << static_cast<int>(order);
    }
  }
  _mm_setcsr(before);
}
#endif

TEST(DotGeneralBatchTest, ThreadsShareIt) {
  std::mt19937_64 random(3);
  for (const int64_t n : {3, 4, 7}) {
    Case<float> c(20'011, 4, 4, n, {0, 1, 2}, {1, 2, 0}, random);
    testing::ThreadedPool pool(3);
    ASSERT_TRUE(DotGeneral<float>(c.problem, pool));
    ASSERT_GT(pool.scheduled(), 0);
    ASSERT_NO_FATAL_FAILURE(c.ExpectWanted(HasFma()));
  }
}

// out[a, b] for a batch of two dimensions, each of one operand in another
// place, and a stride of 0.
TEST(DotGeneralBatchTest, DimensionsHaveStridesOfTheirOwn) {
  DotProblem<float> p;
  p.m = p.n = p.k = 1;
  p.lhs_offsets[0] = p.rhs_offsets[0] = 0;
  const std::vector<float> lhs = {1, 2, 3, 4, 5, 6}, rhs = {10, 100};
  std::vector<float> out(6);
  p.batch = {{3, 1, 0}, {2, 3, 1}};
  p.lhs = lhs.data();
  p.rhs = rhs.data();
  p.rhs_size = 2;
  p.out = out.data();
  ASSERT_TRUE(DotGeneral<float>(p, {}));
  EXPECT_EQ(out, (std::vector<float>{10, 400, 20, 500, 30, 600}));
  p.batch = {{0, 1, 0}, {2, 3, 1}};
  p.out = nullptr;
  ASSERT_TRUE(DotGeneral<float>(p, {}));
}

}  // namespace
}  // namespace xla_ffi_accelerate::dot_general
