// The derivatives of a function that takes whole arrays, as a string of
// `inline` has it.
//
// Each row of a call is one call of the function, with arrays that have no
// batch axes. It is a function of rows as in derived.h: its arrays of floats
// are rows of numbers. Its other arrays, and its attributes, stay what they
// are.

#ifndef XLA_FFI_STRINGS_FUNCTION_H_
#define XLA_FFI_STRINGS_FUNCTION_H_

#include <cstdint>
#include <cstring>
#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla_ffi/strings/derive/differentiate.h"
#include "xla_ffi/strings/parameters.h"
#include "xla_ffi/strings/threads.h"

namespace kit {

// The argument of a function template for numbers T: T instead of floats.
template <typename Own, typename T>
using NumberFor =
    std::conditional_t<std::is_floating_point_v<Accumulate<Own>>, T, Own>;

// The scalar in which floats of these types are computed.
template <typename... T>
using Widest =
    std::conditional_t<(std::is_same_v<T, double> || ...), double, float>;

// The kind of a parameter, and the type of its elements.
template <typename P>
struct ParameterOf {
  static constexpr Code::Kind kKind = Code::kAttribute;
  using Element = void;
};
template <typename T>
struct ParameterOf<In<T>> {
  static constexpr Code::Kind kKind = Code::kOperand;
  using Element = T;
};
template <typename T>
struct ParameterOf<Out<T>> {
  static constexpr Code::Kind kKind = Code::kResult;
  using Element = T;
};
template <>
struct ParameterOf<Threads> {
  static constexpr Code::Kind kKind = Code::kThreads;
  using Element = void;
};

// The place of parameter `i` among those of its kind.
template <typename... P>
constexpr int OrdinalOf(size_t i) {
  constexpr Code::Kind kinds[] = {ParameterOf<P>::kKind..., Code::kEnd};
  int before = 0;
  for (size_t j = 0; j < i; ++j) before += kinds[j] == kinds[i];
  return before;
}

// Whether a function takes numbers as its operand `i`.
template <typename F, int i>
inline constexpr bool kTakesNumber = false;
template <int i, typename R, typename... P>
inline constexpr bool kTakesNumber<R (*)(P...), i> = [] {
  constexpr bool are_operands[] = {(ParameterOf<P>::kKind == Code::kOperand)...,
                                   false};
  constexpr bool are_numbers[] = {
      kIsNumber<typename ParameterOf<P>::Element>..., false};
  int operand = 0;
  for (size_t j = 0; j < sizeof...(P); ++j) {
    if (are_operands[j] && operand++ == i) return are_numbers[j];
  }
  return false;
}();

// The part of an array that one row of a call has.
struct Part {
  const void* data = nullptr;  // of results, there is only the shape
  const int64_t* dims = nullptr;
  int64_t rank = 0;

  int64_t size() const {
    int64_t product = 1;
    for (int64_t i = 0; i < rank; ++i) product *= dims[i];
    return product;
  }
  XLA_FFI_Buffer WithData(void* its_data) const {
    XLA_FFI_Buffer buffer = {};
    buffer.data = its_data;
    buffer.dims = const_cast<int64_t*>(dims);
    buffer.rank = rank;
    return buffer;
  }
};

// The part of an array with `lead` batch axes that row `i` has.
template <typename T>
Part PartOf(const Buffer<T>& buffer, int64_t lead, int64_t i) {
  Part part;
  part.dims = &buffer.dims()[lead];
  part.rank = buffer.rank() - lead;
  part.data = buffer.data() + i * part.size();
  return part;
}

// The shape of a result that no array of a derivative has: rank, sizes.
inline Part ShapeOf(const Array<int64_t>& shape) {
  Part part;
  part.rank = shape[0];
  part.dims = shape.data() + 1;
  return part;
}

// Thrown where the function returns an error instead of computing its results.
class FunctionError : public std::exception {
 public:
  explicit FunctionError(const char* why) : why_(why) {}
  const char* what() const noexcept override { return why_; }

 private:
  const char* why_;
};

// One call of an author's function. The bits say which operands and results are
// floats.
template <uint64_t kFloatOperands, uint64_t kFloatResults, int kOperands,
          int kResults, typename... Attributes>
struct FunctionOfArrays {
  static constexpr int kIns = Count(kFloatOperands);
  static constexpr int kOuts = Count(kFloatResults);

