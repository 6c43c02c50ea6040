#include "accelerate/kernels/isin/isin.h"

#include <cstdint>
#include <variant>

#include "accelerate/kernels/isin/key_set.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_accelerate::isin {
namespace {

// The codes of tests[0, n), without those of NaNs. Returns how many.
template <typename K, typename Code>
int64_t Encode(const K* tests, int64_t n, const Code& code, K* codes) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    codes[count] = code.Encode(tests[i]);
    if constexpr (Code::kHasTies) {
      if (codes[count] == code.NanCode()) continue;
    }
    ++count;
  }
  return count;
}

// Makes `set` that of a row's tests; `codes` has room for all of them.
template <typename K, typename Code>
void AssignTests(const IsinProblem& p, int64_t row, const Code& code, K* codes,
                 KeySet<K>* set) {
  const K* const tests = static_cast<const K*>(p.test) + row * p.tests;
  set->Assign(codes, Encode(tests, p.tests, code, codes));
}

// Looks for the elements [begin, end) of a row.
template <typename K, typename Code>
void FindElements(const IsinProblem& p, int64_t row, int64_t begin, int64_t end,
                  const Code& code, const KeySet<K>& set) {
  const K* const in = static_cast<const K*>(p.element) + row * p.elements;
  bool* const out = p.is_in + row * p.elements;
  for (int64_t i = begin; i < end; ++i) {
    out[i] = set.Contains(code.Encode(in[i]));
  }
}

template <typename Code>
ScratchStatus IsinRows(const IsinProblem& p, const Code& code,
                       const Executor& executor) {
  using K = typename Code::Key;
  using Set = KeySet<K>;
  LineWork work;
  work.lines = p.rows;
  work.length = p.elements;
  // One thread makes a row's set.
  work.alone_ns = 8 * static_cast<double>(p.tests);
  work.shared_ns = 3;
  work.element_ns =
      work.shared_ns + work.alone_ns / static_cast<double>(p.elements);
  const LinePlan plan = PlanLines(executor, work);
  const int64_t sets = plan.is_shared ? 1 : NumWorkers(executor, plan.parts);
  const WorkerScratch<typename Set::Entry> tables(sets, Set::Entries(p.tests));
  const WorkerScratch<K> codes(sets, p.tests);
  if (!tables.status()) return tables.status();
  if (!codes.status()) return codes.status();
  ForEachLine(
      executor, p.rows, plan,
      [&](int64_t begin, int64_t end, int64_t worker) noexcept {
        Set set(p.tests, tables.of(worker));
        for (int64_t row = begin; row < end; ++row) {
          AssignTests(p, row, code, codes.of(worker), &set);
          FindElements(p, row, 0, p.elements, code, set);
        }
      },
      [&](int64_t row) {
        Set set(p.tests, tables.of(0));
        AssignTests(p, row, code, codes.of(0), &set);
        ParallelParts(executor, p.elements, plan.parts,
                      [&](int64_t begin, int64_t end) noexcept {
                        FindElements(p, row, begin, end, code, set);
                      });
      });
  return {};
}

}  // namespace

ScratchStatus Isin(const IsinProblem& p, const Executor& executor) {
  if (p.rows == 0 || p.elements == 0) return {};
  return std::visit(
      [&](const auto& code) { return IsinRows(p, code, executor); }, p.code);
}

}  // namespace xla_ffi_accelerate::isin
