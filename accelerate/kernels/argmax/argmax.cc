#include "accelerate/kernels/argmax/argmax.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "accelerate/core/ordered_key.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/argmax/argmax.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

#ifndef ACCELERATE_KERNELS_ARGMAX_ONCE
#define ACCELERATE_KERNELS_ARGMAX_ONCE
namespace xla_ffi_accelerate::argmax {
namespace {

// Block size, in lines, unless they are long.
constexpr int64_t kColumns = 256;

// The 16-bit floats, which one kernel serves: how they are ordered.
using Half = FloatCode<uint16_t>;

// A problem, and the kernel that solves it.
struct Job : ArgmaxProblem {
  int64_t width;   // bytes an element
  int64_t stride;  // from an element of a line to its next, in elements
  Half half = {};  // of an element type Half
  void (*run)(const Job&, int64_t begin, int64_t end);  // tasks [begin, end)
};

int64_t Tiles(const Job& p) { return (p.inner + kColumns - 1) / kColumns; }

// The kernels compute indices of 32 bits, which suffice, for results of any
// width.
void Store(const Job& p, int64_t at, const int32_t* args, int64_t count) {
  if (p.index_width == 4) {
    std::copy_n(args, count, static_cast<int32_t*>(p.out) + at);
  } else {
    std::copy_n(args, count, static_cast<int64_t*>(p.out) + at);
  }
}

}  // namespace
}  // namespace xla_ffi_accelerate::argmax
#endif

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::argmax {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elements of any type as lanes whose order is that of argmax.

// Integers, f32 and f64, compared as they are.
template <typename T>
struct PlainLanes {
  using Element = T;
  using Lane = T;
  static constexpr bool kHasNan = std::is_floating_point_v<T>;

  Lane Get(T x) const { return x; }
  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, const T* x) const {
    return hn::LoadU(d, x);
  }
};

// f16 and bf16, as integers in the same order; equal for equal elements. A NaN
// is beyond every other: the first one wins like any first winner.
struct HalfLanes {
  using Element = int16_t;
  using Lane = int16_t;
  static constexpr bool kHasNan = false;

  int16_t infinity;      // its bits
  int16_t min_non_zero;  // bits of the smallest number that is not equal to 0.0
  int16_t nan_code;      // beyond every other

  Lane Get(int16_t bits) const {
    const int16_t magnitude = bits & 0x7fff;
    if (magnitude > infinity) return nan_code;
    if (magnitude < min_non_zero) return 0;
    return bits < 0 ? static_cast<int16_t>(-magnitude) : magnitude;
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, const int16_t* x) const {
    const auto bits = hn::LoadU(d, x);
    const auto magnitude = hn::And(bits, hn::Set(d, int16_t{0x7fff}));
    const auto code = hn::IfThenElse(hn::Lt(bits, hn::Zero(d)),
                                     hn::Neg(magnitude), magnitude);
    const auto is_zero = hn::Lt(magnitude, hn::Set(d, min_non_zero));
    const auto is_nan = hn::Gt(magnitude, hn::Set(d, infinity));
    return hn::IfThenElse(is_nan, hn::Set(d, nan_code),
                          hn::IfThenZeroElse(is_zero, code));
  }
};

// Lines so short that all of a line's comparisons fit into 64 bits: a call for
// each line, or a branch that depends on its elements, would take longer than
// the line.
inline constexpr int64_t kMinShortLine = 16, kMaxShortLine = 64;

// Bit i is lane i of `mask`.
template <class D>
HWY_INLINE uint64_t BitsOf(D d, hn::Mask<D> mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, (hn::MaxLanes(D()) + 7) / 8);
  return bits;
}

// The index in x[0, n), n at least a vector of D, of the first that wins.
template <bool kMin, class D, class Lanes>
HWY_INLINE int64_t ArgOfShortLine(D d, const Lanes& lanes,
                                  const typename Lanes::Element* x, int64_t n) {
  constexpr auto kStep = static_cast<int64_t>(hn::MaxLanes(D()));
  auto best = lanes.Load(d, x + n - kStep);
  for (int64_t i = 0; i + kStep < n; i += kStep) {
    const auto v = lanes.Load(d, x + i);
    best = kMin ? hn::Min(best, v) : hn::Max(best, v);
  }
  const auto wanted = kMin ? hn::MinOfLanes(d, best) : hn::MaxOfLanes(d, best);
  uint64_t is_wanted = 0, is_nan = 0;
  const auto note = [&](int64_t i) HWY_ATTR {
    const auto v = lanes.Load(d, x + i);
    is_wanted |= BitsOf(d, hn::Eq(v, wanted)) << i;
    if constexpr (Lanes::kHasNan) is_nan |= BitsOf(d, hn::IsNaN(v)) << i;
  };
  for (int64_t i = 0; i + kStep < n; i += kStep) note(i);
  note(n - kStep);  // overlaps: the same bits once more
  return static_cast<int64_t>(
      hwy::Num0BitsBelowLS1Bit_Nonzero64(is_nan != 0 ? is_nan : is_wanted));
}

