#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/packed_key.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/core/small_sort.h"
#include "xla_ffi/core/vector_sort.h"
#include "xla_ffi/ops/sort/parallel_sort.h"
#include "xla_ffi/ops/sort/sort.h"
#include "xla_ffi/ops/sort/sorted_row.h"
#include "xla_ffi/ops/sort/vector_codes.h"

namespace xla_ffi_kit {
namespace sort_internal {
namespace {

// packed[i - begin] = (code of element i, i) for begin <= i < end.
template <typename Packed>
void PackRange(const KeyColumn& column, int64_t begin, int64_t end,
               Packed* packed) {
  VisitColumn(column, [&](const auto* keys, const auto& code) {
    PackKeys(code, keys + begin, end - begin, begin, packed);
  });
}

// The same indices, with the codes of another column.
template <typename Packed>
void Repack(const KeyColumn& column, Packed* packed, int64_t n) {
  VisitColumn(column, [&](const auto* keys, const auto& code) {
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t index = Packing<Packed>::Index(packed[i]);
      packed[i] = Packing<Packed>::Join(code.Encode(keys[index]), index);
    }
  });
}

template <typename Packed>
void SortPacked(Packed* packed, int64_t n) {
  n <= kMaxSmallSort ? SmallSort(packed, n) : VectorSort(packed, n);
}

// The end of the run of equal codes that begins at `begin`.
template <typename Packed>
int64_t EndOfRun(const Packed* packed, int64_t begin, int64_t n) {
  const uint64_t code = Packing<Packed>::Code(packed[begin]);
  int64_t end = begin + 1;
  while (end < n && Packing<Packed>::Code(packed[end]) == code) ++end;
  return end;
}

// Sorts each run of equal codes in packed[0, n), which is in order of the keys
// before `level`, by the keys from `level` on. Within a run the indices ascend,
// so the sort remains stable.
template <typename Packed>
void SortRuns(const std::vector<KeyColumn>& keys, size_t level, Packed* packed,
              int64_t n) {
  if (level == keys.size()) return;
  for (int64_t begin = 0, end; begin < n; begin = end) {
    end = EndOfRun(packed, begin, n);
    if (end - begin == 1) continue;
    Repack(keys[level], packed + begin, end - begin);
    SortPacked(packed + begin, end - begin);
    SortRuns(keys, level + 1, packed + begin, end - begin);
  }
}

// The same by all threads. Each takes the runs that begin in its part; the
// parts are found first, because sorting a run changes its codes.
template <typename Packed>
void SortRunsInParallel(const std::vector<KeyColumn>& keys, Packed* packed,
                        int64_t n, const Executor& executor) {
  if (keys.size() == 1) return;
  const int64_t parts = kPartsPerThread * executor.num_threads();
  std::vector<int64_t> begins = {0};
  for (int64_t part = 1; part < parts; ++part) {
    const int64_t at = std::max(PartBegin(n, parts, part), begins.back());
    begins.push_back(at < n && at > 0 ? EndOfRun(packed, at - 1, n) : at);
  }
  begins.push_back(n);
  ParallelTasks(executor, parts, [&](int64_t part) {
    SortRuns(keys, 1, packed + begins[part], begins[part + 1] - begins[part]);
  });
}

std::vector<KeyColumn> KeysOfRow(const SortProblem& problem, int64_t row) {
  std::vector<KeyColumn> keys;
  for (int64_t i = 0; i < problem.num_keys; ++i) {
    const SortOperand& operand = problem.operands[i];
    keys.push_back({operand.code, static_cast<const char*>(operand.in) +
                                      row * problem.length * operand.width});
  }
  return keys;
}

const KeyColumn* OnlyKey(const std::vector<KeyColumn>& keys) {
  return keys.size() == 1 ? &keys[0] : nullptr;
}

// Short rows are packed and written several at a time, block size in elements:
// else to begin and to end takes longer than to sort. What is gathered is in
// the first-level cache then.
constexpr int64_t kGroup = 1024;

// Indices count from the first row of a group.
template <typename Packed>
bool SortRows(const SortProblem& problem, int64_t begin, int64_t end) {
  const int64_t n = problem.length;
  const int64_t group = std::max<int64_t>(kGroup / n, 1);
  const HostScratch<Packed> packed(std::min(group, end - begin) * n);
  if (packed.get() == nullptr) return false;
  for (int64_t row = begin; row < end; row += group) {
    const int64_t count = std::min(group, end - row) * n;
    const std::vector<KeyColumn> keys = KeysOfRow(problem, row);
    PackRange(keys[0], 0, count, packed.get());
    for (int64_t i = 0; i < count; i += n) {
      SortPacked(packed.get() + i, n);
      SortRuns(keys, 1, packed.get() + i, n);
    }
    const bool alone = group == 1;
    WriteRows(problem, alone ? OnlyKey(keys) : nullptr,
              alone ? Iotas(problem, row) : 0, packed.get(), row, 0, count);
  }
  return true;
}

template <typename Packed>
bool SortLongRows(const SortProblem& problem, const Executor& executor) {
  const int64_t n = problem.length;
  const HostScratch<Packed> packed(n);
  if (packed.get() == nullptr) return false;
  for (int64_t row = 0; row < problem.rows; ++row) {
    const std::vector<KeyColumn> keys = KeysOfRow(problem, row);
    const auto pack = [&](int64_t begin, int64_t end, Packed* out) {
      PackRange(keys[0], begin, end, out);
    };
    const auto finish = [](Packed*, int64_t) {};
    ParallelSort(executor, n, pack, finish, packed.get());
    SortRunsInParallel(keys, packed.get(), n, executor);
    const uint64_t iotas = Iotas(problem, row);
    // The gathers of a part may take longer than those of another.
    const int64_t parts = 2 * kPartsPerThread * executor.num_threads();
    ParallelParts(executor, n, parts, [&](int64_t begin, int64_t end) {
      WriteRows(problem, OnlyKey(keys), iotas, packed.get(), row, begin, end);
    });
  }
  return true;
}

template <typename Packed>
bool SortAs(const SortProblem& problem, const Executor& executor) {
  if (IsRowByRow(problem, executor)) {
    return SortLongRows<Packed>(problem, executor);
  }
  std::atomic<bool> ok{true};
  ParallelParts(executor, problem.rows, NumRowParts(problem, executor),
                [&](int64_t begin, int64_t end) {
                  if (!SortRows<Packed>(problem, begin, end)) ok = false;
                });
  return ok.load();
}

}  // namespace

bool SortWithPayload(const SortProblem& problem, const Executor& executor) {
  bool fits_64_bits = problem.length <= int64_t{1} << 32;
  for (int64_t i = 0; i < problem.num_keys; ++i) {
    fits_64_bits = fits_64_bits && problem.operands[i].width <= 4;
  }
  return fits_64_bits ? SortAs<uint64_t>(problem, executor)
                      : SortAs<Pair64>(problem, executor);
}

}  // namespace sort_internal
}  // namespace xla_ffi_kit
