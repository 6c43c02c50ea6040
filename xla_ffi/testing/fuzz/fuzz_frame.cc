#include "xla_ffi/testing/fuzz/fuzz_frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/dtype_name.h"
#include "xla_ffi/testing/handlers/handler_calls.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

using Dims = CallFrame::Dims;

// The dtypes that XLA passes to handlers. Those that handlers take come first.
constexpr ffi::DataType kDtypes[] = {
    ffi::DataType::F32,        ffi::DataType::F64,
    ffi::DataType::F16,        ffi::DataType::BF16,
    ffi::DataType::C64,        ffi::DataType::C128,
    ffi::DataType::S8,         ffi::DataType::S16,
    ffi::DataType::S32,        ffi::DataType::S64,
    ffi::DataType::U8,         ffi::DataType::U16,
    ffi::DataType::U32,        ffi::DataType::U64,
    ffi::DataType::PRED,       ffi::DataType::TOKEN,
    ffi::DataType::INVALID,    ffi::DataType::F8E5M2,
    ffi::DataType::F8E4M3FN,   ffi::DataType::F8E4M3B11FNUZ,
    ffi::DataType::F8E5M2FNUZ, ffi::DataType::F8E4M3FNUZ,
};
constexpr int64_t kNumDtypes = sizeof(kDtypes) / sizeof(kDtypes[0]);

// Values of attributes. The seeds refer to the first ones by their places.
constexpr double kNumbers[] = {1.0,
                               4.0,
                               0.0,
                               2.0,
                               3.0,
                               5.0,
                               -1.0,
                               1e-6,
                               1e300,
                               5e-324,
                               std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
constexpr int64_t kNumNumbers = sizeof(kNumbers) / sizeof(kNumbers[0]);

// Elements of a buffer; a call of more bytes than this would take too long.
constexpr int64_t kMaxElements = 1024;
// The elements of a large buffer, for which kernels use their threads.
constexpr int64_t kLarge = int64_t{1} << 18;
constexpr int64_t kTooMany = 4 * kLarge;

// The elements of the arrays of a handler's example.
constexpr int64_t kExampleSize = 2048;

// A good call of the handler; null if there is none.
const CallFrame* ExampleOf(const char* target) {
  static auto& calls = *new HandlerCallMap(HandlerCalls(kExampleSize));
  const auto found = calls.find(target);
  if (found == calls.end() || found->second.empty()) return nullptr;
  return &found->second.front().frame;
}

XLA_FFI_DataType Raw(ffi::DataType dtype) {
  return static_cast<XLA_FFI_DataType>(dtype);
}

// Returns the dtype of a sum of elements, for results that have that dtype.
ffi::DataType AccumulationDtype(ffi::DataType dtype) {
  switch (dtype) {
    case ffi::DataType::F16:
    case ffi::DataType::BF16:
    case ffi::DataType::C64:
      return ffi::DataType::F32;
    case ffi::DataType::C128:
      return ffi::DataType::F64;
    default:
      return dtype;
  }
}

// Elements of a buffer; at most `max`, even if there are more.
int64_t CountElements(const Dims& dims, int64_t max) {
  for (const int64_t dim : dims) {
    if (dim == 0) return 0;  // whatever the others are
  }
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim > max / count) return max;
    count *= dim;
  }
  return count;
}

std::string ToText(const CallFrame::Buffer& buffer) {
  std::string text = DtypeName(static_cast<ffi::DataType>(buffer.dtype)) + "(";
  for (const int64_t dim : buffer.dims) text += std::to_string(dim) + ",";
  return text + (buffer.data == nullptr ? ") null" : ")");
}

}  // namespace

