#include "accelerate/kernels/linalg/linalg.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate::linalg {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using testing::CallFrame;

template <typename T>
constexpr double kTolerance = std::is_same_v<T, float> ? 2e-4 : 1e-12;

// Well conditioned: a diagonal that dominates, in rows that `shift` rotates.
template <typename T>
std::vector<T> Matrices(int64_t batch, int64_t n, int64_t shift) {
  std::mt19937_64 random(n);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> a(batch * n * n);
  for (T& x : a) x = uniform(random);
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      a[(i * n + (j + shift * i) % n) * n + j] += static_cast<T>(2 * n);
    }
  }
  return a;
}

template <typename T>
void Lu(int64_t batch, int64_t n, std::vector<T>& a, std::vector<T>& lu,
        std::vector<int32_t>& pivots, std::vector<int32_t>& permutation,
        int64_t threads = 1) {
  ASSERT_EQ(CallFrame()
                .Arg(a, {batch, n, n})
                .Ret(lu, {batch, n, n})
                .Ret(pivots, {batch, n})
                .Ret(permutation, {batch, n})
                .Threads(threads)
                .Run(XlaFfiAccelerateLinalgLuCpu)
                .message,
            "");
}

template <typename T>
testing::Status Solve(const TriangularSolve& p, std::vector<T>& a,
                      std::vector<T>& b, std::vector<T>& x) {
  const CallFrame::Dims dims = {p.batch, p.is_left ? p.n : p.columns,
                                p.is_left ? p.columns : p.n};
  return CallFrame()
      .Arg(a, {p.batch, p.n, p.n})
      .Arg(b, dims)
      .Ret(x, dims)
      .Attr("is_left", int64_t{p.is_left})
      .Attr("is_lower", int64_t{p.is_lower})
      .Attr("is_transposed", int64_t{p.is_transposed})
      .Attr("is_diagonal_one", int64_t{p.is_diagonal_one})
      .Run(XlaFfiAccelerateLinalgTriangularSolveCpu);
}

template <typename T>
class LinalgTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinalgTest, Types);

