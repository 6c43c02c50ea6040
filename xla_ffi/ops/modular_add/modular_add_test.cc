#include "xla_ffi/ops/modular_add/modular_add.h"

#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/for_each_simd_target.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;

template <typename T>
inline constexpr bool kIsHalf =
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// The integer as a T, exact up to 127 in every type.
template <typename T>
T Exactly(int64_t value) {
  if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
bool IsEqual(T left, T right) {
  if constexpr (kIsHalf<T>) {
    return left.bits() == right.bits();
  } else {
    return left == right;
  }
}

int64_t B(int64_t i) { return (5 * i + 1) % 64; }
int64_t C(int64_t i) { return 3 * i % 64; }

// One row, into c itself if `a` is c.
template <typename T>
void ModularAdd(const T* b, int64_t n, const T* c, int64_t m, T* a) {
  constexpr auto kDtype = static_cast<XLA_FFI_DataType>(kDtypeOf<T>);
  const testing::Status status = CallFrame()
                                     .Arg(kDtype, const_cast<T*>(b), {n})
                                     .Arg(kDtype, const_cast<T*>(c), {m})
                                     .Ret(kDtype, a, {m})
                                     .Run(XlaFfiKitModularAddCpu);
  ASSERT_EQ(status.message, "");
}

template <typename T>
class ModularAddTest : public ::testing::Test {};

using Types =
    ::testing::Types<Float16, BFloat16, float, double, std::complex<float>,
                     std::complex<double>, int8_t, int16_t, int32_t, int64_t,
                     uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(ModularAddTest, Types);

template <typename T>
void ExpectMatch(int64_t n, int64_t m, int64_t shift) {
  std::vector<T> b(n), c(m + shift), a(m + shift + 1, Exactly<T>(99));
  for (int64_t i = 0; i < n; ++i) b[i] = Exactly<T>(B(i));
  for (int64_t i = 0; i < m; ++i) c[shift + i] = Exactly<T>(C(i));
  ModularAdd(b.data(), n, c.data() + shift, m, a.data() + shift);
  for (int64_t i = 0; i < m; ++i) {
    ASSERT_TRUE(IsEqual(a[shift + i], Exactly<T>(B(i % n) + C(i))))
        << "n = " << n << ", m = " << m << ", i = " << i;
  }
  ASSERT_TRUE(IsEqual(a.back(), Exactly<T>(99)));
}

TYPED_TEST(ModularAddTest, MatchesTheFormulaForEveryPeriodAndLength) {
  testing::ForEachSimdTarget([] {
    for (const int64_t n : {1, 2, 3, 7, 16, 17, 64, 100, 301}) {
      for (int64_t m = 0; m <= 300; ++m) {
        for (const int64_t shift : {0, 1, 5}) {
          ExpectMatch<TypeParam>(n, m, shift);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  });
}

TYPED_TEST(ModularAddTest, RepeatsShortPeriodsAheadOfLongRows) {
  testing::ForEachSimdTarget([] {
    for (const int64_t n : {1, 2, 3, 7, 127, 128, 129, 255, 1000, 5000}) {
      ExpectMatch<TypeParam>(n, 20011, 1);
    }
  });
}

TYPED_TEST(ModularAddTest, WorksInPlace) {
  using T = TypeParam;
  std::vector<T> b = {Exactly<T>(1), Exactly<T>(2)};
  std::vector<T> c(5, Exactly<T>(10));
  ModularAdd(b.data(), 2, c.data(), 5, c.data());
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(IsEqual(c[i], Exactly<T>(11 + i % 2)));
  }
}

TEST(ModularAddValuesTest, IntegersWrapAround) {
  int32_t b = std::numeric_limits<int32_t>::max(), c = 1, a = 0;
  ModularAdd(&b, 1, &c, 1, &a);
  EXPECT_EQ(a, std::numeric_limits<int32_t>::min());
  int16_t b16 = -32768, c16 = -1, a16 = 0;
  ModularAdd(&b16, 1, &c16, 1, &a16);
  EXPECT_EQ(a16, 32767);
}

TEST(ModularAddValuesTest, HalvesRoundOnceToNearestEven) {
  Float16 b(2048.0f), c(1.0f), a;
  ModularAdd(&b, 1, &c, 1, &a);
  EXPECT_EQ(static_cast<float>(a), 2048.0f);
  c = Float16(3.0f);
  ModularAdd(&b, 1, &c, 1, &a);
  EXPECT_EQ(static_cast<float>(a), 2052.0f);
}

TEST(ModularAddRowsTest, EachRepeatsItsOwnB) {
  std::vector<int32_t> b = {1, 2, 10, 20}, c = {0, 0, 0, 1, 1, 1}, a(6);
  const testing::Status status = CallFrame()
                                     .Arg(b, {2, 1, 2})
                                     .Arg(c, {2, 1, 3})
                                     .Ret(a, {2, 1, 3})
                                     .Run(XlaFfiKitModularAddCpu);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(a, (std::vector<int32_t>{1, 2, 1, 11, 21, 11}));
}

TYPED_TEST(ModularAddTest, ThreadsSplitRowsAnywhere) {
  for (const int64_t rows : {1, 3, 1000}) {
    const int64_t n = 128, m = 600'000 / rows;
    std::vector<TypeParam> b(rows * n), c(rows * m), a(rows * m);
    for (int64_t i = 0; i < rows * n; ++i) b[i] = Exactly<TypeParam>(B(i));
    ASSERT_TRUE(CallFrame()
                    .Arg(b, {rows, n})
                    .Arg(c, {rows, m})
                    .Ret(a, {rows, m})
                    .Threads(3)
                    .Run(XlaFfiKitModularAddCpu)
                    .ok());
    for (int64_t i = 0; i < rows * m; ++i) {
      ASSERT_TRUE(IsEqual(a[i], b[i / m * n + i % m % n])) << rows << ", " << i;
    }
  }
}

TEST(ModularAddRowsTest, NoElementsAreNoWork) {
  for (XLA_FFI_Handler* handler :
       {XlaFfiKitModularAddCpu, XlaFfiKitModularAddCuda}) {
    std::vector<int32_t> b(6), c(6), a(6);
    const auto error_of = [&](const CallFrame::Dims& of_b,
                              const CallFrame::Dims& of_c) {
      CallFrame call = CallFrame().Arg(b, of_b).Arg(c, of_c).Ret(a, of_c);
      return call.Run(handler).message;
    };
    EXPECT_EQ(error_of({0, 2}, {0, 3}), "");
    EXPECT_EQ(error_of({2, 2}, {2, 0}), "");
    EXPECT_EQ(error_of({0}, {0}), "");
    for (const int64_t rows : {0, 2}) {
      EXPECT_EQ(error_of({rows, 0}, {rows, 3}),
                "xla_ffi_kit.modular_add: operand b: expected a last axis of "
                "at least one element, got shape (" +
                    std::to_string(rows) + ", 0)");
    }
  }
}

// --- The CUDA kernel, run by the emulator and compared with the CPU's
// ---------

template <typename T>
void ExpectLikeCpu(int64_t n, int64_t m, int64_t rows, int64_t offset) {
  std::vector<T> b(rows * n + offset), c(rows * m), expected(rows * m);
  for (size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(i % 91));
  for (size_t i = 0; i < c.size(); ++i) c[i] = T(static_cast<float>(i % 35));
  const auto run = [&](XLA_FFI_Handler* handler, T* a) {
    constexpr auto kDtype = static_cast<XLA_FFI_DataType>(kDtypeOf<T>);
    const testing::Status status =
        CallFrame()
            .Arg(kDtype, b.data() + offset, {rows, n})
            .Arg(c, {rows, m})
            .Ret(kDtype, a, {rows, m})
            .Run(handler);
    ASSERT_EQ(status.message, "");
  };
  run(XlaFfiKitModularAddCpu, expected.data());
  // The result too begins with a pack, or does not.
  for (const int64_t offset_a : {0, 1}) {
    std::vector<T> a(static_cast<size_t>(offset_a + rows * m));
    run(XlaFfiKitModularAddCuda, a.data() + offset_a);
    EXPECT_EQ(std::memcmp(a.data() + offset_a, expected.data(),
                          expected.size() * sizeof(T)),
              0)
        << n << ", " << m << ", " << rows << ", " << offset;
  }
}

TEST(ModularAddCudaTest, EveryShapeIsLikeTheCpu) {
  for (const int64_t n : {1, 3, 4, 16, 33, 128}) {
    for (const int64_t m : {1, 2, 5, 16, 64, 129, 256}) {
      for (const int64_t rows : {1, 2, 7}) {
        ExpectLikeCpu<BFloat16>(n, m, rows, 0);
        ExpectLikeCpu<float>(n, m, rows, 0);
        ExpectLikeCpu<float>(n, m, rows, 1);
        ExpectLikeCpu<double>(n, m, rows, 0);
        ExpectLikeCpu<std::complex<float>>(n, m, rows, 0);
        ExpectLikeCpu<uint8_t>(n, m, rows, 3);
        ExpectLikeCpu<int16_t>(n, m, rows, 1);
      }
    }
  }
}

TEST(ModularAddCudaTest, MayBeCaptured) {
  EXPECT_EQ(testing::GetMetadata(XlaFfiKitModularAddCuda).traits,
            XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
}

}  // namespace
}  // namespace xla_ffi_kit
