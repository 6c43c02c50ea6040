#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "accelerate/core/ordered_key.h"
#include "accelerate/core/packed_key.h"
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

// The keys of a row of one operand.
struct KeyColumn {
  KeyCode code;
  const char* data;
};

// Calls fn(typed data, code) for the column's type.
template <typename Fn>
auto VisitColumn(const KeyColumn& column, const Fn& fn) {
  return std::visit(
      [&](const auto& code) {
        using K = typename std::decay_t<decltype(code)>::Key;
        return fn(reinterpret_cast<const K*>(column.data), code);
      },
      column.code);
}

template <typename Packed, typename Element>
void Gather(const Packed* packed, int64_t n, const void* in, void* out) {
  const auto* from = static_cast<const Element*>(in);
  auto* to = static_cast<Element*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = from[Packing<Packed>::Index(packed[i])];
  }
}

template <typename Packed>
void GatherBytes(const Packed* packed, int64_t n, int64_t width, const void* in,
                 void* out) {
  switch (width) {
    case 1:
      return Gather<Packed, uint8_t>(packed, n, in, out);
    case 2:
      return Gather<Packed, uint16_t>(packed, n, in, out);
    case 4:
      return Gather<Packed, uint32_t>(packed, n, in, out);
    case 8:
      return Gather<Packed, uint64_t>(packed, n, in, out);
    default:
      return Gather<Packed, Pair64>(packed, n, in, out);
  }
}

// Whether in[i] is i for every i below n.
bool IsIota(const uint32_t* in, int64_t n) {
  constexpr int64_t kBlock = 1024;  // others are found out by their first one
  for (int64_t i = 0; i < n; i += kBlock) {
    uint32_t difference = 0;
    for (int64_t j = i; j < std::min(i + kBlock, n); ++j) {
      difference |= in[j] ^ static_cast<uint32_t>(j);
    }
    if (difference != 0) return false;
  }
  return true;
}

// Returns which operands of the row are indices, as argsort passes them; bit i
// stands for operand i. The packed keys contain the sorted indices, so they
// need not be gathered, which is a large part of a sort.
uint64_t Iotas(const SortProblem& problem, int64_t row) {
  uint64_t iotas = 0;
  const auto count = static_cast<int64_t>(problem.operands.size());
  for (int64_t i = problem.num_keys; i < std::min<int64_t>(count, 64); ++i) {
    const SortOperand& operand = problem.operands[i];
    if (operand.width != 4) continue;
    const auto* in = static_cast<const uint32_t*>(operand.in);
    if (IsIota(in + row * problem.length, problem.length)) {
      iotas |= uint64_t{1} << i;
    }
  }
  return iotas;
}

template <typename Packed>
void CopyIndices(const Packed* packed, int64_t n, void* out) {
  auto* to = static_cast<uint32_t*>(out);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<uint32_t>(Packing<Packed>::Index(packed[i]));
  }
}

// The only key of a row, in sorted order: read off the codes, except keys that
// are equal and have different bits.
template <typename Packed>
void WriteKeys(const KeyColumn& column, const Packed* packed, int64_t n,
               void* out) {
  VisitColumn(column, [&](const auto* in, const auto& code) {
    using Code = std::decay_t<decltype(code)>;
    auto* to = static_cast<typename Code::Key*>(out);
    UnpackKeys(code, packed, n, to);
    if constexpr (Code::kHasTies) {
      for (const uint64_t tied : {code.ZeroCode(), code.NanCode()}) {
        const Packed* tie = std::lower_bound(
            packed, packed + n, tied, [](const Packed& a, uint64_t bound) {
              return Packing<Packed>::Code(a) < bound;
            });
        for (; tie < packed + n && Packing<Packed>::Code(*tie) == tied; ++tie) {
          to[tie - packed] = in[Packing<Packed>::Index(*tie)];
        }
      }
    }
  });
}

// Writes the elements [begin, end) of every operand from the row `row` on, in
// the order of their packed keys. What is not gathered by its index has to be
// of one row: the only key, null if it is gathered, and the iotas.
template <typename Packed>
void WriteRows(const SortProblem& problem, const KeyColumn* only_key,
               uint64_t iotas, const Packed* packed, int64_t row, int64_t begin,
               int64_t end) {
  const int64_t n = end - begin;
  packed += begin;
  for (size_t i = 0; i < problem.operands.size(); ++i) {
    const SortOperand& operand = problem.operands[i];
    const int64_t row_bytes = row * problem.length * operand.width;
    const void* in = static_cast<const char*>(operand.in) + row_bytes;
    void* out =
        static_cast<char*>(operand.out) + row_bytes + begin * operand.width;
    if (i == 0 && only_key != nullptr) {
      WriteKeys(*only_key, packed, n, out);
    } else if (i < 64 && (iotas >> i) % 2 != 0) {
      CopyIndices(packed, n, out);
    } else {
      GatherBytes(packed, n, operand.width, in, out);
    }
    if (operand.is_bf16) {
      QuietBF16Nans(static_cast<uint16_t*>(out), n);
    }
  }
}

// packed[i - begin] = (code of element i, i) for begin <= i < end.
template <typename Packed>
void PackRange(const KeyColumn& column, int64_t begin, int64_t end,
               Packed* packed) {
  VisitColumn(column, [&](const auto* keys, const auto& code) {
    PackKeys(code, keys + begin, end - begin, begin, packed);
  });
}

// Keeps the indices, and replaces the codes by those of another column.
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

// Key number `i` of a row.
KeyColumn KeyOfRow(const SortProblem& problem, int64_t row, int64_t i) {
  const SortOperand& operand = problem.operands[i];
  return {operand.code, static_cast<const char*>(operand.in) +
                            row * problem.length * operand.width};
}

