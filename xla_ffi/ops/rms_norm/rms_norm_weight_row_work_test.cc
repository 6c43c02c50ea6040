// The CUDA kernels with a weight, run on the CPU for every thread of their
// launches and compared with the CPU kernels.

#include "xla_ffi/ops/rms_norm/rms_norm_weight_row_work.h"

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_dispatch.h"
#include "xla_ffi/ops/rms_norm/row_work_runner.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the kernels' own work
using testing::Distance;
using testing::Largest;
using testing::RunLaunch;
using testing::RunRows;

// RowSumsKernel: its threads one after the other between those points where
// they wait for each other.
template <typename Work>
void RunRowSums(const typename Work::Args& args, const RowSumsPlan& plan) {
  using A = typename Work::A;
  const RowSums& s = plan.sums;
  const int in_block = plan.shape.threads / s.lanes;
  for (int64_t unit = 0; unit < s.groups * s.parts; ++unit) {
    const int64_t group = unit / s.parts, part = unit % s.parts;
    const int64_t end = (group + 1) * s.rows, step = s.parts * in_block;
    int64_t first = group * s.rows + part * in_block;
    std::vector<Work> work(static_cast<size_t>(plan.shape.threads));
    std::vector<double> sums(work.size());
    std::vector<A> shared(plan.shape.shared_bytes / sizeof(A));
    const auto each = [&](auto fn) {
      for (int thread = 0; thread < plan.shape.threads; ++thread) {
        fn(thread, first + thread / s.lanes,
           RowThread{thread % s.lanes, s.lanes, nullptr});
      }
    };
    each([&](int thread, int64_t row, const RowThread& place) {
      if (row < end) work[thread].Fetch(args, row, place);
    });
    for (int64_t slot = 0; slot < s.slots_per_part; ++slot) {
      for (int i = 0; i < kRowsPerSlot && first < end; ++i, first += step) {
        each([&](int thread, int64_t row, const RowThread& place) {
          sums[thread] = 0;
          if (row < end) sums[thread] = work[thread].Sum(args, row, place);
          if (row + step < end) work[thread].Fetch(args, row + step, place);
        });
        each([&](int thread, int64_t row, const RowThread& place) {
          double total = 0;
          for (int k = 0; k < s.lanes; ++k) {
            total += sums[thread / s.lanes * s.lanes + k];
          }
          if (row < end) work[thread].Finish(args, row, place, total);
        });
      }
      A* out = args.sums + s.SlotBegin(group, part, slot);
      each([&](int thread, int64_t, const RowThread& place) {
        A* own = shared.data() + thread / s.lanes * s.count;
        work[thread].StoreSums(args, place, in_block == 1 ? out : own);
      });
      for (int64_t c = 0; in_block > 1 && c < s.count; ++c) {
        out[c] = SumOfRows(shared.data(), in_block, s.count, c);
      }
    }
  }
}

// ColumnSumsKernel, likewise.
template <typename Work>
void RunColumnSums(const typename Work::Args& args, const ColumnSums& columns) {
  const RowSums& s = columns.sums;
  for (int64_t unit = 0; unit < s.groups * s.parts; ++unit) {
    const int64_t group = unit / s.parts, part = unit % s.parts;
    for (int64_t pack = 0; pack < columns.packs; ++pack) {
      Work work;
      for (int64_t row = group * s.rows + part; row < (group + 1) * s.rows;
           row += s.parts) {
        work.Add(args, row, pack);
      }
      work.Store(args.sums + s.SlotBegin(group, part, 0), pack);
    }
  }
}

// SlotSumsKernel, likewise.
template <typename A, typename R>
void RunSlotSums(const std::vector<A>& sums, const RowSums& s, R* out) {
  for (int64_t i = 0; i < s.groups * s.count; ++i) {
    double total = 0;
    for (int warp = 0; warp < kSlotWarps; ++warp) {
      total += SlotSum(sums.data(), s, i / s.count, i % s.count, warp);
    }
    out[i] = static_cast<R>(static_cast<A>(total));
  }
}

