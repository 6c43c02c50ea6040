// Handlers that describe themselves: what a handler takes, written once, is
// what checks a call, what names the errors, and what the handler table tells.
//
//   constexpr Argument kArguments[] = {
//       Operand("operand x").Of(RealFloatTypes()).RankAtLeast(1),
//       Result("result y").Like(0),
//   };
//   constexpr Attribute kAttributes[] = {Integer("axis").AxisOf(0)};
//   constexpr XlaFfiKit_Signature kScan =
//       MakeSignature("my.scan", kArguments, kAttributes);
//
//   ffi::Error Scan(const Call& call, const Executor& executor) {
//     const int64_t axis = call.Get<int64_t>("axis");
//     ...
//   }
//
//   XLA_FFI_DEFINE_HANDLER_SYMBOL(MyScan, (xla_ffi_kit::Checked<kScan, Scan>),
//                                 xla_ffi_kit::BindCall());
//   XLA_FFI_KIT_DEFINE_SIGNATURE(MyScan, xla_ffi_kit::kScan);
//
// A call comes to `Scan` when it is what the signature says. What a signature
// cannot say the function checks itself, by the means of checks.h.

#ifndef XLA_FFI_CORE_SIGNATURE_H_
#define XLA_FFI_CORE_SIGNATURE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/handler_signature.h"

namespace xla_ffi_kit {

// --- How one is written ------------------------------------------------------

struct Argument : XlaFfiKit_Argument {
  // One of the dtypes of a TypeList.
  template <typename... Ts>
  constexpr Argument Of(TypeList<Ts...>) const {
    Argument to = *this;
    to.dtypes = kDtypes<Ts...>;
    to.num_dtypes = sizeof...(Ts);
    return to;
  }
  // Of the dtype of T, for that reason: "for indices".
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
  // Of the dtype of argument `i`; of its shape, but perhaps for the last axis,
  // which may be an attribute; of both. `reason` is "like operand x" if null.
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
    Argument to = ShapeOf(i, reason);
    to.is_but_last = 1;
    to.last = last;
    return to;
  }
  constexpr Argument Like(int32_t i) const { return DtypeOf(i).ShapeOf(i); }

 private:
  template <typename... Ts>
  static constexpr int32_t kDtypes[] = {static_cast<int32_t>(kDtypeOf<Ts>)...};
};

// An operand or a result, named as errors name it: "operand x", "result y".
constexpr Argument Operand(const char* place) {
  Argument to = {};
  to.place = place;
  to.dtype_of = to.shape_of = -1;
  to.max_rank = std::numeric_limits<int32_t>::max();
  return to;
}
constexpr Argument Result(const char* place) { return Operand(place); }

