#include "xla_ffi/core/call.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/output_pages.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

// "sum, product, max or min".
std::string AnyOf(const char* const* words, size_t count) {
  std::string text = words[0];
  for (size_t i = 1; i < count; ++i) {
    text.append(i + 1 == count ? " or " : ", ").append(words[i]);
  }
  return text;
}

std::string DtypeText(int32_t dtype) {
  return DtypeName(static_cast<ffi::DataType>(dtype));
}

std::string TypeText(const XlaFfiKit_Attribute& attribute) {
  if (attribute.type == XLA_FFI_AttrType_STRING) return "a string";
  const std::string dtype = DtypeText(attribute.dtype);
  if (attribute.other_dtype != 0) {
    return "a scalar " + DtypeText(attribute.other_dtype) + " or " + dtype +
           " (in Python, np.float64(value))";
  }
  return attribute.type == XLA_FFI_AttrType_ARRAY ? "an array of " + dtype
                                                  : "a scalar " + dtype;
}

// The dtype of a scalar or an array, which begin with it.
int32_t DtypeOf(const void* attribute) {
  return *static_cast<const XLA_FFI_DataType*>(attribute);
}

bool IsBounded(const XlaFfiKit_Attribute& attribute) {
  return attribute.min <= attribute.max;
}

bool IsFloat(int32_t dtype) {
  return dtype == XLA_FFI_DataType_F64 || dtype == XLA_FFI_DataType_F32;
}

bool IsWithin(const XlaFfiKit_Attribute& attribute, double value) {
  return std::isfinite(value) && value >= static_cast<double>(attribute.min) &&
         (attribute.max == kNoMax ||
          value <= static_cast<double>(attribute.max));
}

std::string FloatBoundsText(const XlaFfiKit_Attribute& attribute) {
  const std::string min = std::to_string(attribute.min);
  if (attribute.max == kNoMax) return "a finite value >= " + min;
  return "a finite value from " + min + " to " + std::to_string(attribute.max);
}

// The value of a scalar of any dtype of integers: 65 bits hold it.
__int128 IntegerOf(const void* attribute) {
  const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(attribute);
  __int128 number = 0;
  DispatchDtype(IntegerTypes(), static_cast<ffi::DataType>(scalar.dtype), {},
                [&](auto tag) {
                  using T = typename decltype(tag)::type;
                  number = *static_cast<const T*>(scalar.value);
                  return ffi::Error();
                });
  return number;
}

std::string IntegerText(__int128 number) {
  return number < 0 ? std::to_string(static_cast<int64_t>(number))
                    : std::to_string(static_cast<uint64_t>(number));
}

// Large powers of two as such: "2^31".
std::string NumberText(int64_t number) {
  const bool is_power = number >= 1 << 15 && (number & (number - 1)) == 0;
  if (!is_power) return std::to_string(number);
  return "2^" + std::to_string(__builtin_ctzll(number));
}

std::string BoundsText(int64_t min, int64_t max) {
  if (max == kNoMax) return std::to_string(min) + " or more";
  return std::to_string(min) + " to " + NumberText(max);
}

// "x [, weight [, residual]]", of a signature's arguments [begin, end) but
// those that `is_there` says are none.
template <typename IsThere>
std::string Listed(const XlaFfiKit_Argument* arguments, size_t begin,
                   size_t end, const IsThere& is_there) {
  std::string text, brackets;
  for (size_t i = begin; i < end; ++i) {
    if (!is_there(i)) continue;
    const bool is_optional = arguments[i].is_optional != 0;
    if (!text.empty()) text += is_optional ? " [, " : ", ";
    if (is_optional) brackets += "]";
    text += arguments[i].name;
  }
  return text + brackets;
}

// Whether a shape is `model` without its axis `skipped`, if it has that.
bool IsWithout(size_t skipped, Dimensions dims, Dimensions model) {
  if (dims.size() + (skipped < model.size() ? 1 : 0) != model.size()) {
    return false;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != model[i < skipped ? i : i + 1]) return false;
  }
  return true;
}

// Compares letter by letter, as most texts differ in their first one.
bool IsText(const char* text, std::string_view other) {
  size_t i = 0;
  while (i < other.size() && text[i] == other[i]) ++i;
  return i == other.size() && text[i] == '\0';
}