  Part operands[kOperands];
  Part results[kResults];
  int aliases[kOperands];  // the result in an operand's place, or -1
  std::tuple<Attributes...> attributes;

 protected:
  template <typename T, typename R, typename... P>
  void Call(R (*function)(P...), const Row<const T>* in,
            const Row<T>* out) const {
    CallAt(function, in, out, std::index_sequence_for<P...>());
  }

 private:
  // Where the elements of a call are.
  struct Places {
    void* operands[kOperands];
    void* results[kResults];
    std::vector<unsigned char> kept[kResults];  // results that are no numbers
  };

  template <typename T, typename R, typename... P, size_t... i>
  void CallAt(R (*function)(P...), const Row<const T>* in, const Row<T>* out,
              std::index_sequence<i...>) const {
    Places places;
    (PlaceResult<P, OrdinalOf<P...>(i)>(out, places), ...);
    (PlaceOperand<P, OrdinalOf<P...>(i)>(in, places), ...);
    if constexpr (std::is_void_v<R>) {
      function(Get<P, OrdinalOf<P...>(i)>(places)...);
    } else {
      const char* const error = function(Get<P, OrdinalOf<P...>(i)>(places)...);
      if (error != nullptr) throw FunctionError(error);
    }
  }

  template <typename P, int k, typename T>
  void PlaceResult(const Row<T>* out, Places& places) const {
    if constexpr (ParameterOf<P>::kKind == Code::kResult) {
      using Element = typename ParameterOf<P>::Element;
      if constexpr (std::is_same_v<Element, T>) {
        places.results[k] = out[Before(kFloatResults, k)].data();
      } else {
        places.kept[k].resize(results[k].size() * sizeof(Element) + 1);
        places.results[k] = places.kept[k].data();
      }
    }
  }

  template <typename P, int k, typename T>
  void PlaceOperand(const Row<const T>* in, Places& places) const {
    if constexpr (ParameterOf<P>::kKind == Code::kOperand) {
      using Element = typename ParameterOf<P>::Element;
      const void* data = operands[k].data;
      if constexpr (std::is_same_v<Element, T>) {
        data = in[Before(kFloatOperands, k)].data();
      }
      places.operands[k] = const_cast<void*>(data);
      if (aliases[k] >= 0) {
        const auto* const from = static_cast<const Element*>(data);
        auto* const to = static_cast<Element*>(places.results[aliases[k]]);
        for (int64_t j = 0; j < operands[k].size(); ++j) to[j] = from[j];
        places.operands[k] = to;
      }
    }
  }

  template <typename P, int k>
  P Get(const Places& places) const {
    constexpr Code::Kind kKind = ParameterOf<P>::kKind;
    if constexpr (kKind == Code::kOperand) {
      return P(operands[k].WithData(places.operands[k]));
    } else if constexpr (kKind == Code::kResult) {
      return P(results[k].WithData(places.results[k]));
    } else if constexpr (kKind == Code::kThreads) {
      return Threads(nullptr);  // a tape is one thread's
    } else {
      return std::get<k>(attributes);
    }
  }
};

// An array of T as one of S, in which it is computed.
template <typename S, typename T>
class WideIn {
 public:
  explicit WideIn(const In<T>& array)
      : row_(Widened<S>(array.data(), array.size(), kept_)) {}
  const Row<const S>& row() const { return row_; }

 private:
  std::vector<S> kept_;
  Row<const S> row_;
};

template <typename S, typename T>
class WideOut {
 public:
  explicit WideOut(const Out<T>& array) : array_(array) {
    if constexpr (std::is_same_v<S, T>) {
      row_ = Row<S>(array.data(), array.size());
    } else {
      kept_.resize(array.size());
      row_ = Row<S>(kept_.data(), array.size());
    }
  }
  const Row<S>& row() const { return row_; }
  void Write() const {
    for (int64_t i = 0; i < static_cast<int64_t>(kept_.size()); ++i) {
      array_[i] = T(kept_[i]);
    }
  }

 private:
  const Out<T>& array_;
  std::vector<S> kept_;
  Row<S> row_;
};

}  // namespace kit

#endif  // XLA_FFI_STRINGS_FUNCTION_H_