struct Attribute : XlaFfiKit_Attribute {
  // Of an integer, or of each of an array; `max_text` is `max` in an error,
  // where that has a better name than its digits.
  constexpr Attribute Between(int64_t min, int64_t max,
                              const char* max_text = nullptr) const {
    Attribute to = *this;
    to.min = min;
    to.max = max;
    to.max_text = max_text;
    return to;
  }
  // An axis of argument `i`.
  constexpr Attribute AxisOf(int32_t i) const {
    Attribute to = *this;
    to.axis_of = i;
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

// `size` integers.
constexpr Attribute Integers(const char* name, int64_t size) {
  Attribute to = Integer(name);
  to.type = XLA_FFI_AttrType_ARRAY;
  to.size = size;
  return to;
}

// One of several words.
template <size_t kCount>
constexpr Attribute Word(const char* name, const char* const (&words)[kCount]) {
  Attribute to = Integer(name);
  to.type = XLA_FFI_AttrType_STRING;
  to.dtype = XLA_FFI_DataType_INVALID;
  to.words = words;
  to.num_words = kCount;
  return to;
}

// Operands come before results; attributes are sorted by name.
template <size_t kArguments, size_t kAttributes>
constexpr XlaFfiKit_Signature MakeSignature(
    const char* operation, const Argument (&arguments)[kArguments],
    const Attribute (&attributes)[kAttributes]) {
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

// --- What a handler is called with -------------------------------------------

// The attributes of a call as XLA gives them, not decoded.
struct CallAttributes {
  const XLA_FFI_Attrs* attrs;
};

// A call that is what its signature says.
class Call : private xla::ffi::RemainingArgs, private xla::ffi::RemainingRets {
 public:
  Call(const XlaFfiKit_Signature& signature,
       const xla::ffi::RemainingArgs& operands,
       const xla::ffi::RemainingRets& results, CallAttributes attributes)
      : RemainingArgs(operands),
        RemainingRets(results),
        signature_(signature),
        attrs_(attributes.attrs) {}

  std::string_view operation() const { return signature_.operation; }

  // Operands, then results.
  xla::ffi::AnyBuffer argument(size_t i) const {
    const size_t operands = signature_.num_operands;
    return i < operands ? operand(i) : result(i - operands);
  }
  xla::ffi::AnyBuffer operand(size_t i) const {
    return xla::ffi::AnyBuffer(static_cast<XLA_FFI_Buffer*>(args()->args[i]));
  }
  xla::ffi::AnyBuffer result(size_t i) const {
    return xla::ffi::AnyBuffer(static_cast<XLA_FFI_Buffer*>(rets()->rets[i]));
  }
  template <typename T>
  const T* In(size_t i) const {
    return static_cast<const T*>(operand(i).untyped_data());
  }
  template <typename T>
  T* Out(size_t i) const {
    return static_cast<T*>(result(i).untyped_data());
  }
  // Where an error about argument `i` is.
  Place PlaceOf(size_t i) const { return {operation(), ArgumentOf(i).place}; }

  // An attribute that the signature names, of its type: a number, a
  // std::string_view, or a span of numbers.
  template <typename T>
  T Get(std::string_view name) const {
    return As<T>(attrs_->attrs[IndexOf(name)]);
  }
  // Which of its words an attribute is.
  size_t WordOf(std::string_view name) const;

  // Success, or the first error: how many there are of what, then attributes,
  // then operands and results. Nothing else is to be called before.
  xla::ffi::Error Check() const;

  // Calls fn(TypeTag<T>()) for the dtype of argument `i`.
  template <typename Types, typename Fn>
  xla::ffi::Error Dispatch(Types types, size_t i, const Fn& fn) const {
    return DispatchDtype(types, argument(i).element_type(), PlaceOf(i), fn);
  }

 private:
  const XlaFfiKit_Argument& ArgumentOf(size_t i) const {
    return static_cast<const Argument*>(signature_.arguments)[i];
  }
  const XlaFfiKit_Attribute& AttributeOf(size_t i) const {
    return static_cast<const Attribute*>(signature_.attributes)[i];
  }
  size_t IndexOf(std::string_view name) const {
    size_t i = 0;
    while (!IsText(AttributeOf(i).name, name)) ++i;
    return i;
  }
  // Most differ in their first letter.
  static bool IsText(const char* text, std::string_view other) {
    size_t i = 0;
    while (i < other.size() && text[i] == other[i]) ++i;
    return i == other.size() && text[i] == '\0';
  }
  template <typename T>
  static T As(const void* attribute) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      const auto* const text = static_cast<const XLA_FFI_ByteSpan*>(attribute);
      return {text->ptr, text->len};
    } else if constexpr (std::is_arithmetic_v<T>) {
      const auto* const scalar = static_cast<const XLA_FFI_Scalar*>(attribute);
      return *static_cast<const T*>(scalar->value);
    } else {
      const auto* const array = static_cast<const XLA_FFI_Array*>(attribute);
      return T(static_cast<decltype(T().begin())>(array->data), array->size);
    }
  }

  // Each true, or false with what is wrong: to return an error that is none
  // takes as long as a check.
  bool CheckCounts(xla::ffi::Error* error) const;
  bool CheckArgument(size_t i, xla::ffi::Error* error) const;
  bool CheckAttributeType(size_t i, xla::ffi::Error* error) const;
  bool CheckAttribute(size_t i, xla::ffi::Error* error) const;

  const XlaFfiKit_Signature& signature_;
  const XLA_FFI_Attrs* attrs_;
};

// A handler's function: checks the call, and passes it on.
template <const XlaFfiKit_Signature& kSignature,
          xla::ffi::Error (*kRun)(const Call&, const Executor&)>
xla::ffi::Error Checked(xla::ffi::ThreadPool pool,
                        const xla::ffi::RemainingArgs& operands,
                        const xla::ffi::RemainingRets& results,
                        CallAttributes attributes) {
  const Call call(kSignature, operands, results, attributes);
  xla::ffi::Error error = call.Check();
  return error.failure() ? error : kRun(call, pool);
}

// The binding of such a function.
inline auto BindCall() {
  return xla::ffi::Ffi::Bind()
      .Ctx<xla::ffi::ThreadPool>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs<CallAttributes>();
}

}  // namespace xla_ffi_kit

template <>
struct xla::ffi::AttrDecoding<xla_ffi_kit::CallAttributes> {
  using Type = xla_ffi_kit::CallAttributes;
  static std::optional<Type> Decode(XLA_FFI_AttrType, void* attrs,
                                    DiagnosticEngine&) {
    return Type{static_cast<const XLA_FFI_Attrs*>(attrs)};
  }
};

// Tells the handler table what the handler `Symbol` takes.
#define XLA_FFI_KIT_DEFINE_SIGNATURE(Symbol, signature)     \
  extern "C" {                                              \
  extern const XlaFfiKit_Signature Symbol##_signature;      \
  const XlaFfiKit_Signature Symbol##_signature = signature; \
  }                                                         \
  static_assert(sizeof(xla_ffi_kit::Argument) == sizeof(XlaFfiKit_Argument))

#endif  // XLA_FFI_CORE_SIGNATURE_H_