FuzzFrame::FuzzFrame(const XlaFfiKit_HandlerTable& table, const uint8_t* data,
                     size_t size)
    : input_(data, size) {
  handler_ = &table.handlers[input_.Byte() % table.num_handlers];
  const uint8_t stage = input_.Byte();
  XLA_FFI_Handler* const stages[] = {handler_->instantiate, handler_->prepare,
                                     handler_->initialize, handler_->execute};
  function_ = stage < 240 ? handler_->execute : stages[stage % 4];
  if (function_ == nullptr) function_ = handler_->execute;
  // The stages' numbers are those of `stages`.
  if (stage >= 224) stage_ = static_cast<XLA_FFI_ExecutionStage>(stage / 4 % 4);
  is_execute_ = function_ == handler_->execute &&
                stage_ == XLA_FFI_ExecutionStage_EXECUTE;
  frame_.Threads((input_.Below(8) + 1) % 4);
  const int64_t counts = input_.Byte();
  const CallFrame* const example =
      counts >= kFuzzExample ? ExampleOf(handler_->name) : nullptr;
  if (example != nullptr) {
    AddLike(*example);
    return;
  }
  if (counts >= kFuzzDescribed && handler_->signature != nullptr) {
    AddDescribed(*handler_->signature);
    return;
  }
  AddAttributes(frame_.attributes(), /*depth=*/0);
  model_ = FreeShape();
  AddBuffers(counts % 8, /*is_operand=*/true);
  AddBuffers(counts / 8 % 8, /*is_operand=*/false);
}

FuzzFrame::Shape FuzzFrame::FreeShape() {
  Shape shape;
  shape.dtype = Raw(kDtypes[input_.Below(kNumDtypes)]);
  const int64_t form = input_.Byte();
  for (int64_t left = kMaxElements, axis = 0; axis < form % 5; ++axis) {
    const int64_t choice = input_.Byte();
    // Mostly a few elements; up to more than the longest vector there is.
    const int64_t dim = choice < 192 ? choice % 6 : choice;
    if (dim > left) break;
    shape.dims.push_back(dim);
    left /= dim == 0 ? 1 : dim;
  }
  if (form >= 250 && !shape.dims.empty()) {
    shape.dims.front() = 1;
    const int64_t others = CountElements(shape.dims, kLarge);
    shape.dims.front() = kLarge / std::max<int64_t>(others, 1);
  }
  if (form == 249) {
    // Many rows without elements.
    shape.dims.assign(3, int64_t{1} << 20);
    shape.dims[input_.Below(3)] = 0;
  }
  return shape;
}

FuzzFrame::Shape FuzzFrame::DerivedShape() {
  const int64_t form = input_.Byte();
  if (form % 16 == 15) return FreeShape();
  Shape shape = model_;
  const auto dtype = static_cast<ffi::DataType>(model_.dtype);
  if (form / 16 == 15) shape.dtype = Raw(ffi::DataType::S32);
  if (form / 16 == 14) shape.dtype = Raw(AccumulationDtype(dtype));
  if (form / 16 == 13) shape.dtype = Raw(kDtypes[input_.Below(kNumDtypes)]);
  Dims& dims = shape.dims;
  if (dims.empty()) return shape;
  switch (form % 16) {
    case 8:
      dims = last_dims_;
      break;
    case 9:
      dims.back() += 1;
      break;
    case 10:
      dims.pop_back();
      if (form < 128) shape.dtype = Raw(AccumulationDtype(dtype));
      break;
    case 11:
      dims = {dims.back()};
      break;
    case 12:
      dims = {dims.front(), dims.back()};
      break;
    case 13:
      dims.back() = input_.Below(std::min<int64_t>(dims.back(), 250) + 3);
      break;
    case 14:
      dims.push_back(1);
      break;
    default:
      break;
  }
  if (CountElements(dims, kTooMany) == kTooMany) dims.front() = 0;
  return shape;
}

