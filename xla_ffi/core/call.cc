#include "xla_ffi/core/call.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/core/dtype_name.h"

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

bool IsWithin(const XlaFfiKit_Attribute& attribute, int64_t value) {
  return !IsBounded(attribute) ||
         (value >= attribute.min && value <= attribute.max);
}

bool IsFloat(int32_t dtype) {
  return dtype == XLA_FFI_DataType_F64 || dtype == XLA_FFI_DataType_F32;
}

constexpr int64_t kNoMax = std::numeric_limits<int64_t>::max();

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

std::string BoundsText(const XlaFfiKit_Attribute& attribute) {
  if (attribute.max == kNoMax) {
    return std::to_string(attribute.min) + " or more";
  }
  return std::to_string(attribute.min) + " to " +
         (attribute.max_text == nullptr ? std::to_string(attribute.max)
                                        : attribute.max_text);
}

bool Refuse(ffi::Error why, ffi::Error* error) {
  *error = std::move(why);
  return false;
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
    const std::string_view place = arguments[i].place;
    text += place.substr(place.find(' ') + 1);
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

// Whether only the last axes differ. Rank >= 1.
bool IsButLast(Dimensions dims, Dimensions model) {
  return dims.size() == model.size() && BatchAxes(dims) == BatchAxes(model);
}

bool HasNoElements(Dimensions dims) {
  return std::find(dims.begin(), dims.end(), 0) != dims.end();
}

}  // namespace

std::string Call::NameOf(size_t argument) const {
  std::string name = ArgumentOf(argument).place;
  if (!is_repeated()) return name;
  const size_t operands = RemainingArgs::size();
  const size_t number = argument < operands ? argument : argument - operands;
  return name + " " + std::to_string(number);
}

ffi::Error Call::Invalid(size_t argument, std::string_view expected,
                         std::string_view got) const {
  return InvalidArgument({operation(), NameOf(argument)}, expected, got);
}

size_t Call::WordOf(std::string_view name) const {
  const size_t i = Find(name, HasType<std::string_view>);
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const auto word = As<std::string_view>(ValueOf(i));
  size_t number = 0;
  while (number < attribute.num_words &&
         !IsText(attribute.words[number], word)) {
    ++number;
  }
  return number;
}

ffi::Error Call::Check() {
  ffi::Error error;
  const size_t attributes = signature_.num_attributes;
  bool is_right = CheckCounts(&error) && CheckAttributeNames(&error);
  for (size_t i = 0; i < attributes && is_right; ++i) {
    if (HasAttribute(i)) is_right = CheckAttributeType(i, &error);
  }
  const size_t arguments = num_arguments();
  for (size_t i = 0; i < arguments && is_right; ++i) {
    if (Has(i)) is_right = CheckArgument(i, &error);
  }
  for (size_t i = 0; i < attributes && is_right; ++i) {
    if (HasAttribute(i)) is_right = CheckAttribute(i, &error);
  }
  return error;
}

bool Call::CheckCounts(ffi::Error* error) {
  const size_t operands = signature_.num_operands,
               results = signature_.num_results;
  if (is_repeated()) return CheckRepeated(error);
  if (operands == RemainingArgs::size() && results == RemainingRets::size()) {
    return true;
  }
  return CheckNumberOf(0, operands, RemainingArgs::size(), error) &&
         CheckNumberOf(operands, operands + results, RemainingRets::size(),
                       error);
}

// Decides which of the arguments [begin, end), all operands or all results, are
// missing in a call with `given` of them.
bool Call::CheckNumberOf(size_t begin, size_t end, size_t given,
                         ffi::Error* error) {
  const XlaFfiKit_Argument* const all = signature_.arguments;
  const char* condition = nullptr;
  size_t least = 0, most = 0;
  const auto is_there = [&](size_t i) {
    return all[i].given_with == 0 || Has(all[i].given_with);
  };
  for (size_t i = begin; i < end; ++i) {
    if (all[i].given_with != 0) condition = all[all[i].given_with].place;
    most += is_there(i);
    least += is_there(i) && all[i].is_optional == 0;
  }
  size_t left = given - least;  // of the optional ones
  for (size_t i = begin; i < end; ++i) {
    bool is_missing = !is_there(i);
    if (!is_missing && all[i].is_optional != 0) {
      is_missing = left == 0;
      if (left > 0) --left;
    }
    if (is_missing) missing_ |= uint32_t{1} << i;
  }
  if (given >= least && given <= most) return true;
  const Place where = {operation(), begin == 0 ? "operands" : "results"};
  std::string expected = Listed(all, begin, end, is_there);
  if (condition != nullptr) {
    const bool is_met = most == end - begin;
    expected.append(is_met ? " with an " : " without an ").append(condition);
  }
  return Refuse(
      InvalidArgument(where, expected, std::to_string(given) + " of them"),
      error);
}

