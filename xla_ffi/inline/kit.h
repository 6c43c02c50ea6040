// Handlers from plain C++ functions, at a fraction of the compile time of
// xla/ffi/api/ffi.h: what xla_ffi_kit.inline compiles, and what a source file
// of xla_ffi_kit.build_library may include.
//
//   template <typename T>
//   void scale(kit::In<T> x, double factor, kit::Out<T> y) {
//     for (int64_t i = 0; i < x.size(); ++i) y[i] = T(factor * x[i]);
//   }
//   KIT_DEFINE_HANDLER(Scale, "x", "factor", scale<float>, scale<kit::bf16>);
//
// The parameters' types say what they are: kit::In<T> an operand, kit::Out<T> a
// result, kit::Threads XLA's threads; numbers, bool, kit::Array<T> and
// std::string_view are attributes. A function returns nothing, or a
// `const char*`: null, or what is wrong with the call. It may throw.

#ifndef XLA_FFI_INLINE_KIT_H_
#define XLA_FFI_INLINE_KIT_H_

#include <cmath>  // IWYU pragma: export
#include <cstdint>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/inline/check.h"
#include "xla_ffi/inline/parameters.h"  // IWYU pragma: export
#include "xla_ffi/inline/threads.h"     // IWYU pragma: export

namespace kit {

// The names that an operation gives to its operands and attributes, separated
// by spaces, in the order of the C++ parameters.
struct Names {
  std::string_view operation;
  std::string_view operands;
  std::string_view attributes;
};

constexpr int64_t CountNames(std::string_view names) {
  int64_t count = names.empty() ? 0 : 1;
  for (const char c : names) count += c == ' ';
  return count;
}

constexpr std::string_view NameAt(std::string_view names, int64_t i) {
  for (; i > 0; --i) names.remove_prefix(names.find(' ') + 1);
  return names.substr(0, names.find(' '));
}

// Returns the place of attribute `i` in a call, as XLA sorts attributes by
// name.
constexpr int64_t PlaceOf(std::string_view names, int64_t i) {
  int64_t place = 0;
  for (int64_t j = 0; j < CountNames(names); ++j) {
    place += NameAt(names, j) < NameAt(names, i);
  }
  return place;
}

// A function of a handler, which is an instance of its template.
template <const Names& kNames, auto kFunction>
struct Function {
  static_assert(sizeof(kFunction) == 0,
                "a handler is made of functions and instances of templates");
};

template <const Names& kNames, typename R, typename... P, R (*kFunction)(P...)>
struct Function<kNames, kFunction> {
  static_assert(std::is_void_v<R> || std::is_same_v<R, const char*>,
                "a handler's function returns void, or const char*: null or "
                "an error message");

  static constexpr Code kCodes[] = {Parameter<P>::kCode..., {Code::kEnd, 0}};

  // Parameters of the kind of parameter `end` before it, or of any kind.
  static constexpr int64_t Count(bool (*is)(Code), size_t end) {
    int64_t count = 0;
    for (size_t i = 0; i < end; ++i) count += is(kCodes[i]);
    return count;
  }
  static constexpr bool IsOperand(Code c) { return c.kind == Code::kOperand; }
  static constexpr bool IsResult(Code c) { return c.kind == Code::kResult; }
  static constexpr bool IsAttribute(Code c) { return c.is_attribute(); }

  // Returns the place in a call of the value of parameter `i`.
  static constexpr int64_t Place(size_t i) {
    if (IsOperand(kCodes[i])) return Count(IsOperand, i);
    if (IsResult(kCodes[i])) return Count(IsResult, i);
    return PlaceOf(kNames.attributes, Count(IsAttribute, i));
  }

  template <size_t... i>
  static const char* Call(const XLA_FFI_CallFrame* frame,
                          std::index_sequence<i...>) {
    constexpr int64_t kPlaces[] = {Place(i)..., 0};
    if constexpr (std::is_void_v<R>) {
      kFunction(Parameter<P>::Get(frame, kPlaces[i])...);
      return nullptr;
    } else {
      return kFunction(Parameter<P>::Get(frame, kPlaces[i])...);
    }
  }

