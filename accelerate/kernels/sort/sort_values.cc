#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <variant>

#include "accelerate/core/ordered_key.h"
#include "accelerate/core/small_sort.h"
#include "accelerate/core/vector_sort.h"
#include "accelerate/kernels/sort/parallel_sort.h"
#include "accelerate/kernels/sort/sort.h"
#include "accelerate/kernels/sort/vector_keys.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_accelerate::sort {
namespace sort_internal {
namespace {

// Where keys that are equal have different bits, a stable sort leaves them as
// they came. They are together in the output, zeros in one place and NaNs in
// the other, so one pass over the input puts them there in order.
template <typename K, typename Code>
void DecodeWithTies(const K* in, int64_t n, const Code& code, K* codes) {
  K* zeros = std::lower_bound(codes, codes + n, code.ZeroCode());
  K* nans = std::lower_bound(codes, codes + n, code.NanCode());
  DecodeKeys(code, n, codes);
  for (int64_t i = 0; i < n; ++i) {
    const K canonical = code.Canonical(in[i]);
    if (canonical == 0) *zeros++ = in[i];
    if (canonical == code.Nan()) *nans++ = in[i];
  }
}

// Counts every code; for codes of 8 and 16 bits.
template <typename K>
void CountingSort(K* codes, int64_t n, int64_t* counts) {
  constexpr int64_t kCodes = int64_t{1} << (8 * sizeof(K));
  std::fill(counts, counts + kCodes, 0);
  for (int64_t i = 0; i < n; ++i) ++counts[codes[i]];
  for (int64_t c = 0; c < kCodes; ++c) {
    codes = std::fill_n(codes, counts[c], static_cast<K>(c));
  }
}

// Sorts codes of rows of length n in place, with scratch for each worker.
template <typename K>
class CodeSorter {
 public:
  CodeSorter(int64_t workers, int64_t n)
      : counts_(workers, IsCounted(n) ? kCodes : 0),
        wide_(workers, IsWidened(n) ? n : 0) {}

  ScratchStatus status() const {
    return counts_.status() ? wide_.status() : counts_.status();
  }

  void Sort(K* codes, int64_t n, int64_t worker) const {
    if (n <= kMaxSmallSort) return SmallSort(codes, n);
    if constexpr (sizeof(K) >= 4) {
      VectorSort(codes, n);
    } else if (IsCounted(n)) {
      CountingSort(codes, n, counts_.of(worker));
    } else {
      // Rather than instantiate the vectorized sort for one more type.
      uint32_t* const wide = wide_.of(worker);
      std::copy(codes, codes + n, wide);
      VectorSort(wide, n);
      std::transform(wide, wide + n, codes,
                     [](uint32_t code) { return static_cast<K>(code); });
    }
  }

 private:
  static constexpr int64_t kCodes =
      sizeof(K) < 4 ? int64_t{1} << (8 * sizeof(K) % 32) : 0;

  static bool IsCounted(int64_t n) { return sizeof(K) < 4 && n >= kCodes; }
  static bool IsWidened(int64_t n) {
    return sizeof(K) < 4 && !IsCounted(n) && n > kMaxSmallSort;
  }

