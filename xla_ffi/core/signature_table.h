// The data of a signature, computed from its keys when they are compiled.

#ifndef XLA_FFI_CORE_SIGNATURE_TABLE_H_
#define XLA_FFI_CORE_SIGNATURE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "xla/ffi/api/c_api.h"
#include "xla_ffi/core/handler_signature.h"
#include "xla_ffi/core/signature.h"

namespace xla_ffi_kit::signature_internal {

// --- The notation of shapes --------------------------------------------------

inline constexpr size_t kMaxSizesOfShape = 8;

struct ParsedShape {
  bool has_batch = false;
  size_t count = 0;
  std::string_view sizes[kMaxSizesOfShape] = {};
};

constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

constexpr void AddSize(std::string_view size, ParsedShape* shape) {
  if (size == "...") {
    if (shape->count > 0 || shape->has_batch) {
      SignatureIsWrong("\"...\" stands once, before the sizes");
    }
    shape->has_batch = true;
    return;
  }
  for (size_t i = 0; i < size.size(); ++i) {
    const bool is_fit =
        IsDigit(size[i]) || (IsLetter(size[i]) && !IsDigit(size[0]));
    if (!is_fit) SignatureIsWrong("a size is a name or a number");
  }
  if (size.empty() || shape->count == kMaxSizesOfShape) {
    SignatureIsWrong("a shape has up to 8 sizes, separated by commas");
  }
  shape->sizes[shape->count++] = size;
}

// "(..., n, 2)".
constexpr ParsedShape ParseShape(std::string_view text) {
  ParsedShape shape;
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') {
    SignatureIsWrong("a shape is written \"(..., n)\"");
  }
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t end = text.find(',');
    std::string_view size = text.substr(0, end);
    while (!size.empty() && size.front() == ' ') size.remove_prefix(1);
    AddSize(size, &shape);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return shape;
}

constexpr int64_t NumberOf(std::string_view digits) {
  int64_t number = 0;
  for (const char digit : digits) number = 10 * number + (digit - '0');
  return number;
}

// --- Keys in the order of a call ---------------------------------------------

template <typename Key>
struct Kind {
  static constexpr bool kIsOperand = false, kIsResult = false;
};
template <typename Types>
struct Kind<Operand<Types>> {
  static constexpr bool kIsOperand = true, kIsResult = false;
};
template <typename Types>
struct Kind<Result<Types>> {
  static constexpr bool kIsOperand = false, kIsResult = true;
};

template <const auto& kKey>
using KeyType = std::decay_t<decltype(kKey)>;
template <const auto& kKey>
inline constexpr bool kIsOperand = Kind<KeyType<kKey>>::kIsOperand;
template <const auto& kKey>
inline constexpr bool kIsResult = Kind<KeyType<kKey>>::kIsResult;
template <const auto& kKey>
inline constexpr bool kIsArgument = kIsOperand<kKey> || kIsResult<kKey>;

// An attribute's key; its words if it is one of several.
struct SortedAttribute {
  const AttributeKey* key = nullptr;
  const char* const* words = nullptr;
  size_t num_words = 0;
};

template <typename T>
constexpr SortedAttribute Sorted(const T& key) {
  return {&key};
}
template <size_t kCount>
constexpr SortedAttribute Sorted(const Word<kCount>& key) {
  return {&key, key.list, kCount};
}

// Arrays are one longer, since none may be empty.
template <size_t kArguments, size_t kAttributes>
struct SortedKeys {
  const ArgumentKey* arguments[kArguments + 1] = {};
  SortedAttribute attributes[kAttributes + 1] = {};
};

template <size_t kCount>
constexpr void SortByName(SortedAttribute (&attributes)[kCount]) {
  for (size_t i = 1; i + 1 < kCount; ++i) {
    for (size_t j = i; j > 0; --j) {
      const std::string_view name = attributes[j].key->name;
      const std::string_view before = attributes[j - 1].key->name;
      if (name == before) SignatureIsWrong("two attributes have one name");
      if (before < name) break;
      const SortedAttribute moved = attributes[j];
      attributes[j] = attributes[j - 1];
      attributes[j - 1] = moved;
    }
  }
}

template <size_t kOperands, size_t kArguments, size_t kAttributes,
          const auto&... kKeys>
constexpr auto SortKeys() {
  SortedKeys<kArguments, kAttributes> keys;
  size_t operand = 0, result = kOperands, attribute = 0;
  const auto place = [&](const auto& key) {
    using Key = std::decay_t<decltype(key)>;
    if constexpr (Kind<Key>::kIsOperand) {
      keys.arguments[operand++] = &key;
    } else if constexpr (Kind<Key>::kIsResult) {
      keys.arguments[result++] = &key;
    } else {
      keys.attributes[attribute++] = Sorted(key);
    }
  };
  (place(kKeys), ...);
  SortByName(keys.attributes);
  return keys;
}

