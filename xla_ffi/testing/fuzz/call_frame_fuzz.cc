// Calls of every handler of a library, of the kinds that signatures_test makes,
// which bytes choose: those of clang's libFuzzer, or, without it, of main().
//
// A call that fits its signature succeeds, one with a mistake is refused, and
// one whose operands have any bits does either; none writes anything but its
// results. Else the program ends. No dimension is negative, and where there is
// data, there are as many bytes as dtype and dimensions say: XLA guarantees
// both.

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"
#include "xla_ffi/core/checks.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/frame_memory.h"
#include "xla_ffi/testing/frames.h"
#include "xla_ffi/testing/handlers/handlers.h"

namespace xla_ffi_kit::testing {
namespace {

// The elements of a large array, for which kernels use their threads.
constexpr int64_t kLarge = int64_t{1} << 18;

const HandlerUnderTest& AnyHandler(Choices& choices) {
  static auto& hooks = *new HandlerHooks(GetHandlerHooks());
  static const auto& all = *[] {
    auto* const handlers = new std::vector<HandlerUnderTest>;
    const XlaFfiKit_HandlerTable& table = TableUnderTest();
    for (size_t i = 0; i < table.num_handlers; ++i) {
      const XlaFfiKit_Handler& handler = table.handlers[i];
      if (handler.signature == nullptr) {
        std::printf("%s has no signature: XLA_FFI_KIT_DEFINE_SIGNATURE\n",
                    handler.name);
        std::exit(1);
      }
      handlers->emplace_back(handler, hooks[handler.name]);
    }
    return handlers;
  }();
  return all[choices.Below(static_cast<int64_t>(all.size()))];
}

std::string ToText(CallFrame& frame) {
  std::string text;
  for (const auto* const buffers : {&frame.args(), &frame.rets()}) {
    text += buffers == &frame.args() ? " operands" : ", results";
    for (const CallFrame::Buffer& b : *buffers) {
      text += " " + DtypeName(static_cast<xla::ffi::DataType>(b.dtype)) + "(";
      for (const int64_t dim : b.dims) text += std::to_string(dim) + ",";
      text += b.data == nullptr ? ") null" : ")";
    }
  }
  return text;
}

// Numbers of every size, infinities and NaNs; or one byte everywhere.
void FillWithBits(CallFrame& frame, Choices& choices) {
  for (const CallFrame::Buffer& buffer : frame.args()) {
    if (buffer.data == nullptr) continue;
    auto* const data = static_cast<uint8_t*>(buffer.data);
    const uint8_t byte = choices.Byte();
    if (byte % 4 == 0) {
      std::memset(data, choices.Byte(), BytesOf(buffer));
    } else {
      std::minstd_rand random(byte);
      std::generate_n(data, BytesOf(buffer), [&] { return random() >> 8; });
    }
  }
}

// Gives the first result the memory of an operand, as where JAX donates one.
bool Donate(CallFrame& frame, Choices& choices) {
  if (frame.rets().empty()) return false;
  CallFrame::Buffer& result = frame.rets()[0];
  const CallFrame::Buffer& operand =
      frame.args()[choices.Below(static_cast<int64_t>(frame.args().size()))];
  if (BytesOf(operand) != BytesOf(result)) return false;
  result.data = operand.data;
  return true;
}

// The call that runs.
std::string& Running() {
  static auto& text = *new std::string;
  return text;
}

// Makes the call that the bytes choose. Returns what was wrong with what the
// handler did, empty if nothing.
std::string Test(Choices& choices) {
  const HandlerUnderTest& h = AnyHandler(choices);
  const uint8_t kind = choices.Byte(), size = choices.Byte();
  const bool is_mistaken = kind < 80, has_any_bits = kind >= 160;
  const bool is_empty = !is_mistaken && size >= 248 && size < 252;
  const bool is_large = size >= 252;
  // Some fit the signature alone, but no large ones: a window as large as the
  // images that it is moved over takes hours.
  const bool is_hooked = is_large || !has_any_bits || kind % 8 != 7;
  CallFrame frame = is_empty    ? h.FitEmpty(choices)
                    : is_large  ? h.FitLarge(choices, kLarge, kForms[size % 3])
                    : is_hooked ? h.Fit(choices)
                                : Fit(h.signature(), choices);
  FrameMemory memory =
      is_hooked && !is_empty ? h.GiveMemory(frame) : FrameMemory(frame);
  std::string what = h.name();
  bool is_donated = false;
  if (is_mistaken) {
    std::vector<Mistake> mistakes = Mistakes(h.signature(), frame);
    const auto count = static_cast<int64_t>(mistakes.size());
    Mistake& mistake = mistakes[choices.Below(256) % count];
    frame = std::move(mistake.frame);
    what += " (" + mistake.what + ")";
  } else if (has_any_bits) {
    FillWithBits(frame, choices);
    memory.Keep();
    // Not of several threads, of which one may write what another has yet to
    // read: XLA lets a result have an operand's memory only where the
    // operation says so, and a sort does not.
    is_donated = !is_large && choices.Below(4) == 0 && Donate(frame, choices);
  }
  Running() = what + ToText(frame);
  const std::string results = memory.Results();
  const int64_t threads = choices.Below(4);
  const Status status = h.Run(frame, has_any_bits ? threads : 1 + threads);
  if (is_donated) memory.Keep();  // it may write there
  std::string wrong = memory.Violation();
  if (is_mistaken) {
    if (status.code != XLA_FFI_Error_Code_INVALID_ARGUMENT) {
      wrong += "; expected an INVALID_ARGUMENT, got '" + status.message + "'";
    } else if (memory.Results() != results) {
      wrong += "; refused, but wrote results";
    }
  } else if (!has_any_bits && !is_empty && !status.ok()) {
    wrong += "; it fits, but: " + status.message;
  }
  return wrong;
}

void Run(const uint8_t* data, size_t size) {
  Choices choices(data, size);
  const std::string wrong = Test(choices);
  if (wrong.empty()) return;
  std::fprintf(stderr, "%s: %s\n", Running().c_str(), wrong.c_str());
  std::abort();
}

}  // namespace
}  // namespace xla_ffi_kit::testing

#ifdef XLA_FFI_KIT_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  xla_ffi_kit::testing::Run(data, size);
  return 0;
}

#else

// Runs the files that are its arguments; else seeds.
int main(int argc, char** argv) {
  using namespace xla_ffi_kit::testing;  // NOLINT: main
  constexpr size_t kSeedsOfHandler = 400;
  // Good enough for a program that dies.
  std::signal(SIGSEGV, [](int) {
    std::fprintf(stderr, "%s: crashes\n", Running().c_str());
    std::abort();
  });
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::vector<char> input{std::istreambuf_iterator<char>(file), {}};
    Run(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
  const size_t handlers = TableUnderTest().num_handlers;
  for (size_t i = 0; argc == 1 && i < kSeedsOfHandler * handlers; ++i) {
    const uint8_t seed[] = {static_cast<uint8_t>(i % handlers),
                            static_cast<uint8_t>(i / handlers),
                            static_cast<uint8_t>(i / handlers / 256)};
    Run(seed, sizeof(seed));
  }
}

#endif