// Sorts each run of equal codes in packed[0, n), which is in order of the keys
// before `level`, by the keys from `level` on; indices count from `row` on.
// Within a run the indices ascend, so the sort remains stable.
template <typename Packed>
void SortRuns(const SortProblem& problem, int64_t row, int64_t level,
              Packed* packed, int64_t n) {
  if (level == problem.num_keys) return;
  const KeyColumn key = KeyOfRow(problem, row, level);
  for (int64_t begin = 0, end; begin < n; begin = end) {
    end = EndOfRun(packed, begin, n);
    if (end - begin == 1) continue;
    Repack(key, packed + begin, end - begin);
    SortPacked(packed + begin, end - begin);
    SortRuns(problem, row, level + 1, packed + begin, end - begin);
  }
}

// Sorts the runs of a whole row, from the second key on, by all threads. Each
// takes the runs that begin in its part. The parts are found first, because
// sorting a run changes its codes. `begins` has room for one more than the
// number of parts.
template <typename Packed>
void SortRunsInParallel(const SortProblem& problem, int64_t row, Packed* packed,
                        int64_t parts, int64_t* begins,
                        const Executor& executor) {
  if (problem.num_keys == 1) return;
  const int64_t n = problem.length;
  begins[0] = 0;
  for (int64_t part = 1; part < parts; ++part) {
    const int64_t at = std::max(PartBegin(n, parts, part), begins[part - 1]);
    begins[part] = at < n && at > 0 ? EndOfRun(packed, at - 1, n) : at;
  }
  begins[parts] = n;
  ParallelTasks(executor, parts, [&](int64_t part) noexcept {
    SortRuns(problem, row, 1, packed + begins[part],
             begins[part + 1] - begins[part]);
  });
}

// Short rows are packed and written several at a time, block size in elements:
// else to begin and to end takes longer than to sort. What is gathered is in
// the first-level cache then.
constexpr int64_t kGroup = 1024;

// How many rows that is.
int64_t RowsOfGroup(const SortProblem& problem) {
  return std::max<int64_t>(kGroup / problem.length, 1);
}

// `packed` has room for a group of rows, within which indices count from the
// first.
template <typename Packed>
void SortRows(const SortProblem& problem, int64_t begin, int64_t end,
              Packed* packed) {
  const int64_t n = problem.length;
  const int64_t group = RowsOfGroup(problem);
  const bool has_more_keys = problem.num_keys > 1;
  for (int64_t row = begin; row < end; row += group) {
    const int64_t count = std::min(group, end - row) * n;
    const KeyColumn first = KeyOfRow(problem, row, 0);
    PackRange(first, 0, count, packed);
    for (int64_t i = 0; i < count; i += n) {
      SortPacked(packed + i, n);
      if (has_more_keys) SortRuns(problem, row, 1, packed + i, n);
    }
    const bool alone = group == 1;
    WriteRows(problem, alone && !has_more_keys ? &first : nullptr,
              alone ? Iotas(problem, row) : 0, packed, row, 0, count);
  }
}

template <typename Packed>
ScratchStatus SortLongRows(const SortProblem& problem,
                           const Executor& executor) {
  const int64_t n = problem.length;
  const int64_t run_parts = kPartsPerThread * executor.num_threads();
  const HostScratch<Packed> packed(n);
  const HostScratch<int64_t> begins(run_parts + 1);
  const ParallelSortScratch<Packed> scratch(executor);
  for (const ScratchStatus& status :
       {packed.status(), begins.status(), scratch.status()}) {
    if (!status) return status;
  }
  for (int64_t row = 0; row < problem.rows; ++row) {
    const KeyColumn first = KeyOfRow(problem, row, 0);
    const auto pack = [&](int64_t begin, int64_t end, Packed* out) {
      PackRange(first, begin, end, out);
    };
    const auto finish = [](Packed*, int64_t) {};
    ParallelSort(executor, n, pack, finish, scratch, packed.get());
    SortRunsInParallel(problem, row, packed.get(), run_parts, begins.get(),
                       executor);
    const KeyColumn* const only_key = problem.num_keys == 1 ? &first : nullptr;
    const uint64_t iotas = Iotas(problem, row);
    // The gathers of a part may take longer than those of another.
    const int64_t parts = 2 * kPartsPerThread * executor.num_threads();
    ParallelParts(executor, n, parts, [&](int64_t begin, int64_t end) noexcept {
      WriteRows(problem, only_key, iotas, packed.get(), row, begin, end);
    });
  }
  return {};
}

template <typename Packed>
ScratchStatus SortAs(const SortProblem& problem, const Executor& executor) {
  const LinePlan plan = PlanRows(problem, executor);
  if (plan.is_shared) return SortLongRows<Packed>(problem, executor);
  const WorkerScratch<Packed> packed(
      NumWorkers(executor, plan.parts),
      std::min(RowsOfGroup(problem), problem.rows) * problem.length);
  if (!packed.status()) return packed.status();
  ForEachLine(executor, problem.rows, plan,
              [&](int64_t begin, int64_t end, int64_t worker) noexcept {
                SortRows(problem, begin, end, packed.of(worker));
              });
  return {};
}

}  // namespace

ScratchStatus SortWithPayload(const SortProblem& problem,
                              const Executor& executor) {
  bool fits_64_bits = problem.length <= int64_t{1} << 32;
  for (int64_t i = 0; i < problem.num_keys; ++i) {
    fits_64_bits = fits_64_bits && problem.operands[i].width <= 4;
  }
  return fits_64_bits ? SortAs<uint64_t>(problem, executor)
                      : SortAs<Pair64>(problem, executor);
}

}  // namespace sort_internal
}  // namespace xla_ffi_accelerate::sort
