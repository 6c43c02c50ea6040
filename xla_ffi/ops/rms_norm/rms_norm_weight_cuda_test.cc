// The CUDA kernels with a weight, run by the emulator and compared with the
// CPU's.

#include "xla_ffi/ops/rms_norm/rms_norm_weight_cuda.h"

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
#include "xla_ffi/testing/cuda/emulator.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using testing::Device;
using testing::Distance;
using testing::Largest;

// One call: rows, those that share a weight, elements of a row.
struct Case {
  int64_t rows, rows_per_weight, n;
  bool has_residual, is_aligned;
};

template <typename T>
class RmsNormWeightCudaTest : public ::testing::Test {
 protected:
  using R = ComponentType<T>;
  using A = AccumulationType<T>;
  static constexpr double kUnits = 8;
  static constexpr double kEps = 1e-3;

  void TearDown() override { Device() = {}; }

  // In both orders of threads.
  void ExpectLikeCpu(const Case& c) {
    SCOPED_TRACE(::testing::Message()
                 << c.rows << " rows of " << c.n << ", residual "
                 << c.has_residual << ", aligned " << c.is_aligned);
    offset = c.is_aligned ? 0 : 1;
    const int64_t size = offset + c.rows * c.n;
    x = testing::RandomNormal<T>(size, 1);
    residual = testing::RandomNormal<T>(size, 2);
    ct = testing::RandomNormal<T>(size, 3);
    ct_sum = testing::RandomNormal<T>(size, 4);
    weight =
        testing::RandomNormal<T>(offset + c.rows / c.rows_per_weight * c.n, 5);
    for (const bool is_backwards : testing::Orders()) {
      Device().is_backwards = is_backwards;
      ExpectForward(c);
      ExpectBackward(c);
    }
  }

  // Leaves h and scale as the CPU computes them.
  void ExpectForward(const Case& c) {
    std::vector<T> y = x, sum = residual, want_y = x;
    std::vector<A> got_scale(c.rows);
    h = residual;
    scale.assign(c.rows, 0);
    RmsNormForward<T> cpu;
    cpu.x = x.data() + offset;
    cpu.weight = weight.data() + offset;
    cpu.residual = c.has_residual ? residual.data() + offset : nullptr;
    cpu.y = want_y.data() + offset;
    cpu.sum = c.has_residual ? h.data() + offset : nullptr;
    cpu.scale = scale.data();
    cpu.n = c.n;
    cpu.rows_per_weight = c.rows_per_weight;
    cpu.eps = kEps;
    RmsNorm(cpu, 0, c.rows);
    if (!c.has_residual) h = x;

    // In the places of x and residual, as they may be.
    RmsNormWeightCudaForward<R> args;
    args.x = Begin(y);
    args.weight = Begin(weight);
    args.residual = c.has_residual ? Begin(sum) : nullptr;
    args.y = Begin(y);
    args.sum = c.has_residual ? Begin(sum) : nullptr;
    args.scale = got_scale.data();
    args.shape = {c.rows, c.n, kComponents<T>};
    args.rows_per_weight = c.rows_per_weight;
    args.eps = kEps;
    ASSERT_EQ(RmsNormWeightCuda(args, nullptr), cudaSuccess);
    EXPECT_LT(Distance(y, want_y, Largest(want_y)), kUnits);
    EXPECT_LT(Distance(got_scale, scale, Largest(scale)), kUnits);
    if (c.has_residual) {
      EXPECT_EQ(Distance(sum, h, Largest(h)), 0);
    }
  }

