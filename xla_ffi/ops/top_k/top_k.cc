#include "xla_ffi/ops/top_k/top_k.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/ordered_key.h"
#include "xla_ffi/core/packed_key.h"
#include "xla_ffi/core/parallel_for.h"
#include "xla_ffi/core/small_sort.h"
#include "xla_ffi/core/vector_sort.h"

namespace xla_ffi_kit {
namespace {

// Codes that ascend where the elements descend: the best has the lowest code.
template <typename Code>
struct Rank {
  using Key = typename Code::Key;
  static constexpr bool kIsHalf = Code::kHasTies && sizeof(Key) == 2;

  Code code;
  bool is_bf16;

  Key operator()(Key bits) const {
    if constexpr (kIsHalf) {
      if (is_bf16) bits = QuietBF16Nan(bits);
    }
    if constexpr (Code::kHasTies) {
      return static_cast<Key>(~Code::EncodeCanonical(bits));
    } else {
      return static_cast<Key>(~code.Encode(bits));
    }
  }
};

// Selects from one row after the other. Wide: uint32_t, or uint64_t for
// elements of 64 bits.
//
// Where k is not a very small part of a row, its k-th best is found first, and
// then all that are as good. Else elements better than the k-th best so far are
// collected until there is no more room, and then the k best of them kept: most
// elements are only compared with that k-th best, a block at a time.
template <typename Wide>
class Selector {
 public:
  Selector(int64_t n, int64_t k)
      : k_(k),
        selects_(n <= kMinSelected || n / kSelectedPart <= k),
        capacity_(selects_ ? k : std::min(n, k + std::max<int64_t>(k, 256))),
        codes_(capacity_),
        sorted_(selects_ ? n : capacity_),
        indices_(selects_ ? n : capacity_),
        packed_(std::max(k, std::min(n, kMaxSmallSort))) {}

  bool has_memory() const {
    return codes_.get() != nullptr && sorted_.get() != nullptr &&
           indices_.get() != nullptr && packed_.get() != nullptr;
  }

  // Writes the indices of the k best of in[0, n), best first. 0 < k <= n.
  template <typename K, typename Rank>
  void Select(const K* in, int64_t n, const Rank& rank, int32_t* best) {
    if (n > kMaxSmallSort) {
      selects_ ? SelectAtOnce(in, n, rank) : Collect(in, n, rank);
      Order();
    } else {  // all of them: less work than to choose
      for (int64_t i = 0; i < n; ++i) {
        packed_.get()[i] = Packing<Packed>::Join(rank(in[i]), i);
      }
      SmallSort(packed_.get(), n);
    }
    for (int64_t i = 0; i < k_; ++i) {
      best[i] = static_cast<int32_t>(Packing<Packed>::Index(packed_.get()[i]));
    }
  }

 private:
  using Packed = std::conditional_t<sizeof(Wide) == 4, uint64_t, Pair64>;
  static constexpr int64_t kBlock = 64;
  // Measured crossover: quickselect if n <= kMinSelected or
  // k >= n / kSelectedPart.
  static constexpr int64_t kMinSelected = 4096;
  static constexpr int64_t kSelectedPart = 256;

  // Collects the k best of in[0, n).
  template <typename K, typename Rank>
  void Collect(const K* in, int64_t n, const Rank& rank) {
    Wide* codes = codes_.get();
    for (int64_t i = 0; i < capacity_; ++i) {
      codes[i] = rank(in[i]);
      indices_.get()[i] = static_cast<uint32_t>(i);
    }
    count_ = capacity_;
    int64_t i = capacity_;
    if (i < n) Keep();
    for (; i + kBlock <= n; i += kBlock) {
      const K limit = static_cast<K>(limit_);
      int is_better = 0;
      for (int64_t j = 0; j < kBlock; ++j) {
        is_better |= rank(in[i + j]) < limit;
      }
      if (is_better) CollectRange(in, i, i + kBlock, rank);
    }
    CollectRange(in, i, n, rank);
    if (count_ > k_) Keep();
  }

  // Puts the k collected elements in packed_, best first.
  void Order() {
    Packed* packed = packed_.get();
    for (int64_t j = 0; j < k_; ++j) {
      packed[j] = Packing<Packed>::Join(codes_.get()[j], indices_.get()[j]);
    }
    k_ <= kMaxSmallSort ? SmallSort(packed, k_) : VectorSort(packed, k_);
  }

