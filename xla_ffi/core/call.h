// Handlers that say what they take: a signature (signature.h), written once, is
// what checks a call, what names the errors, and what the handler table tells.
//
//   constexpr Operand x{"x", RealFloatTypes(), "(..., n)"};
//   constexpr Attribute<double> factor{"factor"};
//   constexpr Result y{"y", x};
//   constexpr char kName[] = "my.scale";
//   using ScaleCall = Call<kName, x, factor, y>;
//
//   ffi::Error Run(const ScaleCall& call, const Executor& executor) {
//     const double by = call.get<factor>();
//     return call.Dispatch<x>([&](auto tag) {
//       Scale(call.get<x>().as(tag), by, call.get<y>().as(tag), executor);
//       return ffi::Error();
//     });
//   }
//
//   XLA_FFI_DEFINE_HANDLER_SYMBOL(MyScale, Checked<Run>, BindCall<Run>());
//   XLA_FFI_KIT_DEFINE_SIGNATURE(MyScale, ScaleCall);
//
// A call reaches `Run` only if it is what the signature says, and with huge
// pages for its large results. What a signature cannot say, the function checks
// itself with call.Invalid<x>() and checks.h. On CUDA devices it takes a
// cudaStream_t in the place of the executor.

#ifndef XLA_FFI_CORE_CALL_H_
#define XLA_FFI_CORE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/executor.h"
#include "xla_ffi/core/signature.h"  // IWYU pragma: export

namespace xla_ffi_kit {

// The attributes of a call as XLA gives them, not decoded.
struct CallAttributes {
  const XLA_FFI_Attrs* attrs;
};

// --- Arrays ------------------------------------------------------------------

namespace signature_internal {

template <typename T, typename Types>
inline constexpr bool kIsOneOf = false;
template <typename T, typename... Ts>
inline constexpr bool kIsOneOf<T, TypeList<Ts...>> =
    (std::is_same_v<T, Ts> || ...);
template <typename T>
inline constexpr bool kIsOneOf<T, AnyType> = true;

}  // namespace signature_internal

// An operand or a result of a call; false if it is missing. Elements of an
// operand are const.
template <typename Types, bool kIsResult>
class Array {
 public:
  template <typename T>
  using Element = std::conditional_t<kIsResult, T, const T>;

  explicit Array(const XLA_FFI_Buffer* buffer) : buffer_(buffer) {}

  explicit operator bool() const { return buffer_ != nullptr; }

  // Of an array that is not missing: its shape, its dtype, the number of its
  // elements (0 where a product of dimensions does not fit 64 bits), its bytes.
  Dimensions dims() const {
    return {buffer_->dims, static_cast<size_t>(buffer_->rank)};
  }
  xla::ffi::DataType dtype() const {
    return static_cast<xla::ffi::DataType>(buffer_->dtype);
  }
  int64_t count() const { return Product(dims()); }
  size_t bytes() const {
    return xla::ffi::ByteWidth(dtype()) * static_cast<size_t>(count());
  }

  // The elements as T, one of the types of the signature; null if the array is
  // missing.
  template <typename T>
  Element<T>* as() const {
    static_assert(signature_internal::kIsOneOf<T, Types>,
                  "the signature does not name this type");
    return static_cast<Element<T>*>(data());
  }
  template <typename T>
  Element<T>* as(TypeTag<T>) const {
    return as<T>();
  }
  Element<void>* data() const {
    return buffer_ == nullptr ? nullptr : buffer_->data;
  }

 private:
  const XLA_FFI_Buffer* buffer_;
};

// Operands that are repeated, or their results: 1 or more.
template <typename Types, bool kIsResult>
class Arrays {
 public:
  Arrays(void* const* buffers, size_t size) : buffers_(buffers), size_(size) {}

  size_t size() const { return size_; }
  Array<Types, kIsResult> operator[](size_t i) const {
    return Array<Types, kIsResult>(
        static_cast<const XLA_FFI_Buffer*>(buffers_[i]));
  }