  void ExpectBackward(const Case& c) {
    const int64_t weights = c.rows / c.rows_per_weight;
    std::vector<T> dx = ct, want_dx = ct, dweight(weight.size()),
                   want_dweight(weight.size());
    RmsNormBackward<T> cpu;
    cpu.scale = scale.data();
    cpu.x = h.data() + offset;
    cpu.weight = weight.data() + offset;
    cpu.ct = ct.data() + offset;
    cpu.ct_sum = c.has_residual ? ct_sum.data() + offset : nullptr;
    cpu.dx = want_dx.data() + offset;
    cpu.n = c.n;
    cpu.rows_per_weight = c.rows_per_weight;
    RmsNormGradient(cpu, 0, c.rows);
    R* want = Begin(want_dweight);
    for (int64_t w = 0; w < weights; ++w) {
      std::vector<double> sums(static_cast<size_t>(c.n * kComponents<T>));
      RmsNormWeightGradient(cpu, w * c.rows_per_weight,
                            (w + 1) * c.rows_per_weight, 0, c.n, sums.data());
      for (const double value : sums) *want++ = R(static_cast<A>(value));
    }

    // dx in the place of ct, as it may be.
    RmsNormWeightCudaBackward<R> args;
    args.scale = scale.data();
    args.x = Begin(h);
    args.weight = Begin(weight);
    args.ct = Begin(dx);
    args.ct_sum = c.has_residual ? Begin(ct_sum) : nullptr;
    args.dx = Begin(dx);
    args.dweight = Begin(dweight);
    args.shape = {c.rows, c.n, kComponents<T>};
    args.weights = weights;
    RmsNormWeightCudaPlan plan;
    ASSERT_EQ(PlanRmsNormWeightBackward(args, &plan), cudaSuccess);
    constexpr char kAfter = 77;
    std::vector<char> scratch(plan.scratch_bytes + 1, kAfter);
    ASSERT_EQ(RmsNormWeightBackwardCuda(args, plan, scratch.data(), nullptr),
              cudaSuccess);
    EXPECT_EQ(scratch.back(), kAfter);
    // Of the terms: sums of them may cancel.
    const double terms = Largest(scale) * Largest(ct) * Largest(weight);
    EXPECT_LT(Distance(dx, want_dx, terms), kUnits);
    const double sums = Largest(scale) * Largest(ct) * Largest(h) *
                        std::sqrt(static_cast<double>(c.rows_per_weight));
    EXPECT_LT(Distance(dweight, want_dweight, sums), kUnits);
  }

  R* Begin(std::vector<T>& values) const {
    return AsComponents(values.data() + offset);
  }

  int64_t offset = 0;
  std::vector<T> x, residual, ct, ct_sum, weight, h;
  std::vector<A> scale;
};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RmsNormWeightCudaTest, Types);

TYPED_TEST(RmsNormWeightCudaTest, EveryLengthIsLikeTheCpu) {
  for (const int64_t n : {1, 2, 3, 7, 8, 40, 63, 250, 1024, 2047, 4100}) {
    this->ExpectLikeCpu({3, 3, n, n % 2 == 0, true});
    this->ExpectLikeCpu({3, 3, n, n % 2 != 0, false});
  }
}

TYPED_TEST(RmsNormWeightCudaTest, RowsTooLongForRegistersAndForSharedMemory) {
  // As few as do not fit: the emulator takes its time for each column.
  constexpr int64_t kPacks = 2050;
  constexpr int64_t n = kPacks * 16 / static_cast<int64_t>(sizeof(TypeParam));
  for (const bool has_residual : {false, true}) {
    this->ExpectLikeCpu({2, 2, n, has_residual, true});
    // The backward has a cluster, then the forward.
    Device().max_shared_bytes = 40 * 1024;
    this->ExpectLikeCpu({2, 2, n, has_residual, has_residual});
    Device().max_shared_bytes = 24 * 1024;
    this->ExpectLikeCpu({2, 2, n, has_residual, true});
    // Without clusters.
    Device().major = 8;
    this->ExpectLikeCpu({2, 2, n, has_residual, true});
    Device() = {};
  }
}

TYPED_TEST(RmsNormWeightCudaTest, ManyRowsFillManySlots) {
  for (const int64_t n : {1, 8, 40}) {
    this->ExpectLikeCpu({777, 777, n, false, true});
  }
}

TYPED_TEST(RmsNormWeightCudaTest, EachGroupOfRowsHasItsWeight) {
  for (const int64_t n : {3, 64, 8200}) {
    this->ExpectLikeCpu({2, 1, n, true, true});
    this->ExpectLikeCpu({6, 3, n, true, true});
  }
}

}  // namespace
}  // namespace xla_ffi_kit
