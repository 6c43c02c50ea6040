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

#ifndef XLA_FFI_STRINGS_KIT_H_
#define XLA_FFI_STRINGS_KIT_H_

// These of C++'s headers make abs(x) of a float a float; without them it is an
// int.
#include <math.h>    // NOLINT(modernize-deprecated-headers)
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers)

#include <cmath>  // IWYU pragma: export
#include <cstdint>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_signature.h"
#include "xla_ffi/strings/check.h"
#include "xla_ffi/strings/groups.h"      // IWYU pragma: export
#include "xla_ffi/strings/parameters.h"  // IWYU pragma: export
#include "xla_ffi/strings/scan.h"        // IWYU pragma: export
#include "xla_ffi/strings/threads.h"     // IWYU pragma: export

namespace kit {

// The names of an operation's parameters: of its operands and, after "->", of
// its results, "x y -> out"; and of its attributes. Spaces separate names,
// which are in the order of the C++ parameters.
struct Names {
  constexpr Names(const char* its_name, std::string_view arguments,
                  std::string_view its_attributes,
                  const Shape* its_shapes = nullptr)
      : operation(its_name),
        operands(arguments.substr(0, arguments.find("->"))),
        attributes(its_attributes),
        shapes(its_shapes) {
    if (operands.size() < arguments.size()) {
      results = arguments.substr(operands.size() + 2);
      while (!results.empty() && results[0] == ' ') results.remove_prefix(1);
    }
    while (!operands.empty() && operands.back() == ' ') {
      operands.remove_suffix(1);
    }
  }

  const char* operation;
  std::string_view operands, results = "", attributes;
  const Shape* shapes;  // of operands, then results; null: any
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

// Returns the place in a call of attribute `i`, as XLA sorts attributes by
// name.
constexpr int64_t PlaceOf(std::string_view names, int64_t i) {
  int64_t place = 0;
  for (int64_t j = 0; j < CountNames(names); ++j) {
    place += NameAt(names, j) < NameAt(names, i);
  }
  return place;
}

// Null-terminated names.
template <size_t kChars, size_t kNames>
struct NameTable {
  constexpr void Add(size_t i, std::string_view name, int number = -1) {
    begin[i] = chars;
    for (const char c : name) text[chars++] = c;
    if (number >= 10) text[chars++] = static_cast<char>('0' + number / 10 % 10);
    if (number >= 0) text[chars++] = static_cast<char>('0' + number % 10);
    ++chars;
  }

  char text[kChars] = {};
  size_t begin[kNames + 1] = {};
  size_t chars = 0;
};

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

  static constexpr size_t kParameters = sizeof...(P);
  static constexpr Code kCodes[kParameters + 1] = {Parameter<P>::kCode...};

  // Parameters of a kind before parameter `end`.
  static constexpr int64_t Count(Code::Kind kind, size_t end = kParameters) {
    int64_t count = 0;
    for (size_t i = 0; i < end; ++i) count += kCodes[i].kind == kind;
    return count;
  }
  // Returns the place in a call of the value of parameter `i`.
  static constexpr int64_t Place(size_t i) {
    const int64_t before = Count(kCodes[i].kind, i);
    if (kCodes[i].kind != Code::kAttribute) return before;
    return PlaceOf(kNames.attributes, before);
  }

