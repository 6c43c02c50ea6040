// One long array, sorted by several threads.
//
// The keys are first distributed over as many buckets as there are threads,
// each bucket's keys below the next one's, and then every bucket is sorted
// by itself. What distribution costs it also saves: those are the first levels
// of a quicksort. It reads the keys from where they come and writes them
// where they are sorted, so that it needs no memory of its own.

#ifndef XLA_FFI_OPS_SORT_PARALLEL_SORT_H_
#define XLA_FFI_OPS_SORT_PARALLEL_SORT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "xla_ffi/ops/sort/vector_sort.h"
#include "xla_ffi/ops/sort/workers.h"

namespace xla_ffi_kit {
namespace parallel_sort_internal {

inline constexpr int64_t kMaxBuckets = 16;
// Keys that are read at a time; they stay in the first-level cache.
inline constexpr int64_t kChunk = 1024;
// A shorter array is sorted sooner than a second thread has come.
inline constexpr int64_t kMinKeys = 1 << 15;

// The bounds of the buckets: keys k with bound[b - 1] <= k < bound[b] are in
// bucket b.
template <typename Packed>
using Bounds = std::array<Packed, kMaxBuckets>;

template <typename Packed>
inline int64_t BucketOf(Packed key, const Bounds<Packed>& bounds,
                        int64_t buckets) {
  int64_t bucket = 0;
  for (int64_t half = buckets / 2; half > 0; half /= 2) {
    bucket += key < bounds[bucket + half - 1] ? 0 : half;
  }
  return bucket;
}

// Quantiles of a sample. The sample's positions jump, so that no period in the
// data is a period of theirs.
template <typename Packed, typename Pack>
Bounds<Packed> SampleBounds(int64_t n, int64_t buckets, const Pack& pack) {
  const int64_t per_bucket = 512;
  std::vector<Packed> sample(buckets * per_bucket);
  uint64_t random = 0x9e3779b97f4a7c15;
  const int64_t stride = n / static_cast<int64_t>(sample.size());
  for (int64_t i = 0; i < static_cast<int64_t>(sample.size()); ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const int64_t at =
        i * stride + static_cast<int64_t>((random >> 33) % stride);
    pack(at, at + 1, &sample[i]);
  }
  VectorSort(sample.data(), sample.size());
  Bounds<Packed> bounds = {};
  for (int64_t b = 1; b < buckets; ++b) bounds[b - 1] = sample[b * per_bucket];
  return bounds;
}

template <typename Packed>
void Count(const Packed* keys, int64_t n, const Bounds<Packed>& bounds,
           int64_t buckets, int64_t* counts) {
  if (buckets == 2) {  // without a store per key: two to three times faster
    int64_t low = 0;
    for (int64_t i = 0; i < n; ++i) low += keys[i] < bounds[0];
    counts[0] += low;
    counts[1] += n - low;
    return;
  }
  for (int64_t i = 0; i < n; ++i) ++counts[BucketOf(keys[i], bounds, buckets)];
}

// n <= kChunk.
template <typename Packed>
void Place(const Packed* keys, int64_t n, const Bounds<Packed>& bounds,
           int64_t buckets, int64_t* next, Packed* out) {
  if (buckets == 2) {
    // Every key is written to both sides and counted on one, without a branch
    // that is mispredicted half the time; and not to `out`, where the place
    // after a side's last key may be another thread's.
    std::array<Packed, kChunk> low, high;
    int64_t lows = 0;
    for (int64_t i = 0; i < n; ++i) {
      low[lows] = keys[i];
      high[i - lows] = keys[i];
      lows += keys[i] < bounds[0];
    }
    std::copy_n(low.data(), lows, out + next[0]);
    std::copy_n(high.data(), n - lows, out + next[1]);
    next[0] += lows;
    next[1] += n - lows;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    out[next[BucketOf(keys[i], bounds, buckets)]++] = keys[i];
  }
}

}  // namespace parallel_sort_internal

// Writes the keys that pack(begin, end, keys) gives for [0, n) to
// sorted[0, n), ascending; `pack` is called from several threads, more than
// once for each key, and must not read what is written to `sorted`.
template <typename Packed, typename Pack>
void ParallelSort(const Workers& workers, int64_t n, const Pack& pack,
                  Packed* sorted) {
  namespace internal = parallel_sort_internal;
  if (workers.threads < 2 || n < internal::kMinKeys) {
    pack(0, n, sorted);
    return VectorSort(sorted, n);
  }
  int64_t buckets = 2;
  while (buckets < workers.threads && buckets < internal::kMaxBuckets) {
    buckets *= 2;
  }
  const auto bounds = internal::SampleBounds<Packed>(n, buckets, pack);

  // Every block knows where its keys of each bucket go, so that no two
  // threads write to one place.
  const int64_t blocks = 4 * buckets;
  using Counters = std::array<int64_t, internal::kMaxBuckets>;
  std::vector<Counters> counters(blocks, Counters{});
  const auto for_chunks = [&](int64_t block, const auto& fn) {
    const int64_t end = (block + 1) * n / blocks;
    std::array<Packed, internal::kChunk> keys;
    for (int64_t i = block * n / blocks; i < end; i += internal::kChunk) {
      const int64_t count = std::min(internal::kChunk, end - i);
      pack(i, i + count, keys.data());
      fn(keys.data(), count);
    }
  };
  workers.run(blocks, [&](int64_t block) {
    for_chunks(block, [&](const Packed* keys, int64_t count) {
      internal::Count(keys, count, bounds, buckets, counters[block].data());
    });
  });

  Counters begin = {};
  int64_t total = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    begin[b] = total;
    for (Counters& of_block : counters) {
      const int64_t count = of_block[b];
      of_block[b] = total;
      total += count;
    }
  }
  workers.run(blocks, [&](int64_t block) {
    for_chunks(block, [&](const Packed* keys, int64_t count) {
      internal::Place(keys, count, bounds, buckets, counters[block].data(),
                      sorted);
    });
  });
  workers.run(buckets, [&](int64_t b) {
    const int64_t end = b + 1 < buckets ? begin[b + 1] : n;
    VectorSort(sorted + begin[b], end - begin[b]);
  });
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_SORT_PARALLEL_SORT_H_