// One launch: rows, those that share a weight, elements of a row.
struct Case {
  int64_t rows, rows_per_weight, n;
  int64_t max_shared;
  bool has_residual, is_aligned;
};

template <typename T>
class WeightRowWorkTest : public ::testing::Test {
 protected:
  using R = ComponentType<T>;
  using A = AccumulationType<T>;
  static constexpr double kUnits = 8;
  static constexpr double kEps = 1e-3;

  void ExpectLikeCpu(const Case& c) {
    SCOPED_TRACE(::testing::Message()
                 << c.rows << " rows of " << c.n << ", residual "
                 << c.has_residual << ", aligned " << c.is_aligned);
    const auto size = static_cast<size_t>(c.rows * c.n);
    x = testing::RandomNormal<T>(size, 1);
    residual = testing::RandomNormal<T>(size, 2);
    ct = testing::RandomNormal<T>(size, 3);
    ct_sum = testing::RandomNormal<T>(size, 4);
    weight = testing::RandomNormal<T>(c.rows / c.rows_per_weight * c.n, 5);
    h = std::vector<T>(size);
    scale = std::vector<A>(c.rows);
    DispatchElements<R>(c.n, kComponents<T>, c.is_aligned, [&](auto elements) {
      ExpectForward<decltype(elements)>(c);
      ExpectBackward<decltype(elements)>(c);
    });
  }

  // Leaves h and scale as the CPU computes them.
  template <typename E>
  void ExpectForward(const Case& c) {
    std::vector<T> y(x.size()), sum(x.size()), want_y(x.size());
    std::vector<A> got_scale(scale.size());
    RmsNormForward<T> cpu;
    cpu.x = x.data();
    cpu.weight = weight.data();
    cpu.residual = c.has_residual ? residual.data() : nullptr;
    cpu.y = want_y.data();
    cpu.sum = c.has_residual ? h.data() : nullptr;
    cpu.scale = scale.data();
    cpu.n = c.n;
    cpu.rows_per_weight = c.rows_per_weight;
    cpu.eps = kEps;
    RmsNorm(cpu, 0, c.rows);
    if (!c.has_residual) h = x;

    const WeightForwardRows<R> args = {
        AsComponents(x.data()),
        AsComponents(weight.data()),
        c.has_residual ? AsComponents(residual.data()) : nullptr,
        AsComponents(y.data()),
        c.has_residual ? AsComponents(sum.data()) : nullptr,
        got_scale.data(),
        c.rows,
        c.rows_per_weight,
        Components(c) / E::W,
        1.0 / static_cast<double>(c.n),
        kEps};
    RunLaunch<WeightForwardInRegisters<E>, WeightForwardWide<E>>(
        args, Components(c) * sizeof(R), c.max_shared);
    EXPECT_LT(Distance(y, want_y, Largest(want_y)), kUnits);
    EXPECT_LT(Distance(got_scale, scale, Largest(scale)), kUnits);
    if (c.has_residual) {
      EXPECT_EQ(Distance(sum, h, Largest(h)), 0);
    }
  }

