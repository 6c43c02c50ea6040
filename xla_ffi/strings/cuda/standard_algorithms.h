// The functions of <algorithm> and <numeric> that work on forward iterators,
// such as pointers, for NVRTC.

#ifndef XLA_FFI_STRINGS_CUDA_STANDARD_ALGORITHMS_H_
#define XLA_FFI_STRINGS_CUDA_STANDARD_ALGORITHMS_H_

#include "xla_ffi/strings/cuda/standard_types.h"

namespace std {

template <typename T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <typename T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <typename T>
constexpr T min(initializer_list<T> values) {
  T least = *values.begin();
  for (const T& value : values) least = min(least, value);
  return least;
}
template <typename T>
constexpr T max(initializer_list<T> values) {
  T most = *values.begin();
  for (const T& value : values) most = max(most, value);
  return most;
}
template <typename T>
constexpr const T& clamp(const T& value, const T& low, const T& high) {
  return value < low ? low : high < value ? high : value;
}

template <typename It, typename T>
constexpr T accumulate(It begin, It end, T sum) {
  for (; begin != end; ++begin) sum = sum + *begin;
  return sum;
}
template <typename It, typename T, typename Function>
constexpr T accumulate(It begin, It end, T sum, Function function) {
  for (; begin != end; ++begin) sum = function(sum, *begin);
  return sum;
}
template <typename It, typename Out>
constexpr Out copy(It begin, It end, Out out) {
  for (; begin != end; ++begin, ++out) *out = *begin;
  return out;
}
template <typename It, typename N, typename Out>
constexpr Out copy_n(It begin, N count, Out out) {
  for (N i = 0; i < count; ++i, ++begin, ++out) *out = *begin;
  return out;
}
template <typename It, typename T>
constexpr void fill(It begin, It end, const T& value) {
  for (; begin != end; ++begin) *begin = value;
}
template <typename It, typename N, typename T>
constexpr It fill_n(It begin, N count, const T& value) {
  for (N i = 0; i < count; ++i, ++begin) *begin = value;
  return begin;
}
template <typename It>
constexpr It min_element(It begin, It end) {
  It least = begin;
  for (; begin != end; ++begin) {
    if (*begin < *least) least = begin;
  }
  return least;
}
template <typename It>
constexpr It max_element(It begin, It end) {
  It most = begin;
  for (; begin != end; ++begin) {
    if (*most < *begin) most = begin;
  }
  return most;
}
template <typename T, typename V>
constexpr T* lower_bound(T* begin, T* end, const V& value) {
  while (begin != end) {
    T* middle = begin + (end - begin) / 2;
    if (*middle < value) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}
template <typename T, typename V>
constexpr T* upper_bound(T* begin, T* end, const V& value) {
  while (begin != end) {
    T* middle = begin + (end - begin) / 2;
    if (value < *middle) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}
template <typename It>
constexpr void reverse(It begin, It end) {
  while (begin != end && begin != --end) {
    swap(*begin, *end);
    ++begin;
  }
}
template <typename It>
constexpr void iter_swap(It a, It b) {
  swap(*a, *b);
}
template <typename T>
constexpr T gcd(T a, T b) {
  while (b != 0) {
    const T rest = a % b;
    a = b;
    b = rest;
  }
  return a < 0 ? -a : a;
}

}  // namespace std

#endif  // XLA_FFI_STRINGS_CUDA_STANDARD_ALGORITHMS_H_