// The number of a key among the first `count`.
template <size_t kSize>
constexpr int32_t Find(const ArgumentKey* const (&keys)[kSize], size_t count,
                       std::string_view name) {
  for (size_t i = 0; i < count; ++i) {
    if (keys[i]->name == name) return static_cast<int32_t>(i);
  }
  SignatureIsWrong("an argument follows from one that comes before it");
}
template <size_t kSize>
constexpr int32_t Find(const SortedAttribute (&keys)[kSize],
                       std::string_view name) {
  for (size_t i = 0; i + 1 < kSize; ++i) {
    if (keys[i].key->name == name) return static_cast<int32_t>(i);
  }
  SignatureIsWrong("a shape names an axis that the handler takes");
}

// --- Sizes -------------------------------------------------------------------

template <size_t kArguments>
struct SizeTable {
  size_t num_sizes = 0;
  XlaFfiKit_Size sizes[kMaxSizes] = {};
  ParsedShape shapes[kArguments + 1] = {};
  int32_t numbers[kArguments + 1][kMaxSizesOfShape] = {};
};

template <size_t kSize>
constexpr XlaFfiKit_Size MakeSize(std::string_view name,
                                  const SortedAttribute (&attributes)[kSize]) {
  if (IsDigit(name[0])) {
    const int64_t number = NumberOf(name);
    return {name.data(), 0, number, number, -1};
  }
  int32_t attribute = -1;
  for (size_t i = 0; i + 1 < kSize; ++i) {
    const AttributeKey& key = *attributes[i].key;
    if (key.name != name) continue;
    if (key.type != XLA_FFI_AttrType_SCALAR ||
        key.dtype != XLA_FFI_DataType_S64 || !key.unless_given.empty()) {
      SignatureIsWrong("an attribute that is a size is an int64_t");
    }
    attribute = static_cast<int32_t>(i);
  }
  return {name.data(), name.size(), 0, kNoMax, attribute};
}

constexpr bool IsNamed(const XlaFfiKit_Size& size, std::string_view name) {
  if (IsDigit(name[0])) {
    return size.name_size == 0 && size.min == NumberOf(name);
  }
  return std::string_view(size.name, size.name_size) == name;
}

// Bounds the sizes of an argument, whose numbers are given.
constexpr void BoundSizes(const ArgumentKey& key, const ParsedShape& shape,
                          const int32_t* numbers, XlaFfiKit_Size* sizes) {
  for (const SizeBounds& bounds : key.bounds) {
    if (bounds.name.empty()) continue;
    size_t j = 0;
    while (j < shape.count && shape.sizes[j] != bounds.name) ++j;
    if (j == shape.count) SignatureIsWrong("Where() names a size of the shape");
    sizes[numbers[j]].min = bounds.min;
    sizes[numbers[j]].max = bounds.max;
  }
}

template <size_t kArguments, size_t kAttributes>
constexpr auto MakeSizes(const SortedKeys<kArguments, kAttributes>& keys) {
  SizeTable<kArguments> table;
  for (size_t i = 0; i < kArguments; ++i) {
    const ArgumentKey& key = *keys.arguments[i];
    if (key.shape.form != XlaFfiKit_ShapeForm_SIZES) {
      if (!key.bounds[0].name.empty() || key.is_shared) {
        SignatureIsWrong("Where() and Shared() need a shape of sizes");
      }
      continue;
    }
    const ParsedShape shape = ParseShape(key.shape.text);
    table.shapes[i] = shape;
    for (size_t j = 0; j < shape.count; ++j) {
      const std::string_view name = shape.sizes[j];
      size_t k = 0;
      while (k < table.num_sizes && !IsNamed(table.sizes[k], name)) ++k;
      if (k == kMaxSizes) SignatureIsWrong("a signature names up to 32 sizes");
      if (k == table.num_sizes) {
        table.sizes[table.num_sizes++] = MakeSize(name, keys.attributes);
      }
      table.numbers[i][j] = static_cast<int32_t>(k);
    }
    BoundSizes(key, shape, table.numbers[i], table.sizes);
  }
  return table;
}

// --- Rows --------------------------------------------------------------------

template <size_t kArguments, size_t kAttributes>
struct Rows {
  XlaFfiKit_Argument arguments[kArguments + 1] = {};
  XlaFfiKit_Attribute attributes[kAttributes + 1] = {};
};