// f64 for f64 and c128, else f32.
ffi::DataType AccumulationOf(ffi::DataType dtype) {
  const bool is_wide =
      dtype == ffi::DataType::F64 || dtype == ffi::DataType::C128;
  return is_wide ? ffi::DataType::F64 : ffi::DataType::F32;
}

Dimensions DimensionsOf(const XLA_FFI_Buffer& buffer) {
  return {buffer.dims, static_cast<size_t>(buffer.rank)};
}

bool HasNoElements(Dimensions dims) {
  return std::find(dims.begin(), dims.end(), 0) != dims.end();
}

}  // namespace

// The batch axes and the named sizes of a call, as far as its attributes and
// the arguments that were checked so far determine them.
struct AnyCall::Sizes {
  static constexpr int64_t kUnknown = -1;

  bool has_batch = false;
  Dimensions batch;
  int64_t of[kMaxSizes];  // by number
};

void SignatureIsWrong(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  std::abort();
}

std::string AnyCall::NameOf(size_t argument) const {
  const size_t operands = num_operands();
  const bool is_operand = argument < operands;
  std::string name = is_operand ? "operand " : "result ";
  name += ArgumentOf(argument).name;
  if (!is_repeated()) return name;
  const size_t number = is_operand ? argument : argument - operands;
  return name + " " + std::to_string(number);
}

size_t AnyCall::WordOf(size_t i) const {
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const auto word = Value<std::string_view>(i);
  size_t number = 0;
  while (number < attribute.num_words &&
         !IsText(attribute.words[number], word)) {
    ++number;
  }
  return number;
}

bool AnyCall::Refuse(std::string_view what, std::string_view expected,
                     std::string_view got, ffi::Error* error) const {
  *error = InvalidArgument({operation(), what}, expected, got);
  return false;
}

ffi::Error AnyCall::Check() {
  ffi::Error error;
  const size_t attributes = signature_.num_attributes;
  bool is_right = CheckCounts(&error) && CheckAttributeNames(&error);
  for (size_t i = 0; i < attributes && is_right; ++i) {
    if (HasAttribute(i)) is_right = CheckAttributeType(i, &error);
  }
  if (!is_right) return error;
  Sizes sizes;
  for (size_t i = 0; i < signature_.num_sizes; ++i) {
    const XlaFfiKit_Size& size = signature_.sizes[i];
    sizes.of[i] = size.name_size == 0   ? size.min
                  : size.attribute >= 0 ? Value<int64_t>(size.attribute)
                                        : Sizes::kUnknown;
  }
  const size_t arguments = num_arguments();
  for (size_t i = 0; i < arguments && is_right; ++i) {
    if (Has(i)) is_right = CheckArgument(i, &sizes, &error);
  }
  for (size_t i = 0; i < attributes && is_right; ++i) {
    if (HasAttribute(i)) is_right = CheckAttribute(i, &error);
  }
  return error;
}

bool AnyCall::CheckCounts(ffi::Error* error) {
  const size_t operands = signature_.num_operands,
               results = signature_.num_results;
  if (is_repeated()) return CheckRepeated(error);
  if (operands == num_in_call(true) && results == num_in_call(false)) {
    return true;
  }
  return CheckNumberOf(0, operands, num_in_call(true), error) &&
         CheckNumberOf(operands, operands + results, num_in_call(false), error);
}

// Decides which of the arguments [begin, end), all operands or all results, are
// missing in a call with `count` of them.
bool AnyCall::CheckNumberOf(size_t begin, size_t end, size_t count,
                            ffi::Error* error) {
  const XlaFfiKit_Argument* const all = signature_.arguments;
  int32_t condition = 0;
  size_t least = 0, most = 0;
  const auto is_there = [&](size_t i) {
    return all[i].given_with == 0 || Has(all[i].given_with);
  };
  for (size_t i = begin; i < end; ++i) {
    if (all[i].given_with != 0) condition = all[i].given_with;
    most += is_there(i);
    least += is_there(i) && all[i].is_optional == 0;
  }
  size_t left = count - least;  // of the optional ones
  for (size_t i = begin; i < end; ++i) {
    bool is_missing = !is_there(i);
    if (!is_missing && all[i].is_optional != 0) {
      is_missing = left == 0;
      if (left > 0) --left;
    }
    if (is_missing) missing_ |= uint32_t{1} << i;
  }
  if (count >= least && count <= most) return true;
  std::string expected = Listed(all, begin, end, is_there);
  if (condition != 0) {
    const bool is_met = most == end - begin;
    expected.append(is_met ? " with an " : " without an ")
        .append(NameOf(condition));
  }
  return Refuse(begin == 0 ? "operands" : "results", expected,
                std::to_string(count) + " of them", error);
}

