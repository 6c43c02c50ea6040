// A set of unsigned integers, built once and asked often, in memory of its
// owner's.

#ifndef ACCELERATE_KERNELS_ISIN_KEY_SET_H_
#define ACCELERATE_KERNELS_ISIN_KEY_SET_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "accelerate/core/vector_sort.h"

namespace xla_ffi_accelerate::isin {

// Keys of 8 and 16 bits: one entry for each there is.
template <typename K, typename = void>
class KeySet {
 public:
  using Entry = bool;

  // How many entries a table for so many keys has.
  static int64_t Entries(int64_t /*most*/) { return kEntries; }

  KeySet(int64_t /*most*/, Entry* table) : is_in_(table) {}

  // The set of keys[0, n), in place of what it was. May sort
  // keys, and then needs them as long as it is asked.
  void Assign(K* keys, int64_t n) {
    std::fill_n(is_in_, kEntries, false);
    for (int64_t i = 0; i < n; ++i) is_in_[keys[i]] = true;
  }
  bool Contains(K key) const { return is_in_[key]; }

 private:
  static constexpr int64_t kEntries = int64_t{1} << (8 * sizeof(K));

  bool* const is_in_;
};

// Keys of 32 and 64 bits: a hash table with linear probing.
template <typename K>
class KeySet<K, std::enable_if_t<(sizeof(K) >= 4)>> {
 public:
  using Entry = K;

  static int64_t Entries(int64_t most) { return int64_t{1} << Bits(most); }

  KeySet(int64_t most, Entry* table) : bits_(Bits(most)), table_(table) {}

  void Assign(K* keys, int64_t n) {
    sorted_ = nullptr;
    count_ = n;
    if (n == 0) return;
    // An entry that is not used holds the first key, which is then found
    // wherever it is looked for, and itself needs no entry.
    vacant_ = keys[0];
    std::fill_n(table_, int64_t{1} << bits_, vacant_);
    for (int64_t i = 1; i < n; ++i) {
      if (!Insert(keys[i])) {
        VectorSort(keys, n);
        sorted_ = keys;
        return;
      }
    }
  }

  bool Contains(K key) const {
    if (count_ == 0) return false;
    if (sorted_ != nullptr) {
      return std::binary_search(sorted_, sorted_ + count_, key);
    }
    for (uint64_t at = Home(key);; at = Next(at)) {
      const K entry = table_[at];
      if (entry == key) return true;
      if (entry == vacant_) return false;
    }
  }

 private:
  // Longer searches are left to bisection: there are keys that all want one
  // entry.
  static constexpr int kMaxProbes = 64;

  static int Bits(int64_t most) {
    int bits = 4;
    while (bits < 62 && (int64_t{1} << bits) < 2 * most) ++bits;
    return bits;
  }

  // The upper bits of a product with 2^64 / golden ratio: neighbours, and
  // multiples of a power of two, end up apart.
  uint64_t Home(K key) const {
    return (uint64_t{key} * 0x9e3779b97f4a7c15) >> (64 - bits_);
  }
  uint64_t Next(uint64_t at) const {
    return (at + 1) & ((uint64_t{1} << bits_) - 1);
  }

  bool Insert(K key) {
    uint64_t at = Home(key);
    for (int probe = 0; probe < kMaxProbes; ++probe, at = Next(at)) {
      K& entry = table_[at];
      if (entry == key) return true;
      if (entry == vacant_) {
        entry = key;
        return true;
      }
    }
    return false;
  }

  const int bits_;
  K* const table_;
  K vacant_ = 0;
  const K* sorted_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace xla_ffi_accelerate::isin

#endif  // ACCELERATE_KERNELS_ISIN_KEY_SET_H_