template <size_t kArguments, size_t kAttributes>
constexpr XlaFfiKit_Argument MakeArgument(
    const SortedKeys<kArguments, kAttributes>& keys,
    const SizeTable<kArguments>& sizes, size_t i) {
  const ArgumentKey& key = *keys.arguments[i];
  const auto earlier = [&](std::string_view of) -> int32_t {
    return of.empty() ? -1 : Find(keys.arguments, i, of);
  };
  XlaFfiKit_Argument row = {};
  row.name = key.name;
  row.dtypes = key.dtypes;
  row.num_dtypes = key.num_dtypes;
  row.dtype_of = earlier(key.dtype_of);
  row.dtype_form = key.dtype_form;
  row.shape_form = key.shape.form;
  row.shape_of = earlier(key.shape.of);
  row.without_axis =
      key.shape.axis.empty() ? -1 : Find(keys.attributes, key.shape.axis);
  row.batch = sizes.shapes[i].has_batch ? XlaFfiKit_Batch_ALL
              : key.is_shared           ? XlaFfiKit_Batch_SHARED
                                        : XlaFfiKit_Batch_NONE;
  row.shape = key.shape.text;
  row.sizes = sizes.numbers[i];
  row.num_sizes = sizes.shapes[i].count;
  row.is_optional = key.is_optional;
  row.given_with = key.given_with.empty() ? 0 : earlier(key.given_with);
  row.is_repeated = key.is_repeated;
  if (sizes.shapes[i].has_batch && key.is_shared) {
    SignatureIsWrong("what is shared has no \"...\"");
  }
  return row;
}

template <size_t kArguments, size_t kAttributes>
constexpr XlaFfiKit_Attribute MakeAttribute(
    const SortedKeys<kArguments, kAttributes>& keys, size_t i) {
  const SortedAttribute& sorted = keys.attributes[i];
  const AttributeKey& key = *sorted.key;
  const auto number = [&](std::string_view of) {
    return Find(keys.arguments, kArguments, of);
  };
  XlaFfiKit_Attribute row = {};
  row.name = key.name;
  row.type = key.type;
  row.dtype = key.dtype;
  row.size = key.size;
  row.min = key.min;
  row.max = key.max;
  row.axis_of = key.axis_of.empty() ? -1 : number(key.axis_of);
  row.words = sorted.words;
  row.num_words = sorted.num_words;
  row.other_dtype = key.other_dtype;
  row.unless_given = key.unless_given.empty() ? 0 : number(key.unless_given);
  return row;
}

template <size_t kArguments, size_t kAttributes>
constexpr auto MakeRows(const SortedKeys<kArguments, kAttributes>& keys,
                        const SizeTable<kArguments>& sizes) {
  Rows<kArguments, kAttributes> rows;
  bool has_batch = false;
  for (size_t i = 0; i < kArguments; ++i) {
    rows.arguments[i] = MakeArgument(keys, sizes, i);
    has_batch = has_batch || sizes.shapes[i].has_batch;
    if (keys.arguments[i]->is_shared && !has_batch) {
      SignatureIsWrong("what rows share comes after an argument of \"...\"");
    }
    for (size_t j = 0; j < i; ++j) {
      const std::string_view name = keys.arguments[i]->name;
      if (name == keys.arguments[j]->name) {
        SignatureIsWrong("two arguments have one name");
      }
    }
  }
  for (size_t i = 0; i != kAttributes; ++i) {
    rows.attributes[i] = MakeAttribute(keys, i);
  }
  return rows;
}

// The signature of an operation with these keys.
template <const auto& kName, const auto&... kKeys>
class Table {
 public:
  static constexpr size_t kOperands = (size_t{0} + ... + kIsOperand<kKeys>);
  static constexpr size_t kResults = (size_t{0} + ... + kIsResult<kKeys>);
  static constexpr size_t kArguments = kOperands + kResults;
  static constexpr size_t kAttributes = sizeof...(kKeys) - kArguments;
  static_assert(kOperands > 0, "a handler with a signature takes an operand");
  static_assert(kArguments <= 32, "a signature has up to 32 arguments");

  static constexpr auto kSorted =
      SortKeys<kOperands, kArguments, kAttributes, kKeys...>();
  static constexpr auto kSizes = MakeSizes(kSorted);
  static constexpr auto kRows = MakeRows(kSorted, kSizes);
  static constexpr XlaFfiKit_Signature kSignature = {
      sizeof(XlaFfiKit_Signature),
      sizeof(XlaFfiKit_Argument),
      sizeof(XlaFfiKit_Attribute),
      kName,
      kOperands,
      kResults,
      kRows.arguments,
      kAttributes,
      kRows.attributes,
      kSizes.num_sizes,
      kSizes.sizes,
      0,
  };

  template <const auto& kKey>
  static constexpr bool Has() {
    return (std::is_same_v<Identity<kKey>, Identity<kKeys>> || ...);
  }
  // The number of a key among the arguments, or among the attributes.
  template <const auto& kKey>
  static constexpr size_t Number() {
    constexpr std::string_view kOwn = kKey.name;
    size_t i = 0;
    if constexpr (!Has<kKey>()) {
      return i;
    } else if constexpr (kIsArgument<kKey>) {
      while (kSorted.arguments[i]->name != kOwn) ++i;
    } else {
      while (kSorted.attributes[i].key->name != kOwn) ++i;
    }
    return i;
  }

 private:
  template <const auto&>
  struct Identity {};
};

}  // namespace xla_ffi_kit::signature_internal

#endif  // XLA_FFI_CORE_SIGNATURE_TABLE_H_
