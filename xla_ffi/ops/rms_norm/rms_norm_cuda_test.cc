// The CUDA handlers and kernels, run by the emulator and compared with the
// CPU's: the same call frames give the same results.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/cuda/emulator.h"
#include "xla_ffi/testing/thread_sanitizer.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using testing::CallFrame;
using testing::Device;

struct Handlers {
  XLA_FFI_Handler *cpu, *cuda;
};
// Their operands and results, a letter for each: x for one like x, w for one
// like the weight, s for one like the scale.
struct Variant : Handlers {
  std::string operands, results;
  bool has_eps = true;
  int in_place = -1;  // the operand in whose place the first result goes
};

// Each set of operands once, and each place for the first result.
std::vector<Variant> Variants() {
  const Handlers of_forward = {XlaFfiKitRmsNormCpu, XlaFfiKitRmsNormCuda},
                 of_backward = {XlaFfiKitRmsNormBwdCpu,
                                XlaFfiKitRmsNormBwdCuda},
                 of_weight_backward = {XlaFfiKitRmsNormWeightBwdCpu,
                                       XlaFfiKitRmsNormWeightBwdCuda};
  const auto forward = [&](const char* operands, const char* results,
                           int in_place) {
    return Variant{of_forward, operands, results, true, in_place};
  };
  const auto backward = [&](const char* operands, bool has_eps, int in_place) {
    return Variant{of_backward, operands, "x", has_eps, in_place};
  };
  const auto weight_backward = [&](const char* operands, int in_place) {
    return Variant{of_weight_backward, operands, "xw", false, in_place};
  };
  return {forward("x", "x", -1),      forward("x", "xs", 0),
          forward("xw", "x", 0),      forward("xw", "xs", -1),
          forward("xwx", "xx", 2),    forward("xwx", "xxs", 0),
          backward("xx", true, 1),    backward("xxs", false, 0),
          weight_backward("xxsw", 1), weight_backward("xxswx", 4)};
}

// One shape: groups of rows that share a weight, rows of a group, elements of a
// row, and whether arrays begin with a pack.
struct Shape {
  int64_t groups, rows, n;
  bool is_aligned = true;
};

template <typename T>
class RmsNormCudaTest : public ::testing::Test {
 protected:
  using A = AccumulationType<T>;
  static constexpr double kEps = 0.25;

  // What the weighted backward has room for, of each group.
  static inline int64_t slots_of_workspace = 40;

  void TearDown() override {
    Device() = {};
    slots_of_workspace = 40;
  }

  static CallFrame::Dims DimsOf(char kind, const Shape& shape) {
    if (kind == 's') return {shape.groups, shape.rows};
    if (kind == 'w') return {shape.groups, shape.n};
    return {shape.groups, shape.rows, shape.n};
  }

  struct Results {
    std::vector<std::vector<T>> values;
    std::vector<A> scale;
    std::vector<double> terms;  // of a backward; see TermsOfDx
  };

  static auto InDouble(T value) {
    if constexpr (kComponents<T> == 2) {
      return std::complex<double>(value);
    } else {
      return static_cast<double>(static_cast<A>(value));
    }
  }

  // For each element of dx = scale * g - conj(x) * scale^3 * mean(Re(x * g)) +
  // ct_sum, where g = ct * weight, the sum of the terms' magnitudes, of which
  // its rounding errors are parts: terms may cancel.
  static std::vector<double> TermsOfDx(
      const Variant& v, const std::vector<std::vector<T>>& operands,
      const std::vector<A>& scale, const Shape& shape, int64_t offset) {
    const auto size_of = [&](size_t operand, int64_t i) {
      return std::abs(InDouble(operands[operand][offset + i]));
    };
    const bool has_weight = operands.size() > 3, has_sum = operands.size() > 4;
    std::vector<double> terms;
    for (int64_t row = 0; row < shape.groups * shape.rows; ++row) {
      const int64_t begin = row * shape.n;
      const int64_t weight = row / shape.rows * shape.n;
      const auto g_of = [&](int64_t k) {
        return size_of(1, begin + k) *
               (has_weight ? size_of(3, weight + k) : 1);
      };
      double squares = 0, products = 0;
      for (int64_t k = 0; k < shape.n; ++k) {
        const double x = size_of(0, begin + k);
        squares += x * x / double(shape.n);
        products += x * g_of(k) / double(shape.n);
      }
      const double s =
          v.has_eps ? 1 / std::sqrt(squares + kEps) : double(scale[row]);
      for (int64_t k = 0; k < shape.n; ++k) {
        terms.push_back(s * g_of(k) +
                        size_of(0, begin + k) * s * s * s * products +
                        (has_sum ? size_of(4, begin + k) : 0));
      }
    }
    return terms;
  }

