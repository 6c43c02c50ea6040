#include "accelerate/kernels/top_k/top_k.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "accelerate/core/ordered_key.h"
#include "accelerate/core/packed_key.h"
#include "accelerate/core/small_sort.h"
#include "accelerate/core/vector_sort.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/lines.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_accelerate::top_k {
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

// How k of n elements are selected, and the memory for it. Wide: uint32_t, or
// uint64_t for elements of 64 bits.
//
// Of few, those found so far are kept in order. Else, where k is not a very
// small part of a row, its k-th best is found first, and then all that are as
// good. Else elements better than the k-th best so far are collected until
// there is no more room, and then the k best of them kept: most elements are
// only compared with that k-th best, a block at a time.
template <typename Wide>
struct Selection {
  using Packed = std::conditional_t<sizeof(Wide) == 4, uint64_t, Pair64>;

  Selection(int64_t workers, int64_t n, int64_t k)
      : k(k),
        selects(n <= kMinSelected || n / kSelectedPart <= k),
        capacity(selects ? k : std::min(n, k + std::max<int64_t>(k, 256))),
        codes(workers, k <= kFew ? 0 : capacity),
        sorted(workers, k <= kFew ? 0
                        : selects ? n
                                  : capacity),
        indices(workers, k <= kFew ? 0
                         : selects ? n
                                   : capacity),
        packed(workers, std::max(k, std::min(n, kMaxSmallSort))) {}

  ScratchStatus status() const {
    for (const ScratchStatus& status :
         {codes.status(), sorted.status(), indices.status(), packed.status()}) {
      if (!status) return status;
    }
    return {};
  }

  // Measured: as fast as XLA where rows of 200 ascend, each inserting all.
  static constexpr int64_t kFew = 16;
  // Measured crossover: quickselect if n <= kMinSelected or
  // k >= n / kSelectedPart.
  static constexpr int64_t kMinSelected = 4096;
  static constexpr int64_t kSelectedPart = 256;

  const int64_t k;
  const bool selects;
  const int64_t capacity;
  const WorkerScratch<Wide> codes, sorted;
  const WorkerScratch<uint32_t> indices;
  const WorkerScratch<Packed> packed;
};

// Selects from one row after the other, in a worker's memory.
template <typename Wide>
class Selector {
 public:
  Selector(const Selection<Wide>& selection, int64_t worker)
      : k_(selection.k),
        selects_(selection.selects),
        capacity_(selection.capacity),
        codes_(selection.codes.of(worker)),
        sorted_(selection.sorted.of(worker)),
        indices_(selection.indices.of(worker)),
        packed_(selection.packed.of(worker)) {}

  // Writes the indices of the k best of in[0, n), best first. 0 < k <= n.
  template <typename K, typename Rank>
  void Select(const K* in, int64_t n, const Rank& rank, int32_t* best) {
    if (k_ <= Selection<Wide>::kFew) {
      SelectFew(in, n, rank);
    } else if (n > kMaxSmallSort) {
      selects_ ? SelectAtOnce(in, n, rank) : Collect(in, n, rank);
      Order();
    } else {  // all of them: less work than to choose
      for (int64_t i = 0; i < n; ++i) {
        packed_[i] = Packing<Packed>::Join(rank(in[i]), i);
      }
      SmallSort(packed_, n);
    }
    for (int64_t i = 0; i < k_; ++i) {
      best[i] = static_cast<int32_t>(Packing<Packed>::Index(packed_[i]));
    }
  }

 private:
  using Packed = typename Selection<Wide>::Packed;
  static constexpr int64_t kBlock = 64;
  static constexpr int64_t kFewBlock = 32;

  // Puts the k best of in[0, n) in packed_, best first: reads a row once,
  // compares most elements with the k-th best so far, a block at a time.
  template <typename K, typename Rank>
  void SelectFew(const K* in, int64_t n, const Rank& rank) {
    for (int64_t i = 0; i < k_; ++i) Insert(rank(in[i]), i, i);
    limit_ = Worst();
    int64_t i = k_;
    for (; i + kFewBlock <= n; i += kFewBlock) {
      const K limit = static_cast<K>(limit_);
      int is_better = 0;
      for (int64_t j = 0; j < kFewBlock; ++j) {
        is_better |= rank(in[i + j]) < limit;
      }
      if (is_better) InsertRange(in, i, i + kFewBlock, rank);
    }
    InsertRange(in, i, n, rank);
  }

  template <typename K, typename Rank>
  void InsertRange(const K* in, int64_t begin, int64_t end, const Rank& rank) {
    for (int64_t i = begin; i < end; ++i) {
      const Wide code = rank(in[i]);
      if (code >= limit_) continue;
      Insert(code, i, k_ - 1);
      limit_ = Worst();
    }
  }

  Wide Worst() const { return Packing<Packed>::Code(packed_[k_ - 1]); }

