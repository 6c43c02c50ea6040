// One long array, sorted by several threads.
//
// The keys are first distributed over as many buckets as there are threads,
// each bucket's keys below the next one's, and then every bucket is sorted
// by itself. What distribution costs it also saves: those are the first levels
// of a quicksort. It reads the keys from where they come and writes them
// where they are sorted, so that it needs hardly any memory of its own.

#ifndef ACCELERATE_KERNELS_SORT_PARALLEL_SORT_H_
#define ACCELERATE_KERNELS_SORT_PARALLEL_SORT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "accelerate/core/vector_sort.h"
#include "accelerate/kernels/sort/vector_keys.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/host_scratch.h"
#include "xla_ffi/core/parallel_for.h"

namespace xla_ffi_accelerate::sort {

using namespace xla_ffi_kit;  // its types and threads

namespace parallel_sort_internal {

inline constexpr int64_t kMaxBuckets = 16;
// Block size of reading: the keys stay in the first-level cache.
template <typename Packed>
inline constexpr int64_t kChunk = 4096 / sizeof(Packed);
// A smaller bucket is sorted before another thread has come for it.
inline constexpr int64_t kMinBucket = 1 << 15;
inline constexpr int64_t kSamplesPerBucket = 512;

// Keys of each bucket.
using Counters = std::array<int64_t, kMaxBuckets>;

inline int64_t MaxBuckets(const Executor& executor) {
  // Not more than threads: distribution would take longer than it saves. The
  // next power of two.
  int64_t buckets = 1;
  while (buckets < std::min(executor.num_threads(), kMaxBuckets)) buckets *= 2;
  return buckets;
}

inline int64_t NumBlocks(const Executor& executor) {
  return kPartsPerThread * executor.num_threads();
}

// The bounds of the buckets: keys k with bound[b - 1] <= k < bound[b] are in
// bucket b.
template <typename Packed>
using Bounds = std::array<Packed, kMaxBuckets>;

// Quantiles of a sample. The sample's positions jump, so that no period in the
// data is a period of theirs.
template <typename Packed, typename Pack>
Bounds<Packed> SampleBounds(int64_t n, int64_t buckets, const Pack& pack,
                            Packed* sample) {
  const int64_t size = buckets * kSamplesPerBucket;
  uint64_t random = 0x9e3779b97f4a7c15;
  const int64_t stride = n / size;
  for (int64_t i = 0; i < size; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const int64_t at =
        i * stride + static_cast<int64_t>((random >> 33) % stride);
    pack(at, at + 1, &sample[i]);
  }
  VectorSort(sample, size);
  Bounds<Packed> bounds = {};
  for (int64_t b = 1; b < buckets; ++b) {
    bounds[b - 1] = sample[b * kSamplesPerBucket];
  }
  return bounds;
}

template <typename Packed>
void Count(const Packed* keys, int64_t n, const Bounds<Packed>& bounds,
           int64_t buckets, int64_t* counts) {
  int64_t before = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    const int64_t below = b + 1 < buckets ? CountBelow(keys, n, bounds[b]) : n;
    counts[b] += below - before;
    before = below;
  }
}

// Moves keys[0, n), n <= kChunk, of the buckets [first, first + buckets) to
// their places in `out`; next[b] is bucket b's next one. `buckets` is a power
// of two. Not split straight to `out`, where the place after a side's last key
// may be another thread's.
template <typename Packed>
void Distribute(const Packed* keys, int64_t n, const Bounds<Packed>& bounds,
                int64_t first, int64_t buckets, int64_t* next, Packed* out) {
  if (buckets == 1) {
    std::copy_n(keys, n, out + next[first]);
    next[first] += n;
    return;
  }
  std::array<Packed, kChunk<Packed> + kSplitSlack> low, high;
  const int64_t half = buckets / 2;
  const int64_t lows =
      SplitKeys(keys, n, bounds[first + half - 1], low.data(), high.data());
  Distribute(low.data(), lows, bounds, first, half, next, out);
  Distribute(high.data(), n - lows, bounds, first + half, half, next, out);
}

}  // namespace parallel_sort_internal

// The memory that ParallelSort() needs in addition to the keys', for any number
// of them.
template <typename Packed>
class ParallelSortScratch {
 public:
  explicit ParallelSortScratch(const Executor& executor)
      : sample_(parallel_sort_internal::MaxBuckets(executor) *
                parallel_sort_internal::kSamplesPerBucket),
        counters_(parallel_sort_internal::NumBlocks(executor)) {}

  ScratchStatus status() const {
    return sample_.status() ? counters_.status() : sample_.status();
  }
  Packed* sample() const { return sample_.get(); }
  parallel_sort_internal::Counters* counters() const { return counters_.get(); }

 private:
  const HostScratch<Packed> sample_;
  const HostScratch<parallel_sort_internal::Counters> counters_;
};

// Writes the keys that pack(begin, end, keys) gives for [0, n) to
// sorted[0, n), ascending; `pack` is called from several threads, more than
// once for each key, and must not read what is written to `sorted`. Then calls
// finish(keys, count), also from several threads, for parts of `sorted`.
// Neither throws. `scratch` is of that executor.
template <typename Packed, typename Pack, typename Finish>
void ParallelSort(const Executor& executor, int64_t n, const Pack& pack,
                  const Finish& finish,
                  const ParallelSortScratch<Packed>& scratch, Packed* sorted) {
  namespace internal = parallel_sort_internal;
  const int64_t most = internal::MaxBuckets(executor);
  int64_t buckets = 1;
  while (buckets < most && n / (2 * buckets) >= internal::kMinBucket) {
    buckets *= 2;
  }
  if (buckets == 1) {
    pack(0, n, sorted);
    VectorSort(sorted, n);
    return finish(sorted, n);
  }
  const auto bounds =
      internal::SampleBounds<Packed>(n, buckets, pack, scratch.sample());

  // Every block knows where its keys of each bucket go, so that no two
  // threads write to one place.
  const int64_t blocks = internal::NumBlocks(executor);
  using internal::Counters;
  Counters* const counters = scratch.counters();
  std::fill_n(counters, blocks, Counters{});
  const auto for_chunks = [&](const auto& fn) {
    ParallelTasks(executor, blocks, [&](int64_t block) noexcept {
      const int64_t end = PartBegin(n, blocks, block + 1);
      constexpr int64_t kChunk = internal::kChunk<Packed>;
      std::array<Packed, kChunk> keys;
      for (int64_t i = PartBegin(n, blocks, block); i < end; i += kChunk) {
        const int64_t count = std::min(kChunk, end - i);
        pack(i, i + count, keys.data());
        fn(keys.data(), count, counters[block].data());
      }
    });
  };
  for_chunks([&](const Packed* keys, int64_t count, int64_t* counts) {
    internal::Count(keys, count, bounds, buckets, counts);
  });

  Counters begin = {};
  int64_t total = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    begin[b] = total;
    for (int64_t block = 0; block < blocks; ++block) {
      total += std::exchange(counters[block][b], total);
    }
  }
  for_chunks([&](const Packed* keys, int64_t count, int64_t* next) {
    internal::Distribute(keys, count, bounds, 0, buckets, next, sorted);
  });
  ParallelTasks(executor, buckets, [&](int64_t b) noexcept {
    const int64_t end = b + 1 < buckets ? begin[b + 1] : n;
    VectorSort(sorted + begin[b], end - begin[b]);
    finish(sorted + begin[b], end - begin[b]);
  });
}

}  // namespace xla_ffi_accelerate::sort

#endif  // ACCELERATE_KERNELS_SORT_PARALLEL_SORT_H_