bool AnyCall::CheckRepeated(ffi::Error* error) const {
  const size_t operands = num_in_call(true), results = num_in_call(false);
  if (operands == 0) return Refuse("operands", "1 or more", "0", error);
  if (operands == results) return true;
  return Refuse("results", std::to_string(operands) + ", one per operand",
                std::to_string(results), error);
}

bool AnyCall::CheckAttributeNames(ffi::Error* error) const {
  const auto count = static_cast<size_t>(attrs_->size);
  const size_t attributes = signature_.num_attributes;
  const auto name_of = [&](size_t i) -> std::string_view {
    return {attrs_->names[i]->ptr, attrs_->names[i]->len};
  };
  size_t place = 0;  // in the call
  bool are_those = true;
  for (size_t i = 0; i < attributes && are_those; ++i) {
    if (!HasAttribute(i)) continue;
    are_those = place < count && IsText(AttributeOf(i).name, name_of(place));
    ++place;
  }
  if (are_those && place == count) return true;
  std::string expected, condition, got;
  for (size_t i = 0; i < attributes; ++i) {
    const int32_t unless = AttributeOf(i).unless_given;
    if (unless != 0) {
      condition = Has(unless) ? " with an " : " without an ";
      condition += NameOf(unless);
    }
    if (!HasAttribute(i)) continue;
    expected.append(expected.empty() ? "{" : ", ").append(AttributeOf(i).name);
  }
  for (size_t i = 0; i < count; ++i) {
    got.append(i == 0 ? "" : ", ").append(name_of(i));
  }
  expected = expected.empty() ? "none" : expected + "}";
  return Refuse("attributes", expected + condition, "{" + got + "}", error);
}

bool AnyCall::CheckAttributeType(size_t i, ffi::Error* error) const {
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const size_t at = PlaceOfAttribute(i);
  if (static_cast<int32_t>(attrs_->types[at]) == attribute.type) {
    if (attribute.type == XLA_FFI_AttrType_STRING) return true;
    const int32_t dtype = DtypeOf(attrs_->attrs[at]);
    if (dtype == attribute.dtype ||
        (attribute.other_dtype != 0 && dtype == attribute.other_dtype)) {
      return true;
    }
  }
  return Refuse(NameOfAttribute(i), TypeText(attribute), "another type", error);
}

// Checks the value of an attribute of the right type.
bool AnyCall::CheckAttribute(size_t i, ffi::Error* error) const {
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const void* const value = ValueOf(i);
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    return Refuse(NameOfAttribute(i), expected, got, error);
  };
  if (attribute.type == XLA_FFI_AttrType_STRING) {
    if (attribute.num_words == 0 || WordOf(i) < attribute.num_words) {
      return true;
    }
    return refuse(AnyOf(attribute.words, attribute.num_words),
                  As<std::string_view>(value));
  }
  if (attribute.axis_of >= 0) return CheckAxis(i, As<int64_t>(value), error);
  if (attribute.type == XLA_FFI_AttrType_ARRAY) {
    const auto& array = *static_cast<const XLA_FFI_Array*>(value);
    if (attribute.size >= 0 &&
        static_cast<int64_t>(array.size) != attribute.size) {
      return refuse(std::to_string(attribute.size) + " elements",
                    std::to_string(array.size));
    }
  }
  if (!IsBounded(attribute)) return true;
  if (IsFloat(attribute.dtype)) {
    const auto number = As<double>(value);
    if (IsWithin(attribute, number)) return true;
    std::ostringstream got;
    got << number;
    return refuse(FloatBoundsText(attribute), got.str());
  }
  const auto is_within = [&](__int128 number) {
    return number >= attribute.min &&
           (attribute.max == kNoMax || number <= attribute.max);
  };
  if (attribute.type == XLA_FFI_AttrType_ARRAY) {
    for (const int64_t each : As<Dimensions>(value)) {
      if (!is_within(each)) {
        return refuse(BoundsText(attribute.min, attribute.max),
                      std::to_string(each));
      }
    }
    return true;
  }
  const __int128 number = attribute.dtype == XLA_FFI_DataType_S64
                              ? As<int64_t>(value)
                              : IntegerOf(value);
  if (is_within(number)) return true;
  return refuse(BoundsText(attribute.min, attribute.max), IntegerText(number));
}