  // Collects the better ones of in[begin, end).
  template <typename K, typename Rank>
  void CollectRange(const K* in, int64_t begin, int64_t end, const Rank& rank) {
    for (int64_t i = begin; i < end; ++i) {
      const Wide code = rank(in[i]);
      if (code >= limit_) continue;
      if (count_ == capacity_) {
        Keep();
        if (code >= limit_) continue;
      }
      codes_.get()[count_] = code;
      indices_.get()[count_++] = static_cast<uint32_t>(i);
    }
  }

  // The same by the k-th best of the whole row.
  template <typename K, typename Rank>
  void SelectAtOnce(const K* in, int64_t n, const Rank& rank) {
    Wide* sorted = sorted_.get();
    for (int64_t i = 0; i < n; ++i) sorted[i] = rank(in[i]);
    VectorSelect(sorted, n, k_ - 1);
    limit_ = sorted[k_ - 1];
    // Every element's index is written, and counted if it is good enough:
    // without a branch.
    uint32_t* indices = indices_.get();
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
      indices[count] = static_cast<uint32_t>(i);
      count += rank(in[i]) <= limit_;
    }
    if (count > k_) RemoveSurplus(in, count, rank);
    for (int64_t j = 0; j < k_; ++j) codes_.get()[j] = rank(in[indices[j]]);
  }

  // Of `count` indices of elements as good as the k-th best, leaves k: of those
  // equal to it the first ones.
  template <typename K, typename Rank>
  void RemoveSurplus(const K* in, int64_t count, const Rank& rank) {
    uint32_t* indices = indices_.get();
    int64_t better = 0;
    for (int64_t j = 0; j < count; ++j) better += rank(in[indices[j]]) < limit_;
    int64_t kept = 0, equal = k_ - better;
    for (int64_t j = 0; j < count; ++j) {
      if (rank(in[indices[j]]) == limit_ && equal-- <= 0) continue;
      indices[kept++] = indices[j];
    }
  }

  // Keeps the k best of those collected. They are in order of their indices,
  // and remain so: the first of those equal to the k-th are kept.
  void Keep() {
    Wide* codes = codes_.get();
    std::copy(codes, codes + count_, sorted_.get());
    VectorSort(sorted_.get(), count_);
    limit_ = sorted_.get()[k_ - 1];
    int64_t equal =
        k_ - (std::lower_bound(sorted_.get(), sorted_.get() + k_, limit_) -
              sorted_.get());
    int64_t kept = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const bool is_equal = codes[i] == limit_;
      if (codes[i] > limit_ || (is_equal && equal == 0)) continue;
      equal -= is_equal;
      codes[kept] = codes[i];
      indices_.get()[kept++] = indices_.get()[i];
    }
    count_ = kept;
  }

  const int64_t k_;
  const bool selects_;
  const int64_t capacity_;
  int64_t count_ = 0;
  Wide limit_ = 0;  // the k-th best code at the last Keep
  const HostScratch<Wide> codes_, sorted_;
  const HostScratch<uint32_t> indices_;
  const HostScratch<Packed> packed_;
};

template <typename Rank>
bool TopKRows(const TopKProblem& problem, int64_t begin, int64_t end,
              const Rank& rank) {
  using K = typename Rank::Key;
  using Wide = std::conditional_t<sizeof(K) == 8, uint64_t, uint32_t>;
  const int64_t n = problem.length, k = problem.k;
  Selector<Wide> selector(n, k);
  if (!selector.has_memory()) return false;
  for (int64_t row = begin; row < end; ++row) {
    const K* in = static_cast<const K*>(problem.in) + row * n;
    K* values = static_cast<K*>(problem.values) + row * k;
    int32_t* indices = problem.indices + row * k;
    selector.Select(in, n, rank, indices);
    for (int64_t i = 0; i < k; ++i) values[i] = in[indices[i]];
    if constexpr (Rank::kIsHalf) {
      if (problem.is_bf16) QuietBF16Nans(values, k);
    }
  }
  return true;
}

}  // namespace

bool TopK(const TopKProblem& problem, const Executor& executor) {
  if (problem.rows == 0 || problem.k == 0) return true;
  // Some 50 microseconds of work, for which another thread is worth waking.
  constexpr int64_t kMinElements = 1 << 13;
  const int64_t parts =
      NumParts(executor, problem.rows, MinItems(kMinElements, problem.length));
  const auto select = [&](const auto& code) {
    using Code = std::decay_t<decltype(code)>;
    const Rank<Code> rank = {code, problem.is_bf16};
    std::atomic<bool> ok{true};
    ParallelParts(executor, problem.rows, parts,
                  [&](int64_t begin, int64_t end) {
                    if (!TopKRows(problem, begin, end, rank)) ok = false;
                  });
    return ok.load();
  };
  return std::visit(select, problem.code);
}

}  // namespace xla_ffi_kit
