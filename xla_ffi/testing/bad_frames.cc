#include "xla_ffi/testing/bad_frames.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/testing/attributes.h"
#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {
namespace {

using Buffer = CallFrame::Buffer;

int64_t Elements(const Buffer& buffer) {
  int64_t size = 1;
  for (const int64_t dim : buffer.dims) size *= dim;
  return size;
}

std::string Bytes(const Buffer& buffer) {
  const size_t width =
      xla::ffi::ByteWidth(static_cast<xla::ffi::DataType>(buffer.dtype));
  if (buffer.data == nullptr) return "";
  return std::string(static_cast<const char*>(buffer.data),
                     width * static_cast<size_t>(Elements(buffer)));
}

// Mistakes in one of `good`'s lists of buffers, which `of` picks.
template <typename Of>
void AddBufferMistakes(const CallFrame& good, const std::string& kind,
                       const Of& of, std::vector<BadFrame>& bad) {
  const auto add = [&](const std::string& mistake, const auto& change) {
    BadFrame frame = {mistake, good};
    change(of(frame.frame));
    bad.push_back(std::move(frame));
  };
  CallFrame original = good;
  const std::vector<Buffer> buffers = of(original);
  if (!buffers.empty()) {
    add("one " + kind + " fewer", [](auto& all) { all.pop_back(); });
    add("one " + kind + " more", [](auto& all) { all.push_back(all.back()); });
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::string name = kind + " " + std::to_string(i);
    // Dtypes that are no wider than any other.
    for (const XLA_FFI_DataType dtype :
         {XLA_FFI_DataType_PRED, XLA_FFI_DataType_TOKEN,
          XLA_FFI_DataType_INVALID, XLA_FFI_DataType_F8E4M3FN}) {
      if (dtype == buffers[i].dtype) continue;
      add(name + " of dtype " + std::to_string(dtype),
          [&](auto& all) { all[i].dtype = dtype; });
    }
    if (!buffers[i].dims.empty()) {
      add(name + " of rank 0", [&](auto& all) { all[i].dims.clear(); });
    }
    add(name + " with an axis more",
        [&](auto& all) { all[i].dims.push_back(1); });
    if (Elements(buffers[i]) > 0) {
      add(name + " null", [&](auto& all) { all[i].data = nullptr; });
    }
  }
}

}  // namespace

std::vector<BadFrame> BadFrames(const CallFrame& good) {
  std::vector<BadFrame> bad;
  AddBufferMistakes(
      good, "operand", [](CallFrame& f) -> auto& { return f.args(); }, bad);
  AddBufferMistakes(
      good, "result", [](CallFrame& f) -> auto& { return f.rets(); }, bad);
  const auto add = [&](const std::string& mistake, const auto& change) {
    BadFrame frame = {mistake, good};
    change(frame.frame.attributes());
    bad.push_back(std::move(frame));
  };
  add("an additional attribute", [](Attributes& a) { a.Set("other", 1.0); });
  CallFrame original = good;
  for (const std::string& name : original.attributes().names()) {
    add("no attribute " + name, [&](Attributes& a) { a.Remove(name); });
    add("attribute " + name + " misspelled",
        [&](Attributes& a) { a.Remove(name).Set(name + "_", 1.0); });
    // Types that no operation of the kit takes.
    add(name + " an f16 number",
        [&](Attributes& a) { a.Set(name, Float16(1.0f)); });
    add(name + " a string", [&](Attributes& a) { a.Set(name, "1"); });
    add(name + " an array",
        [&](Attributes& a) { a.Set(name, std::vector<double>{1}); });
    add(name + " a dictionary",
        [&](Attributes& a) { a.Set(name, Attributes().Set(name, 1.0)); });
  }
  return bad;
}

void ExpectRefusesBadFrames(XLA_FFI_Handler* handler, CallFrame good,
                            bool can_run,
                            const std::vector<std::string>& none) {
  if (can_run) {
    const Status accepted = good.Run(handler);
    EXPECT_TRUE(accepted.ok()) << accepted.message;
  }
  std::string before;
  for (const Buffer& result : good.rets()) before += Bytes(result);
  std::vector<BadFrame> frames = BadFrames(good);
  for (const std::string& mistake : none) {
    const auto at = std::find_if(
        frames.begin(), frames.end(),
        [&](const BadFrame& frame) { return frame.mistake == mistake; });
    ASSERT_NE(at, frames.end()) << mistake;
    BadFrame fine = *at;
    frames.erase(at);
    if (!can_run) continue;
    // The call writes to other memory, so that the results stay as they are.
    std::deque<std::string> memory;
    for (Buffer& result : fine.frame.rets()) {
      result.data = memory.emplace_back(Bytes(result)).data();
    }
    const Status accepted = fine.frame.Run(handler);
    EXPECT_TRUE(accepted.ok()) << mistake << ": " << accepted.message;
  }
  for (BadFrame& bad : frames) {
    const Status status = bad.frame.Run(handler);
    EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT) << bad.mistake;
    EXPECT_NE(status.message, "") << bad.mistake;
    std::string after;
    for (const Buffer& result : good.rets()) after += Bytes(result);
    EXPECT_TRUE(after == before) << bad.mistake << ": wrote to a result";
  }
}

void ExpectRefusesNullData(XLA_FFI_Handler* handler, CallFrame good,
                           const std::string& operation,
                           const std::vector<std::string>& names) {
  EXPECT_EQ(good.Run(handler).message, "");
  ASSERT_EQ(names.size(), good.args().size() + good.rets().size());
  auto name = names.begin();
  for (std::vector<Buffer>* buffers : {&good.args(), &good.rets()}) {
    for (Buffer& buffer : *buffers) {
      void* const data = std::exchange(buffer.data, nullptr);
      ExpectInvalid(good.Run(handler),
                    operation + ": " + *name++ + ": expected data of shape " +
                        ShapeText({buffer.dims.data(), buffer.dims.size()}) +
                        ", got null");
      buffer.data = data;
    }
  }
}

void ExpectInvalid(const Status& status, const std::string& message) {
  EXPECT_EQ(status.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(status.message, message);
}

}  // namespace xla_ffi_kit::testing
