#include "xla_ffi/core/lines.h"

#include <algorithm>
#include <cstdint>
#include <mutex>  // NOLINT
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "xla_ffi/testing/threaded_pool.h"

namespace xla_ffi_kit {
namespace {

using testing::ThreadedPool;

// The plan of a kernel whose threads can share a line at one and a half times
// the cost.
LinePlan Plan(int64_t threads, int64_t lines, int64_t length) {
  return PlanLines(threads, {lines, length, /*element_ns=*/1,
                             /*shared_ns=*/1.5});
}

// "2 lines in 8", "each in 8", "2 lines by one thread".
std::string Text(int64_t lines, const LinePlan& plan) {
  const std::string parts = " in " + std::to_string(plan.parts);
  if (plan.is_shared) return "each" + parts;
  return std::to_string(lines) + (plan.parts == 1 ? " by one thread" : parts);
}

TEST(PlanLinesTest, IsByTheTimeThatItTakes) {
  struct Case {
    int64_t threads, lines, length;
    std::string plan;
  };
  constexpr int64_t kHuge = 1'000'000'000;
  for (const Case& c : std::vector<Case>{
           // As many lines as threads, or half: one each, or each by all.
           {2, 2, kHuge, "2 in 2"},
           {8, 2, kHuge, "each in 32"},
           // One line, or one group of columns.
           {2, 1, kHuge / 5, "each in 8"},
           {8, 1, kHuge / 5, "each in 32"},
           // One line more than threads would make one of them work on two.
           {8, 9, kHuge, "each in 32"},
           {2, 3, kHuge, "3 in 3"},
           // Many lines are whole, however long.
           {2, 100'000, 100, "100000 in 8"},
           {64, 100'000, 100, "100000 in 200"},
           {64, kHuge, kHuge, "1000000000 in 256"},
           // Work that no other thread is worth waking for.
           {1, 2, kHuge, "2 by one thread"},
           {8, 1, 66'000, "1 by one thread"},
           {8, 10, 9'999, "10 by one thread"},
           {8, 0, kHuge, "0 by one thread"},
           {8, kHuge, 0, "1000000000 by one thread"},
       }) {
    EXPECT_EQ(Text(c.lines, Plan(c.threads, c.lines, c.length)), c.plan)
        << c.threads << " threads";
  }
}

TEST(PlanLinesTest, LinesThatNobodySharesAreWhole) {
  EXPECT_EQ(Text(1, PlanLines(8, {1, 1 << 30, /*element_ns=*/1})),
            "1 by one thread");
  EXPECT_EQ(Text(3, PlanLines(8, {3, 1 << 30, /*element_ns=*/1})), "3 in 3");
}

TEST(PlanLinesTest, WhatOneThreadDoesAloneMakesLinesWhole) {
  LineWork work = {4, 1'000'000, /*element_ns=*/3, /*shared_ns=*/3};
  EXPECT_TRUE(PlanLines(16, work).is_shared);
  work.alone_ns = 2'900'000;
  EXPECT_FALSE(PlanLines(16, work).is_shared);
}

using Ranges = std::vector<std::vector<int64_t>>;

TEST(ForEachLineTest, DividesLinesOrEachLine) {
  ThreadedPool pool(3);
  std::mutex mutex;
  const auto ranges = [&](int64_t lines, const LinePlan& plan) {
    Ranges ranges_of_lines;
    ForEachLine(
        pool, lines, plan,
        [&](int64_t begin, int64_t end) noexcept {
          const std::lock_guard<std::mutex> lock(mutex);
          ranges_of_lines.push_back({begin, end});
        },
        [&](int64_t line) { ranges_of_lines.push_back({line}); });
    std::sort(ranges_of_lines.begin(), ranges_of_lines.end());
    return ranges_of_lines;
  };
  EXPECT_EQ(ranges(5, {1, false}), (Ranges{{0, 5}}));
  EXPECT_EQ(ranges(5, {3, false}), (Ranges{{0, 2}, {2, 4}, {4, 5}}));
  EXPECT_EQ(ranges(2, {3, true}), (Ranges{{0}, {1}}));
}

TEST(ReduceThenApplyTest, AppliesToEachPartWhatIsBeforeIt) {
  constexpr int64_t kLength = 1000;
  for (const int64_t parts : {1, 2, 7}) {
    ThreadedPool pool(3);
    std::vector<int64_t> in(kLength), out(kLength), want(kLength);
    std::iota(in.begin(), in.end(), 1);
    std::partial_sum(in.begin(), in.end(), want.begin());
    std::vector<int64_t> before(parts + 1);
    ReduceThenApply(
        pool, kLength, parts,
        [&](int64_t part, int64_t begin, int64_t end) noexcept {
          before[part + 1] =
              std::accumulate(&in[begin], &in[end - 1] + 1, int64_t{0});
        },
        [&] { std::partial_sum(before.begin(), before.end(), before.begin()); },
        [&](int64_t part, int64_t begin, int64_t end, int64_t worker) noexcept {
          EXPECT_LT(worker, parts);
          int64_t sum = before[part];
          for (int64_t i = begin; i < end; ++i) out[i] = sum += in[i];
        });
    EXPECT_EQ(out, want);
  }
}

}  // namespace
}  // namespace xla_ffi_kit
