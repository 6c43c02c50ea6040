#include "accelerate/kernels/random/random.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "xla_ffi/core/handler.h"
#include "xla_ffi/core/simd_targets.h"

// Compiles the rest of this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "accelerate/kernels/random/random.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Must come after foreach_target.h.
#include "hwy/highway.h"

#ifndef ACCELERATE_KERNELS_RANDOM_ONCE
#define ACCELERATE_KERNELS_RANDOM_ONCE
namespace xla_ffi_accelerate::random {
namespace {

// Block size, in counters: all words of a block stay in the first-level cache.
constexpr int64_t kBlock = 512;

// Keys of fewer counters are hashed together.
constexpr int64_t kMinCountersOfKey = 48;

// A problem in counters; all keys have the same number of them.
struct Job : RandomBitsProblem {
  bool is_elements;  // counter i makes element i, not words i and i + half
  int64_t counters;  // of a key
  int64_t half;      // distance of a counter's words, if not partitionable
  int64_t words;     // of a key; its last counter has no second one if odd
};

}  // namespace
}  // namespace xla_ffi_accelerate::random
#endif

HWY_BEFORE_NAMESPACE();
namespace xla_ffi_accelerate::random {
namespace HWY_NAMESPACE {

namespace hn = ::hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<uint32_t>;
using V = hn::Vec<D>;

template <int kBits>
HWY_INLINE void Round(V& a, V& b) {
  a = hn::Add(a, b);
  b = hn::Xor(hn::RotateRight<32 - kBits>(b), a);
}

// Hashes two vectors at a time, because each round waits for the one before.
template <int k0, int k1, int k2, int k3>
HWY_INLINE void FourRounds(V& a, V& b, V& c, V& d) {
  Round<k0>(a, b), Round<k0>(c, d);
  Round<k1>(a, b), Round<k1>(c, d);
  Round<k2>(a, b), Round<k2>(c, d);
  Round<k3>(a, b), Round<k3>(c, d);
}

// The two words of a vector of counters, or of their hashes.
struct Words {
  V a, b;
};

struct Keys {
  V keys[3];
};

HWY_INLINE Keys KeysOf(V key0, V key1) {
  const auto parity = hn::Set(D(), 0x1BD11BDAu);
  return {{key0, key1, hn::Xor(hn::Xor(key0, key1), parity)}};
}

// Replaces counters by their hashes.
HWY_INLINE void HashTwo(const Keys& keys, const Keys& next_keys, Words& words,
                        Words& next) {
  const auto add_keys = [&](uint32_t i) HWY_ATTR {
    const auto count = hn::Set(D(), i);
    const auto add = [&](const Keys& of, Words& to) HWY_ATTR {
      to.a = hn::Add(to.a, of.keys[i % 3]);
      to.b = hn::Add(to.b, hn::Add(of.keys[(i + 1) % 3], count));
    };
    add(keys, words), add(next_keys, next);
  };
  add_keys(0);
  FourRounds<13, 15, 26, 6>(words.a, words.b, next.a, next.b);
  add_keys(1);
  FourRounds<17, 29, 16, 24>(words.a, words.b, next.a, next.b);
  add_keys(2);
  FourRounds<13, 15, 26, 6>(words.a, words.b, next.a, next.b);
  add_keys(3);
  FourRounds<17, 29, 16, 24>(words.a, words.b, next.a, next.b);
  add_keys(4);
  FourRounds<13, 15, 26, 6>(words.a, words.b, next.a, next.b);
  add_keys(5);
}

// The words of a block of counters and of their keys, in vectors. The last
// vector may reach beyond the counters.
struct Block {
  HWY_ALIGN uint32_t a[kBlock];
  HWY_ALIGN uint32_t b[kBlock];
  HWY_ALIGN uint32_t key0[kBlock];
  HWY_ALIGN uint32_t key1[kBlock];
};

// Replaces n counters by their hashes; one key for all of them, or each its
// own.
template <bool kOneKey>
void Hash(int64_t n, Block* block) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto only =
      KeysOf(hn::Set(d, block->key0[0]), hn::Set(d, block->key1[0]));
  const auto keys_at = [&](int64_t i) HWY_ATTR {
    return kOneKey ? only
                   : KeysOf(hn::Load(d, block->key0 + i),
                            hn::Load(d, block->key1 + i));
  };
  const auto words_at = [&](int64_t i) HWY_ATTR {
    return Words{hn::Load(d, block->a + i), hn::Load(d, block->b + i)};
  };
  const auto store = [&](const Words& words, int64_t i) HWY_ATTR {
    hn::Store(words.a, d, block->a + i), hn::Store(words.b, d, block->b + i);
  };
  for (int64_t i = 0; i < n; i += 2 * lanes) {
    Words words = words_at(i), next = words_at(i + lanes);
    HashTwo(keys_at(i), keys_at(i + lanes), words, next);
    store(words, i), store(next, i + lanes);
  }
}

// Writes the elements of counters [from, from + n) of a key without a block,
// for the most common call: elements of 32 bits, one for each counter.
void FoldedHashes(const uint32_t* key, uint64_t from, int64_t n,
                  uint32_t* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto keys = KeysOf(hn::Set(d, key[0]), hn::Set(d, key[1]));
  const auto high = hn::Set(d, static_cast<uint32_t>(from >> 32));
  auto low = hn::Iota(d, static_cast<uint32_t>(from));
  const auto step = hn::Set(d, static_cast<uint32_t>(lanes));
  for (int64_t i = 0; i < n; i += 2 * lanes) {
    Words words{high, low}, next{high, hn::Add(low, step)};
    low = hn::Add(next.b, step);
    HashTwo(keys, keys, words, next);
    const auto first = hn::Xor(words.a, words.b);
    const auto second = hn::Xor(next.a, next.b);
    if (HWY_LIKELY(i + 2 * lanes <= n)) {
      hn::StoreU(first, d, out + i);
      hn::StoreU(second, d, out + i + lanes);
    } else {
      hn::StoreN(first, d, out + i, n - i);
      if (n - i > lanes) hn::StoreN(second, d, out + i + lanes, n - i - lanes);
    }
  }
}

// Writes counters [from, from + n) of a key to a[0, n) and b[0, n).
HWY_INLINE void Count(const Job& job, int64_t from, int64_t n, uint32_t* a,
                      uint32_t* b) {
  if (job.partitionable) {
    for (int64_t i = 0; i < n; ++i) {
      a[i] = static_cast<uint32_t>((from + i) >> 32);
      b[i] = static_cast<uint32_t>(from + i);
    }
    return;
  }
  const auto first = static_cast<uint32_t>(from);
  const auto second = static_cast<uint32_t>(from + job.half);
  for (int64_t i = 0; i < n; ++i) {
    a[i] = first + static_cast<uint32_t>(i);
    b[i] = second + static_cast<uint32_t>(i);
  }
  if (from + n + job.half > job.words) b[n - 1] = 0;
}

template <typename T>
HWY_INLINE void FoldTo(const uint32_t* a, const uint32_t* b, int64_t n,
                       void* out, int64_t at) {
  T* const to = static_cast<T*>(out) + at;
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(a[i] ^ b[i]);
}

// Writes what n hashes make of elements `at` and on.
HWY_INLINE void WriteElements(const Job& job, const uint32_t* a,
                              const uint32_t* b, int64_t n, int64_t at) {
  if (job.width == 1) return FoldTo<uint8_t>(a, b, n, job.out, at);
  if (job.width == 2) return FoldTo<uint16_t>(a, b, n, job.out, at);
  if (job.width == 4) return FoldTo<uint32_t>(a, b, n, job.out, at);
  uint64_t* const to = static_cast<uint64_t*>(job.out) + at;
  for (int64_t i = 0; i < n; ++i) to[i] = uint64_t{a[i]} << 32 | b[i];
}

// Writes what the hashes of counters [from, from + n) of a key make of its
// words.
void WriteWords(const Job& job, const uint32_t* a, const uint32_t* b, int64_t n,
                int64_t key, int64_t from) {
  const int64_t bytes = job.size * job.width;
  char* const to = static_cast<char*>(job.out) + key * bytes;
  const auto write = [&](const uint32_t* words, int64_t at) {
    const int64_t left = std::min(4 * n, bytes - 4 * at);
    if (left > 0) std::memcpy(to + 4 * at, words, left);
  };
  write(a, from);
  write(b, from + job.half);
}

// Rounds up to whole steps of Hash, and has the rest of the last one be zeros.
HWY_INLINE void Pad(int64_t n, uint32_t* words) {
  const auto step = static_cast<int64_t>(2 * hn::Lanes(D()));
  for (int64_t i = n; i % step != 0; ++i) words[i] = 0;
}

// Counters [begin, end), those of a key after those of the one before.
void BitsOfCounters(const Job& job, int64_t begin, int64_t end) {
  Block block;
  const bool is_one_key = job.counters >= kMinCountersOfKey;
  const auto for_each_key = [&](int64_t first, int64_t n,
                                const auto& body) HWY_ATTR {
    int64_t key = first / job.counters, from = first % job.counters;
    for (int64_t i = 0; i < n; ++key, from = 0) {
      const int64_t count = std::min(job.counters - from, n - i);
      body(key, from, i, count);
      i += count;
    }
  };
  if (is_one_key && job.partitionable && job.width == 4) {
    return for_each_key(
        begin, end - begin,
        [&](int64_t key, int64_t from, int64_t i, int64_t count) HWY_ATTR {
          auto* out = static_cast<uint32_t*>(job.out) + begin + i;
          // The high word of the counters is the same for 2^32 of them.
          for (int64_t n; count > 0; from += n, out += n, count -= n) {
            n = std::min(count, (from | UINT32_MAX) + 1 - from);
            FoldedHashes(job.keys + 2 * key, from, n, out);
          }
        });
  }
  for (int64_t first = begin, n; first < end; first += n) {
    n = std::min(kBlock, end - first);
    if (is_one_key) n = std::min(n, job.counters - first % job.counters);
    for_each_key(
        first, n,
        [&](int64_t key, int64_t from, int64_t i, int64_t count) HWY_ATTR {
          Count(job, from, count, block.a + i, block.b + i);
          for (int64_t j = i; j < (is_one_key ? 1 : i + count); ++j) {
            block.key0[j] = job.keys[2 * key];
            block.key1[j] = job.keys[2 * key + 1];
          }
        });
    Pad(n, block.a), Pad(n, block.b);
    if (is_one_key) {
      Hash<true>(n, &block);
    } else {
      Pad(n, block.key0), Pad(n, block.key1);
      Hash<false>(n, &block);
    }
    if (job.is_elements) {
      WriteElements(job, block.a, block.b, n, first);
    } else {
      for_each_key(
          first, n,
          [&](int64_t key, int64_t from, int64_t i, int64_t count) HWY_ATTR {
            WriteWords(job, block.a + i, block.b + i, count, key, from);
          });
    }
  }
}

void HashCounters(const Threefry2x32Problem& p, int64_t begin, int64_t end) {
  Block block;
  block.key0[0] = p.keys[0][0];
  block.key1[0] = p.keys[1][0];
  const auto load = [](const uint32_t* from, int64_t n, uint32_t* to) HWY_ATTR {
    std::memcpy(to, from, 4 * n);
    Pad(n, to);
  };
  for (int64_t i = begin, n; i < end; i += n) {
    n = std::min(kBlock, end - i);
    load(p.counters[0] + i, n, block.a);
    load(p.counters[1] + i, n, block.b);
    if (p.is_one_key) {
      Hash<true>(n, &block);
    } else {
      load(p.keys[0] + i, n, block.key0);
      load(p.keys[1] + i, n, block.key1);
      Hash<false>(n, &block);
    }
    std::memcpy(p.out[0] + i, block.a, 4 * n);
    std::memcpy(p.out[1] + i, block.b, 4 * n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace xla_ffi_accelerate::random
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace xla_ffi_accelerate::random {
namespace {

HWY_EXPORT(BitsOfCounters);
HWY_EXPORT(HashCounters);

// Minimum counters per task for which another thread is worthwhile.
constexpr int64_t kMinCounters = 1 << 14;

}  // namespace

void RandomBits(const RandomBitsProblem& problem, const Executor& executor) {
  Job job;
  static_cast<RandomBitsProblem&>(job) = problem;
  job.is_elements = job.partitionable || job.width == 8;
  job.words = RandomWords(job.size, job.width);
  job.half = job.width == 8 ? job.size : (job.words + 1) / 2;
  job.counters = job.is_elements ? job.size : job.half;
  const int64_t counters = job.num_keys * job.counters;
  if (counters == 0) return;
  const auto run = HWY_DYNAMIC_POINTER(BitsOfCounters);
  ParallelParts(
      executor, counters, NumParts(executor, counters, kMinCounters),
      [&](int64_t begin, int64_t end) noexcept { run(job, begin, end); });
}

void Threefry2x32(const Threefry2x32Problem& problem,
                  const Executor& executor) {
  if (problem.size == 0) return;
  const auto run = HWY_DYNAMIC_POINTER(HashCounters);
  ParallelParts(
      executor, problem.size, NumParts(executor, problem.size, kMinCounters),
      [&](int64_t begin, int64_t end) noexcept { run(problem, begin, end); });
}

namespace {

namespace ffi = ::xla::ffi;

ffi::Error RunBits(const RandomBitsCall& call, const Executor& executor) {
  const Dimensions batch = BatchAxes(call.get<keys>().dims()),
                   dims = call.get<bits>().dims();
  if (dims.size() < batch.size() || !(dims.first(batch.size()) == batch)) {
    return call.Invalid<bits>("first axes " + ShapeText(batch),
                              "shape " + ShapeText(dims));
  }
  RandomBitsProblem problem;
  problem.keys = call.get<keys>().as<uint32_t>();
  problem.num_keys = Product(batch);
  problem.size = Product(dims.last(dims.size() - batch.size()));
  problem.width =
      static_cast<int64_t>(ffi::ByteWidth(call.get<bits>().dtype()));
  problem.partitionable = call.get<partitionable>();
  problem.out = call.get<bits>().data();
  if (!problem.partitionable &&
      RandomWords(problem.size, problem.width) > kMaxRandomWords) {
    return call.Invalid<bits>("less than 2^32 - 1 words of a key",
                              "shape " + ShapeText(dims));
  }
  RandomBits(problem, executor);
  return {};
}

ffi::Error RunHash(const Threefry2x32Call& call, const Executor& executor) {
  const Dimensions keys = call.get<key0>().dims(),
                   counters = call.get<counter0>().dims();
  if (keys.size() > 0 && !(keys == counters)) {
    return call.Invalid<key0>(
        "a scalar or shape " + ShapeText(counters) + " like operand counter0",
        "shape " + ShapeText(keys));
  }
  const TypeTag<uint32_t> u32;
  Threefry2x32({call.get<counter0>().count(),
                /*is_one_key=*/keys.size() == 0,
                {call.get<key0>().as(u32), call.get<key1>().as(u32)},
                {call.get<counter0>().as(u32), call.get<counter1>().as(u32)},
                {call.get<word0>().as(u32), call.get<word1>().as(u32)}},
               executor);
  return {};
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateRandomBitsCpu, Checked<RunBits>,
                              BindCall<RunBits>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateRandomBitsCpu, RandomBitsCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateThreefry2x32Cpu, Checked<RunHash>,
                              BindCall<RunHash>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateThreefry2x32Cpu, Threefry2x32Call);

}  // namespace xla_ffi_accelerate::random

#endif  // HWY_ONCE
