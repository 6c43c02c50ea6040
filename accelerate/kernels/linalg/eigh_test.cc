// Eigenvalues and eigenvectors against Jacobi's rotations in long double,
// whose exponents hold the squares of all doubles.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "accelerate/kernels/linalg/linalg.h"
#include "gtest/gtest.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_accelerate::linalg {
namespace {

namespace testing = ::xla_ffi_kit::testing;

using Wide = long double;

// The eigenvalues of a[n, n], rising.
std::vector<Wide> Values(std::vector<Wide> a, int64_t n) {
  const auto at = [&](int64_t r, int64_t c) -> Wide& { return a[r * n + c]; };
  for (int sweep = 0; sweep < 40; ++sweep) {
    bool is_done = true;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const Wide twice = 2 * at(p, q), difference = at(q, q) - at(p, p);
        if (std::abs(twice) <=
            std::numeric_limits<Wide>::epsilon() / 16 *
                std::min(std::abs(at(p, p)), std::abs(at(q, q)))) {
          continue;
        }
        is_done = false;
        const Wide angle =
            std::atan2(difference < 0 ? -twice : twice, std::abs(difference)) /
            2;
        const Wide cosine = std::cos(angle), sine = std::sin(angle);
        const Wide step = std::tan(angle) * at(p, q);
        at(p, p) -= step;
        at(q, q) += step;
        at(p, q) = at(q, p) = 0;
        for (int64_t i = 0; i < n; ++i) {
          if (i == p || i == q) continue;
          const Wide left = at(i, p), right = at(i, q);
          at(i, p) = at(p, i) = cosine * left - sine * right;
          at(i, q) = at(q, i) = sine * left + cosine * right;
        }
      }
    }
    if (is_done) break;
  }
  std::vector<Wide> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(at(i, i));
  std::sort(values.begin(), values.end());
  return values;
}

bool flushes = false;

// Calls test() for each instruction set, with subnormal numbers and without:
// XLA's threads flush them to zero.
template <typename Test>
void ForEachMode(const Test& test) {
  testing::ForEachSimdTarget([&] {
    test();
#if defined(__SSE2__)
    SCOPED_TRACE("subnormals are zero");
    const unsigned control = _mm_getcsr();
    flushes = true;
    _mm_setcsr(control | 0x8040);  // FTZ and DAZ
    test();
    _mm_setcsr(control);
    flushes = false;
#endif
  });
}

template <typename T>
struct Results {
  std::vector<T> v, w;
};

template <typename T>
Results<T> Run(std::vector<T> a, int64_t n, bool is_lower = true) {
  const auto batch = static_cast<int64_t>(a.size()) / (n * n);
  Results<T> r{std::vector<T>(a.size()), std::vector<T>(batch * n)};
  const testing::Status status = testing::CallFrame()
                                     .Arg(a, {batch, n, n})
                                     .Ret(r.v, {batch, n, n})
                                     .Ret(r.w, {batch, n})
                                     .Attr("is_lower", int64_t{is_lower})
                                     .Run(XlaFfiAccelerateLinalgEighCpu);
  EXPECT_EQ(status.message, "");
  return r;
}

// Of any sign and exponent for which n eigenvalues do not overflow, or 0.
template <typename T>
class Graded {
 public:
  explicit Graded(int least = Limits::min_exponent - Limits::digits)
      : exponent_(least, Limits::max_exponent - 4) {}

  T operator()(std::mt19937_64& random) {
    if (random() % 16 == 0) return 0;
    const T x = std::ldexp(mantissa_(random), exponent_(random));
    return random() % 2 ? x : -x;
  }

 private:
  using Limits = std::numeric_limits<T>;
  std::uniform_real_distribution<T> mantissa_{0.5, 1};
  std::uniform_int_distribution<int> exponent_;
};

template <typename T>
std::vector<T> GradedMatrices(int64_t batch, int64_t n) {
  std::mt19937_64 random(n);
  Graded<T> number;
  std::vector<T> a(batch * n * n);
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c <= r; ++c) {
        a[(i * n + r) * n + c] = a[(i * n + c) * n + r] = number(random);
      }
    }
  }
  return a;
}

template <typename T>
std::vector<Wide> Widened(const T* a, int64_t count) {
  return std::vector<Wide>(a, a + count);
}

// What is promised beside eigenvalues of that size, or the least number where
// rounding errors are larger.
template <typename T>
Wide Tolerance(int64_t n, Wide size) {
  using Limits = std::numeric_limits<T>;
  const Wide least = flushes ? Limits::min() : Limits::denorm_min();
  return 4 * static_cast<Wide>(std::max<int64_t>(n, 4)) *
         std::max(size * Limits::epsilon(), least);
}

template <typename T>
class EighTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(EighTest, Types);

