#include "xla_ffi/ops/isin/isin.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/ops/isin/key_set.h"
#include "xla_ffi/ops/sort/pack.h"
#include "xla_ffi/ops/sort/workers.h"

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

// Each row by all workers.
template <typename K, typename Code>
bool IsinRows(const IsinProblem& p, const K* element, const Code& code,
              const Workers& workers) {
  const K* tests = static_cast<const K*>(p.test);
  KeySet<K> set(p.tests);
  const HostScratch<K> codes(p.tests);
  if (!set.has_memory() || codes.get() == nullptr) return false;
  // Some 50 microseconds of work: then another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 14;
  const int64_t parts = std::max<int64_t>(
      std::min(p.elements / kMinElements, 4 * workers.threads), 1);
  for (int64_t row = 0; row < p.rows; ++row) {
    set.Assign(codes.get(),
               Encode(tests + row * p.tests, p.tests, code, codes.get()));
    const K* in = element + row * p.elements;
    bool* out = p.out + row * p.elements;
    workers.run(parts, [&](int64_t part) {
      const int64_t stop = (part + 1) * p.elements / parts;
      for (int64_t i = part * p.elements / parts; i < stop; ++i) {
        out[i] = set.Contains(code.Encode(in[i]));
      }
    });
  }
  return true;
}

}  // namespace

bool Isin(const IsinProblem& p, const Workers& workers) {
  if (p.rows == 0 || p.elements == 0) return true;
  const KeyColumn column = {p.kind, p.width, p.element, p.subnormals_are_zero};
  return VisitColumn(column, [&](const auto* element, const auto& code) {
    return IsinRows(p, element, code, workers);
  });
}

}  // namespace xla_ffi_kit
