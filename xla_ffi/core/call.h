// Handlers that describe themselves: a signature (signature.h), written once,
// is what checks a call, what names the errors, and what the handler table
// tells.
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
// A call reaches `Scan` only if it is what the signature says. What a signature
// cannot say, the function checks itself with checks.h.

#ifndef XLA_FFI_CORE_CALL_H_
#define XLA_FFI_CORE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/dtype_dispatch.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/signature.h"  // IWYU pragma: export

namespace xla_ffi_kit {

// The attributes of a call as XLA gives them, not decoded.
struct CallAttributes {
  const XLA_FFI_Attrs* attrs;
};

// What a handler asked of its call that the signature does not say: a mistake
// of the handler's, which Checked makes an error.
struct WrongAttribute {
  std::string name;
};

// A call, and what its signature says of it. Arguments are numbered as in the
// signature, also if some are missing: operands, then results.
class Call : private xla::ffi::RemainingArgs, private xla::ffi::RemainingRets {
 public:
  Call(const XlaFfiKit_Signature& signature,
       const xla::ffi::RemainingArgs& operands,
       const xla::ffi::RemainingRets& results, CallAttributes attributes)
      : RemainingArgs(operands),
        RemainingRets(results),
        signature_(signature),
        attrs_(attributes.attrs) {}

  // Success, or the first error: how many there are of what, then attributes,
  // then operands and results. Nothing else may be called before.
  xla::ffi::Error Check();

  std::string_view operation() const { return signature_.operation; }

  // The number of operands that the call has.
  size_t num_operands() const { return RemainingArgs::size(); }

  // Of repeated ones there may be more than bits, but none is missing.
  bool Has(size_t argument) const {
    return missing_ == 0 || (missing_ >> argument & 1) == 0;
  }

  // Returns an argument that is not missing.
  xla::ffi::AnyBuffer argument(size_t i) const {
    const size_t operands =
        missing_ == 0 ? RemainingArgs::size() : signature_.num_operands;
    return i < operands ? operand(i) : result(i - operands);
  }
  xla::ffi::AnyBuffer operand(size_t i) const {
    return BufferAt(args()->args[i - MissingBelow(i)]);
  }
  xla::ffi::AnyBuffer result(size_t i) const {
    const size_t operands = signature_.num_operands;
    const size_t missing =
        missing_ == 0 ? 0 : MissingBelow(operands + i) - MissingBelow(operands);
    return BufferAt(rets()->rets[i - missing]);
  }
  // The elements of an operand or a result; null if it is missing.
  template <typename T>
  const T* In(size_t i) const {
    if (!Has(i)) return nullptr;
    return static_cast<const T*>(operand(i).untyped_data());
  }
  template <typename T>
  T* Out(size_t i) const {
    if (!Has(signature_.num_operands + i)) return nullptr;
    return static_cast<T*>(result(i).untyped_data());
  }

  // "operand x"; of one of several, "operand 0".
  std::string NameOf(size_t argument) const;

  // InvalidArgument() about an argument, by its number.
  xla::ffi::Error Invalid(size_t argument, std::string_view expected,
                          std::string_view got) const;

  // The value of an attribute that the signature names and the call has, as its
  // type: a number, a std::string_view, or a span of numbers. A double may be
  // an f32 in the call. One
  // of another name, or another type, ends the call with an error.
  template <typename T>
  T Get(std::string_view name) const {
    return As<T>(ValueOf(Find(name, HasType<T>)));
  }
  // The number of an attribute's word in the signature's list.
  size_t WordOf(std::string_view name) const;

  // Calls fn(TypeTag<T>()) for the dtype of argument `i`.
  template <typename Types, typename Fn>
  xla::ffi::Error Dispatch(Types types, size_t i, const Fn& fn) const {
    return DispatchDtype(types, argument(i).element_type(),
                         {operation(), ArgumentOf(i).place}, fn);
  }

 private:
  static xla::ffi::AnyBuffer BufferAt(void* buffer) {
    return xla::ffi::AnyBuffer(static_cast<XLA_FFI_Buffer*>(buffer));
  }
  size_t MissingBelow(size_t i) const {
    if (missing_ == 0) return 0;
    return __builtin_popcount(missing_ & ((uint32_t{1} << i) - 1));
  }
  bool is_repeated() const { return signature_.arguments[0].is_repeated != 0; }
  const XlaFfiKit_Argument& ArgumentOf(size_t i) const {
    if (is_repeated()) i = i < RemainingArgs::size() ? 0 : 1;
    return signature_.arguments[i];
  }
  // The number of the argument that argument `i` is like, `like` in the
  // signature.
  size_t ModelOf(size_t i, int32_t like) const {
    if (!is_repeated() || i < RemainingArgs::size()) return like;
    return i - RemainingArgs::size();
  }
  size_t num_arguments() const {
    return missing_ == 0 ? RemainingArgs::size() + RemainingRets::size()
                         : signature_.num_operands + signature_.num_results;
  }