TYPED_TEST(LinalgTest, FactorsMultiplyToTheMatrix) {
  using T = TypeParam;
  testing::ForEachSimdTarget([&] {
    for (int64_t n = 1; n <= kMaxMatrix; ++n) {
      for (const int64_t batch : {1, 16, 21}) {
        auto a = Matrices<T>(batch, n, 1);
        std::vector<T> lu(a.size());
        std::vector<int32_t> pivots(batch * n, -1), rows(batch * n, -1);
        Lu(batch, n, a, lu, pivots, rows);
        for (int64_t i = 0; i < batch; ++i) {
          const T* const f = &lu[i * n * n];
          for (int64_t r = 0; r < n; ++r) {
            ASSERT_GE(pivots[i * n + r], r);
            for (int64_t c = 0; c < n; ++c) {
              double sum = r <= c ? f[r * n + c] : 0;
              for (int64_t k = 0; k < std::min(r, c + 1); ++k) {
                sum += double{f[r * n + k]} * f[k * n + c];
              }
              ASSERT_NEAR(sum, (a[(i * n + rows[i * n + r]) * n + c]),
                          kTolerance<T>);
              if (c < r) {
                ASSERT_LE(std::abs(f[r * n + c]), T(1));
              }
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(LinalgTest, TheFirstOfEqualPivotsWins) {
  using T = TypeParam;
  std::vector<T> a = {1, 5, 1, -2, 1, 3, 2, 4, 9};
  std::vector<T> lu(9);
  std::vector<int32_t> pivots(3), rows(3);
  Lu(1, 3, a, lu, pivots, rows);
  EXPECT_EQ(pivots, (std::vector<int32_t>{1, 1, 2}));
  EXPECT_EQ(rows, (std::vector<int32_t>{1, 0, 2}));
}

TYPED_TEST(LinalgTest, AColumnOfZerosIsLeft) {
  using T = TypeParam;
  std::vector<T> a = {0, 1, 0, 2};
  std::vector<T> lu(4);
  std::vector<int32_t> pivots(2), rows(2);
  Lu(1, 2, a, lu, pivots, rows);
  EXPECT_EQ(lu, (std::vector<T>{0, 1, 0, 2}));
}

TYPED_TEST(LinalgTest, CholeskyFactorsMultiplyToTheMatrix) {
  using T = TypeParam;
  testing::ForEachSimdTarget([&] {
    for (int64_t n = 1; n <= kMaxMatrix; ++n) {
      const int64_t batch = 21;
      auto a = Matrices<T>(batch, n, 0);
      a[7 * n * n] = -1;  // matrix 7 is not positive definite
      std::vector<T> l(a.size());
      ASSERT_EQ(CallFrame()
                    .Arg(a, {batch, n, n})
                    .Ret(l, {batch, n, n})
                    .Run(XlaFfiAccelerateLinalgCholeskyCpu)
                    .message,
                "");
      for (int64_t i = 0; i < batch; ++i) {
        const T* const f = &l[i * n * n];
        for (int64_t r = 0; r < n; ++r) {
          for (int64_t c = 0; c < n; ++c) {
            if (i == 7) {
              ASSERT_TRUE(std::isnan(f[r * n + c]));
            } else if (c > r) {
              ASSERT_EQ(f[r * n + c], 0);
            } else {
              double sum = 0;
              for (int64_t k = 0; k <= c; ++k) {
                sum += double{f[r * n + k]} * f[c * n + k];
              }
              ASSERT_NEAR(sum, (a[(i * n + r) * n + c]), kTolerance<T>);
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(LinalgTest, SolutionsSolve) {
  using T = TypeParam;
  testing::ForEachSimdTarget([&] {
    for (int64_t n = 1; n <= kMaxMatrix; ++n) {
      for (int flags = 0; flags < 32; ++flags) {
        TriangularSolve p;
        p.batch = 19;
        p.n = n;
        p.columns = flags & 16 ? 70 : 3;  // in several parts
        p.is_left = flags & 1;
        p.is_lower = flags & 2;
        p.is_transposed = flags & 4;
        p.is_diagonal_one = flags & 8;
        auto a = Matrices<T>(p.batch, n, 0);
        if (p.is_diagonal_one) {
          for (T& x : a) x /= static_cast<T>(4 * n);
        }
        auto b = Matrices<T>(p.batch, n, 0);
        b.resize(p.batch * n * p.columns, T(1));
        std::vector<T> x(b.size());
        ASSERT_EQ(Solve(p, a, b, x).message, "");
        // The matrix that is meant.
        const auto element = [&](int64_t i, int64_t r, int64_t c) -> double {
          if (p.is_transposed) std::swap(r, c);
          if (r == c && p.is_diagonal_one) return 1;
          if (r != c && (r > c) != p.is_lower) return 0;
          return a[(i * n + r) * n + c];
        };
        for (int64_t i = 0; i < p.batch; ++i) {
          for (int64_t r = 0; r < n; ++r) {
            for (int64_t c = 0; c < p.columns; ++c) {
              const auto at = [&](int64_t k) {
                return i * n * p.columns +
                       (p.is_left ? k * p.columns + c : c * n + k);
              };
              double sum = 0;
              for (int64_t k = 0; k < n; ++k) {
                sum += (p.is_left ? element(i, r, k) : element(i, k, r)) *
                       x[at(k)];
              }
              ASSERT_NEAR(sum, b[at(r)], kTolerance<T>) << flags;
            }
          }
        }
      }
    }
  });
}

TEST(LinalgHandlerTest, RefusesOtherRowsThanAHas) {
  std::vector<float> a(9), b(6), x(6);
  const auto message = [&](const CallFrame::Dims& dims, int64_t left) {
    return CallFrame()
        .Arg(a, {3, 3})
        .Arg(b, dims)
        .Ret(x, dims)
        .Attr("is_left", left)
        .Attr("is_lower", int64_t{1})
        .Attr("is_transposed", int64_t{0})
        .Attr("is_diagonal_one", int64_t{1})
        .Run(XlaFfiAccelerateLinalgTriangularSolveCpu)
        .message;
  };
  EXPECT_EQ(message({3, 2}, 1), "");
  EXPECT_EQ(message({2, 3}, 0), "");
  const std::string refused =
      "xla_ffi_accelerate.linalg_triangular_solve: operand b: expected 3 ";
  EXPECT_EQ(message({2, 3}, 1),
            refused + "rows like operand a, got shape (2, 3)");
  EXPECT_EQ(message({3, 2}, 0),
            refused + "columns like operand a, got shape (3, 2)");
}

TEST(LinalgHandlerTest, ThreadsGiveTheSame) {
  const int64_t batch = 20'003;
  auto a = Matrices<float>(batch, 4, 1);
  std::vector<float> want(a.size()), got(a.size());
  std::vector<int32_t> pivots(batch * 4), rows(batch * 4);
  Lu(batch, 4, a, want, pivots, rows);
  Lu(batch, 4, a, got, pivots, rows, /*threads=*/3);
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace xla_ffi_accelerate::linalg
