#include "xla_ffi/testing/fuzz/fuzz_frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/testing/frame_memory.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

// Elements of an array; a call of more would take too long.
constexpr int64_t kMaxElements = int64_t{1} << 20;
// The elements of a large array, for which kernels use their threads.
constexpr int64_t kLarge = int64_t{1} << 18;

// How a call is made, by a byte: below the first as it fits, then one of the
// mistakes, then with a few changes, and from the last on of any buffers.
constexpr uint8_t kMistaken = 80, kChanged = 120, kFree = 232;

constexpr double kNumbers[] = {1.0,
                               4.0,
                               0.0,
                               2.0,
                               -1.0,
                               1e-6,
                               1e300,
                               5e-324,
                               std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};

bool IsTooLarge(const CallFrame::Buffer& buffer) {
  int64_t count = 1;
  for (const int64_t dim : buffer.dims) {
    if (dim == 0) return false;  // whatever the others are
  }
  for (const int64_t dim : buffer.dims) {
    if (dim > kMaxElements / count) return true;
    count *= dim;
  }
  return false;
}

std::string ToText(const CallFrame::Buffer& buffer) {
  std::string text = DtypeName(static_cast<ffi::DataType>(buffer.dtype)) + "(";
  for (const int64_t dim : buffer.dims) text += std::to_string(dim) + ",";
  return text + (buffer.data == nullptr ? ") null" : ")");
}

}  // namespace

FuzzFrame::FuzzFrame(const XlaFfiKit_HandlerTable& table,
                     const HandlerHooks& hooks, const uint8_t* data,
                     size_t size)
    : choices_(data, size) {
  handler_ = &table.handlers[choices_.Byte() % table.num_handlers];
  ChooseStage();
  const int64_t threads = (choices_.Below(8) + 1) % 4;
  const uint8_t kind = choices_.Byte();
  const auto found = hooks.find(handler_->name);
  const HandlerHook hook = found == hooks.end() ? HandlerHook() : found->second;
  if (kind < kFree && handler_->signature != nullptr) {
    Fit(kind, hook);
  } else {
    AddFreeBuffers();
  }
  frame_.Threads(threads);
  for (auto* buffers : {&frame_.args(), &frame_.rets()}) {
    for (CallFrame::Buffer& buffer : *buffers) {
      if (IsTooLarge(buffer)) buffer.dims.front() = 0;
      GiveMemory(buffer, buffers == &frame_.args());
    }
  }
  // Every second time only: what an operand's values are, no handler knows.
  const bool has_data =
      std::all_of(frame_.args().begin(), frame_.args().end(),
                  [](const auto& buffer) { return buffer.data != nullptr; });
  if (hook.fill == nullptr || kind >= kMistaken || kind % 4 == 3 || !has_data) {
    return;
  }
  hook.fill(frame_);
  for (size_t i = 0; i < operands_.size(); ++i) {
    operands_[i] = memory_[i].text();
  }
}

void FuzzFrame::ChooseStage() {
  const uint8_t stage = choices_.Byte();
  XLA_FFI_Handler* const stages[] = {handler_->instantiate, handler_->prepare,
                                     handler_->initialize, handler_->execute};
  function_ = stage < 240 ? handler_->execute : stages[stage % 4];
  if (function_ == nullptr) function_ = handler_->execute;
  // The stages' numbers are those of `stages`.
  if (stage >= 224) stage_ = static_cast<XLA_FFI_ExecutionStage>(stage / 4 % 4);
  is_execute_ = function_ == handler_->execute &&
                stage_ == XLA_FFI_ExecutionStage_EXECUTE;
}

void FuzzFrame::Fit(uint8_t kind, const HandlerHook& hook) {
  const XlaFfiKit_Signature& signature = *handler_->signature;
  constexpr uint8_t kEmptySize = 248, kLargeSize = 252;
  const uint8_t size = choices_.Byte();
  frame_ = size >= kLargeSize
               ? FitLarge(signature, choices_, kLarge, kForms[size % 3])
           : size >= kEmptySize ? FitEmpty(signature, choices_)
                                : testing::Fit(signature, choices_);
  // Some of those that fit the signature alone, too, but no large ones: a
  // window as large as the images that it is moved over takes hours.
  const bool is_large = size >= kLargeSize;
  if (hook.fit != nullptr && (is_large || kind % 8 != 7)) {
    hook.fit(frame_, choices_);
  }
  if (kind < kMistaken) return;
  if (kind < kChanged) {
    std::vector<Mistake> mistakes = Mistakes(signature, frame_);
    const auto count = static_cast<int64_t>(mistakes.size());
    Mistake& mistake = mistakes[choices_.Below(256) % count];
    frame_ = std::move(mistake.frame);
    text_ = " (" + mistake.what + ")";
    return;
  }
  for (int64_t left = 1 + choices_.Below(3); left > 0; --left) {
    std::vector<CallFrame::Buffer*> buffers;
    for (CallFrame::Buffer& b : frame_.args()) buffers.push_back(&b);
    for (CallFrame::Buffer& b : frame_.rets()) buffers.push_back(&b);
    const int64_t which = choices_.Byte();
    if (which < 160) {
      ChangeBuffer(*buffers[which % buffers.size()]);
    } else {
      ChangeAttribute(frame_.attributes(), /*depth=*/0);
    }
  }
}