bool AnyCall::CheckAxis(size_t i, int64_t axis, ffi::Error* error) const {
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const auto of = static_cast<size_t>(attribute.axis_of);
  const Dimensions dims = DimensionsOf(Buffer(of));
  const auto rank = static_cast<int64_t>(dims.size());
  if (axis < 0 || axis >= rank) {
    const std::string expected = rank == 0 ? "an axis of " + NameOf(of)
                                           : "0 to " + std::to_string(rank - 1);
    const std::string got = rank == 0 ? "rank 0" : std::to_string(axis);
    return Refuse(NameOfAttribute(i), expected, got, error);
  }
  if (dims[axis] >= attribute.min && dims[axis] <= attribute.max) return true;
  return Refuse(NameOf(of),
                BoundsText(attribute.min, attribute.max) +
                    " elements along axis " + std::to_string(axis),
                "shape " + ShapeText(dims), error);
}

bool AnyCall::CheckArgument(size_t i, Sizes* sizes, ffi::Error* error) const {
  const XLA_FFI_Buffer& buffer = Buffer(i);
  const Dimensions dims = DimensionsOf(buffer);
  if (!CheckDtype(i, buffer, error)) return false;
  const XlaFfiKit_Argument& argument = ArgumentOf(i);
  if (argument.shape_form == XlaFfiKit_ShapeForm_SIZES) {
    if (!FitsSizes(argument, dims, sizes)) {
      return Refuse(NameOf(i), ShapeTextOf(argument, *sizes),
                    "shape " + ShapeText(dims), error);
    }
  } else if (argument.shape_form != XlaFfiKit_ShapeForm_ANY) {
    if (!CheckLike(i, dims, error)) return false;
  }
  if (buffer.data != nullptr || HasNoElements(dims)) return true;
  return Refuse(NameOf(i), "data of shape " + ShapeText(dims), "null", error);
}

bool AnyCall::CheckDtype(size_t i, const XLA_FFI_Buffer& buffer,
                         ffi::Error* error) const {
  const XlaFfiKit_Argument& argument = ArgumentOf(i);
  const auto dtype = static_cast<ffi::DataType>(buffer.dtype);
  const auto refuse = [&](const std::string& expected) {
    return Refuse(NameOf(i), expected, "dtype " + DtypeName(dtype), error);
  };
  if (argument.dtype_of >= 0) {
    const size_t model = ModelOf(i, argument.dtype_of);
    auto want = static_cast<ffi::DataType>(Buffer(model).dtype);
    const bool is_same = argument.dtype_form == XlaFfiKit_DtypeForm_SAME;
    if (!is_same) want = AccumulationOf(want);
    if (dtype == want) return true;
    return refuse("dtype " + DtypeName(want) +
                  (is_same ? " like " : " to add up ") + NameOf(model));
  }
  const int32_t* const end = argument.dtypes + argument.num_dtypes;
  if (argument.num_dtypes == 0 ||
      std::find(argument.dtypes, end, static_cast<int32_t>(dtype)) != end) {
    return true;
  }
  std::string names = DtypeText(argument.dtypes[0]);
  for (size_t j = 1; j < argument.num_dtypes; ++j) {
    names += ", " + DtypeText(argument.dtypes[j]);
  }
  return refuse((argument.num_dtypes == 1 ? "dtype " : "one of the dtypes ") +
                names);
}