  static XLA_FFI_Error* Run(const XLA_FFI_CallFrame* frame) {
    try {
      const char* error = Call(frame, std::index_sequence_for<P...>());
      return error == nullptr ? nullptr : Failed(frame, error);
    } catch (const std::exception& error) {
      return Failed(frame, error.what());
    } catch (...) {
      return Failed(frame, "an exception of an unknown type was thrown");
    }
  }

  KIT_COLD static XLA_FFI_Error* Failed(const XLA_FFI_CallFrame* frame,
                                        const char* why) {
    return MakeError(frame, Text() << kNames.operation << ": " << why);
  }
};

template <const Names& kNames, auto kFirst, auto... kOthers>
struct Handler {
  using First = Function<kNames, kFirst>;
  static constexpr size_t kParameters = std::size(First::kCodes) - 1;
  static constexpr int64_t kOperands =
      First::Count(First::IsOperand, kParameters);
  static constexpr int64_t kAttributes =
      First::Count(First::IsAttribute, kParameters);
  static_assert(kOperands == CountNames(kNames.operands),
                "the C++ function has more or fewer kit::In<T> parameters "
                "than the operation has operands");
  static_assert(kAttributes == CountNames(kNames.attributes),
                "the C++ function has more or fewer attribute parameters "
                "than the operation has attributes");

  // The last one is in no call.
  static constexpr auto kNamed = [] {
    struct {
      Attribute list[kAttributes + 1];
    } named = {};
    for (int64_t i = 0; i < kAttributes; ++i) {
      named.list[i] = {NameAt(kNames.attributes, i),
                       PlaceOf(kNames.attributes, i)};
    }
    return named;
  }();
  static constexpr Signature kSignature = {
      kNames.operation, kOperands,   First::Count(First::IsResult, kParameters),
      kAttributes,      kNamed.list, First::kCodes};
  static constexpr const Code* kFunctions[] = {
      First::kCodes, Function<kNames, kOthers>::kCodes...};

  static XLA_FFI_Error* Handle(XLA_FFI_CallFrame* frame) {
    if (frame->extension_start != nullptr && AnswersMetadata(frame)) {
      return nullptr;
    }
    if (XLA_FFI_Error* error = CheckCall(frame, kSignature)) return error;
    XLA_FFI_Error* error = nullptr;
    const bool taken =
        TriesToRun<First>(frame, error) ||
        (TriesToRun<Function<kNames, kOthers>>(frame, error) || ...);
    if (taken) return error;
    return TypesError(frame, kSignature, kFunctions, std::size(kFunctions));
  }

  template <typename F>
  static bool TriesToRun(const XLA_FFI_CallFrame* frame,
                         XLA_FFI_Error*& error) {
    if (!TakesBuffers(frame, F::kCodes)) return false;
    error = F::Run(frame);
    return true;
  }

  // The codes of function `i`, two characters a parameter; null after the last.
  static const char* Codes(int i) {
    const bool is_one = i < static_cast<int>(std::size(kFunctions));
    return is_one ? reinterpret_cast<const char*>(kFunctions[i]) : nullptr;
  }
};

}  // namespace kit

// Defines the handler `Symbol` of the functions that come last. It also exports
// their parameters' codes, which xla_ffi_kit.inline reads.
#define KIT_DEFINE_HANDLER_OF(Symbol, operation, operands, attributes, ...) \
  static constexpr ::kit::Names Symbol##_names = {operation, operands,      \
                                                  attributes};              \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* Symbol(  \
      XLA_FFI_CallFrame* frame) {                                           \
    return ::kit::Handler<Symbol##_names, __VA_ARGS__>::Handle(frame);      \
  }                                                                         \
  extern "C" __attribute__((visibility("default"))) const char*             \
  XlaFfiKit_Codes_##Symbol(int i) {                                         \
    return ::kit::Handler<Symbol##_names, __VA_ARGS__>::Codes(i);           \
  }                                                                         \
  static_assert(true, "a semicolon follows")
#define KIT_DEFINE_HANDLER(Symbol, operands, attributes, ...) \
  KIT_DEFINE_HANDLER_OF(Symbol, #Symbol, operands, attributes, __VA_ARGS__)

#endif  // XLA_FFI_INLINE_KIT_H_
