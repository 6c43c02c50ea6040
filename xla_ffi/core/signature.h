// How a handler's signature is written:
//
//   constexpr Argument kArguments[] = {
//       Operand("operand x").Of(RealFloatTypes()).RankAtLeast(1),
//       Result("result y").Like(0),
//   };
//   constexpr Attribute kAttributes[] = {Integer("axis").AxisOf(0)};
//   constexpr XlaFfiKit_Signature kScan =
//       MakeSignature("my.scan", kArguments, kAttributes);
//
// call.h makes a handler of it and of a function.

#ifndef XLA_FFI_CORE_SIGNATURE_H_
#define XLA_FFI_CORE_SIGNATURE_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/handler_signature.h"

namespace xla_ffi_kit {

// Not constexpr: a compiler that comes to a call shows its line.
[[noreturn]] inline void SignatureIsWrong(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::abort();
}

namespace signature_internal {

constexpr bool BeginsWith(const char* text, const char* begin) {
  while (*begin != '\0' && *text == *begin) ++text, ++begin;
  return *begin == '\0';
}

constexpr bool IsSame(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

constexpr bool IsBefore(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return static_cast<unsigned char>(*a) < static_cast<unsigned char>(*b);
}

}  // namespace signature_internal

struct Argument : XlaFfiKit_Argument {
  // It has one of the dtypes of a TypeList.
  template <typename... Ts>
  constexpr Argument Of(TypeList<Ts...>) const {
    Argument to = *this;
    to.dtypes = kDtypes<Ts...>;
    to.num_dtypes = sizeof...(Ts);
    return to;
  }
  // It has the dtype of T, for that reason: "for indices".
  template <typename T>
  constexpr Argument Of(const char* reason) const {
    Argument to = Of(TypeList<T>());
    to.dtype_text = reason;
    return to;
  }
  constexpr Argument Rank(int32_t rank) const {
    Argument to = *this;
    to.min_rank = to.max_rank = rank;
    return to;
  }
  constexpr Argument RankAtLeast(int32_t rank) const {
    Argument to = *this;
    to.min_rank = rank;
    return to;
  }
  // It has the dtype of argument `i`, the shape, the shape but for one axis, or
  // both. Argument `i` comes earlier and is never missing. `reason` is
  // "like operand x" if null.
  constexpr Argument DtypeOf(int32_t i, const char* reason = nullptr) const {
    Argument to = *this;
    to.dtype_of = i;
    to.dtype_text = reason;
    return to;
  }
  constexpr Argument ShapeOf(int32_t i, const char* reason = nullptr) const {
    Argument to = *this;
    to.shape_of = i;
    to.shape_text = reason;
    return to;
  }
  constexpr Argument ShapeButLastOf(int32_t i, const char* reason,
                                    const char* last = nullptr) const {
    return Form(XlaFfiKit_ShapeForm_BUT_LAST, i, reason, last);
  }
  constexpr Argument ShapeWithoutLastOf(int32_t i, const char* reason) const {
    return Form(XlaFfiKit_ShapeForm_WITHOUT_LAST, i, reason, nullptr);
  }
  constexpr Argument ShapeWithoutAxisOf(int32_t i, const char* axis,
                                        const char* reason) const {
    return Form(XlaFfiKit_ShapeForm_WITHOUT_AXIS, i, reason, axis);
  }
  constexpr Argument Like(int32_t i, const char* reason = nullptr) const {
    return DtypeOf(i, reason).ShapeOf(i, reason);
  }
  // It may be missing, with all optional ones after it.
  constexpr Argument Optional() const {
    Argument to = *this;
    to.is_optional = 1;
    return to;
  }
  // It is there exactly if argument `i` is.
  constexpr Argument GivenWith(int32_t i) const {
    Argument to = *this;
    to.given_with = i;
    return to;
  }
  // There are one or more: of operands, which are then all that there is, or of
  // results, one for each operand, whose dtype and shape those of argument 0
  // are. Errors number them: "operand 0".
  constexpr Argument Repeated() const {
    Argument to = *this;
    to.is_repeated = 1;
    return to;
  }