void* FuzzFrame::MakeData(const Shape& shape, bool is_operand) {
  const size_t bytes = ffi::ByteWidth(static_cast<ffi::DataType>(shape.dtype)) *
                       static_cast<size_t>(CountElements(shape.dims, kTooMany));
  const uint8_t content = input_.Byte();
  if (content == 255) return nullptr;
  if (content >= 252 && !is_operand) {
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (memory_[i].size() != bytes || is_donated_[i]) continue;
      is_donated_[i] = true;
      return memory_[i].data();
    }
  }
  memory_.emplace_back(bytes);
  unsigned char* data = memory_.back().data();
  if (content >= 224) {  // zeros, ones, NaNs and what lies between
    std::memset(data, (content - 224) * 9, bytes);
    return data;
  }
  if (bytes > 64 * kMaxElements) {  // quickly
    std::memset(data, content, bytes);
    return data;
  }
  // Any bits: numbers of every size, infinities and NaNs among them.
  uint64_t random = content;
  for (size_t i = 0; i < bytes; i += sizeof(random)) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const uint64_t mixed = random ^ random >> 32;
    std::memcpy(data + i, &mixed, std::min(sizeof(mixed), bytes - i));
  }
  return data;
}

void FuzzFrame::AddBuffers(int64_t count, bool is_operand) {
  for (int64_t i = 0; i < count; ++i) AddBuffer(DerivedShape(), is_operand);
}

void FuzzFrame::AddBuffer(const Shape& shape, bool is_operand) {
  last_dims_ = shape.dims;
  void* data = MakeData(shape, is_operand);
  if (is_operand) {
    frame_.Arg(shape.dtype, data, shape.dims);
    if (data == nullptr) return;
    operands_.emplace_back(memory_.back().text());
    is_donated_.push_back(false);
  } else {
    frame_.Ret(shape.dtype, data, shape.dims);
  }
}

FuzzFrame::Shape FuzzFrame::DescribedShape(const XlaFfiKit_Argument& says,
                                           const std::vector<Shape>& made) {
  // Always reads the same number of bytes, so that changing one byte changes
  // one thing.
  const int64_t change = input_.Byte(), dtype = input_.Byte();
  const auto model_of = [&](int32_t like) -> const Shape* {
    const auto i = static_cast<size_t>(like);
    return like >= 0 && i < made.size() ? &made[i] : nullptr;
  };
  const Shape* const dtype_of = model_of(says.dtype_of);
  Shape shape = {Raw(kDtypes[dtype % kNumDtypes]),
                 DescribedDims(says, model_of(says.shape_of))};
  if (dtype_of != nullptr) {
    shape.dtype = dtype_of->dtype;
  } else if (says.num_dtypes > 0) {
    shape.dtype =
        static_cast<XLA_FFI_DataType>(says.dtypes[dtype % says.num_dtypes]);
  }
  return change < kFuzzChange ? shape : DerivedShape();
}

Dims FuzzFrame::DescribedDims(const XlaFfiKit_Argument& says,
                              const Shape* model) {
  const int64_t form = input_.Byte();
  Dims free(4);
  for (int64_t& dim : free) {
    const int64_t choice = input_.Byte();
    dim = choice < 192 ? choice % 6 : choice % 24;
  }
  if (model == nullptr) {
    const int64_t least = says.min_rank;
    const int64_t most = std::max<int64_t>(std::min(says.max_rank, 4), least);
    const int64_t rank = least + form % (most - least + 1);
    // Half of those that need not be like the first operand are nevertheless.
    const bool is_free = model_.dims.empty() || form >= 128;
    Dims dims = is_free ? free : model_.dims;
    dims.resize(rank, 1);
    return dims;
  }
  Dims dims = model->dims;
  if (dims.empty()) return dims;
  if (says.shape_form == XlaFfiKit_ShapeForm_BUT_LAST) {
    dims.back() = says.last == nullptr ? free[0] : integers_[says.last];
    if (dims.back() < 0 || dims.back() > kMaxElements) dims.back() = 0;
  } else if (says.shape_form == XlaFfiKit_ShapeForm_WITHOUT_LAST) {
    dims.pop_back();
  } else if (says.shape_form == XlaFfiKit_ShapeForm_WITHOUT_AXIS) {
    const auto axis = static_cast<uint64_t>(integers_[says.last]);
    dims.erase(dims.begin() + static_cast<int64_t>(axis % dims.size()));
  }
  if (CountElements(dims, kTooMany) == kTooMany) dims.front() = 0;
  return dims;
}