// Buffers of which most are like the first one.
void FuzzFrame::AddFreeBuffers() {
  const CallFrame::Buffer model = FreeBuffer();
  const int64_t counts = choices_.Byte();
  frame_.args().resize(counts % 8, model);
  frame_.rets().resize(counts / 8 % 8, model);
  for (auto* buffers : {&frame_.args(), &frame_.rets()}) {
    for (CallFrame::Buffer& buffer : *buffers) {
      if (choices_.Byte() >= 160) ChangeBuffer(buffer);
    }
  }
  for (int64_t left = choices_.Below(4); left > 0; --left) {
    ChangeAttribute(frame_.attributes(), /*depth=*/0);
  }
}

CallFrame::Buffer FuzzFrame::FreeBuffer() {
  const auto& dtypes = AllDtypes();
  CallFrame::Buffer buffer = {dtypes[choices_.Byte() % dtypes.size()], nullptr,
                              CallFrame::Dims(choices_.Below(5))};
  for (int64_t& dim : buffer.dims) {
    const int64_t choice = choices_.Byte();
    // Mostly a few elements; up to more than the longest vector there is.
    dim = choice < 192 ? choice % 6 : choice < 250 ? choice : 1 << 20;
  }
  return buffer;
}

void FuzzFrame::ChangeBuffer(CallFrame::Buffer& buffer) {
  CallFrame::Dims& dims = buffer.dims;
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t form = choices_.Below(8);
  if (form == 0) buffer = FreeBuffer();
  if (form == 1) buffer.dtype = FreeBuffer().dtype;
  if (form == 2) dims.push_back(1);
  if (form == 3) dims.insert(dims.begin(), choices_.Below(4));
  if (rank == 0) return;
  if (form == 4) dims.pop_back();
  if (form == 5) dims = {dims.back()};
  if (form == 6) dims[choices_.Below(rank)] += 1;
  if (form == 7) dims[choices_.Below(rank)] = choices_.Below(250);
}

// Sets one of the handler's attributes, or another, to anything or nothing.
void FuzzFrame::ChangeAttribute(Attributes& attributes, int depth) {
  const XlaFfiKit_Signature* const signature = handler_->signature;
  const size_t own = signature == nullptr ? 0 : signature->num_attributes;
  const uint8_t choice = choices_.Byte();
  const std::string name = choice < 224 && own > 0
                               ? signature->attributes[choice % own].name
                               : choices_.Text(choice % 64);
  const int64_t kind = choices_.Below(12);
  const double number = kNumbers[choices_.Below(std::size(kNumbers))];
  const uint8_t small = choices_.Byte();
  const auto bits =
      static_cast<int64_t>(small < 224 ? small % 16 - 2 : choices_.Bytes8());
  text_ += " " + name + " of kind " + std::to_string(kind);
  if (kind == 0) attributes.Remove(name);
  if (kind == 1) attributes.Set(name, number);
  if (kind == 2 || kind == 9) attributes.Set(name, bits);
  if (kind == 3) attributes.Set(name, static_cast<float>(number));
  if (kind == 4) attributes.Set(name, static_cast<int32_t>(bits));
  if (kind == 5) attributes.Set(name, bits % 2 == 0);
  if (kind == 6) attributes.Set(name, "text");
  if (kind == 7) attributes.Set(name, std::vector<double>(bits & 7, number));
  if (kind == 8 || kind == 11) {
    attributes.Set(name, std::vector<int64_t>(small % 4, bits));
  }
  if (kind == 10) {
    Attributes inner;
    if (depth < 2) ChangeAttribute(inner, depth + 1);
    attributes.Set(name, std::move(inner));
  }
}

void FuzzFrame::GiveMemory(CallFrame::Buffer& buffer, bool is_operand) {
  const size_t bytes = BytesOf(buffer);
  const uint8_t content = choices_.Byte();
  if (content == 255) return;
  if (content >= 248 && !is_operand) {
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (memory_[i].size() != bytes || is_donated_[i]) continue;
      is_donated_[i] = true;
      buffer.data = memory_[i].data();
      return;
    }
  }
  memory_.emplace_back(bytes);
  unsigned char* const data = memory_.back().data();
  buffer.data = data;
  if (content >= 224) {  // zeros, ones, NaNs and what lies between
    std::memset(data, (content - 224) * 9, bytes);
  } else if (bytes > size_t{1} << 16) {  // quickly
    std::memset(data, content, bytes);
  } else {
    // Any bits: numbers of every size, infinities and NaNs among them.
    uint64_t random = content;
    for (size_t i = 0; i < bytes; i += sizeof(random)) {
      random = random * 6364136223846793005 + 1442695040888963407;
      const uint64_t mixed = random ^ random >> 32;
      std::memcpy(data + i, &mixed, std::min(sizeof(mixed), bytes - i));
    }
  }
  if (!is_operand) return;
  operands_.emplace_back(memory_.back().text());
  is_donated_.push_back(false);
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
  text += ", attributes";
  for (const auto& name : frame.attributes().names()) text += " " + name;
  return text + (text_.empty() ? "" : ", changed:" + text_);
}

}  // namespace xla_ffi_kit::testing
