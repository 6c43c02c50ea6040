// kit::for_each: steps through the rows of arrays together. Where every row
// takes the same steps a GPU reads and writes them at the memory's speed; on a
// CPU it is the loop that one would write.
//
//   float h = 0;
//   kit::for_each(x, out, [&](auto v) { return h = 0.9f * h + v; });
//
// The function gets the next element of each operand, as the type to compute
// in, and returns that of the result, kit::results(a, b) of several, or nothing
// if there is none. Operands come first, then results, then the function, which
// must not touch these rows itself. for_each_reversed() begins at the end.

#ifndef XLA_FFI_STRINGS_FOR_EACH_H_
#define XLA_FFI_STRINGS_FOR_EACH_H_

#include <cstdint>
#include <type_traits>

#include "xla_ffi/strings/half.h"

namespace kit {

// The next elements of several results.
template <typename V, int kCount>
struct Results {
  V values[kCount];
};

// The common type of several results. numbers.h specializes it for numbers
// that know their derivatives.
template <typename Enabled, typename... V>
struct CommonOf {
  using type = decltype((V() + ...));
};

template <typename... V>
Results<typename CommonOf<void, V...>::type, sizeof...(V)> results(
    V... values) {
  using Common = typename CommonOf<void, V...>::type;
  return {{static_cast<Common>(values)...}};
}

namespace for_each_internal {

template <int... i>
struct Indices {};

template <int kCount, int... i>
struct MakeIndices : MakeIndices<kCount - 1, kCount - 1, i...> {};
template <int... i>
struct MakeIndices<0, i...> {
  using type = Indices<i...>;
};
template <int kCount>
using IndicesBelow = typename MakeIndices<kCount>::type;

// Argument `i`.
template <int i, typename First, typename... Others>
auto& Get(First& first, Others&... others) {
  if constexpr (i == 0) {
    return first;
  } else {
    return Get<i - 1>(others...);
  }
}

// The traits of a row type, specialized where rows are defined.
template <typename Row>
struct Traits {
  static constexpr bool kIsOperand = false, kIsResult = false;
};

// Writes the value, or the values, that the function returned to `out`.
template <typename T, typename V>
void Take(const V& value, T* out) {
  *out = static_cast<T>(value);
}
template <typename T, typename V, int kCount>
void Take(const Results<V, kCount>& results, T* out) {
  for (int i = 0; i < kCount; ++i) out[i] = static_cast<T>(results.values[i]);
}

template <typename V>
constexpr int kCountOf = 1;
template <>
inline constexpr int kCountOf<void> = 0;
template <typename V, int kCount>
constexpr int kCountOf<Results<V, kCount>> = kCount;

// Computes one step, from the elements of the operands to those of the results.
template <typename T, int kOuts, int... i, typename Function>
void Step(Function& function, const T* in, T* out, Indices<i...>) {
  using A = Accumulate<T>;
  using V = decltype(function(static_cast<A>(in[i])...));
  static_assert(kCountOf<V> == kOuts,
                "kit::for_each: the function returns an element for each "
                "result, kit::results(a, b) for several, and nothing for none");
  if constexpr (kOuts == 0) {
    function(static_cast<A>(in[i])...);
  } else {
    Take(function(static_cast<A>(in[i])...), out);
  }
}

// The loop. rows.h defines it for CPUs and cuda/tiles.h for CUDA devices.
template <bool kForwards, typename T, int kIns, int kOuts, typename Function,
          typename... Rows>
void Run(int64_t size, Function& function, Rows&... rows);

template <bool kForwards, int... rows, typename... Arguments>
void ForEach(Indices<rows...>, Arguments&... arguments) {
  using First = Traits<std::remove_cv_t<
      std::remove_reference_t<decltype(Get<0>(arguments...))>>>;
  constexpr int kRows = sizeof...(rows);
  constexpr bool kIsOperand[] = {
      Traits<std::remove_cv_t<std::remove_reference_t<decltype(Get<rows>(
          arguments...))>>>::kIsOperand...};
  constexpr bool kIsResult[] = {Traits<std::remove_cv_t<std::remove_reference_t<
      decltype(Get<rows>(arguments...))>>>::kIsResult...};
  constexpr int kIns = (static_cast<int>(kIsOperand[rows]) + ...);
  static_assert(((kIsOperand[rows] || kIsResult[rows]) && ...),
                "kit::for_each: the arguments are rows, and then the function");
  static_assert(((kIsOperand[rows] == (rows < kIns)) && ...),
                "kit::for_each: operands come before results");
  int64_t size = Get<0>(arguments...).size();
  ((size = Get<rows>(arguments...).size() < size
               ? Get<rows>(arguments...).size()
               : size),
   ...);
  Run<kForwards, typename First::Type, kIns, kRows - kIns>(
      size, Get<kRows>(arguments...), Get<rows>(arguments...)...);
}

}  // namespace for_each_internal

// Calls the function for the first elements of all rows, then for the second
// ones, as often as the shortest row is long.
template <typename... Arguments>
void for_each(Arguments&&... arguments) {
  static_assert(sizeof...(Arguments) > 1, "kit::for_each(rows..., function)");
  for_each_internal::ForEach<true>(
      for_each_internal::IndicesBelow<sizeof...(Arguments) - 1>(),
      arguments...);
}

// The same, from the last elements to the first.
template <typename... Arguments>
void for_each_reversed(Arguments&&... arguments) {
  static_assert(sizeof...(Arguments) > 1,
                "kit::for_each_reversed(rows..., function)");
  for_each_internal::ForEach<false>(
      for_each_internal::IndicesBelow<sizeof...(Arguments) - 1>(),
      arguments...);
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_FOR_EACH_H_