  // The largest distance of two elements in units of T's precision, relative to
  // its terms. Infinite if an element is NaN.
  static double DistanceOfDx(const Results& got, const Results& expected,
                             int64_t offset) {
    double distance = 0;
    for (size_t i = 0; i < got.terms.size(); ++i) {
      const double of_element =
          std::abs(InDouble(got.values[0][offset + i]) -
                   InDouble(expected.values[0][offset + i]));
      if (std::isnan(of_element)) return HUGE_VAL;
      distance = std::max(distance, of_element / got.terms[i]);
    }
    return distance / static_cast<double>(testing::UnitRoundoff<T>());
  }

  // The first of one sequence for each seed: to draw it is a quarter of the
  // tests' time.
  static std::vector<T> Random(int64_t size, uint32_t seed) {
    static auto& drawn = *new std::map<uint32_t, std::vector<T>>;
    std::vector<T>& values = drawn[seed];
    if (static_cast<int64_t>(values.size()) < size) {
      values = testing::RandomNormal<T>(size, seed);
    }
    return std::vector<T>(values.begin(), values.begin() + size);
  }

  static Results Run(const Variant& v, XLA_FFI_Handler* handler,
                     const Shape& shape) {
    const auto size_of = [&](char kind) {
      int64_t size = 1;
      for (const int64_t length : DimsOf(kind, shape)) size *= length;
      return size;
    };
    const int64_t offset = shape.is_aligned ? 0 : 1;
    const auto dtype = static_cast<XLA_FFI_DataType>(kDtypeOf<T>);
    std::vector<A> scale(size_of('s'));
    for (size_t i = 0; i < scale.size(); ++i) scale[i] = A(i % 7 + 1) / 7;
    std::vector<std::vector<T>> operands;
    Results results;
    CallFrame frame;
    for (const char kind : v.operands) {
      const auto seed = static_cast<uint32_t>(operands.size());
      operands.push_back(Random(offset + size_of(kind), seed));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      const char kind = v.operands[i];
      const auto dims = DimsOf(kind, shape);
      kind == 's' ? frame.Arg(scale, dims)
                  : frame.Arg(dtype, operands[i].data() + offset, dims);
    }
    results.scale.assign(scale.size(), 0);
    for (const char kind : v.results) {
      results.values.emplace_back(offset + size_of(kind));
    }
    for (size_t i = 0; i < v.results.size(); ++i) {
      const char kind = v.results[i];
      const auto dims = DimsOf(kind, shape);
      auto& place =
          i == 0 && v.in_place >= 0 ? operands[v.in_place] : results.values[i];
      kind == 's' ? frame.Ret(results.scale, dims)
                  : frame.Ret(dtype, place.data() + offset, dims);
    }
    std::vector<uint8_t> workspace;
    if (handler == XlaFfiKitRmsNormWeightBwdCuda) {
      workspace.resize(static_cast<size_t>(slots_of_workspace * size_of('w')) *
                       kComponents<T> * sizeof(A));
      frame.Ret(workspace, {static_cast<int64_t>(workspace.size())});
    }
    if (v.has_eps) frame.Attr("eps", kEps);
    if (v.cpu != XlaFfiKitRmsNormCpu && handler == v.cpu) {
      results.terms = TermsOfDx(v, operands, scale, shape, offset);
    }
    const testing::Status status = frame.Run(handler);
    EXPECT_TRUE(status.ok()) << status.message;
    if (v.in_place >= 0) results.values[0] = operands[v.in_place];
    return results;
  }