  // Inserts an element among packed_[0, place), which are in order; those that
  // equal it stay before it. The one at `place` is overwritten.
  void Insert(Wide code, int64_t index, int64_t place) {
    Packed* const packed = packed_;
    const Packed entry = Packing<Packed>::Join(code, index);
    for (; place > 0 && entry < packed[place - 1]; --place) {
      packed[place] = packed[place - 1];
    }
    packed[place] = entry;
  }

  // Collects the k best of in[0, n).
  template <typename K, typename Rank>
  void Collect(const K* in, int64_t n, const Rank& rank) {
    Wide* codes = codes_;
    for (int64_t i = 0; i < capacity_; ++i) {
      codes[i] = rank(in[i]);
      indices_[i] = static_cast<uint32_t>(i);
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
    Packed* packed = packed_;
    for (int64_t j = 0; j < k_; ++j) {
      packed[j] = Packing<Packed>::Join(codes_[j], indices_[j]);
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
      codes_[count_] = code;
      indices_[count_++] = static_cast<uint32_t>(i);
    }
  }

  // Selects by the k-th best of the whole row.
  template <typename K, typename Rank>
  void SelectAtOnce(const K* in, int64_t n, const Rank& rank) {
    Wide* const sorted = sorted_;
    for (int64_t i = 0; i < n; ++i) sorted[i] = rank(in[i]);
    VectorSelect(sorted, n, k_ - 1);
    limit_ = sorted[k_ - 1];
    // Every element's index is written, and counted if it is good enough:
    // without a branch.
    uint32_t* indices = indices_;
    int64_t count = 0, better = 0;
    for (int64_t i = 0; i < n; ++i) {
      indices[count] = static_cast<uint32_t>(i);
      const Wide code = rank(in[i]);
      better += code < limit_;
      count += code <= limit_;
    }
    if (count > k_) RemoveSurplus(in, k_ - better, rank);
    for (int64_t j = 0; j < k_; ++j) codes_[j] = rank(in[indices[j]]);
  }

  // Reduces the indices of elements as good as the k-th best, more than k, to
  // k: keeps the first `equal` of those that equal it.
  template <typename K, typename Rank>
  void RemoveSurplus(const K* in, int64_t equal, const Rank& rank) {
    uint32_t* indices = indices_;
    for (int64_t j = 0, kept = 0; kept < k_; ++j) {
      if (rank(in[indices[j]]) == limit_ && equal-- <= 0) continue;
      indices[kept++] = indices[j];
    }
  }

  // Keeps the k best of those collected. They are in order of their indices,
  // and remain so: the first of those equal to the k-th are kept.
  void Keep() {
    Wide* codes = codes_;
    std::copy(codes, codes + count_, sorted_);
    VectorSort(sorted_, count_);
    limit_ = sorted_[k_ - 1];
    int64_t equal =
        k_ - (std::lower_bound(sorted_, sorted_ + k_, limit_) - sorted_);
    int64_t kept = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const bool is_equal = codes[i] == limit_;
      if (codes[i] > limit_ || (is_equal && equal == 0)) continue;
      equal -= is_equal;
      codes[kept] = codes[i];
      indices_[kept++] = indices_[i];
    }
    count_ = kept;
  }

  const int64_t k_;
  const bool selects_;
  const int64_t capacity_;
  int64_t count_ = 0;
  Wide limit_ = 0;  // the k-th best code at the last Keep
  Wide *const codes_, *const sorted_;
  uint32_t* const indices_;
  Packed* const packed_;
};

template <typename Wide, typename Rank>
void TopKRows(const TopKProblem& problem, int64_t begin, int64_t end,
              const Rank& rank, Selector<Wide> selector) {
  using K = typename Rank::Key;
  const int64_t n = problem.length, k = problem.k;
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
}

}  // namespace

ScratchStatus TopK(const TopKProblem& problem, const Executor& executor) {
  if (problem.rows == 0 || problem.k == 0) return {};
  const LinePlan plan =
      PlanLines(executor, {problem.rows, problem.length, /*element_ns=*/6});
  const auto select = [&](const auto& code) -> ScratchStatus {
    using Code = std::decay_t<decltype(code)>;
    using Wide =
        std::conditional_t<sizeof(typename Code::Key) == 8, uint64_t, uint32_t>;
    const Rank<Code> rank = {code, problem.is_bf16};
    const Selection<Wide> selection(NumWorkers(executor, plan.parts),
                                    problem.length, problem.k);
    if (!selection.status()) return selection.status();
    ForEachLine(executor, problem.rows, plan,
                [&](int64_t begin, int64_t end, int64_t worker) noexcept {
                  TopKRows(problem, begin, end, rank,
                           Selector<Wide>(selection, worker));
                });
    return {};
  };
  return std::visit(select, problem.code);
}

}  // namespace xla_ffi_accelerate::top_k
