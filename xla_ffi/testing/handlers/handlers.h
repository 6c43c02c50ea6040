// The handlers of a library, for the tests of defs.bzl.

#ifndef XLA_FFI_TESTING_HANDLERS_HANDLERS_H_
#define XLA_FFI_TESTING_HANDLERS_HANDLERS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gtest/gtest.h"
#include "xla_ffi/core/handler_table.h"
#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/frame_memory.h"
#include "xla_ffi/testing/frames.h"

namespace xla_ffi_kit::testing {

// The table of the library that is tested.
const XlaFfiKit_HandlerTable& TableUnderTest();

class HandlerUnderTest {
 public:
  HandlerUnderTest(const XlaFfiKit_Handler& handler, const HandlerHook& hook)
      : handler_(handler), hook_(hook) {}

  const char* name() const { return handler_.name; }
  XLA_FFI_Handler* execute() const { return handler_.execute; }
  const XlaFfiKit_Signature& signature() const { return *handler_.signature; }
  const HandlerHook& hook() const { return hook_; }

  // Calls that the handler takes.
  CallFrame Fit(Choices& choices) const {
    return Hooked(testing::Fit(signature(), choices), choices);
  }
  CallFrame FitLarge(Choices& choices, int64_t elements, Form form) const {
    return Hooked(testing::FitLarge(signature(), choices, elements, form),
                  choices);
  }
  CallFrame FitEmpty(Choices& choices) const {
    return Hooked(testing::FitEmpty(signature(), choices), choices);
  }
  FrameMemory GiveMemory(CallFrame& frame) const {
    FrameMemory memory(frame);
    if (hook_.fill != nullptr) hook_.fill(frame);
    memory.Keep();
    return memory;
  }

  Status Run(CallFrame& frame, int64_t threads = 2) const {
    const bool is_on_cpu = std::string_view(handler_.platform) == "Host";
    return frame.Threads(is_on_cpu ? threads : 0).Run(handler_.execute);
  }

 private:
  CallFrame Hooked(CallFrame frame, Choices& choices) const {
    if (hook_.fit != nullptr) hook_.fit(frame, choices);
    return frame;
  }

  const XlaFfiKit_Handler& handler_;
  const HandlerHook& hook_;
};

// Calls test(handler) for each of the library.
template <typename Test>
void ForEachHandler(const Test& test) {
  HandlerHooks hooks = GetHandlerHooks();
  const XlaFfiKit_HandlerTable& table = TableUnderTest();
  ASSERT_GT(table.num_handlers, 0u);
  for (size_t i = 0; i < table.num_handlers; ++i) {
    const XlaFfiKit_Handler& handler = table.handlers[i];
    SCOPED_TRACE(handler.name);
    ASSERT_NE(handler.signature, nullptr)
        << "has no signature: XLA_FFI_KIT_DEFINE_SIGNATURE";
    test(HandlerUnderTest(handler, hooks[handler.name]));
  }
}

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_HANDLERS_HANDLERS_H_