  static constexpr bool HasAttributesOf(const Code* codes, size_t count) {
    if (count != kParameters) return false;
    for (size_t i = 0; i < count; ++i) {
      const bool is_one = kCodes[i].kind == Code::kAttribute;
      if (is_one && !(kCodes[i] == codes[i])) return false;
    }
    return true;
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

// The signature of a handler, as its library's handler table has it.
template <const Names& kNames, typename First, typename... Others>
struct SignatureOf {
  static constexpr int64_t kOperands = First::Count(Code::kOperand);
  static constexpr int64_t kResults = First::Count(Code::kResult);
  static constexpr int64_t kArguments = kOperands + kResults;
  static constexpr int64_t kAttributes = First::Count(Code::kAttribute);
  static constexpr int64_t kInstances = 1 + sizeof...(Others);
  static_assert(kOperands == CountNames(kNames.operands),
                "the C++ function has more or fewer kit::In<T> parameters "
                "than the operation has operands");
  static_assert(kNames.results.empty() ||
                    kResults == CountNames(kNames.results),
                "the C++ function has more or fewer kit::Out<T> parameters "
                "than the operation has results");
  static_assert(kAttributes == CountNames(kNames.attributes),
                "the C++ function has more or fewer attribute parameters "
                "than the operation has attributes");
  static_assert((Others::HasAttributesOf(First::kCodes, First::kParameters) &&
                 ...),
                "the types of attributes do not depend on the template's "
                "parameters");

  static constexpr auto kText = [] {
    NameTable<kNames.operands.size() + kNames.attributes.size() +
                  kNames.results.size() + 9 * (kArguments + kAttributes) + 1,
              kArguments + kAttributes>
        table;
    for (int64_t i = 0; i < kOperands; ++i) {
      table.Add(i, NameAt(kNames.operands, i));
    }
    for (int64_t i = 0; i < kResults; ++i) {
      if (!kNames.results.empty()) {
        table.Add(kOperands + i, NameAt(kNames.results, i));
      } else {
        table.Add(kOperands + i, "result", kResults > 1 ? i : -1);
      }
    }
    for (int64_t i = 0; i < kAttributes; ++i) {
      table.Add(kArguments + PlaceOf(kNames.attributes, i),
                NameAt(kNames.attributes, i));
    }
    return table;
  }();

  // The dtypes of each argument, one of each instance.
  static constexpr auto kDtypes = [] {
    struct {
      int32_t of[kArguments + 1][kInstances];
    } table = {};
    const Code* const instances[] = {First::kCodes, Others::kCodes...};
    for (int64_t n = 0; n < kInstances; ++n) {
      int64_t operand = 0, result = kOperands;
      for (const Code* code = instances[n]; code->kind != Code::kEnd; ++code) {
        if (code->kind == Code::kOperand) table.of[operand++][n] = code->type;
        if (code->kind == Code::kResult) table.of[result++][n] = code->type;
      }
    }
    return table;
  }();

  static constexpr auto kRows = [] {
    struct {
      XlaFfiKit_Argument arguments[kArguments + 1];
      XlaFfiKit_Attribute attributes[kAttributes + 1];
      int64_t num_sizes;
    } rows = {};
    for (int64_t i = 0; i < kArguments; ++i) {
      XlaFfiKit_Argument& argument = rows.arguments[i];
      argument.name = kText.text + kText.begin[i];
      argument.dtypes = kDtypes.of[i];
      argument.num_dtypes = kInstances;
      argument.dtype_of = argument.shape_of = argument.without_axis = -1;
      if (kNames.shapes == nullptr || kNames.shapes[i].text == nullptr)
        continue;
      argument.shape_form = XlaFfiKit_ShapeForm_SIZES;
      argument.shape = kNames.shapes[i].text;
      argument.batch = kNames.shapes[i].batch;
      argument.sizes = kSizeNumbers + rows.num_sizes;
      argument.num_sizes = kNames.shapes[i].num_sizes;
      rows.num_sizes += kNames.shapes[i].num_sizes;
    }
    int64_t number = 0;
    for (size_t i = 0; i < First::kParameters; ++i) {
      const Code code = First::kCodes[i];
      if (code.kind != Code::kAttribute) continue;
      const int64_t place = PlaceOf(kNames.attributes, number++);
      XlaFfiKit_Attribute& attribute = rows.attributes[place];
      attribute.name = kText.text + kText.begin[kArguments + place];
      attribute.type = code.attribute;
      attribute.dtype = code.type;
      attribute.size = attribute.axis_of = -1;
      attribute.min = 1;  // and the most is 0: no bounds
    }
    return rows;
  }();

  static constexpr XlaFfiKit_Signature kSignature = {
      sizeof(XlaFfiKit_Signature),
      sizeof(XlaFfiKit_Argument),
      sizeof(XlaFfiKit_Attribute),
      kNames.operation,
      kOperands,
      kResults,
      kRows.arguments,
      kAttributes,
      kRows.attributes,
      static_cast<size_t>(kRows.num_sizes),
      kSizes.of,
      kInstances,
  };
};

template <const Names& kNames, auto kFirst, auto... kOthers>
struct Handler {
  static constexpr const XlaFfiKit_Signature& kSignature =
      SignatureOf<kNames, Function<kNames, kFirst>,
                  Function<kNames, kOthers>...>::kSignature;

  static XLA_FFI_Error* Handle(XLA_FFI_CallFrame* frame) {
    if (frame->extension_start != nullptr && AnswersMetadata(frame)) {
      return nullptr;
    }
    if (XLA_FFI_Error* error = CheckCall(frame, kSignature)) return error;
    XLA_FFI_Error* error = nullptr;
    int64_t i = 0;
    const bool has_run =
        (TriesToRun<Function<kNames, kFirst>>(frame, i++, error) || ... ||
         TriesToRun<Function<kNames, kOthers>>(frame, i++, error));
    return has_run ? error : TypesError(frame, kSignature);
  }

  template <typename F>
  static bool TriesToRun(const XLA_FFI_CallFrame* frame, int64_t instance,
                         XLA_FFI_Error*& error) {
    if (!TakesBuffers(frame, kSignature, instance)) return false;
    error = F::Run(frame);
    return true;
  }
};

}  // namespace kit

// Defines the handler `Symbol` of the functions that come last, and what it
// takes: `Symbol`_signature, for a handler table. The names of the results,
// which an FfiOp may need, follow the operands': "x y -> out".
#define KIT_DEFINE_HANDLER(Symbol, operands, attributes, ...)        \
  static constexpr ::kit::Names Symbol##_names = {#Symbol, operands, \
                                                  attributes};       \
  KIT_DEFINE_HANDLER_OF(Symbol, __VA_ARGS__)

// The same, where there are kit::Names, `Symbol`_names.
#define KIT_DEFINE_HANDLER_OF(Symbol, ...)                             \
  extern "C" {                                                         \
  __attribute__((visibility("default"))) XLA_FFI_Error* Symbol(        \
      XLA_FFI_CallFrame* frame) {                                      \
    return ::kit::Handler<Symbol##_names, __VA_ARGS__>::Handle(frame); \
  }                                                                    \
  extern const XlaFfiKit_Signature Symbol##_signature;                 \
  const XlaFfiKit_Signature Symbol##_signature =                       \
      ::kit::Handler<Symbol##_names, __VA_ARGS__>::kSignature;         \
  }                                                                    \
  static_assert(true, "a semicolon follows")

#endif  // XLA_FFI_STRINGS_KIT_H_
