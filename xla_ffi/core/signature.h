// What a handler takes, written once, as keys:
//
//   constexpr Operand x{"x", RealFloatTypes(), "(..., n)"};
//   constexpr Operand weight = Operand{"weight", SameDtype(x), "(n)"}.Shared();
//   constexpr Attribute<double> eps = Attribute<double>{"eps"}.AtLeast(0);
//   constexpr Result y{"y", x};  // like x
//   constexpr char kName[] = "my.norm";
//   using NormCall = Call<kName, x, weight, y, eps>;
//
// call.h makes a handler of it, whose function reads a call by these keys. The
// handler table has the same as data (handler_signature.h): of it the fuzzer,
// the doctor and Python know what the handler takes.
//
// Shapes are written as for jnp.vectorize. "..." are the batch axes, the same
// in all arguments that have any. A name is the size of an axis, the same
// wherever it stands, and a number a size that is given. A name that is also
// that of an integer attribute has its value. "()" is a scalar, and "(...)" of
// any shape.
//
// What does not fit does not compile. Keys know one another by name: to gcc's
// UndefinedBehaviorSanitizer the addresses of inline constants are unknown.

#ifndef XLA_FFI_CORE_SIGNATURE_H_
#define XLA_FFI_CORE_SIGNATURE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/handler_signature.h"

namespace xla_ffi_kit {

// The different sizes that the shapes of a signature may name.
inline constexpr size_t kMaxSizes = 32;

inline constexpr int64_t kNoMax = std::numeric_limits<int64_t>::max();

// It is not constexpr, so that a compiler that has to evaluate a call of it
// shows the line and its text.
[[noreturn]] void SignatureIsWrong(const char* why);

// A shape: "(..., n)", or that of another argument.
struct Shape {
  constexpr Shape() = default;       // any
  constexpr Shape(const char* text)  // NOLINT: it is written as text
      : form(XlaFfiKit_ShapeForm_SIZES), text(text) {}
  constexpr Shape(XlaFfiKit_ShapeForm form, std::string_view of,
                  std::string_view axis = {})
      : form(form), of(of), axis(axis) {}

  XlaFfiKit_ShapeForm form = XlaFfiKit_ShapeForm_ANY;
  const char* text = nullptr;
  std::string_view of;    // an argument's name
  std::string_view axis;  // an attribute's
};

// The bounds of one of an argument's sizes; of none if it has no name.
struct SizeBounds {
  std::string_view name;
  int64_t min = 0, max = kNoMax;
};

// An attribute, without its type.
struct AttributeKey {
  const char* name;
  XLA_FFI_AttrType type;
  int32_t dtype = XLA_FFI_DataType_INVALID;
  int64_t size = -1;
  int64_t min = 1, max = 0;  // no bounds
  std::string_view axis_of = {};
  const char* const* words = nullptr;
  size_t num_words = 0;
  int32_t other_dtype = 0;
  std::string_view unless_given = {};
};

// An operand or a result, without its type.
struct ArgumentKey {
  const char* name;
  const int32_t* dtypes = nullptr;
  size_t num_dtypes = 0;
  std::string_view dtype_of = {};
  XlaFfiKit_DtypeForm dtype_form = XlaFfiKit_DtypeForm_SAME;
  Shape shape = {};
  SizeBounds bounds[4] = {};
  bool is_shared = false, is_optional = false, is_repeated = false;
  std::string_view given_with = {};
};

// In the place of a list of types: any dtype.
struct AnyType {};

// One of a list's dtypes, that of another argument, or the one to add up its
// elements in.
template <typename Types>
struct Dtype {
  constexpr Dtype(Types) {}  // NOLINT: a list is a dtype
  constexpr Dtype(std::string_view of, XlaFfiKit_DtypeForm form)
      : of(of), form(form) {}

  std::string_view of;
  XlaFfiKit_DtypeForm form = XlaFfiKit_DtypeForm_SAME;
};

namespace signature_internal {

template <typename Types>
struct Dtypes;
template <typename... Ts>
struct Dtypes<TypeList<Ts...>> {
  static constexpr int32_t kList[] = {static_cast<int32_t>(kDtypeOf<Ts>)...};
  static constexpr size_t kCount = sizeof...(Ts);
};
template <>
struct Dtypes<AnyType> {
  static constexpr const int32_t* kList = nullptr;
  static constexpr size_t kCount = 0;
};

// The base of Operand and Result.
template <typename Self, typename ItsTypes>
struct TypedArgument : ArgumentKey {
  using Types = ItsTypes;