bool Call::CheckRepeated(ffi::Error* error) const {
  const size_t operands = RemainingArgs::size(),
               results = RemainingRets::size();
  if (operands == 0) {
    return Refuse(InvalidArgument({operation(), "operands"}, "1 or more", "0"),
                  error);
  }
  if (operands == results) return true;
  return Refuse(InvalidArgument({operation(), "results"},
                                std::to_string(operands) + ", one per operand",
                                std::to_string(results)),
                error);
}

bool Call::CheckAttributeNames(ffi::Error* error) const {
  const auto given = static_cast<size_t>(attrs_->size);
  const size_t known = signature_.num_attributes;
  const auto name_of = [&](size_t i) -> std::string_view {
    return {attrs_->names[i]->ptr, attrs_->names[i]->len};
  };
  size_t wanted = 0;
  bool are_those = true;
  for (size_t i = 0; i < known && are_those; ++i) {
    if (!HasAttribute(i)) continue;
    are_those = wanted < given && IsText(AttributeOf(i).name, name_of(wanted));
    ++wanted;
  }
  if (are_those && wanted == given) return true;
  std::string expected, condition, got;
  for (size_t i = 0; i < known; ++i) {
    const int32_t unless = AttributeOf(i).unless_given;
    if (unless != 0) {
      condition = Has(unless) ? " with an " : " without an ";
      condition += signature_.arguments[unless].place;
    }
    if (!HasAttribute(i)) continue;
    expected.append(expected.empty() ? "{" : ", ").append(AttributeOf(i).name);
  }
  for (size_t i = 0; i < given; ++i) {
    got.append(i == 0 ? "" : ", ").append(name_of(i));
  }
  expected = expected.empty() ? "none" : expected + "}";
  return Refuse(InvalidArgument({operation(), "attributes"},
                                expected + condition, "{" + got + "}"),
                error);
}

bool Call::CheckAttributeType(size_t i, ffi::Error* error) const {
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
  return Refuse(
      InvalidArgument({operation(), std::string("attribute ") + attribute.name},
                      TypeText(attribute), "another type"),
      error);
}

bool Call::CheckAttribute(size_t i, ffi::Error* error) const {
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const void* const value = ValueOf(i);
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    const std::string place = std::string("attribute ") + attribute.name;
    return Refuse(InvalidArgument({operation(), place}, expected, got), error);
  };
  if (attribute.type == XLA_FFI_AttrType_STRING) {
    if (attribute.num_words == 0 ||
        WordOf(attribute.name) < attribute.num_words) {
      return true;
    }
    return refuse(AnyOf(attribute.words, attribute.num_words),
                  As<std::string_view>(value));
  }
  if (IsFloat(attribute.dtype)) {
    const auto number = As<double>(value);
    if (!IsBounded(attribute) || IsWithin(attribute, number)) return true;
    std::ostringstream got;
    got << number;
    return refuse(FloatBoundsText(attribute), got.str());
  }
  if (attribute.dtype != XLA_FFI_DataType_S64) {
    if (!IsBounded(attribute)) return true;
    const __int128 number = IntegerOf(value);
    if (number >= attribute.min && number <= attribute.max) return true;
    if (attribute.max == kNoMax && number > 0) return true;
    return refuse(BoundsText(attribute), IntegerText(number));
  }
  if (attribute.type == XLA_FFI_AttrType_ARRAY) {
    const auto values = As<Dimensions>(value);
    if (attribute.size >= 0 &&
        static_cast<int64_t>(values.size()) != attribute.size) {
      return refuse(std::to_string(attribute.size) + " elements",
                    std::to_string(values.size()));
    }
    for (const int64_t each : values) {
      if (IsWithin(attribute, each)) continue;
      return refuse(BoundsText(attribute), std::to_string(each));
    }
    return true;
  }
  const auto number = As<int64_t>(value);
  if (attribute.axis_of >= 0) {
    const size_t rank = argument(attribute.axis_of).dimensions().size();
    if (number >= 0 && static_cast<size_t>(number) < rank) return true;
    return refuse("0 to " + std::to_string(static_cast<int64_t>(rank) - 1),
                  std::to_string(number));
  }
  if (IsWithin(attribute, number)) return true;
  return refuse(BoundsText(attribute), std::to_string(number));
}