  static void ExpectLikeCpu(const Variant& v, const Shape& shape) {
    ExpectLike(Run(v, v.cpu, shape), v, shape);
  }

  static void ExpectLike(const Results& cpu, const Variant& v,
                         const Shape& shape) {
    SCOPED_TRACE(::testing::Message()
                 << v.operands << " to " << v.results << ", " << shape.groups
                 << " x " << shape.rows << " rows of " << shape.n
                 << ", aligned " << shape.is_aligned);
    constexpr double kUnits = 8;
    const Results cuda = Run(v, v.cuda, shape);
    for (size_t i = 0; i < cpu.values.size(); ++i) {
      if (v.results[i] == 's') continue;
      if (i == 0 && !cpu.terms.empty()) {
        EXPECT_LT(DistanceOfDx(cpu, cuda, shape.is_aligned ? 0 : 1), kUnits);
        continue;
      }
      // Of dweight, terms of several rows may cancel.
      const double magnitude = v.results[i] == 'w'
                                   ? 4 * std::sqrt(double(shape.rows))
                                   : testing::Largest(cpu.values[i]);
      EXPECT_LT(testing::Distance(cuda.values[i], cpu.values[i], magnitude),
                kUnits)
          << "result " << i;
    }
    EXPECT_LT(testing::Distance(cuda.scale, cpu.scale,
                                testing::Largest(cpu.scale) + 1e-30),
              kUnits);
  }

  // Every variant, in both orders of threads.
  static void ExpectLikeCpu(const Shape& shape) {
    for (const Variant& v : Variants()) {
      const Results cpu = Run(v, v.cpu, shape);
      for (const bool is_backwards : testing::Orders()) {
        Device().is_backwards = is_backwards;
        ExpectLike(cpu, v, shape);
      }
    }
  }
};

// ThreadSanitizer takes minutes for each.
using Types = std::conditional_t<
    testing::kIsThreadSanitizer, ::testing::Types<float>,
    ::testing::Types<Float16, BFloat16, float, double, std::complex<float>,
                     std::complex<double>>>;
TYPED_TEST_SUITE(RmsNormCudaTest, Types);

TYPED_TEST(RmsNormCudaTest, EveryLengthIsLikeTheCpu) {
  for (const int64_t n :
       {1, 2, 3, 4, 7, 8, 16, 40, 63, 64, 250, 1000, 1024, 2047, 4100}) {
    this->ExpectLikeCpu({1, 3, n, n % 2 == 0});
    if (n < 64) this->ExpectLikeCpu({1, 3, n, n % 2 != 0});
  }
}

TYPED_TEST(RmsNormCudaTest, RowsTooLongForRegistersAndForSharedMemory) {
  // As few as do not fit: the emulator takes its time for each column.
  constexpr int64_t kPacks = 2050;
  constexpr int64_t n = kPacks * 16 / static_cast<int64_t>(sizeof(TypeParam));
  this->ExpectLikeCpu({1, 2, n, false});
  // The backward has a cluster, then the forward.
  for (const int64_t shared : {227, 40, 24}) {
    Device().max_shared_bytes = shared * 1024;
    this->ExpectLikeCpu({1, 2, n});
  }
  // Without clusters.
  Device().major = 8;
  this->ExpectLikeCpu({1, 2, n});
}

TYPED_TEST(RmsNormCudaTest, ManyRowsFillManySlots) {
  for (const int64_t n : {1, 8, 40}) this->ExpectLikeCpu({1, 777, n});
}

TYPED_TEST(RmsNormCudaTest, EachGroupOfRowsHasItsWeight) {
  for (const int64_t n : {3, 64}) {
    this->ExpectLikeCpu({2, 1, n});
    this->ExpectLikeCpu({2, 3, n});
  }
  this->ExpectLikeCpu({2, 1, 8200});
}

using FloatTest = RmsNormCudaTest<float>;

