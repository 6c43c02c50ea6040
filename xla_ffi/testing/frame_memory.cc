#include "xla_ffi/testing/frame_memory.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/batch_shape.h"

namespace xla_ffi_kit::testing {
namespace {

namespace ffi = ::xla::ffi;

template <typename T>
void FillWith(const CallFrame::Buffer& buffer) {
  std::minstd_rand random(1);
  auto* const data = static_cast<T*>(buffer.data);
  const auto count = static_cast<int64_t>(BytesOf(buffer) / sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    // Integers are small, as some are indices.
    const auto value = static_cast<int>(random() % 64);
    data[i] = std::is_same_v<T, bool> ? T(value % 2)
              : std::is_integral_v<T> ? T(value)
                                      : T((value - 31) / T(7));
  }
}

// Bits that are no NaN of any type, most of them different.
void FillHalf(const CallFrame::Buffer& buffer) {
  std::minstd_rand random(1);
  auto* const data = static_cast<uint16_t*>(buffer.data);
  for (int64_t i = 0; i < CountOf(buffer); ++i) data[i] = random() % 0x3f80;
}

void Fill(const CallFrame::Buffer& buffer) {
  switch (static_cast<ffi::DataType>(buffer.dtype)) {
    case ffi::F32:
    case ffi::C64:
      return FillWith<float>(buffer);
    case ffi::F64:
    case ffi::C128:
      return FillWith<double>(buffer);
    case ffi::F16:
    case ffi::BF16:
      return FillHalf(buffer);
    case ffi::S64:
    case ffi::U64:
      return FillWith<int64_t>(buffer);
    case ffi::S32:
    case ffi::U32:
      return FillWith<int32_t>(buffer);
    case ffi::S16:
    case ffi::U16:
      return FillWith<int16_t>(buffer);
    case ffi::PRED:
      return FillWith<bool>(buffer);
    default:
      return FillWith<int8_t>(buffer);
  }
}

}  // namespace

int64_t CountOf(const CallFrame::Buffer& buffer) {
  return Product({buffer.dims.data(), buffer.dims.size()});
}

size_t BytesOf(const CallFrame::Buffer& buffer) {
  return ffi::ByteWidth(static_cast<ffi::DataType>(buffer.dtype)) *
         static_cast<size_t>(CountOf(buffer));
}

FrameMemory::FrameMemory(CallFrame& frame, size_t most_bytes) {
  for (std::vector<CallFrame::Buffer>* all : {&frame.args(), &frame.rets()}) {
    for (CallFrame::Buffer& buffer : *all) {
      const size_t bytes = BytesOf(buffer);
      if (bytes == 0 || bytes > most_bytes) continue;
      memory_.emplace_back(bytes);
      buffer.data = memory_.back().data();
      if (all == &frame.args()) {
        Fill(buffer);
      } else {
        std::memset(buffer.data, 0, bytes);
      }
    }
    if (all == &frame.args()) num_operands_ = memory_.size();
  }
  Keep();
}

void FrameMemory::Keep() {
  operands_.clear();
  for (size_t i = 0; i < num_operands_; ++i) {
    operands_.emplace_back(memory_[i].text());
  }
}

std::string FrameMemory::Violation() const {
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (!memory_[i].IsIntact()) {
      return "a write beside buffer " + std::to_string(i);
    }
    if (i < num_operands_ && memory_[i].text() != operands_[i]) {
      return "a write into operand " + std::to_string(i);
    }
  }
  return "";
}

std::string FrameMemory::Results() const {
  std::string results;
  for (size_t i = num_operands_; i < memory_.size(); ++i) {
    results += memory_[i].text();
  }
  return results;
}

}  // namespace xla_ffi_kit::testing