  const XlaFfiKit_Attribute& AttributeOf(size_t i) const {
    return signature_.attributes[i];
  }
  bool HasAttribute(size_t i) const {
    const int32_t unless = AttributeOf(i).unless_given;
    return unless == 0 || !Has(unless);
  }
  // The number of an attribute in the signature. Throws WrongAttribute if it
  // has none of that name and type, or the call none.
  size_t Find(std::string_view name,
              bool (*is_right)(const XlaFfiKit_Attribute&)) const {
    for (size_t i = 0; i < signature_.num_attributes; ++i) {
      const XlaFfiKit_Attribute& attribute = AttributeOf(i);
      if (!IsText(attribute.name, name)) continue;
      if (is_right(attribute) && HasAttribute(i)) return i;
      break;
    }
    throw WrongAttribute{std::string(name)};
  }
  // Whether Get<T> returns such attributes.
  template <typename T>
  static bool HasType(const XlaFfiKit_Attribute& attribute) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      return attribute.type == XLA_FFI_AttrType_STRING;
    } else if constexpr (std::is_arithmetic_v<T>) {
      return attribute.type == XLA_FFI_AttrType_SCALAR &&
             attribute.dtype == static_cast<int32_t>(kDtypeOf<T>);
    } else {
      using Element = std::decay_t<decltype(*std::declval<T>().begin())>;
      return attribute.type == XLA_FFI_AttrType_ARRAY &&
             attribute.dtype == static_cast<int32_t>(kDtypeOf<Element>);
    }
  }
  // Returns the place in the call of attribute `i` of the signature.
  size_t PlaceOfAttribute(size_t i) const {
    size_t place = 0;
    for (size_t before = 0; before < i; ++before) place += HasAttribute(before);
    return place;
  }
  const void* ValueOf(size_t i) const {
    return attrs_->attrs[PlaceOfAttribute(i)];
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
      if constexpr (std::is_same_v<T, double>) {
        if (scalar->dtype == XLA_FFI_DataType_F32) {
          return *static_cast<const float*>(scalar->value);
        }
      }
      return *static_cast<const T*>(scalar->value);
    } else {
      const auto* const array = static_cast<const XLA_FFI_Array*>(attribute);
      return T(static_cast<decltype(T().begin())>(array->data), array->size);
    }
  }

  // Each true, or false with what is wrong: to return an error that is none
  // takes as long as a check.
  bool CheckCounts(xla::ffi::Error* error);
  bool CheckNumberOf(size_t begin, size_t end, size_t given,
                     xla::ffi::Error* error);
  bool CheckRepeated(xla::ffi::Error* error) const;
  bool CheckAttributeNames(xla::ffi::Error* error) const;
  bool CheckAttributeType(size_t i, xla::ffi::Error* error) const;
  bool CheckAttribute(size_t i, xla::ffi::Error* error) const;
  bool CheckArgument(size_t i, xla::ffi::Error* error) const;
  bool CheckDtypeOf(size_t i, xla::ffi::DataType dtype,
                    xla::ffi::Error* error) const;
  bool CheckShapeOf(size_t i, xla::ffi::Span<const int64_t> dims,
                    xla::ffi::Error* error) const;
  bool HasLast(const XlaFfiKit_Argument& to,
               xla::ffi::Span<const int64_t> dims) const;
  std::string ReasonOf(const char* text, size_t model) const;

  const XlaFfiKit_Signature& signature_;
  const XLA_FFI_Attrs* attrs_;
  uint32_t missing_ = 0;  // a bit for each argument
};

// INTERNAL: "my.scan: attribute axsi: the handler asks for it, but ...".
xla::ffi::Error WrongAttributeError(const XlaFfiKit_Signature& signature,
                                    const WrongAttribute& wrong);

// A handler's function: checks the call, and passes it on with the context,
// threads or a stream.
template <const XlaFfiKit_Signature& kSignature, auto kRun,
          typename Context = xla::ffi::ThreadPool>
xla::ffi::Error Checked(Context context,
                        const xla::ffi::RemainingArgs& operands,
                        const xla::ffi::RemainingRets& results,
                        CallAttributes attributes) {
  Call call(kSignature, operands, results, attributes);
  try {
    xla::ffi::Error error = call.Check();
    return error.failure() ? error : kRun(call, context);
  } catch (const WrongAttribute& wrong) {
    return WrongAttributeError(kSignature, wrong);
  }
}

// The binding of such a function, on a CUDA device
// BindCall<xla::ffi::PlatformStream<cudaStream_t>>().
template <typename Context = xla::ffi::ThreadPool>
auto BindCall() {
  return xla::ffi::Ffi::Bind()
      .Ctx<Context>()
      .RemainingArgs()
      .RemainingRets()
      .template Attrs<CallAttributes>();
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

#endif  // XLA_FFI_CORE_CALL_H_
