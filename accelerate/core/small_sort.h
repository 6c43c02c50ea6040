// Sorting of a few keys without a branch.

#ifndef ACCELERATE_CORE_SMALL_SORT_H_
#define ACCELERATE_CORE_SMALL_SORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace xla_ffi_accelerate {
namespace small_sort_internal {

// Batcher's odd-even merge sort of `size` keys, a power of two up to 16
// (Knuth, The Art of Computer Programming, volume 3, 5.2.2, algorithm M).
struct Network {
  int count = 0;
  int low[63] = {};
  int high[63] = {};

  constexpr explicit Network(int size) {
    for (int p = 1; p < size; p *= 2) {
      for (int q = p; q >= 1; q /= 2) {
        for (int j = q % p; j + q < size; j += 2 * q) {
          for (int i = j; i < std::min(j + q, size - q); ++i) {
            if (i / (2 * p) != (i + q) / (2 * p)) continue;
            low[count] = i;
            high[count++] = i + q;
          }
        }
      }
    }
  }
};

template <int kSize>
inline constexpr Network kNetwork{kSize};

// gcc turns std::min and std::max into branches, half of which are
// mispredicted. From two choices by one comparison, gcc and clang make
// conditional moves.
template <typename T>
inline void CompareExchange(T& a, T& b) {
  const bool swaps = b < a;
  const T low = swaps ? b : a;
  const T high = swaps ? a : b;
  a = low;
  b = high;
}

// Spelled out for the compiler, so that the keys stay in registers.
template <int kSize, typename T, size_t... kSteps>
inline void Run(T* keys, std::index_sequence<kSteps...>) {
  constexpr const Network& kNet = kNetwork<kSize>;
  (CompareExchange(keys[kNet.low[kSteps]], keys[kNet.high[kSteps]]), ...);
}

template <int kSize, typename T>
void SortPadded(T* keys, int64_t n) {
  T padded[kSize];
  for (int i = 0; i < kSize; ++i) {
    padded[i] = i < n ? keys[i] : std::numeric_limits<T>::max();
  }
  Run<kSize>(padded, std::make_index_sequence<kNetwork<kSize>.count>());
  if (n == kSize) {
    std::copy(padded, padded + kSize, keys);
  } else {
    std::copy(padded, padded + n, keys);
  }
}

}  // namespace small_sort_internal

// Break-even length: beyond it the vectorized sort is faster than SmallSort.
inline constexpr int64_t kMaxSmallSort = 16;

// Sorts keys[0, n), n <= kMaxSmallSort, ascending.
template <typename T>
void SmallSort(T* keys, int64_t n) {
  if constexpr (!std::is_integral_v<T>) {  // too wide for registers
    for (int64_t i = 1; i < n; ++i) {
      const T key = keys[i];
      int64_t j = i;
      for (; j > 0 && key < keys[j - 1]; --j) keys[j] = keys[j - 1];
      keys[j] = key;
    }
  } else if (n == 8) {  // rows of 8 are common and get their own network
    small_sort_internal::SortPadded<8>(keys, 8);
  } else if (n <= 4) {
    small_sort_internal::SortPadded<4>(keys, n);
  } else if (n < 8) {
    small_sort_internal::SortPadded<8>(keys, n);
  } else {
    small_sort_internal::SortPadded<16>(keys, n);
  }
}

}  // namespace xla_ffi_accelerate

#endif  // ACCELERATE_CORE_SMALL_SORT_H_