 private:
  constexpr Argument Form(XlaFfiKit_ShapeForm form, int32_t i,
                          const char* reason, const char* attribute) const {
    Argument to = ShapeOf(i, reason);
    to.shape_form = form;
    to.last = attribute;
    return to;
  }
  template <typename... Ts>
  static constexpr int32_t kDtypes[] = {static_cast<int32_t>(kDtypeOf<Ts>)...};
};

namespace signature_internal {

constexpr Argument AnyArgument(const char* place) {
  Argument to = {};
  to.place = place;
  to.dtype_of = to.shape_of = -1;
  to.max_rank = std::numeric_limits<int32_t>::max();
  return to;
}

}  // namespace signature_internal

// An operand or a result, named as errors name it: "operand x", "result y".
constexpr Argument Operand(const char* place) {
  if (!signature_internal::BeginsWith(place, "operand")) {
    SignatureIsWrong("the name of an operand begins with \"operand\"");
  }
  return signature_internal::AnyArgument(place);
}
constexpr Argument Result(const char* place) {
  if (!signature_internal::BeginsWith(place, "result")) {
    SignatureIsWrong("the name of a result begins with \"result\"");
  }
  return signature_internal::AnyArgument(place);
}

struct Attribute : XlaFfiKit_Attribute {
  // A number, or each of an array, is in these bounds, and a float finite.
  // Errors say `max_text` for `max` where that has a better name than its
  // digits.
  constexpr Attribute Between(int64_t min, int64_t max,
                              const char* max_text = nullptr) const {
    Attribute to = *this;
    to.min = min;
    to.max = max;
    to.max_text = max_text;
    return to;
  }
  constexpr Attribute AtLeast(int64_t least) const {
    return Between(least, std::numeric_limits<int64_t>::max());
  }
  // It is an axis of argument `i`.
  constexpr Attribute AxisOf(int32_t i) const {
    Attribute to = *this;
    to.axis_of = i;
    return to;
  }
  // It is a scalar of this dtype, too.
  template <typename T>
  constexpr Attribute Or() const {
    Attribute to = *this;
    to.other_dtype = static_cast<int32_t>(kDtypeOf<T>);
    return to;
  }
  // It is there exactly if argument `i` is not.
  constexpr Attribute UnlessGiven(int32_t i) const {
    Attribute to = *this;
    to.unless_given = i;
    return to;
  }
};

// A scalar of type T.
template <typename T>
constexpr Attribute Scalar(const char* name) {
  Attribute to = {};
  to.name = name;
  to.type = XLA_FFI_AttrType_SCALAR;
  to.dtype = static_cast<int32_t>(kDtypeOf<T>);
  to.size = to.axis_of = -1;
  to.min = 1;  // above `max`: no bounds
  return to;
}
constexpr Attribute Integer(const char* name) { return Scalar<int64_t>(name); }

// `size` integers, or any number of them.
constexpr Attribute Integers(const char* name, int64_t size = -1) {
  Attribute to = Integer(name);
  to.type = XLA_FFI_AttrType_ARRAY;
  to.size = size;
  return to;
}

// A string that is one of several words.
template <size_t kCount>
constexpr Attribute Word(const char* name, const char* const (&words)[kCount]) {
  Attribute to = Integer(name);
  to.type = XLA_FFI_AttrType_STRING;
  to.dtype = XLA_FFI_DataType_INVALID;
  to.words = words;
  to.num_words = kCount;
  return to;
}

namespace signature_internal {

constexpr bool IsBounded(const Attribute& attribute) {
  return attribute.min <= attribute.max;
}

constexpr bool HasBounds(int32_t dtype) {
  return dtype == XLA_FFI_DataType_F32 || dtype == XLA_FFI_DataType_F64 ||
         (dtype >= XLA_FFI_DataType_S8 && dtype <= XLA_FFI_DataType_U64);
}

template <size_t kArguments, size_t kAttributes>
constexpr void CheckArguments(const Argument (&arguments)[kArguments],
                              const Attribute (&attributes)[kAttributes]) {
  constexpr auto kCount = static_cast<int32_t>(kArguments);
  bool has_results = false;
  for (int32_t i = 0; i < kCount; ++i) {
    const Argument& to = arguments[i];
    const bool is_result = BeginsWith(to.place, "result");
    if (has_results && !is_result) {
      SignatureIsWrong("operands come before results");
    }
    has_results = is_result;
    if (to.dtype_of >= kCount || to.shape_of >= kCount) {
      SignatureIsWrong("an argument is like one that there is");
    }
    if (to.given_with < 0 || to.given_with >= kCount) {
      SignatureIsWrong("GivenWith() names an argument by its number");
    }
    bool is_named = to.last == nullptr;
    for (const Attribute& attribute : attributes) {
      is_named = is_named ||
                 (attribute.name != nullptr && IsSame(attribute.name, to.last));
    }
    if (!is_named) SignatureIsWrong("a shape names one of the attributes");
  }
}

template <size_t kAttributes>
constexpr void CheckAttributes(const Attribute (&attributes)[kAttributes],
                               size_t num_arguments) {
  const auto count = static_cast<int32_t>(num_arguments);
  for (size_t i = 0; i < kAttributes; ++i) {
    const Attribute& to = attributes[i];
    if (i > 0 && !IsBefore(attributes[i - 1].name, to.name)) {
      SignatureIsWrong("attributes are sorted by name, each named once");
    }
    if (to.axis_of >= count || to.unless_given >= count) {
      SignatureIsWrong("an attribute names arguments by their numbers");
    }
    if (to.name != nullptr && IsBounded(to) && !HasBounds(to.dtype)) {
      SignatureIsWrong("what has bounds is a whole number, an f32 or an f64");
    }
  }
}

}  // namespace signature_internal

// Operands come before results; attributes are sorted by name.
template <size_t kArguments, size_t kAttributes>
constexpr XlaFfiKit_Signature MakeSignature(
    const char* operation, const Argument (&arguments)[kArguments],
    const Attribute (&attributes)[kAttributes]) {
  // Call keeps a bit for each.
  static_assert(kArguments <= 32, "a signature has up to 32 arguments");
  signature_internal::CheckArguments(arguments, attributes);
  signature_internal::CheckAttributes(attributes, kArguments);
  size_t operands = 0;
  while (operands < kArguments && arguments[operands].place[0] == 'o') {
    ++operands;
  }
  return {sizeof(XlaFfiKit_Signature),
          sizeof(Argument),
          sizeof(Attribute),
          operation,
          operands,
          kArguments - operands,
          arguments,
          kAttributes,
          attributes};
}
template <size_t kArguments>
constexpr XlaFfiKit_Signature MakeSignature(
    const char* operation, const Argument (&arguments)[kArguments]) {
  constexpr Attribute kNone[] = {{}};
  XlaFfiKit_Signature to = MakeSignature(operation, arguments, kNone);
  to.num_attributes = 0;
  to.attributes = nullptr;
  return to;
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_SIGNATURE_H_
