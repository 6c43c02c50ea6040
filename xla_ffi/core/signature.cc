#include "xla_ffi/core/signature.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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

std::string NameOf(int32_t dtype) {
  return DtypeName(static_cast<ffi::DataType>(dtype));
}

std::string TypeText(const XlaFfiKit_Attribute& attribute) {
  if (attribute.type == XLA_FFI_AttrType_STRING) return "a string";
  const std::string dtype = NameOf(attribute.dtype);
  return attribute.type == XLA_FFI_AttrType_ARRAY ? "an array of " + dtype
                                                  : "a scalar " + dtype;
}

// The dtype of a scalar or an array, which begin with it.
int32_t DtypeOf(const void* attribute) {
  return *static_cast<const XLA_FFI_DataType*>(attribute);
}

bool IsWithin(const XlaFfiKit_Attribute& attribute, int64_t value) {
  return attribute.min > attribute.max ||
         (value >= attribute.min && value <= attribute.max);
}

std::string BoundsText(const XlaFfiKit_Attribute& attribute) {
  return std::to_string(attribute.min) + " to " +
         (attribute.max_text == nullptr ? std::to_string(attribute.max)
                                        : attribute.max_text);
}

bool Refuse(ffi::Error why, ffi::Error* error) {
  *error = std::move(why);
  return false;
}

}  // namespace

size_t Call::WordOf(std::string_view name) const {
  const size_t i = IndexOf(name);
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const auto word = As<std::string_view>(attrs_->attrs[i]);
  size_t number = 0;
  while (number < attribute.num_words &&
         !IsText(attribute.words[number], word)) {
    ++number;
  }
  return number;
}

ffi::Error Call::Check() const {
  ffi::Error error;
  const size_t arguments = signature_.num_operands + signature_.num_results;
  const size_t attributes = signature_.num_attributes;
  bool is_right = CheckCounts(&error);
  for (size_t i = 0; i < attributes && is_right; ++i) {
    is_right = CheckAttributeType(i, &error);
  }
  for (size_t i = 0; i < arguments && is_right; ++i) {
    is_right = CheckArgument(i, &error);
  }
  for (size_t i = 0; i < attributes && is_right; ++i) {
    is_right = CheckAttribute(i, &error);
  }
  return error;
}

bool Call::CheckCounts(ffi::Error* error) const {
  const auto check = [&](const char* what, size_t want, size_t got) {
    return want == got ||
           Refuse(InvalidArgument({operation(), what}, std::to_string(want),
                                  std::to_string(got)),
                  error);
  };
  if (!check("operands", signature_.num_operands, RemainingArgs::size()) ||
      !check("results", signature_.num_results, RemainingRets::size())) {
    return false;
  }
  const auto given = static_cast<size_t>(attrs_->size);
  const size_t wanted = signature_.num_attributes;
  const auto name_of = [&](size_t i) -> std::string_view {
    return {attrs_->names[i]->ptr, attrs_->names[i]->len};
  };
  bool are_those = given == wanted;
  for (size_t i = 0; i < wanted && are_those; ++i) {
    are_those = IsText(AttributeOf(i).name, name_of(i));
  }
  if (are_those) return true;
  std::string expected, got;
  for (size_t i = 0; i < wanted; ++i) {
    expected.append(i == 0 ? "{" : ", ").append(AttributeOf(i).name);
  }
  for (size_t i = 0; i < given; ++i) {
    got.append(i == 0 ? "" : ", ").append(name_of(i));
  }
  return Refuse(
      InvalidArgument({operation(), "attributes"},
                      wanted == 0 ? "none" : expected + "}", "{" + got + "}"),
      error);
}

bool Call::CheckAttributeType(size_t i, ffi::Error* error) const {
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  if (static_cast<int32_t>(attrs_->types[i]) == attribute.type &&
      (attribute.type == XLA_FFI_AttrType_STRING ||
       DtypeOf(attrs_->attrs[i]) == attribute.dtype)) {
    return true;
  }
  return Refuse(
      InvalidArgument({operation(), std::string("attribute ") + attribute.name},
                      TypeText(attribute), "another type"),
      error);
}

bool Call::CheckAttribute(size_t i, ffi::Error* error) const {
  const XlaFfiKit_Attribute& attribute = AttributeOf(i);
  const void* const value = attrs_->attrs[i];
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
  if (attribute.dtype != XLA_FFI_DataType_S64) return true;
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
  const Place where = PlaceOf(i);
  const Dimensions dims = buffer.dimensions();
  const auto rank = static_cast<int32_t>(dims.size());
  if (rank < to.min_rank || rank > to.max_rank) {
    return Refuse(to.min_rank == to.max_rank
                      ? CheckRank(where, buffer, to.min_rank)
                      : CheckRankAtLeast(where, buffer, to.min_rank),
                  error);
  }
  const auto reason = [&](const char* text, int32_t model) {
    return text != nullptr ? std::string(text)
                           : std::string("like ") + ArgumentOf(model).place;
  };
  if (to.dtype_of >= 0) {
    const ffi::DataType want = argument(to.dtype_of).element_type();
    if (buffer.element_type() != want) {
      return Refuse(
          CheckDtype(where, buffer, want, reason(to.dtype_text, to.dtype_of)),
          error);
    }
  }
  const auto dtype = static_cast<int32_t>(buffer.element_type());
  const int32_t* const end = to.dtypes + to.num_dtypes;
  if (to.num_dtypes > 0 && std::find(to.dtypes, end, dtype) == end) {
    if (to.dtype_text != nullptr) {
      return Refuse(
          CheckDtype(where, buffer, static_cast<ffi::DataType>(to.dtypes[0]),
                     to.dtype_text),
          error);
    }
    std::string known = NameOf(to.dtypes[0]);
    for (size_t j = 1; j < to.num_dtypes; ++j) {
      known += ", " + NameOf(to.dtypes[j]);
    }
    return Refuse(
        InvalidArgument(where, "one of the dtypes " + known, NameOf(dtype)),
        error);
  }
  if (to.shape_of >= 0) {
    const Dimensions model = argument(to.shape_of).dimensions();
    if (to.is_but_last == 0) {
      if (!(dims == model)) {
        return Refuse(CheckShape(where, buffer, model,
                                 reason(to.shape_text, to.shape_of)),
                      error);
      }
    } else {
      const int64_t last =
          to.last != nullptr ? Get<int64_t>(to.last) : dims.back();
      if (dims.size() != model.size() || dims.back() != last ||
          !(BatchAxes(dims) == BatchAxes(model))) {
        return Refuse(CheckShapeButLast(where, buffer, model, last,
                                        reason(to.shape_text, to.shape_of)),
                      error);
      }
    }
  }
  if (buffer.untyped_data() != nullptr) return true;
  *error = CheckData(where, buffer);  // there may be no elements
  return error->success();
}

}  // namespace xla_ffi_kit