  constexpr TypedArgument(const char* its_name, Dtype<Types> dtype,
                          Shape its_shape)
      : ArgumentKey{its_name} {
    if (dtype.of.empty()) {
      dtypes = Dtypes<Types>::kList;
      num_dtypes = Dtypes<Types>::kCount;
    }
    dtype_of = dtype.of;
    dtype_form = dtype.form;
    shape = its_shape;
  }

  // The size of that name in the argument's shape is from `min` to `max`. An
  // argument may bound up to 4 of its sizes.
  constexpr Self Where(const char* size, int64_t min,
                       int64_t max = kNoMax) const {
    Self copy = self();
    for (SizeBounds& bounds : copy.bounds) {
      if (!bounds.name.empty()) continue;
      bounds = {size, min, max};
      return copy;
    }
    SignatureIsWrong("Where() bounds up to 4 sizes of an argument");
  }
  // All rows share the argument: it has none of the batch axes of the others,
  // or only the first of them.
  constexpr Self Shared() const {
    Self copy = self();
    copy.is_shared = true;
    return copy;
  }
  // The argument may be missing, but only together with all optional ones
  // after it.
  constexpr Self Optional() const {
    Self copy = self();
    copy.is_optional = true;
    return copy;
  }
  // The argument is in a call exactly if `argument` is.
  constexpr Self GivenWith(const ArgumentKey& argument) const {
    Self copy = self();
    copy.given_with = argument.name;
    return copy;
  }
  // A call has one or more of it. A repeated operand is the only operand of its
  // signature, and a repeated result is given once for each operand. Errors
  // number them: "operand x 0".
  constexpr Self Repeated() const {
    Self copy = self();
    copy.is_repeated = true;
    return copy;
  }

  // Its shape without that axis.
  constexpr Shape Without(const AttributeKey& axis) const {
    return {XlaFfiKit_ShapeForm_WITHOUT_AXIS, this->name, axis.name};
  }

 private:
  constexpr const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace signature_internal

// The dtype of an argument, which comes before and is never missing.
template <typename Key, typename Types>
constexpr Dtype<Types> SameDtype(
    const signature_internal::TypedArgument<Key, Types>& of) {
  return {of.name, XlaFfiKit_DtypeForm_SAME};
}
// f64 for f64 and c128, else f32.
constexpr Dtype<TypeList<float, double>> AccumulationDtype(
    const ArgumentKey& of) {
  return {of.name, XlaFfiKit_DtypeForm_ACCUMULATION};
}
constexpr Shape SameShape(const ArgumentKey& of) {
  return {XlaFfiKit_ShapeForm_LIKE, of.name};
}

template <typename ItsTypes>
struct Operand
    : signature_internal::TypedArgument<Operand<ItsTypes>, ItsTypes> {
  constexpr Operand(const char* name, Dtype<ItsTypes> dtype, Shape shape = {})
      : Operand::TypedArgument(name, dtype, shape) {}
  // Like another argument, in dtype and shape.
  template <typename Key>
  constexpr Operand(
      const char* name,
      const signature_internal::TypedArgument<Key, ItsTypes>& like)
      : Operand(name, SameDtype(like), SameShape(like)) {}
};

template <typename ItsTypes>
struct Result : signature_internal::TypedArgument<Result<ItsTypes>, ItsTypes> {
  constexpr Result(const char* name, Dtype<ItsTypes> dtype, Shape shape = {})
      : Result::TypedArgument(name, dtype, shape) {}
  template <typename Key>
  constexpr Result(const char* name,
                   const signature_internal::TypedArgument<Key, ItsTypes>& like)
      : Result(name, SameDtype(like), SameShape(like)) {}
};

// A list of types, or any, in a key's place of a dtype.
Operand(const char*, AnyType) -> Operand<AnyType>;
Operand(const char*, AnyType, Shape) -> Operand<AnyType>;
Result(const char*, AnyType) -> Result<AnyType>;
Result(const char*, AnyType, Shape) -> Result<AnyType>;
template <typename... Ts>
Operand(const char*, TypeList<Ts...>) -> Operand<TypeList<Ts...>>;
template <typename... Ts>
Operand(const char*, TypeList<Ts...>, Shape) -> Operand<TypeList<Ts...>>;
template <typename... Ts>
Result(const char*, TypeList<Ts...>) -> Result<TypeList<Ts...>>;
template <typename... Ts>
Result(const char*, TypeList<Ts...>, Shape) -> Result<TypeList<Ts...>>;

namespace signature_internal {

// The FFI's type of an attribute, and its dtype. T is a number.
template <typename T>
struct AttributeType {
  static constexpr XLA_FFI_AttrType kType = XLA_FFI_AttrType_SCALAR;
  static constexpr auto kDtype = static_cast<int32_t>(kDtypeOf<T>);
};
template <typename T>
struct AttributeType<xla::ffi::Span<const T>> {
  static constexpr XLA_FFI_AttrType kType = XLA_FFI_AttrType_ARRAY;
  static constexpr auto kDtype = static_cast<int32_t>(kDtypeOf<T>);
};
template <>
struct AttributeType<std::string_view> {
  static constexpr XLA_FFI_AttrType kType = XLA_FFI_AttrType_STRING;
  static constexpr int32_t kDtype = XLA_FFI_DataType_INVALID;
};

}  // namespace signature_internal

// A number, a Span<const T> of numbers, or a std::string_view.
template <typename T>
struct Attribute : AttributeKey {
  using Value = T;