  const WorkerScratch<int64_t> counts_;
  const WorkerScratch<uint32_t> wide_;
};

// Block size, in elements, of encoding and decoding short rows.
constexpr int64_t kGroup = 2048;

template <typename K, typename Code>
void SortRows(const K* in, int64_t rows, int64_t n, const Code& code,
              const CodeSorter<K>& sorter, int64_t worker, K* out) {
  const int64_t group = std::max<int64_t>(kGroup / n, 1);
  for (int64_t row = 0; row < rows; row += group) {
    const int64_t count = std::min(group, rows - row) * n;
    const bool has_ties = EncodeKeys(code, in, count, out);
    for (int64_t i = 0; i < count; i += n) {
      sorter.Sort(out + i, n, worker);
      if constexpr (Code::kHasTies) {
        if (has_ties) DecodeWithTies(in + i, n, code, out + i);
      }
    }
    if (!has_ties) DecodeKeys(code, count, out);
    in += count;
    out += count;
  }
}

// Quiets the NaNs of bf16, as XLA does.
void QuietNans(const SortOperand& operand, int64_t begin, int64_t end) {
  if (!operand.is_bf16) return;
  QuietBF16Nans(static_cast<uint16_t*>(operand.out) + begin, end - begin);
}

// One row, 32 or 64 bits an element, by all threads.
template <typename K, typename Code>
void SortLongRow(const K* in, int64_t n, const Code& code,
                 const Executor& executor,
                 const ParallelSortScratch<K>& scratch, K* out) {
  std::atomic<bool> has_ties{false};
  const auto pack = [&](int64_t begin, int64_t end, K* codes) {
    if (EncodeKeys(code, in + begin, end - begin, codes)) {
      has_ties.store(true, std::memory_order_relaxed);
    }
  };
  const auto finish = [&](K* codes, int64_t count) {
    if (!has_ties.load()) DecodeKeys(code, count, codes);
  };
  ParallelSort(executor, n, pack, finish, scratch, out);
  if constexpr (Code::kHasTies) {
    if (has_ties.load()) DecodeWithTies(in, n, code, out);
  }
}

// Row after row by all threads.
template <typename K, typename Code,
          std::enable_if_t<(sizeof(K) >= 4), int> = 0>
ScratchStatus SortLongRows(const SortProblem& problem, const Code& code,
                           int64_t /*parts*/, const Executor& executor) {
  const int64_t n = problem.length;
  const auto* const in = static_cast<const K*>(problem.operands[0].in);
  auto* const out = static_cast<K*>(problem.operands[0].out);
  const ParallelSortScratch<K> scratch(executor);
  if (!scratch.status()) return scratch.status();
  for (int64_t row = 0; row < problem.rows; ++row) {
    SortLongRow(in + row * n, n, code, executor, scratch, out + row * n);
  }
  return {};
}

// The same for elements of 8 or 16 bits: each thread counts every code in its
// own memory.
template <typename K, typename Code, std::enable_if_t<(sizeof(K) < 4), int> = 0>
ScratchStatus SortLongRows(const SortProblem& problem, const Code& code,
                           int64_t parts, const Executor& executor) {
  constexpr int64_t kCodes = int64_t{1} << (8 * sizeof(K));
  const SortOperand& operand = problem.operands[0];
  const int64_t n = problem.length, workers = NumWorkers(executor, parts);
  const WorkerScratch<int64_t> counts(workers, kCodes);
  if (!counts.status()) return counts.status();
  int64_t* const ends = counts.of(0);  // of each code's run, at last
  const auto add_counts = [&] {
    for (int64_t worker = 1; worker < workers; ++worker) {
      const int64_t* const other = counts.of(worker);
      for (int64_t c = 0; c < kCodes; ++c) ends[c] += other[c];
    }
    std::partial_sum(ends, ends + kCodes, ends);
  };
  for (int64_t row = 0; row < problem.rows; ++row) {
    const K* const in = static_cast<const K*>(operand.in) + row * n;
    K* const out = static_cast<K*>(operand.out) + row * n;
    std::atomic<bool> has_ties{false};
    for (int64_t i = 0; i < workers; ++i) {
      std::fill_n(counts.of(i), kCodes, 0);
    }
    ReduceThenApply(
        executor, n, parts,
        [&](int64_t, int64_t begin, int64_t end, int64_t worker) noexcept {
          int64_t* const count = counts.of(worker);
          std::array<K, kGroup> codes;
          for (int64_t i = begin, some; i < end; i += some) {
            some = std::min(kGroup, end - i);
            if (EncodeKeys(code, in + i, some, codes.data())) {
              has_ties.store(true, std::memory_order_relaxed);
            }
            for (int64_t j = 0; j < some; ++j) ++count[codes[j]];
          }
        },
        add_counts,
        [&](int64_t, int64_t begin, int64_t end) noexcept {
          int64_t c = std::upper_bound(ends, ends + kCodes, begin) - ends;
          for (int64_t i = begin; i < end; ++c) {
            const int64_t stop = std::min(end, ends[c]);
            std::fill(out + i, out + stop, static_cast<K>(c));
            i = stop;
          }
          if (!has_ties.load()) DecodeKeys(code, end - begin, out + begin);
        });
    if constexpr (Code::kHasTies) {
      if (has_ties.load()) DecodeWithTies(in, n, code, out);
    }
  }
  QuietNans(operand, 0, problem.rows * n);
  return {};
}

}  // namespace

ScratchStatus SortValues(const SortProblem& problem, const Executor& executor) {
  const SortOperand& operand = problem.operands[0];
  const int64_t n = problem.length;
  const auto sort = [&](const auto& code) -> ScratchStatus {
    using K = typename std::decay_t<decltype(code)>::Key;
    const auto* in = static_cast<const K*>(operand.in);
    auto* out = static_cast<K*>(operand.out);
    const LinePlan plan = PlanRows(problem, executor);
    if (plan.is_shared) {
      return SortLongRows<K>(problem, code, plan.parts, executor);
    }
    const CodeSorter<K> sorter(NumWorkers(executor, plan.parts), n);
    if (!sorter.status()) return sorter.status();
    ForEachLine(executor, problem.rows, plan,
                [&](int64_t begin, int64_t end, int64_t worker) noexcept {
                  SortRows(in + begin * n, end - begin, n, code, sorter, worker,
                           out + begin * n);
                  QuietNans(operand, begin * n, end * n);
                });
    return {};
  };
  return std::visit(sort, operand.code);
}

}  // namespace sort_internal
}  // namespace xla_ffi_accelerate::sort
