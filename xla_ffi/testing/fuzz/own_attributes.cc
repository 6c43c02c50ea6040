#include "xla_ffi/testing/fuzz/own_attributes.h"

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {
namespace {

using Own = std::vector<OwnAttribute>;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Letters, digits and underscores.
std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      words.back().push_back(c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// What stands between `before` and `after`, from `*at` on, and moves `*at`
// behind it; empty if there is no such text.
std::string Between(std::string_view text, std::string_view before,
                    std::string_view after, size_t* at) {
  const size_t begin = text.find(before, *at);
  if (begin == std::string_view::npos) return "";
  const size_t from = begin + before.size();
  *at = text.find(after, from);
  if (*at == std::string_view::npos) return "";
  return std::string(text.substr(from, *at - from));
}

// The next combination of kinds; false after the last.
bool NextKinds(Own& own) {
  for (OwnAttribute& attribute : own) {
    const int next = (attribute.kind + 1) % OwnAttribute::kNumKinds;
    attribute.kind = static_cast<OwnAttribute::Kind>(next);
    if (next != 0) return true;
  }
  return false;
}

OwnAttribute* Find(Own& own, std::string_view name) {
  for (OwnAttribute& attribute : own) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

// Names those whose name is not known so that they keep their places, since the
// FFI sorts names and looks at places.
void NameUnknown(Own& own) {
  std::string before;
  for (size_t i = 0; i < own.size(); ++i) {
    OwnAttribute& attribute = own[i];
    if (attribute.is_known) before = attribute.name;
    if (!attribute.is_known) attribute.name = before + "0" + std::to_string(i);
  }
}

// Changes `own` as the error asks; false if it asks for nothing new.
bool Repair(const std::string& error, Own& own) {
  size_t at = 0;
  const std::string count =
      Between(error, "Wrong number of attributes: expected ", " ", &at);
  if (!count.empty()) {
    if (!own.empty()) return false;
    own.resize(std::strtoul(count.c_str(), nullptr, 10));
    NameUnknown(own);
    return true;
  }
  at = 0;
  const std::string given =
      Between(error, "Attribute name mismatch: ", " vs ", &at);
  if (OwnAttribute* attribute = Find(own, given); attribute != nullptr) {
    // The next diagnostic follows without a blank.
    std::string_view name = std::string_view(error).substr(at + 4);
    for (const char* next : {"Attribute name", "Wrong "}) {
      name = name.substr(0, name.find(next));
    }
    attribute->name = name;
    attribute->is_known = true;
    NameUnknown(own);
    return true;
  }
  if (Contains(error, "Wrong attribute type") ||
      Contains(error, "Wrong scalar data type")) {
    return NextKinds(own);
  }
  at = 0;
  const std::string name = Between(error, ": attribute ", ": ", &at);
  if (name.empty()) {
    // Of several that there may be, the first is the one there must be.
    at = 0;
    const std::vector<std::string> names =
        WordsOf(Between(error, ": attributes: expected ", ", got", &at));
    if (!own.empty() || names.empty()) return false;
    own.push_back({names[0]});
    own.back().is_known = true;
    return true;
  }
  OwnAttribute* attribute = Find(own, name);
  if (attribute == nullptr) {
    own.push_back({name});
    own.back().is_known = true;
    return true;
  }
  if (Contains(error, "another type")) {
    const int next = attribute->kind + 1;
    if (next == OwnAttribute::kNumKinds) return false;
    attribute->kind = static_cast<OwnAttribute::Kind>(next);
    return true;
  }
  if (attribute->kind == OwnAttribute::kString && attribute->words.empty()) {
    const std::string_view expected = ": expected ";
    if (!Contains(error, expected)) return false;
    attribute->words =
        WordsOf(std::string_view(error).substr(at + expected.size()));
    return true;
  }
  return false;
}

// A frame of so many operands, and results of another dtype or shape.
struct Form {
  int operands;
  int results;
  bool has_s32_results;
  bool has_reduced_results;
};

Own Ask(XLA_FFI_Handler* handler, const Form& form) {
  std::vector<float> x(16, 1.0f), y(16);
  std::vector<int32_t> indices(16);
  // Square: without its first axis it is as without its last one.
  const CallFrame::Dims of_x = {4, 4}, reduced = {4};
  const CallFrame::Dims& of_y = form.has_reduced_results ? reduced : of_x;
  Own own;
  for (int step = 0; step < 400; ++step) {
    CallFrame frame;
    for (int i = 0; i < form.operands; ++i) frame.Arg(x, of_x);
    for (int i = 0; i < form.results; ++i) {
      form.has_s32_results ? frame.Ret(indices, of_y) : frame.Ret(y, of_y);
    }
    for (const OwnAttribute& attribute : own) {
      attribute.Set(0, frame.attributes());
    }
    const Status status = frame.Run(handler);
    if (status.ok() || !Repair(status.message, own)) break;
  }
  return own;
}

// How much is known of them.
size_t Score(const Own& own) {
  size_t score = own.size();
  for (const OwnAttribute& attribute : own) score += !attribute.words.empty();
  return score;
}

OwnAttribute::Kind KindOf(const XlaFfiKit_Attribute& attribute) {
  if (attribute.type == XLA_FFI_AttrType_STRING) return OwnAttribute::kString;
  switch (attribute.dtype) {
    case XLA_FFI_DataType_F64:
      return OwnAttribute::kF64;
    case XLA_FFI_DataType_F32:
      return OwnAttribute::kF32;
    case XLA_FFI_DataType_S32:
      return OwnAttribute::kS32;
    case XLA_FFI_DataType_PRED:
      return OwnAttribute::kPred;
    default:
      return OwnAttribute::kS64;
  }
}

// Those of a handler that says what it takes.
Own FromSignature(const XlaFfiKit_Signature& signature) {
  Own own;
  for (size_t i = 0; i < signature.num_attributes; ++i) {
    const XlaFfiKit_Attribute& attribute = signature.attributes[i];
    OwnAttribute& to = own.emplace_back();
    to.name = attribute.name;
    to.is_known = true;
    to.kind = KindOf(attribute);
    to.words.assign(attribute.words, attribute.words + attribute.num_words);
  }
  return own;
}

}  // namespace

void OwnAttribute::Set(double number, Attributes& attributes) const {
  // A double out of range has no integer.
  const bool is_small = number > -1e9 && number < 1e9;
  const int64_t integer = is_small ? static_cast<int64_t>(number) : INT64_MAX;
  switch (kind) {
    case kF64:
      attributes.Set(name, number);
      return;
    case kF32:
      attributes.Set(name, static_cast<float>(number));
      return;
    case kS64:
      attributes.Set(name, integer);
      return;
    case kS32:
      attributes.Set(name, static_cast<int32_t>(integer));
      return;
    case kPred:
      attributes.Set(name, integer != 0);
      return;
    default:
      attributes.Set(
          name,
          words.empty()
              ? std::string_view("text")
              : std::string_view(
                    words[static_cast<uint64_t>(integer) % words.size()]));
  }
}

const Own& OwnAttributesOf(const XlaFfiKit_Handler& handler) {
  static auto& known = *new std::map<const XlaFfiKit_Handler*, Own>;
  const auto [it, is_new] = known.try_emplace(&handler);
  if (!is_new) return it->second;
  if (handler.signature != nullptr) {
    return it->second = FromSignature(*handler.signature);
  }
  for (int i = 0; i < 5 * 3 * 2 * 2; ++i) {
    Own own = Ask(handler.execute, {/*operands=*/1 + i / 12,
                                    /*results=*/1 + i / 4 % 3,
                                    /*has_s32_results=*/i % 2 != 0,
                                    /*has_reduced_results=*/i / 2 % 2 != 0});
    if (Score(own) > Score(it->second)) it->second = std::move(own);
  }
  return it->second;
}

}  // namespace xla_ffi_kit::testing