  constexpr explicit Attribute(const char* its_name)
      : AttributeKey{its_name, signature_internal::AttributeType<T>::kType,
                     signature_internal::AttributeType<T>::kDtype} {}

  // The number, or each number of an array, is from `least` to `most`; a float
  // is finite, too.
  constexpr Attribute Between(int64_t least, int64_t most) const {
    static_assert(!std::is_same_v<T, std::string_view>,
                  "what has bounds is a number");
    Attribute copy = *this;
    copy.min = least;
    copy.max = most;
    return copy;
  }
  constexpr Attribute AtLeast(int64_t least) const {
    return Between(least, kNoMax);
  }
  // The array has `count` elements.
  constexpr Attribute Elements(int64_t count) const {
    static_assert(
        signature_internal::AttributeType<T>::kType == XLA_FFI_AttrType_ARRAY,
        "what has elements is a span");
    Attribute copy = *this;
    copy.size = count;
    return copy;
  }
  // A double that may be an f32 in the call.
  constexpr Attribute OrF32() const {
    static_assert(std::is_same_v<T, double>, "a double may also be an f32");
    Attribute copy = *this;
    copy.other_dtype = XLA_FFI_DataType_F32;
    return copy;
  }
  // The attribute is in a call exactly if `argument` is not.
  constexpr Attribute UnlessGiven(const ArgumentKey& argument) const {
    Attribute copy = *this;
    copy.unless_given = argument.name;
    return copy;
  }
};

// An integer that is an axis of an argument, from 0 on, which has that length.
struct Axis : AttributeKey {
  using Value = int64_t;

  constexpr Axis(const char* its_name, const ArgumentKey& of,
                 int64_t min_length = 0, int64_t max_length = kNoMax)
      : AttributeKey{its_name, XLA_FFI_AttrType_SCALAR, XLA_FFI_DataType_S64} {
    axis_of = of.name;
    min = min_length;
    max = max_length;
  }
};

// A string that is one of several. Its value is the number of the word.
template <size_t kCount>
struct Word : AttributeKey {
  using Value = size_t;

  template <typename... Words>
  constexpr explicit Word(const char* its_name, Words... its_words)
      : AttributeKey{its_name, XLA_FFI_AttrType_STRING}, list{its_words...} {}

  const char* list[kCount];
};
template <typename... Words>
Word(const char*, Words...) -> Word<sizeof...(Words)>;

}  // namespace xla_ffi_kit

#include "xla_ffi/core/signature_table.h"  // IWYU pragma: export

#endif  // XLA_FFI_CORE_SIGNATURE_H_
