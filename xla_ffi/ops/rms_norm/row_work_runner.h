// Runs the CUDA kernels' work on the CPU, for every thread of a launch.

#ifndef XLA_FFI_OPS_RMS_NORM_ROW_WORK_RUNNER_H_
#define XLA_FFI_OPS_RMS_NORM_ROW_WORK_RUNNER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/testing/wide_numbers.h"

namespace xla_ffi_kit::testing {

// RowKernel, one thread after the other. `shared` is one block's memory.
template <typename Work>
void RunRows(const typename Work::Args& args, int lanes, void* shared) {
  for (int64_t row = 0; row < args.rows; ++row) {
    std::vector<Work> work(static_cast<size_t>(lanes));
    std::vector<double> sums(static_cast<size_t>(lanes));
    for (int lane = 0; lane < lanes; ++lane) {
      sums[lane] = work[lane].Sum(args, row, {lane, lanes, shared});
    }
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      for (int lane = 0; lane < offset; ++lane) {
        sums[lane] += sums[lane + offset];
      }
    }
    for (int lane = 0; lane < lanes; ++lane) {
      work[lane].Finish(args, row, {lane, lanes, shared}, sums[0]);
    }
  }
}

// As LaunchRows does, on a device with `max_shared` bytes.
template <typename Registers, typename Wide>
void RunLaunch(typename Wide::Args args, int64_t shared_bytes,
               int64_t max_shared) {
  const RowPlan plan =
      PlanRows(args.rows, args.packs, shared_bytes, max_shared);
  if (plan.path == RowPath::kRegisters) {
    return RunRows<Registers>(args, plan.threads_per_row, nullptr);
  }
  std::vector<char> shared(static_cast<size_t>(plan.shape.shared_bytes));
  RunRows<Wide>(args, plan.threads_per_row,
                shared.empty() ? nullptr : shared.data());
}

template <typename T>
double Largest(const std::vector<T>& values) {
  double largest = 0;
  for (const T& value : values) {
    largest = std::max(largest, static_cast<double>(std::abs(Widen(value))));
  }
  return largest;
}

// Distance in units of T's precision, relative to `magnitude`.
template <typename T>
double Distance(const std::vector<T>& got, const std::vector<T>& expected,
                double magnitude) {
  double distance = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto e = Widen(expected[i]);
    distance =
        std::max(distance, static_cast<double>(std::abs(Widen(got[i]) - e)));
  }
  return distance / magnitude / static_cast<double>(UnitRoundoff<T>());
}

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_OPS_RMS_NORM_ROW_WORK_RUNNER_H_