 private:
  void* const* buffers_;
  size_t size_;
};

// --- Calls -------------------------------------------------------------------

// A call, and what its signature says of it, without its keys. Arguments are
// numbered as in the signature, also if some are missing: operands, then
// results.
class AnyCall : private xla::ffi::RemainingArgs,
                private xla::ffi::RemainingRets {
 public:
  AnyCall(const XlaFfiKit_Signature& signature,
          const xla::ffi::RemainingArgs& operands,
          const xla::ffi::RemainingRets& results, CallAttributes attributes)
      : RemainingArgs(operands),
        RemainingRets(results),
        signature_(signature),
        attrs_(attributes.attrs) {}

  // Success, or INVALID_ARGUMENT for the first thing that is not as the
  // signature says: the numbers of operands and results, the names and types of
  // attributes, operands and results, the values of attributes. Call it before
  // anything else.
  xla::ffi::Error Check();

  // Asks for huge pages for each large result.
  void AdviseResults() const;

  std::string_view operation() const { return signature_.operation; }

 protected:
  // Repeated arguments may be more than missing_ has bits, but then none of
  // them is missing.
  bool Has(size_t argument) const {
    return missing_ == 0 || (missing_ >> argument & 1) == 0;
  }

  // Returns an argument that is not missing.
  const XLA_FFI_Buffer& Buffer(size_t i) const {
    const size_t operands =
        missing_ == 0 ? num_in_call(true) : signature_.num_operands;
    return i < operands ? OperandBuffer(i) : ResultBuffer(i - operands);
  }
  const XLA_FFI_Buffer& OperandBuffer(size_t i) const {
    return *static_cast<XLA_FFI_Buffer*>(args()->args[i - MissingBelow(i)]);
  }
  const XLA_FFI_Buffer& ResultBuffer(size_t i) const {
    const size_t operands = signature_.num_operands;
    const size_t missing =
        missing_ == 0 ? 0 : MissingBelow(operands + i) - MissingBelow(operands);
    return *static_cast<XLA_FFI_Buffer*>(rets()->rets[i - missing]);
  }
  void* const* buffers(bool are_operands) const {
    return are_operands ? args()->args : rets()->rets;
  }
  size_t num_in_call(bool are_operands) const {
    return are_operands ? RemainingArgs::size() : RemainingRets::size();
  }

  // The value of an attribute by its number in the signature.
  template <typename T>
  T Value(size_t i) const {
    return As<T>(ValueOf(i));
  }
  size_t num_operands() const {
    return missing_ == 0 ? num_in_call(true) : signature_.num_operands;
  }
  // The number of an attribute's word.
  size_t WordOf(size_t i) const;

  // "operand x"; of one of several, "operand x 0".
  std::string NameOf(size_t argument) const;
  std::string NameOfAttribute(size_t i) const {
    return std::string("attribute ") + AttributeOf(i).name;
  }
  xla::ffi::Error Invalid(size_t argument, std::string_view expected,
                          std::string_view got) const {
    return InvalidArgument({operation(), NameOf(argument)}, expected, got);
  }

 private:
  // The batch axes and the named sizes, as far as the arguments that were
  // checked so far determine them.
  struct Sizes;

  size_t MissingBelow(size_t i) const {
    if (missing_ == 0) return 0;
    return __builtin_popcount(missing_ & ((uint32_t{1} << i) - 1));
  }
  bool is_repeated() const { return signature_.arguments[0].is_repeated != 0; }
  const XlaFfiKit_Argument& ArgumentOf(size_t i) const {
    if (is_repeated()) i = i < num_in_call(true) ? 0 : 1;
    return signature_.arguments[i];
  }
  // The number of the argument in the call that argument `i` follows, where the
  // signature says `like`: of repeated results, the operand of the same number.
  size_t ModelOf(size_t i, int32_t like) const {
    if (!is_repeated() || i < num_in_call(true)) return like;
    return i - num_in_call(true);
  }
  size_t num_arguments() const {
    return missing_ == 0 ? num_in_call(true) + num_in_call(false)
                         : signature_.num_operands + signature_.num_results;
  }

  const XlaFfiKit_Attribute& AttributeOf(size_t i) const {
    return signature_.attributes[i];
  }
  bool HasAttribute(size_t i) const {
    const int32_t unless = AttributeOf(i).unless_given;
    return unless == 0 || !Has(unless);
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

  // Each returns true, or false and the error. They do not return the error,
  // because to return one that is success takes as long as a check.
  bool Refuse(std::string_view what, std::string_view expected,
              std::string_view got, xla::ffi::Error* error) const;
  bool CheckCounts(xla::ffi::Error* error);
  bool CheckNumberOf(size_t begin, size_t end, size_t count,
                     xla::ffi::Error* error);
  bool CheckRepeated(xla::ffi::Error* error) const;
  bool CheckAttributeNames(xla::ffi::Error* error) const;
  bool CheckAttributeType(size_t i, xla::ffi::Error* error) const;
  bool CheckAttribute(size_t i, xla::ffi::Error* error) const;
  bool CheckAxis(size_t i, int64_t axis, xla::ffi::Error* error) const;
  bool CheckArgument(size_t i, Sizes* sizes, xla::ffi::Error* error) const;
  bool CheckDtype(size_t i, const XLA_FFI_Buffer& buffer,
                  xla::ffi::Error* error) const;
  bool FitsSizes(const XlaFfiKit_Argument& argument, Dimensions dims,
                 Sizes* sizes) const;
  bool CheckLike(size_t i, Dimensions dims, xla::ffi::Error* error) const;
  std::string ShapeTextOf(const XlaFfiKit_Argument& argument,
                          const Sizes& sizes) const;

  const XlaFfiKit_Signature& signature_;
  const XLA_FFI_Attrs* attrs_;
  uint32_t missing_ = 0;  // a bit for each argument
};

// A call of the operation `kName`, read by its keys in any order.
template <const auto& kName, const auto&... kKeys>
class Call : public AnyCall {
  using Table = signature_internal::Table<kName, kKeys...>;

  // The number of a key among the arguments, or among the attributes.
  template <const auto& kKey>
  static constexpr size_t Number() {
    static_assert(Table::template Has<kKey>(),
                  "the handler has no such argument");
    return Table::template Number<kKey>();
  }
  template <const auto& kKey>
  using KeyType = signature_internal::KeyType<kKey>;

 public:
  static constexpr XlaFfiKit_Signature kSignature = Table::kSignature;

  Call(const xla::ffi::RemainingArgs& operands,
       const xla::ffi::RemainingRets& results, CallAttributes attributes)
      : AnyCall(kSignature, operands, results, attributes) {}

  // An operand or a result as an Array, or Arrays if it is repeated; the value
  // of an attribute that the call has; the number of a Word's word.
  template <const auto& kKey>
  auto get() const {
    constexpr size_t kNumber = Number<kKey>();
    if constexpr (signature_internal::kIsArgument<kKey>) {
      using Types = typename KeyType<kKey>::Types;
      constexpr bool kIsResult = signature_internal::kIsResult<kKey>;
      if constexpr (kKey.is_repeated) {
        return Arrays<Types, kIsResult>(buffers(!kIsResult),
                                        num_in_call(!kIsResult));
      } else {
        return Array<Types, kIsResult>(
            !Has(kNumber) ? nullptr
            : kIsResult   ? &ResultBuffer(kNumber - Table::kOperands)
                          : &OperandBuffer(kNumber));
      }
    } else if constexpr (kSignature.attributes[kNumber].num_words > 0) {
      return WordOf(kNumber);
    } else {
      return Value<typename KeyType<kKey>::Value>(kNumber);
    }
  }

  // Calls fn(TypeTag<T>()) for the dtype of an argument that is not missing.
  template <const auto& kKey, typename Fn>
  xla::ffi::Error Dispatch(const Fn& fn) const {
    return DispatchDtype(typename KeyType<kKey>::Types(), get<kKey>().dtype(),
                         {operation(), kKey.name}, fn);
  }

  // INVALID_ARGUMENT about an operand, a result or an attribute.
  template <const auto& kKey>
  xla::ffi::Error Invalid(std::string_view expected,
                          std::string_view got) const {
    return InvalidArgument({operation(), Name<kKey>()}, expected, got);
  }
  // About one of those that are repeated.
  template <const auto& kKey>
  xla::ffi::Error Invalid(size_t i, std::string_view expected,
                          std::string_view got) const {
    static_assert(kKey.is_repeated, "which one is said of what is repeated");
    const size_t first =
        signature_internal::kIsResult<kKey> ? num_in_call(true) : 0;
    return AnyCall::Invalid(first + i, expected, got);
  }
  // "operand x", "attribute axis".
  template <const auto& kKey>
  std::string Name() const {
    constexpr size_t kNumber = Number<kKey>();
    if constexpr (signature_internal::kIsArgument<kKey>) {
      return NameOf(kNumber);
    } else {
      return NameOfAttribute(kNumber);
    }
  }
};

// --- Handlers ----------------------------------------------------------------

namespace signature_internal {

template <typename Function>
struct HandlerFunction;
template <typename ItsCall, typename Threads>
struct HandlerFunction<xla::ffi::Error (*)(const ItsCall&, Threads)> {
  using Call = ItsCall;
  static constexpr bool kIsOnCpu =
      std::is_same_v<std::decay_t<Threads>, Executor>;
  // XLA's threads, or the stream of a device.
  using Context =
      std::conditional_t<kIsOnCpu, xla::ffi::ThreadPool,
                         xla::ffi::PlatformStream<std::decay_t<Threads>>>;
  using Decoded =
      std::conditional_t<kIsOnCpu, xla::ffi::ThreadPool, std::decay_t<Threads>>;
};

}  // namespace signature_internal

// What a handler of `kRun` does: checks the call, and passes it on.
template <auto kRun>
xla::ffi::Error Checked(
    typename signature_internal::HandlerFunction<decltype(kRun)>::Decoded
        context,
    const xla::ffi::RemainingArgs& operands,
    const xla::ffi::RemainingRets& results, CallAttributes attributes) {
  using Function = signature_internal::HandlerFunction<decltype(kRun)>;
  typename Function::Call call(operands, results, attributes);
  xla::ffi::Error error = call.Check();
  if (error.failure()) return error;
  if constexpr (Function::kIsOnCpu) call.AdviseResults();
  return kRun(call, context);
}

// The binding of such a function.
template <auto kRun>
auto BindCall() {
  using Function = signature_internal::HandlerFunction<decltype(kRun)>;
  return xla::ffi::Ffi::Bind()
      .Ctx<typename Function::Context>()
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

// Tells the handler table what the handler `Symbol` takes: its Call.
#define XLA_FFI_KIT_DEFINE_SIGNATURE(Symbol, ...)                         \
  extern "C" {                                                            \
  extern const XlaFfiKit_Signature Symbol##_signature;                    \
  const XlaFfiKit_Signature Symbol##_signature = __VA_ARGS__::kSignature; \
  }                                                                       \
  static_assert(true, "a semicolon follows")

#endif  // XLA_FFI_CORE_CALL_H_