bool Call::CheckArgument(size_t i, ffi::Error* error) const {
  const XlaFfiKit_Argument& to = ArgumentOf(i);
  const ffi::AnyBuffer buffer = argument(i);
  const Dimensions dims = buffer.dimensions();
  const auto rank = static_cast<int32_t>(dims.size());
  if (rank < to.min_rank || rank > to.max_rank) {
    const char* const relation = to.min_rank == to.max_rank ? "" : ">= ";
    return Refuse(Invalid(i, "rank " + (relation + std::to_string(to.min_rank)),
                          "rank " + std::to_string(rank)),
                  error);
  }
  if (!CheckDtypeOf(i, buffer.element_type(), error) ||
      !CheckShapeOf(i, dims, error)) {
    return false;
  }
  if (buffer.untyped_data() != nullptr || HasNoElements(dims)) return true;
  return Refuse(Invalid(i, "data of shape " + ShapeText(dims), "null"), error);
}

bool Call::CheckDtypeOf(size_t i, ffi::DataType dtype,
                        ffi::Error* error) const {
  const XlaFfiKit_Argument& to = ArgumentOf(i);
  const auto refuse = [&](ffi::DataType want, const std::string& reason) {
    return Refuse(Invalid(i, "dtype " + DtypeName(want) + " " + reason,
                          "dtype " + DtypeName(dtype)),
                  error);
  };
  if (to.dtype_of >= 0) {
    const size_t model = ModelOf(i, to.dtype_of);
    const ffi::DataType want = argument(model).element_type();
    if (dtype != want) return refuse(want, ReasonOf(to.dtype_text, model));
  }
  const int32_t* const end = to.dtypes + to.num_dtypes;
  if (to.num_dtypes == 0 ||
      std::find(to.dtypes, end, static_cast<int32_t>(dtype)) != end) {
    return true;
  }
  if (to.dtype_text != nullptr) {
    return refuse(static_cast<ffi::DataType>(to.dtypes[0]), to.dtype_text);
  }
  std::string known = DtypeText(to.dtypes[0]);
  for (size_t j = 1; j < to.num_dtypes; ++j) {
    known += ", " + DtypeText(to.dtypes[j]);
  }
  return Refuse(Invalid(i, "one of the dtypes " + known, DtypeName(dtype)),
                error);
}

bool Call::CheckShapeOf(size_t i, Dimensions dims, ffi::Error* error) const {
  const XlaFfiKit_Argument& to = ArgumentOf(i);
  if (to.shape_of < 0) return true;
  const size_t like = ModelOf(i, to.shape_of);
  const Dimensions model = argument(like).dimensions();
  const bool is_but_last = to.shape_form == XlaFfiKit_ShapeForm_BUT_LAST;
  if (model.size() == 0 &&
      (is_but_last || to.shape_form == XlaFfiKit_ShapeForm_WITHOUT_LAST)) {
    return Refuse(Invalid(like, "rank >= 1", "rank 0"), error);
  }
  size_t skipped = model.size();  // no axis
  if (to.shape_form == XlaFfiKit_ShapeForm_WITHOUT_LAST) --skipped;
  if (to.shape_form == XlaFfiKit_ShapeForm_WITHOUT_AXIS) {
    skipped = static_cast<size_t>(Get<int64_t>(to.last));
    // The attribute's own error says more.
    if (skipped >= model.size()) return true;
  }
  if (is_but_last ? IsButLast(dims, model) && HasLast(to, dims)
                  : IsWithout(skipped, dims, model)) {
    return true;
  }
  std::vector<int64_t> want(model.begin(), model.end());
  if (skipped < want.size()) {
    want.erase(want.begin() + static_cast<std::ptrdiff_t>(skipped));
  }
  if (is_but_last && to.last != nullptr) want.back() = Get<int64_t>(to.last);
  if (is_but_last && to.last == nullptr && dims.size() > 0) {
    want.back() = dims.back();
  }
  return Refuse(Invalid(i,
                        "shape " + ShapeText({want.data(), want.size()}) + " " +
                            ReasonOf(to.shape_text, like),
                        "shape " + ShapeText(dims)),
                error);
}

bool Call::HasLast(const XlaFfiKit_Argument& to, Dimensions dims) const {
  return to.last == nullptr || dims.back() == Get<int64_t>(to.last);
}

ffi::Error WrongAttributeError(const XlaFfiKit_Signature& signature,
                               const WrongAttribute& wrong) {
  std::string known;
  for (size_t i = 0; i < signature.num_attributes; ++i) {
    known.append(i == 0 ? "" : ", ").append(signature.attributes[i].name);
  }
  return {ffi::ErrorCode::kInternal,
          std::string(signature.operation) + ": attribute " + wrong.name +
              ": the handler asks for it, but the call has none of that name "
              "and type; its signature names {" +
              known + "}: name one of these, as its type"};
}

std::string Call::ReasonOf(const char* text, size_t model) const {
  return text != nullptr ? text : "like " + NameOf(model);
}

}  // namespace xla_ffi_kit