TEST_F(FloatTest, TheWorkspaceMayBeOfAnySize) {
  const Variant v = Variants()[8];
  for (const int64_t n : {7, 64, 528}) {
    for (const int64_t slots : {1, 2, 3, 1000}) {
      slots_of_workspace = slots;
      ExpectLikeCpu(v, {1, 600, n});
      ExpectLikeCpu(v, {2, 3, n});
    }
  }
}

// The same bits from run to run, whatever thread comes first, on each of three
// GPUs.
TEST_F(FloatTest, TheGradientOfAWeightIsTheSameEachTime) {
  const Variant v = Variants()[9];
  for (const Shape& shape :
       {Shape{1, 999, 64}, {1, 77, 2048}, {1, 9, 20000}, {1, 33, 63}}) {
    for (const int processors : {3, 8, 16}) {
      Device().processors = processors;
      Device().is_backwards = false;
      const Results first = Run(v, v.cuda, shape);
      Device().is_backwards = true;
      EXPECT_EQ(first.values, Run(v, v.cuda, shape).values);
    }
  }
}

TEST_F(FloatTest, NumbersOfLaunches) {
  const auto launches = [](size_t v, const Shape& shape) {
    testing::Launches().clear();
    Run(Variants()[v], Variants()[v].cuda, shape);
    return testing::Launches().size();
  };
  Device().processors = 16;
  for (const int64_t n : {64, 8192, 65536}) {
    for (size_t v = 0; v < 8; ++v) EXPECT_EQ(launches(v, {1, 9, n}), 1U);
    EXPECT_EQ(launches(8, {1, 9, n}), 2U);
    EXPECT_TRUE(testing::Launches().back().is_early);
  }
  // One element at a time, or more than any cluster holds: x and ct twice.
  for (const int64_t n : {63, 1 << 17}) EXPECT_EQ(launches(8, {1, 9, n}), 3U);
  // Older GPUs launch nothing early.
  Device().major = 8;
  EXPECT_EQ(launches(8, {1, 9, 64}), 2U);
  EXPECT_FALSE(testing::Launches().back().is_early);
}

TEST_F(FloatTest, LongRowsHaveAClusterWhereThereIsRoom) {
  const auto cluster = [] {
    ExpectLikeCpu(Variants()[3], {1, 3, 80000});
    return testing::Launches().back().cluster;
  };
  EXPECT_EQ(cluster(), 8);
  Device().processors = 16;
  EXPECT_EQ(cluster(), 16);
  Device().processors = 3;
  EXPECT_EQ(cluster(), 1);
  Device().major = 8;
  EXPECT_EQ(cluster(), 1);
}

// Rows of a part of a warp, and of one.
TEST_F(FloatTest, ShortRowsShareABlock) {
  for (const int64_t n : {32, 252}) {
    const int64_t rows = n < 128 ? 1030 : 515;
    for (const Variant& v : {Variants()[0], Variants()[6]}) {
      ExpectLikeCpu(v, {1, rows, n});
      EXPECT_LT(testing::Launches().back().blocks, rows);
    }
  }
}

// As many as fill a GPU, each of several warps, with every set of operands.
TEST_F(FloatTest, ManyRowsHaveMorePacksToAThread) {
  for (const int64_t n : {528, 2100}) {
    for (size_t v = 0; v < 6; ++v) ExpectLikeCpu(Variants()[v], {1, 260, n});
  }
}

TEST_F(FloatTest, SumsOfLongRowsDoNotDrift) {
  const int64_t n = int64_t{1} << 22;
  std::vector<float> x(static_cast<size_t>(n), 0.1f), y(x.size()), scale = {0};
  ASSERT_TRUE(CallFrame()
                  .Arg(x, {n})
                  .Ret(y, {n})
                  .Ret(scale, {})
                  .Attr("eps", 0.0)
                  .Run(XlaFfiKitRmsNormCuda)
                  .ok());
  EXPECT_NEAR(scale[0] * 0.1f, 1.0, 2e-7);
}

}  // namespace
}  // namespace xla_ffi_kit