  template <typename E>
  void ExpectBackward(const Case& c) {
    const int64_t weights = c.rows / c.rows_per_weight;
    std::vector<T> dx(x.size()), want_dx(x.size()), dweight(weight.size()),
        want_dweight(weight.size());
    RmsNormBackward<T> cpu;
    cpu.scale = scale.data();
    cpu.x = h.data();
    cpu.weight = weight.data();
    cpu.ct = ct.data();
    cpu.ct_sum = c.has_residual ? ct_sum.data() : nullptr;
    cpu.dx = want_dx.data();
    cpu.n = c.n;
    cpu.rows_per_weight = c.rows_per_weight;
    RmsNormGradient(cpu, 0, c.rows);
    for (int64_t w = 0; w < weights; ++w) {
      std::vector<double> sums(static_cast<size_t>(Components(c)));
      RmsNormWeightGradient(cpu, w * c.rows_per_weight,
                            (w + 1) * c.rows_per_weight, 0, c.n, sums.data());
      R* out = AsComponents(want_dweight.data() + w * c.n);
      for (const double value : sums) *out++ = R(static_cast<A>(value));
    }

    // dx in the place of ct, as it may be.
    dx = ct;
    WeightBackwardRows<R> args = {
        scale.data(),
        AsComponents(h.data()),
        AsComponents(weight.data()),
        AsComponents(dx.data()),
        c.has_residual ? AsComponents(ct_sum.data()) : nullptr,
        AsComponents(dx.data()),
        /*sums=*/nullptr,
        c.rows,
        c.rows_per_weight,
        Components(c) / E::W,
        1.0 / static_cast<double>(c.n)};
    std::vector<A> slots;
    R* out = AsComponents(dweight.data());
    constexpr int64_t kResident = 3;
    if (RowsFitRegisters(args.packs)) {
      const RowSumsPlan plan = PlanRowSums(
          PlanRowsOfGroups(weights, c.rows_per_weight, args.packs), weights,
          c.rows_per_weight, Components(c), sizeof(A), kResident);
      slots.resize(static_cast<size_t>(plan.sums.Size()));
      args.sums = slots.data();
      RunRowSums<WeightBackwardInRegisters<E>>(args, plan);
      RunSlotSums(slots, plan.sums, out);
    } else {
      const ColumnSumsPlan plan =
          PlanColumnSums(weights, c.rows_per_weight, args.packs, Components(c),
                         100 * kResident);
      slots.resize(static_cast<size_t>(plan.columns.sums.Size()));
      args.sums = slots.data();
      RunColumnSums<WeightGradientColumns<E>>(args, plan.columns);
      RunLaunch<WeightBackwardInRegisters<E>, WeightBackwardWide<E>>(
          args, 2 * Components(c) * sizeof(R), c.max_shared);
      RunSlotSums(slots, plan.columns.sums, out);
    }
    // Of the terms: sums of them may cancel.
    const double terms = Largest(scale) * Largest(ct) * Largest(weight);
    EXPECT_LT(Distance(dx, want_dx, terms), kUnits);
    const double sums = Largest(scale) * Largest(ct) * Largest(h) *
                        std::sqrt(static_cast<double>(c.rows_per_weight));
    EXPECT_LT(Distance(dweight, want_dweight, sums), kUnits);
  }

  static int64_t Components(const Case& c) { return c.n * kComponents<T>; }

  std::vector<T> x, residual, ct, ct_sum, weight, h;
  std::vector<A> scale;
};

using Types = ::testing::Types<Float16, BFloat16, float, double,
                               std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(WeightRowWorkTest, Types);

TYPED_TEST(WeightRowWorkTest, EveryLengthIsLikeTheCpu) {
  for (const int64_t n : {1, 2, 3, 7, 8, 40, 63, 250, 1024, 2047, 4100}) {
    for (const bool has_residual : {false, true}) {
      for (const bool is_aligned : {false, true}) {
        this->ExpectLikeCpu({3, 3, n, 227 * 1024, has_residual, is_aligned});
      }
    }
  }
}

TYPED_TEST(WeightRowWorkTest, RowsTooLongForRegistersAndForSharedMemory) {
  for (const bool has_residual : {false, true}) {
    for (const int64_t max_shared : {0, 1 << 20}) {
      this->ExpectLikeCpu({2, 2, 16400, max_shared, has_residual, true});
    }
  }
}

TYPED_TEST(WeightRowWorkTest, ManyRowsFillManySlots) {
  for (const int64_t n : {1, 8, 40, 1024}) {
    this->ExpectLikeCpu({777, 777, n, 0, false, true});
  }
}

TYPED_TEST(WeightRowWorkTest, EachGroupOfRowsHasItsWeight) {
  for (const int64_t n : {3, 64, 8200}) {
    this->ExpectLikeCpu({24, 1, n, 0, true, true});
    this->ExpectLikeCpu({24, 6, n, 0, true, true});
  }
}

}  // namespace
}  // namespace xla_ffi_kit
