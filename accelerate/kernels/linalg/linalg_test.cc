#include "accelerate/kernels/linalg/linalg.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/kernels/linalg/linalg_handler.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/bad_frames.h"
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
class LinalgTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LinalgTest, Types);

TYPED_TEST(LinalgTest, FactorsMultiplyToTheMatrix) {
  using T = TypeParam;
  testing::ForEachSimdTarget([&] {
    for (int64_t n = 1; n <= kMaxMatrix; ++n) {
      for (const int64_t batch : {1, 16, 21}) {
        const auto a = Matrices<T>(batch, n, 1);
        std::vector<T> lu(a.size());
        std::vector<int32_t> pivots(batch * n, -1), rows(batch * n, -1);
        Lu(batch, n, a.data(), lu.data(), pivots.data(), rows.data(), {});
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
  const std::vector<T> a = {1, 5, 1, -2, 1, 3, 2, 4, 9};
  std::vector<T> lu(9);
  std::vector<int32_t> pivots(3), rows(3);
  Lu(1, 3, a.data(), lu.data(), pivots.data(), rows.data(), {});
  EXPECT_EQ(pivots, (std::vector<int32_t>{1, 1, 2}));
  EXPECT_EQ(rows, (std::vector<int32_t>{1, 0, 2}));
}

TYPED_TEST(LinalgTest, AColumnOfZerosIsLeft) {
  using T = TypeParam;
  const std::vector<T> a = {0, 1, 0, 2};
  std::vector<T> lu(4);
  std::vector<int32_t> pivots(2), rows(2);
  Lu(1, 2, a.data(), lu.data(), pivots.data(), rows.data(), {});
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
      Cholesky(batch, n, a.data(), l.data(), {});
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

TYPED_TEST(LinalgTest, EigenvectorsAreStretched) {
  using T = TypeParam;
  const double tolerance = 8 * kMaxMatrix * std::numeric_limits<T>::epsilon();
  testing::ForEachSimdTarget([&] {
    for (int64_t n = 1; n <= kMaxMatrix; ++n) {
      for (const bool is_lower : {false, true}) {
        const int64_t batch = 21;
        auto a = Matrices<T>(batch, n, 1);
        std::fill_n(a.begin(), 2 * n * n, T(0));  // matrix 1: all of them equal
        for (int64_t i = 0; i < n; ++i) a[(n + i) * n + i] = T(5);
        a[7 * n * n] = std::numeric_limits<T>::quiet_NaN();
        for (int64_t e = 0; e < n * n; ++e) {  // matrix 3: NaN where not read
          const bool is_there = e / n == e % n || (e / n > e % n) == is_lower;
          if (!is_there) a[3 * n * n + e] = a[7 * n * n];
        }
        std::vector<T> v(a.size()), w(batch * n);
        Eigh(batch, n, is_lower, a.data(), v.data(), w.data(), {});
        for (int64_t i = 0; i < batch; ++i) {
          const T *m = &a[i * n * n], *vectors = &v[i * n * n];
          for (int64_t k = 0; k < n; ++k) {
            const double value = w[i * n + k];
            if (i == 7) {
              ASSERT_TRUE(std::isnan(value) && std::isnan(vectors[k]));
              continue;
            }
            if (k > 0) {
              ASSERT_GE(value, w[i * n + k - 1]);
            }
            if (i == 1) {
              ASSERT_EQ(value, 5);
            }
            double length = 0;
            for (int64_t r = 0; r < n; ++r) {
              double sum = 0;
              for (int64_t c = 0; c < n; ++c) {
                const bool is_there = r == c || (r > c) == is_lower;
                sum += double{m[is_there ? r * n + c : c * n + r]} *
                       vectors[c * n + k];
              }
              ASSERT_NEAR(sum, value * vectors[r * n + k],
                          3 * static_cast<double>(n) * tolerance);
              length += double{vectors[r * n + k]} * vectors[r * n + k];
            }
            ASSERT_NEAR(length, 1, tolerance);
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
        SolveTriangular(p, a.data(), b.data(), x.data(), {});
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

class HandlerTest : public ::testing::Test {
 protected:
  std::vector<float> a_ = Matrices<float>(5, 3, 1);
  std::vector<float> out_ = std::vector<float>(45);
  std::vector<float> values_ = std::vector<float>(15);
  std::vector<int32_t> pivots_ = std::vector<int32_t>(15);
  std::vector<int32_t> rows_ = std::vector<int32_t>(15);
  const CallFrame::Dims dims_ = {5, 3, 3};

  CallFrame LuFrame() {
    return CallFrame()
        .Arg(a_, dims_)
        .Ret(out_, dims_)
        .Ret(pivots_, {5, 3})
        .Ret(rows_, {5, 3});
  }
  CallFrame EighFrame() {
    return CallFrame()
        .Arg(a_, dims_)
        .Ret(out_, dims_)
        .Ret(values_, {5, 3})
        .Attr("is_lower", int64_t{1});
  }
  CallFrame SolveFrame(CallFrame::Dims b) {
    return CallFrame()
        .Arg(a_, dims_)
        .Arg(a_, b)
        .Ret(out_, b)
        .Attr("is_left", int64_t{1})
        .Attr("is_lower", int64_t{1})
        .Attr("is_transposed", int64_t{0})
        .Attr("is_diagonal_one", int64_t{0});
  }
};

TEST_F(HandlerTest, RefuseWhatDoesNotFit) {
  const auto cholesky = [&](const CallFrame::Dims& dims) {
    return CallFrame()
        .Arg(a_, dims)
        .Ret(out_, dims)
        .Run(XlaFfiAccelerateLinalgCholeskyCpu)
        .message;
  };
  const std::string refused =
      "xla_ffi_accelerate.linalg_cholesky: operand a: expected square matrices "
      "of 1 to 16 rows, got shape ";
  EXPECT_EQ(cholesky({5, 9}), refused + "(5, 9)");
  a_.resize(17 * 17);
  out_.resize(17 * 17);
  EXPECT_EQ(cholesky({1, 16, 16}), "");
  EXPECT_EQ(cholesky({1, 17, 17}), refused + "(1, 17, 17)");
  EXPECT_EQ(
      SolveFrame({5, 2, 3})
          .Run(XlaFfiAccelerateLinalgTriangularSolveCpu)
          .message,
      "xla_ffi_accelerate.linalg_triangular_solve: operand b: expected shape "
      "(5, 3, 3) of rows of operand a, got shape (5, 2, 3)");
  auto values = EighFrame();
  values.rets()[1].dims = {5, 2};
  EXPECT_EQ(
      values.Run(XlaFfiAccelerateLinalgEighCpu).message,
      "xla_ffi_accelerate.linalg_eigh: result w: expected shape (5, 3) of the "
      "rows of operand a, got shape (5, 2)");
  auto frame = LuFrame();
  frame.rets()[1].dims = {5, 2};
  EXPECT_EQ(
      frame.Run(XlaFfiAccelerateLinalgLuCpu).message,
      "xla_ffi_accelerate.linalg_lu: result pivots: expected shape (5, 3) of "
      "the rows of operand a, got shape (5, 2)");
}

TEST_F(HandlerTest, RefuseBadFrames) {
  const CallFrame cholesky = CallFrame().Arg(a_, dims_).Ret(out_, dims_);
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateLinalgLuCpu, LuFrame());
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateLinalgCholeskyCpu, cholesky);
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateLinalgTriangularSolveCpu,
                                  SolveFrame({5, 3, 1}));
  testing::ExpectRefusesNullData(
      XlaFfiAccelerateLinalgLuCpu, LuFrame(), "xla_ffi_accelerate.linalg_lu",
      {"operand a", "result lu", "result pivots", "result permutation"});
  testing::ExpectRefusesBadFrames(XlaFfiAccelerateLinalgEighCpu, EighFrame());
  testing::ExpectRefusesNullData(XlaFfiAccelerateLinalgEighCpu, EighFrame(),
                                 "xla_ffi_accelerate.linalg_eigh",
                                 {"operand a", "result v", "result w"});
  testing::ExpectRefusesNullData(XlaFfiAccelerateLinalgTriangularSolveCpu,
                                 SolveFrame({5, 3, 1}),
                                 "xla_ffi_accelerate.linalg_triangular_solve",
                                 {"operand a", "operand b", "result x"});
}

TEST_F(HandlerTest, ThreadsGiveTheSame) {
  const int64_t batch = 20'003;
  auto a = Matrices<float>(batch, 4, 1);
  std::vector<float> lu(a.size());
  std::vector<int32_t> pivots(batch * 4), rows(batch * 4);
  const auto run = [&](int64_t threads) {
    return CallFrame()
        .Arg(a, {batch, 4, 4})
        .Ret(lu, {batch, 4, 4})
        .Ret(pivots, {batch, 4})
        .Ret(rows, {batch, 4})
        .Threads(threads)
        .Run(XlaFfiAccelerateLinalgLuCpu)
        .message;
  };
  EXPECT_EQ(run(1), "");
  const auto want = lu;
  EXPECT_EQ(run(3), "");
  EXPECT_EQ(lu, want);
}

}  // namespace
}  // namespace xla_ffi_accelerate::linalg