// Handles `count` lines, one after the other. The vectors have at most kLanes
// lanes, or more if the target has more and a line fills them.
template <bool kMin, size_t kLanes = kMinShortLine, class Lanes>
void ArgOfShortLines(const Lanes& lanes, const typename Lanes::Element* x,
                     int64_t n, int64_t count, int32_t* args) {
  using T = typename Lanes::Lane;
  constexpr size_t kNext = 2 * kLanes;
  if constexpr (kNext <= hn::MaxLanes(hn::ScalableTag<T>())) {
    if (n >= static_cast<int64_t>(kNext)) {
      return ArgOfShortLines<kMin, kNext>(lanes, x, n, count, args);
    }
  }
  const hn::CappedTag<T, kLanes> d;
  for (int64_t i = 0; i < count; ++i) {
    args[i] =
        static_cast<int32_t>(ArgOfShortLine<kMin>(d, lanes, x + i * n, n));
  }
}

// Whether `a` wins over `b`, which comes before it. A NaN `a` is not before any
// number: no comparison of its own.
template <bool kMin, typename T>
HWY_INLINE bool IsBetter(T a, T b) {
  const bool is_not_before = kMin ? !(a >= b) : !(a <= b);
  return is_not_before & (b == b);
}

// Block size of a line: in the first-level cache, so that looking for the index
// of a block's best afterwards costs little. In a long line that cost is
// nothing, and the one of beginning a block counts.
template <typename T>
int64_t BlockSize(int64_t n) {
  constexpr int64_t kShort = 4096 / sizeof(T), kLong = 16384 / sizeof(T);
  return n < 16 * kLong ? kShort : kLong;
}

// Returns the winner in x[0, n), a NaN if there is one. n is at least a
// vector's length.
template <bool kMin, class Lanes>
HWY_INLINE typename Lanes::Lane BestOf(const Lanes& lanes,
                                       const typename Lanes::Element* x,
                                       int64_t n) {
  using T = typename Lanes::Lane;
  const hn::ScalableTag<T> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const auto better = [](auto a, auto b) HWY_ATTR {
    return kMin ? hn::Min(a, b) : hn::Max(a, b);
  };
  auto best0 = lanes.Load(d, x + n - step), best1 = best0;
  auto is_nan = hn::FirstN(d, 0);
  const auto note = [&](auto a, auto b) HWY_ATTR {
    if constexpr (Lanes::kHasNan) {
      is_nan = hn::Or(is_nan, hn::IsEitherNaN(a, b));
    }
  };
  note(best0, best1);
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    const auto v0 = lanes.Load(d, x + i);
    const auto v1 = lanes.Load(d, x + i + step);
    note(v0, v1);
    best0 = better(best0, v0);
    best1 = better(best1, v1);
  }
  if (i + step <= n) {
    const auto v = lanes.Load(d, x + i);
    note(v, v);
    best0 = better(best0, v);
  }
  if (Lanes::kHasNan && !hn::AllFalse(d, is_nan)) {
    return std::numeric_limits<T>::quiet_NaN();
  }
  return kMin ? hn::ReduceMin(d, better(best0, best1))
              : hn::ReduceMax(d, better(best0, best1));
}

// The first index in x[0, n) of what equals `best`, or of a NaN.
template <class Lanes>
HWY_INLINE int64_t Find(const Lanes& lanes, const typename Lanes::Element* x,
                        int64_t n, typename Lanes::Lane best) {
  const hn::ScalableTag<typename Lanes::Lane> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, best);
  for (int64_t i = 0; i < n; i += step) {
    i = std::min(i, n - step);
    const auto v = lanes.Load(d, x + i);
    auto is_found = hn::Eq(v, wanted);
    if constexpr (Lanes::kHasNan) {
      if (best != best) is_found = hn::IsNaN(v);
    }
    if (!hn::AllFalse(d, is_found)) {
      return i + static_cast<int64_t>(hn::FindKnownFirstTrue(d, is_found));
    }
  }
  return 0;  // not reached
}