TYPED_TEST(EighTest, GradedMatricesOfTheWholeRange) {
  using T = TypeParam;
  for (int64_t n = 1; n <= kMaxMatrix; ++n) {
    const int64_t batch = n == 3 || n == 4 ? 20'000 : 1'000;
    const auto a = GradedMatrices<T>(batch, n);
    std::vector<std::vector<Wide>> want;
    for (int64_t i = 0; i < batch; ++i) {
      want.push_back(Values(Widened(&a[i * n * n], n * n), n));
    }
    ForEachMode([&] {
      const auto [v, w] = Run(a, n);
      int64_t wrong_values = 0, wrong_vectors = 0;
      for (int64_t i = 0; i < batch; ++i) {
        const T *m = &a[i * n * n], *vectors = &v[i * n * n];
        const Wide size =
            std::max(std::abs(want[i][0]), std::abs(want[i][n - 1]));
        bool is_close = true, is_vector = true;
        for (int64_t k = 0; k < n; ++k) {
          const Wide value = w[i * n + k];
          is_close =
              is_close && std::abs(value - want[i][k]) <= Tolerance<T>(n, size);
          for (int64_t r = 0; r < n; ++r) {
            Wide stretched = 0, product = 0;
            for (int64_t c = 0; c < n; ++c) {
              stretched += Wide{m[r * n + c]} * vectors[c * n + k];
              product += Wide{vectors[c * n + r]} * vectors[c * n + k];
            }
            is_vector =
                is_vector &&
                std::abs(stretched - value * vectors[r * n + k]) <=
                    Tolerance<T>(n, size) &&
                std::abs(product - (r == k ? 1 : 0)) <= Tolerance<T>(n, 1);
          }
        }
        wrong_values += !is_close;
        wrong_vectors += !is_vector;
      }
      EXPECT_EQ(wrong_values, 0) << n << " rows";
      EXPECT_EQ(wrong_vectors, 0) << n << " rows";
    });
  }
}

// Rows that no other row is coupled with have eigenvalues of their own, as
// exact as if the rest were not there.
TYPED_TEST(EighTest, BlocksAreExactByThemselves) {
  using T = TypeParam;
  constexpr int64_t n = 4, kBatch = 5'000;
  constexpr int64_t kOrders[][n] = {{0, 1, 2, 3}, {2, 0, 3, 1}, {3, 0, 1, 2}};
  std::mt19937_64 random(0);
  Graded<T> number;
  std::vector<T> a(kBatch * n * n);
  std::vector<std::vector<Wide>> want;
  for (int64_t i = 0; i < kBatch; ++i) {
    const int64_t* const order = kOrders[i % 3];
    for (int64_t first = 0; first < n; first += 2) {
      std::vector<T> block = {number(random), number(random), 0,
                              number(random)};
      block[2] = block[1];
      want.push_back(Values(Widened(block.data(), 4), 2));
      for (int64_t e = 0; e < 4; ++e) {
        a[(i * n + order[first + e / 2]) * n + order[first + e % 2]] = block[e];
      }
    }
  }
  ForEachMode([&] {
    const auto w = Run(a, n).w;
    int64_t wrong = 0;
    for (int64_t i = 0; i < kBatch; ++i) {
      // Which value is whose: the order in which they rise.
      std::vector<std::pair<Wide, Wide>> values;
      for (const int64_t block : {2 * i, 2 * i + 1}) {
        const auto& of_block = want[block];
        const Wide size =
            std::max(std::abs(of_block[0]), std::abs(of_block[1]));
        for (const Wide value : of_block) values.emplace_back(value, size);
      }
      std::sort(values.begin(), values.end());
      for (int64_t k = 0; k < n; ++k) {
        wrong += !(std::abs(w[i * n + k] - values[k].first) <=
                   Tolerance<T>(n, values[k].second));
      }
    }
    EXPECT_EQ(wrong, 0);
  });
}

TYPED_TEST(EighTest, ABlockWhoseSquaresUnderflow) {
  using T = TypeParam;
  const T small = std::is_same_v<T, float> ? T(5e-20) : T(5e-170);
  const T smaller = std::is_same_v<T, float> ? T(1e-37) : T(1e-305);
  const std::vector<T> a = {1, T(.5), 0, 0,     T(.5), 1, 0,     0,
                            0, 0,     0, small, 0,     0, small, smaller};
  ForEachMode([&] {
    const auto w = Run(a, 4).w;
    const T eps = std::numeric_limits<T>::epsilon();
    EXPECT_NEAR(w[0] / small, -1, 16 * eps);
    EXPECT_NEAR(w[1] / small, 1, 16 * eps);
    EXPECT_NEAR(w[2], T(.5), 16 * eps);
    EXPECT_NEAR(w[3], T(1.5), 16 * eps);
  });
}