void FuzzFrame::AddDescribed(const XlaFfiKit_Signature& signature) {
  // How many there are of the optional operands and results, or beside one of
  // those that are repeated.
  int64_t more[] = {input_.Below(4), input_.Below(4)};
  const int64_t repeated = 1 + more[0];
  const size_t arguments = signature.num_operands + signature.num_results;
  for (size_t i = 0; i < arguments; ++i) {
    const XlaFfiKit_Argument& says = signature.arguments[i];
    const bool is_alone = says.given_with != 0 && is_missing_[says.given_with];
    int64_t& left = more[i < signature.num_operands ? 0 : 1];
    is_missing_.push_back(is_alone || (says.is_optional != 0 && left-- <= 0));
  }
  AddAttributes(frame_.attributes(), /*depth=*/0);
  std::vector<Shape> made;
  for (size_t i = 0; i < arguments; ++i) {
    const XlaFfiKit_Argument& says = signature.arguments[i];
    Shape first = model_;
    const int64_t count = says.is_repeated != 0 ? repeated : !is_missing_[i];
    for (int64_t j = 0; j < count; ++j) {
      const Shape shape = DescribedShape(says, made);
      if (i == 0 && j == 0) model_ = shape;
      if (j == 0) first = shape;
      AddBuffer(shape, i < signature.num_operands);
    }
    made.push_back(std::move(first));
  }
}

void FuzzFrame::AddLike(CallFrame example) {
  frame_.attributes() = example.attributes();
  // The dtype of all arrays that are f32 in the example.
  const ffi::DataType dtype = kDtypes[input_.Below(kNumDtypes)];
  const auto add = [&](const std::vector<CallFrame::Buffer>& buffers,
                       bool is_operand) {
    for (const CallFrame::Buffer& buffer : buffers) {
      const bool is_f32 = buffer.dtype == XLA_FFI_DataType_F32;
      model_ = {is_f32 ? Raw(dtype) : buffer.dtype, buffer.dims};
      // Two in three as they are.
      const bool is_changed = input_.Byte() % 3 == 2;
      AddBuffer(is_changed ? DerivedShape() : model_, is_operand);
    }
  };
  const int64_t changes = input_.Byte();
  const std::vector<std::string> names = frame_.attributes().names();
  for (int64_t i = 0; i < changes % 4 && !names.empty(); ++i) {
    const std::string& name = names[input_.Below(names.size())];
    SetLike(name, frame_.attributes());
  }
  if (changes >= 240) AddFreeAttribute(frame_.attributes(), /*depth=*/0);
  add(example.args(), /*is_operand=*/true);
  add(example.rets(), /*is_operand=*/false);
}

// Another number, or numbers, or nothing in the place of an attribute.
void FuzzFrame::SetLike(const std::string& name, Attributes& attributes) {
  const int64_t form = input_.Byte();
  std::vector<int64_t> values(form % 4);
  for (int64_t& value : values) {
    const uint8_t byte = input_.Byte();
    value = byte < 240 ? byte % 8 - 2 : static_cast<int64_t>(input_.Bytes8());
  }
  attribute_text_ += " " + name + " changed";
  if (form >= 240) {
    attributes.Remove(name);
  } else if (form >= 160 && !values.empty()) {
    attributes.Set(name, values[0]);
  } else {
    attributes.Set(name, values);
  }
}

void FuzzFrame::AddAttributes(Attributes& attributes, int depth) {
  const XlaFfiKit_Signature* const signature = handler_->signature;
  const size_t own = signature == nullptr ? 0 : signature->num_attributes;
  int64_t left = input_.Byte();
  if (left < 128) {  // its own; without one; or, of 32, with another one
    const bool is_one_missing = left >= 112 && own > 0;
    for (size_t i = 0; i < own; ++i) {
      const XlaFfiKit_Attribute& says = signature->attributes[i];
      if (is_one_missing && i == left % own) continue;
      if (says.unless_given != 0 && !is_missing_.empty() &&
          !is_missing_[says.unless_given]) {
        continue;
      }
      AddDescribedAttribute(says, attributes);
    }
    left = left >= 96 && left < 112 ? 1 : 0;
  }
  for (left %= 4; left > 0; --left) AddFreeAttribute(attributes, depth);
}