template <bool kMin, class Lanes>
int64_t ArgOfLine(const Lanes& lanes, const typename Lanes::Element* x,
                  int64_t n) {
  using T = typename Lanes::Lane;
  int64_t arg = 0;
  const int64_t step = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  T best = lanes.Get(x[0]);
  if (n < step) {
    for (int64_t i = 1; i < n; ++i) {
      const T v = lanes.Get(x[i]);
      const bool is_better = IsBetter<kMin>(v, best);
      best = is_better ? v : best;
      arg = is_better ? i : arg;
    }
    return arg;
  }
  const int64_t block = BlockSize<T>(n);
  int64_t best_begin = 0, best_end = n;
  for (int64_t begin = 0, end; begin < n && best == best; begin = end) {
    end = begin + block;
    if (n - end < step) end = n;  // the last one is longer, not too short
    const T found = BestOf<kMin>(lanes, x + begin, end - begin);
    if (begin > 0 && !IsBetter<kMin>(found, best)) continue;
    best = found;
    best_begin = begin;
    best_end = end;
  }
  return best_begin + Find(lanes, x + best_begin, best_end - best_begin, best);
}

// The lines are columns: x[k * stride + j] for k < n, j < columns <= kColumns.
template <bool kMin, class Lanes>
void ArgOfColumns(const Lanes& lanes, const typename Lanes::Element* x,
                  int64_t n, int64_t stride, int64_t columns, int32_t* arg) {
  HWY_ALIGN typename Lanes::Lane best[kColumns];
  for (int64_t j = 0; j < columns; ++j) {
    best[j] = lanes.Get(x[j]);
    arg[j] = 0;
  }
  for (int64_t k = 1; k < n; ++k) {
    x += stride;
    for (int64_t j = 0; j < columns; ++j) {
      const auto v = lanes.Get(x[j]);
      const bool is_better = IsBetter<kMin>(v, best[j]);
      best[j] = is_better ? v : best[j];
      arg[j] = is_better ? static_cast<int32_t>(k) : arg[j];
    }
  }
}

template <typename T>
PlainLanes<T> LanesOf(TypeTag<T>, const Job&) {
  return {};
}
inline HalfLanes LanesOf(TypeTag<Half>, const Job& p) {
  return {static_cast<int16_t>(p.half.infinity),
          static_cast<int16_t>(p.half.min_non_zero),
          static_cast<int16_t>(p.is_min ? INT16_MIN : INT16_MAX)};
}

template <bool kMin, class Lanes>
void ArgOfTasks(const Job& p, const Lanes& lanes, int64_t begin, int64_t end) {
  const auto* x = static_cast<const typename Lanes::Element*>(p.in);
  HWY_ALIGN int32_t args[kColumns];
  const int64_t n = p.length;
  if (p.stride == 1 && n >= kMinShortLine && n <= kMaxShortLine) {
    for (int64_t i = begin; i < end; i += kColumns) {
      const int64_t count = std::min(kColumns, end - i);
      ArgOfShortLines<kMin>(lanes, x + i * n, n, count, args);
      Store(p, i, args, count);
    }
    return;
  }
  const int64_t tiles = Tiles(p);
  for (int64_t task = begin; task < end; ++task) {
    if (p.stride == 1) {
      args[0] = static_cast<int32_t>(ArgOfLine<kMin>(lanes, x + task * n, n));
      Store(p, task, args, 1);
      continue;
    }
    const int64_t i = task / tiles, j = task % tiles * kColumns;
    const int64_t columns = std::min(kColumns, p.inner - j);
    ArgOfColumns<kMin>(lanes, x + i * n * p.stride + j, n, p.stride, columns,
                       args);
    Store(p, i * p.inner + j, args, columns);
  }
}