// Matrices that need no rotation, and others that need many.
template <typename T>
std::vector<T> MixedMatrices(int64_t batch, int64_t n) {
  auto a = GradedMatrices<T>(batch, n);
  std::mt19937_64 random(1);
  std::normal_distribution<T> normal;
  for (int64_t i = 0; i < batch; ++i) {
    T* const m = &a[i * n * n];
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c <= r; ++c) {
        T x = m[r * n + c];
        if (i % 4 == 1) x = r == c ? static_cast<T>(r - 1) : T(0);
        if (i % 4 == 2) x = normal(random);
        if (i % 4 == 3) x = r == c ? T(1) : normal(random) * T(1e-3);
        m[r * n + c] = m[c * n + r] = x;
      }
    }
  }
  return a;
}

TYPED_TEST(EighTest, ResultsDoNotDependOnNeighbors) {
  using T = TypeParam;
  constexpr int64_t kBatch = 203;
  for (int64_t n = 1; n <= kMaxMatrix; ++n) {
    const int64_t size = n * n;
    const auto a = MixedMatrices<T>(kBatch, n);
    std::vector<int64_t> order(kBatch);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(n));
    std::vector<T> shuffled;
    for (const int64_t i : order) {
      shuffled.insert(shuffled.end(), &a[i * size], &a[i * size] + size);
    }
    ForEachMode([&] {
      const auto want = Run(a, n), got = Run(shuffled, n);
      int64_t different = 0;
      const auto compare = [&](const Results<T>& r, int64_t at, int64_t i) {
        different +=
            std::memcmp(&r.w[at * n], &want.w[i * n], n * sizeof(T)) != 0 ||
            std::memcmp(&r.v[at * size], &want.v[i * size], size * sizeof(T)) !=
                0;
      };
      for (int64_t at = 0; at < kBatch; ++at) {
        const int64_t i = order[at];
        compare(got, at, i);
        compare(Run(std::vector<T>(&a[i * size], &a[i * size] + size), n), 0,
                i);
      }
      EXPECT_EQ(different, 0) << n << " rows";
    });
  }
}

TYPED_TEST(EighTest, OneTriangleIsReadAndANanStaysInItsMatrix) {
  using T = TypeParam;
  constexpr int64_t kBatch = 21, kNan = 7;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (int64_t n = 1; n <= kMaxMatrix; ++n) {
    const auto a = MixedMatrices<T>(kBatch, n);
    for (const bool is_lower : {false, true}) {
      auto half = a;
      for (int64_t at = 0; at < kBatch * n * n; ++at) {
        const int64_t r = at / n % n, c = at % n;
        if (r != c && (r < c) == is_lower) half[at] = nan;
      }
      half[kNan * n * n] = nan;
      ForEachMode([&] {
        const auto want = Run(a, n), got = Run(half, n, is_lower);
        for (int64_t at = 0; at < kBatch * n * n; ++at) {
          const bool is_nan = at / n / n == kNan;
          ASSERT_TRUE(is_nan ? std::isnan(got.v[at]) : got.v[at] == want.v[at]);
        }
        for (int64_t at = 0; at < kBatch * n; ++at) {
          const bool is_nan = at / n == kNan;
          ASSERT_TRUE(is_nan ? std::isnan(got.w[at]) : got.w[at] == want.w[at]);
        }
      });
    }
  }
}

TYPED_TEST(EighTest, DiagonalsAreExact) {
  using T = TypeParam;
  constexpr int64_t kBatch = 1'000;
  std::mt19937_64 random(0);
  Graded<T> number(std::numeric_limits<T>::min_exponent + 8);
  for (int64_t n = 1; n <= kMaxMatrix; ++n) {
    std::vector<T> a(kBatch * n * n), want(kBatch * n);
    for (T& x : want) x = number(random);
    if (n == 2) want[0] = 1, want[1] = 49;
    for (int64_t i = 0; i < kBatch; ++i) {
      for (int64_t k = 0; k < n; ++k) {
        a[(i * n + k) * n + k] = want[i * n + k];
      }
      std::sort(&want[i * n], &want[i * n] + n);
    }
    ForEachMode([&] { EXPECT_TRUE(Run(a, n).w == want) << n; });
  }
}

TYPED_TEST(EighTest, AScaledMatrixHasScaledValuesAndTheSameVectors) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  constexpr int64_t n = 4, kBatch = 100;
  std::mt19937_64 random(0);
  std::normal_distribution<T> normal;
  std::vector<T> a(kBatch * n * n);
  for (T& x : a) x = normal(random);
  ForEachMode([&] {
    const auto want = Run(a, n);
    for (const int exponent :
         {Limits::min_exponent + 40, -7, 7, 62, Limits::max_exponent - 6}) {
      auto scaled = a;
      for (T& x : scaled) x = std::ldexp(x, exponent);
      auto got = Run(scaled, n);
      EXPECT_EQ(got.v, want.v) << exponent;
      for (T& x : got.w) x = std::ldexp(x, -exponent);
      EXPECT_EQ(got.w, want.w) << exponent;
    }
  });
}

}  // namespace
}  // namespace xla_ffi_accelerate::linalg