// Whether the dimensions fit the argument's shape and the sizes that are known;
// notes the sizes that they determine.
bool AnyCall::FitsSizes(const XlaFfiKit_Argument& argument, Dimensions dims,
                        Sizes* sizes) const {
  if (dims.size() < argument.num_sizes) return false;
  const size_t axes = dims.size() - argument.num_sizes;
  const Dimensions batch = dims.first(axes);
  switch (argument.batch) {
    case XlaFfiKit_Batch_NONE:
      if (axes > 0) return false;
      break;
    case XlaFfiKit_Batch_SHARED:
      if (axes > sizes->batch.size() || !(batch == sizes->batch.first(axes))) {
        return false;
      }
      break;
    default:
      if (sizes->has_batch && !(batch == sizes->batch)) return false;
      sizes->has_batch = true;
      sizes->batch = batch;
  }
  for (size_t j = 0; j < argument.num_sizes; ++j) {
    const int64_t got = dims[axes + j];
    int64_t& length = sizes->of[argument.sizes[j]];
    if (length == got) continue;
    const XlaFfiKit_Size& size = signature_.sizes[argument.sizes[j]];
    if (length != Sizes::kUnknown || got < size.min || got > size.max) {
      return false;
    }
    length = got;
  }
  return true;
}

// "shape (..., n, m), here (2, 3, m), m from 1 to 16".
std::string AnyCall::ShapeTextOf(const XlaFfiKit_Argument& argument,
                                 const Sizes& sizes) const {
  std::string here, bounds;
  bool is_known = false;
  const auto add = [&](const std::string& axis) {
    here += (here.empty() ? "" : ", ") + axis;
  };
  if (argument.batch == XlaFfiKit_Batch_SHARED) {
    add("first axes of the batch or none");
  }
  if (argument.batch == XlaFfiKit_Batch_ALL && !sizes.has_batch) add("...");
  if (argument.batch == XlaFfiKit_Batch_ALL) {
    for (const int64_t dim : sizes.batch) add(std::to_string(dim));
    is_known = sizes.has_batch;
  }
  for (size_t j = 0; j < argument.num_sizes; ++j) {
    const XlaFfiKit_Size& size = signature_.sizes[argument.sizes[j]];
    const int64_t length = sizes.of[argument.sizes[j]];
    const std::string name(size.name, size.name_size);
    add(length == Sizes::kUnknown ? name : std::to_string(length));
    is_known |= length != Sizes::kUnknown && size.name_size > 0;
    if (size.name_size == 0 || length != Sizes::kUnknown) continue;
    if (size.min == 0 && size.max == kNoMax) continue;
    if (bounds.find(", " + name + " of") != std::string::npos) continue;
    bounds += ", " + name + " of " + BoundsText(size.min, size.max);
  }
  std::string text = std::string("shape ") + argument.shape;
  if (is_known) text += ", here (" + here + ")";
  return text + bounds;
}

bool AnyCall::CheckLike(size_t i, Dimensions dims, ffi::Error* error) const {
  const XlaFfiKit_Argument& argument = ArgumentOf(i);
  const size_t like = ModelOf(i, argument.shape_of);
  const Dimensions model = DimensionsOf(Buffer(like));
  const bool is_without =
      argument.shape_form == XlaFfiKit_ShapeForm_WITHOUT_AXIS;
  size_t skipped = model.size();  // no axis
  if (is_without) {
    skipped = static_cast<size_t>(Value<int64_t>(argument.without_axis));
    // The attribute's own error says more.
    if (skipped >= model.size()) return true;
  }
  if (IsWithout(skipped, dims, model)) return true;
  std::vector<int64_t> want(model.begin(), model.end());
  std::string reason = " like " + NameOf(like);
  if (is_without) {
    want.erase(want.begin() + static_cast<std::ptrdiff_t>(skipped));
    reason +=
        std::string(" without its ") + AttributeOf(argument.without_axis).name;
  }
  return Refuse(NameOf(i), "shape " + ShapeText(want) + reason,
                "shape " + ShapeText(dims), error);
}

void AnyCall::AdviseResults() const {
  for (size_t i = 0; i < num_in_call(false); ++i) {
    const auto& result = *static_cast<const XLA_FFI_Buffer*>(rets()->rets[i]);
    const auto dtype = static_cast<ffi::DataType>(result.dtype);
    AdviseHugePages(result.data,
                    ffi::ByteWidth(dtype) *
                        static_cast<size_t>(Product(DimensionsOf(result))));
  }
}

}  // namespace xla_ffi_kit
