#include "accelerate/kernels/isin/isin.h"

#include <cstdint>
#include <variant>

#include "accelerate/kernels/isin/key_set.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_kit {
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

// Each row by all threads.
template <typename Code>
ScratchStatus IsinRows(const IsinProblem& p, const Code& code,
                       const Executor& executor) {
  using K = typename Code::Key;
  const K* elements = static_cast<const K*>(p.element);
  const K* tests = static_cast<const K*>(p.test);
  KeySet<K> set(p.tests);
  const HostScratch<K> codes(p.tests);
  if (!set.status()) return set.status();
  if (!codes.status()) return codes.status();
  // Some 50 microseconds of work, for which another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 14;
  const int64_t parts = NumParts(executor, p.elements, kMinElements);
  for (int64_t row = 0; row < p.rows; ++row) {
    set.Assign(codes.get(),
               Encode(tests + row * p.tests, p.tests, code, codes.get()));
    const K* in = elements + row * p.elements;
    bool* out = p.is_in + row * p.elements;
    ParallelParts(executor, p.elements, parts,
                  [&](int64_t begin, int64_t end) noexcept {
                    for (int64_t i = begin; i < end; ++i) {
                      out[i] = set.Contains(code.Encode(in[i]));
                    }
                  });
  }
  return {};
}

}  // namespace

ScratchStatus Isin(const IsinProblem& p, const Executor& executor) {
  if (p.rows == 0 || p.elements == 0) return {};
  return std::visit(
      [&](const auto& code) { return IsinRows(p, code, executor); }, p.code);
}

}  // namespace xla_ffi_kit
