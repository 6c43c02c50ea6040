// Lines among threads: whole lines to each, or each line to all of them.
//
// A kernel that works on the lines of an array says how many they are, how long
// and what an element costs. Of that the plan is made, once and here, so that
// it is the same of (2, 10^9), (10^8, 2) and (100000, 100) in every kernel:
//
//   const LineWork work = {rows, length, /*element_ns=*/3};
//   const LinePlan plan = PlanLines(executor, work);
//   ForEachLine(executor, work.lines, plan,
//               [&](int64_t begin, int64_t end) noexcept { ... });
//
// A kernel whose lines several threads can share says what that costs as well,
// and gives ForEachLine() a function for one such line, most of them by means
// of ReduceThenApply().

#ifndef XLA_FFI_CORE_LINES_H_
#define XLA_FFI_CORE_LINES_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_kit {

// Work for which one more thread is worth waking: less is done before it comes.
inline constexpr double kThreadNs = 50'000;

struct LineWork {
  int64_t lines = 0;   // or groups of lines that are worked on together
  int64_t length = 0;  // elements of each
  // The cost of an element for one thread, in nanoseconds.
  double element_ns = 0;
  // The cost of all passes over an element if threads share a line; 0 if they
  // cannot share one.
  double shared_ns = 0;
  // The cost of the part of a shared line that one thread does alone.
  double alone_ns = 0;
};

struct LinePlan {
  // Into how many even parts to divide the lines or, of lines that are shared,
  // each line.
  int64_t parts = 1;
  bool is_shared = false;
};

// The plan that takes the least time: by its estimate, and in floating point,
// so that no size overflows.
inline LinePlan PlanLines(int64_t threads, const LineWork& work) {
  if (threads < 2 || work.lines == 0) return {};
  const auto parts = [&](int64_t most, double ns) {
    const double worth = std::min<double>(most, ns / kThreadNs);
    return worth < 2 ? 1
                     : std::min(static_cast<int64_t>(worth),
                                kPartsPerThread * threads);
  };
  const auto lines = static_cast<double>(work.lines);
  const auto length = static_cast<double>(work.length);
  const double line_ns = length * work.element_ns;
  const LinePlan whole = {parts(work.lines, lines * line_ns), false};
  if (work.shared_ns == 0) return whole;
  const double shared_ns = length * work.shared_ns;
  const LinePlan shared = {parts(work.length, shared_ns), true};
  if (shared.parts == 1) return whole;
  // The last of the parts of whole lines may be one thread's alone. Each time
  // that threads share a line they are woken anew.
  const auto rounds = [&](int64_t items) {
    const int64_t used = std::min(threads, whole.parts);
    return static_cast<double>((items + used - 1) / used);
  };
  const double as_shared =
      lines *
      (shared_ns / static_cast<double>(std::min(threads, shared.parts)) +
       work.alone_ns + kThreadNs / 4);
  return as_shared < rounds(work.lines) * line_ns ? shared : whole;
}

inline LinePlan PlanLines(const Executor& executor, const LineWork& work) {
  return PlanLines(executor.num_threads(), work);
}

// Calls whole(begin, end) or whole(begin, end, worker) on ranges of lines that
// cover [0, lines) exactly once, possibly at the same time on several threads.
// `whole` is noexcept; `plan` is not shared.
template <typename Whole>
void ForEachLine(const Executor& executor, int64_t lines, const LinePlan& plan,
                 const Whole& whole) {
  ParallelParts(executor, lines, plan.parts, whole);
}

// The same, but if the plan says so, calls share(line) for one line after the
// other on this thread; share() divides the line into `plan.parts`.
template <typename Whole, typename Share>
void ForEachLine(const Executor& executor, int64_t lines, const LinePlan& plan,
                 const Whole& whole, const Share& share) {
  if (!plan.is_shared) return ForEachLine(executor, lines, plan, whole);
  for (int64_t line = 0; line < lines; ++line) share(line);
}

// Handles one line by all threads, in two passes. It calls reduce(part, begin,
// end) on each of `parts` even parts of [0, length). Then it calls combine() on
// this thread, which computes for each part what the part needs of those before
// it. Last it calls apply(part, begin, end) on each part. `reduce` and `apply`
// are noexcept, and may also take a worker, whose number is below `parts`.
template <typename Reduce, typename Combine, typename Apply>
void ReduceThenApply(const Executor& executor, int64_t length, int64_t parts,
                     const Reduce& reduce, const Combine& combine,
                     const Apply& apply) {
  const auto run = [&](const auto& fn) {
    ParallelTasks(executor, parts, [&](int64_t part, int64_t worker) noexcept {
      parallel_for_internal::Call(fn, worker, part,
                                  PartBegin(length, parts, part),
                                  PartBegin(length, parts, part + 1));
    });
  };
  run(reduce);
  combine();
  run(apply);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_LINES_H_