template <typename Element>
void ArgTasks(const Job& p, int64_t begin, int64_t end) {
  const auto lanes = LanesOf(TypeTag<Element>(), p);
  p.is_min ? ArgOfTasks<true>(p, lanes, begin, end)
           : ArgOfTasks<false>(p, lanes, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::argmax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::argmax {
namespace {

// The cost of an element in nanoseconds: reading it from a cache, and its part
// of the start of a line or a row of columns.
double ElementNs(const Job& p) {
  if (p.stride > 1) return 0.2 + 5.0 / std::min(p.inner, kColumns);
  if (p.length < 16) return 3.5;
  return 0.025 * p.width + 10.0 / p.length;
}

// The lines of task `task`, at most kColumns of them, as a problem of its own.
Job TaskOf(const Job& p, int64_t task) {
  const int64_t i = task / Tiles(p), j = task % Tiles(p) * kColumns;
  Job job = p;
  job.outer = 1;
  job.inner = std::min(kColumns, p.inner - j);
  job.in =
      static_cast<const char*>(p.in) + (i * p.length * p.stride + j) * p.width;
  job.out = static_cast<char*>(p.out) + (i * p.inner + j) * p.index_width;
  return job;
}

// The scratch memory of lines that threads share, large enough for any task.
struct SharedScratch {
  SharedScratch(const Job& p, int64_t parts)
      : args(parts * std::min(p.inner, kColumns)),
        finalists(parts * std::min(p.inner, kColumns) * p.width) {}
  bool is_there() const { return args.status() && finalists.status(); }

  const HostScratch<int64_t> args;    // [parts, lines]: who wins a part
  const HostScratch<char> finalists;  // the elements that do
};

// The lines of one task by all threads: who wins each part, and of those who
// wins.
void RunShared(const Job& p, int64_t parts, const SharedScratch& scratch,
               const Executor& executor) {
  const int64_t lines = p.inner, width = p.width;
  const auto* const x = static_cast<const char*>(p.in);
  int64_t* const args = scratch.args.get();
  char* const finalists = scratch.finalists.get();
  ParallelTasks(executor, parts, [&](int64_t i) noexcept {
    const int64_t begin = PartBegin(p.length, parts, i);
    Job part = p;
    part.in = x + begin * p.stride * width;
    part.length = PartBegin(p.length, parts, i + 1) - begin;
    part.index_width = 8;
    part.out = args + i * lines;
    p.run(part, 0, 1);
    for (int64_t j = 0; j < lines; ++j) {
      int64_t& arg = args[i * lines + j];
      arg += begin;
      std::memcpy(finalists + (i * lines + j) * width,
                  x + (arg * p.stride + j) * width, width);
    }
  });
  std::array<int64_t, kColumns> winners;
  Job last = p;
  last.in = finalists;
  last.length = parts;
  last.stride = lines;
  last.index_width = 8;
  last.out = winners.data();
  p.run(last, 0, 1);
  for (int64_t j = 0; j < lines; ++j) {
    const auto winner = static_cast<int32_t>(args[winners[j] * lines + j]);
    Store(p, j, &winner, 1);
  }
}

void RunJob(const Job& p, const Executor& executor) {
  const int64_t tasks = p.outer * Tiles(p);
  if (tasks == 0) return;
  LineWork work = {tasks, p.length * std::min(p.inner, kColumns), ElementNs(p)};
  work.shared_ns = work.element_ns;
  work.alone_ns = kThreadNs;  // lines in a cache are done before others come
  LinePlan plan = PlanLines(executor, work);
  const SharedScratch scratch(
      p, plan.is_shared ? plan.parts = std::min(plan.parts, p.length) : 0);
  // Without memory to share them, lines are one thread's each.
  if (!scratch.is_there()) {
    work.shared_ns = 0;
    plan = PlanLines(executor, work);
  }
  ForEachLine(
      executor, tasks, plan,
      [&](int64_t begin, int64_t end) noexcept { p.run(p, begin, end); },
      [&](int64_t task) {
        RunShared(TaskOf(p, task), plan.parts, scratch, executor);
      });
}

template <typename Element>
void RunAs(Job job, const Executor& executor) {
  HWY_EXPORT_T(Table, ArgTasks<Element>);
  job.run = HWY_DYNAMIC_POINTER_T(Table);
  RunJob(job, executor);
}

}  // namespace

template <typename T>
HWY_NOINLINE void Argmax(const ArgmaxProblem& problem,
                         const Executor& executor) {
  Job job;
  static_cast<ArgmaxProblem&>(job) = problem;
  job.width = sizeof(T);
  job.stride = problem.inner;
  if constexpr (std::is_same_v<T, bool>) {
    RunAs<uint8_t>(job, executor);
  } else if constexpr (std::is_arithmetic_v<T>) {
    RunAs<T>(job, executor);
  } else {
    job.half = OrderedKey<T>(problem.subnormals_are_zero);
    RunAs<Half>(job, executor);
  }
}

namespace {

namespace ffi = ::xla::ffi;

ffi::Error Run(const ArgmaxCall& call, const Executor& executor) {
  const AxisShape shape = SplitAxis(call.get<x>().dims(), call.get<axis>());
  ArgmaxProblem problem;
  problem.outer = shape.outer;
  problem.length = shape.length;
  problem.inner = shape.inner;
  problem.is_min = call.get<of>() == 1;
  problem.subnormals_are_zero = SubnormalsAreZero();
  problem.in = call.get<x>().data();
  problem.out = call.get<indices>().data();
  problem.index_width = ffi::ByteWidth(call.get<indices>().dtype());
  return call.Dispatch<x>([&](auto tag) {
    Argmax<typename decltype(tag)::type>(problem, executor);
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateArgmaxCpu, Checked<Run>,
                              BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateArgmaxCpu, ArgmaxCall);

}  // namespace xla_ffi_accelerate::argmax

#endif  // HWY_ONCE