void FuzzFrame::AddDescribedAttribute(const XlaFfiKit_Attribute& says,
                                      Attributes& attributes) {
  const std::string name = says.name;
  const double number = kNumbers[input_.Below(kNumNumbers)];
  // A double out of range has no integer.
  const bool is_small = number > -1e9 && number < 1e9;
  const int64_t integer = is_small ? static_cast<int64_t>(number) : INT64_MAX;
  attribute_text_ += " " + name + "=" + std::to_string(number);
  integers_[name] = integer;
  if (says.type == XLA_FFI_AttrType_STRING) {
    const auto word = static_cast<uint64_t>(integer);
    attributes.Set(
        name, says.num_words == 0 ? "text" : says.words[word % says.num_words]);
  } else if (says.type == XLA_FFI_AttrType_ARRAY) {
    const int64_t size = says.size < 0 ? integer & 3 : says.size;
    attributes.Set(name, std::vector<int64_t>(size, integer));
  } else if (says.dtype == XLA_FFI_DataType_F64) {
    attributes.Set(name, number);
  } else if (says.dtype == XLA_FFI_DataType_F32) {
    attributes.Set(name, static_cast<float>(number));
  } else if (says.dtype == XLA_FFI_DataType_S32) {
    attributes.Set(name, static_cast<int32_t>(integer));
  } else if (says.dtype == XLA_FFI_DataType_PRED) {
    attributes.Set(name, integer != 0);
  } else {
    attributes.Set(name, integer);
  }
}

void FuzzFrame::AddFreeAttribute(Attributes& attributes, int depth) {
  const XlaFfiKit_Signature* const signature = handler_->signature;
  const size_t own = signature == nullptr ? 0 : signature->num_attributes;
  const uint8_t choice = input_.Byte();
  const std::string name = choice < 192 && own > 0
                               ? signature->attributes[choice % own].name
                               : input_.Text(choice % 64);
  const int64_t kind = input_.Below(16);
  const double number = kNumbers[input_.Below(kNumNumbers)];
  const auto bits =
      static_cast<int64_t>(kind < 8 ? 1 + kind / 4 : input_.Bytes8());
  attribute_text_ += " " + name + " of kind " + std::to_string(kind);
  if (kind % 4 == 0) attributes.Set(name, number);
  if (kind % 4 == 1) attributes.Set(name, bits);
  if (kind == 2) attributes.Set(name, static_cast<float>(number));
  if (kind == 3) attributes.Set(name, static_cast<int32_t>(bits));
  if (kind == 6) attributes.Set(name, bits % 2 == 0);
  if (kind == 7) attributes.Set(name, std::string_view("text"));
  if (kind == 10) {
    attributes.Set(name, std::vector<double>(bits & 7, number));
  }
  if (kind == 11) attributes.Set(name, std::vector<int64_t>(1, bits));
  if (kind == 14) attributes.Set(name, static_cast<uint8_t>(bits));
  if (kind == 15) {
    Attributes inner;
    if (depth < 2) AddAttributes(inner, depth + 1);
    attributes.Set(name, std::move(inner));
  }
}

Status FuzzFrame::Run() {
  const Status status = frame_.Run(function_, stage_);
  FindViolations();
  return status;
}

void FuzzFrame::FindViolations() {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (!memory_[i].IsIntact()) {
      violation_ = "a write beside buffer " + std::to_string(i);
    }
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!is_donated_[i] && memory_[i].text() != operands_[i]) {
      violation_ = "a write into operand " + std::to_string(i);
    }
  }
}

std::string FuzzFrame::ToString() const {
  CallFrame frame = frame_;
  std::string text = handler_->name;
  text += " stage " + std::to_string(stage_) + ": operands";
  for (const auto& buffer : frame.args()) text += " " + ToText(buffer);
  text += ", results";
  for (const auto& buffer : frame.rets()) text += " " + ToText(buffer);
  return text + ", attributes" + attribute_text_;
}

}  // namespace xla_ffi_kit::testing
